"""Kinds of trouble, each with its type.

Code that catches an error must know whose fault it is, since that decides what happens next:
misuse is reported to the caller, a peer's garbage costs the peer its connection, trouble with
storage refuses writes, and a broken invariant, ours or the program's, stops the node.
"""


class ThenceError(Exception):
    """Base of everything that thence raises on purpose."""

    definite: bool = True
    """What was asked for certainly did not happen. If not, it may have, or may turn up after a restart."""


class UsageError(ThenceError):
    """The caller asked for something that makes no sense; the message says what to do instead."""


class TraceError(UsageError):
    """A trace that cannot be read; the message names the file and the row."""


class PeerError(ThenceError):
    """A peer sent something that no correct peer sends."""


class StorageError(ThenceError):
    """The disk failed, is full, or holds something damaged."""


class InvariantError(ThenceError):
    """Something that must never happen did: a bug in thence. The node must stop."""


class ApplicationError(ThenceError):
    """A callback of the program raised an exception, which is the cause of this one. The node must stop: it
    cannot know what the program has made of what it was given."""


class OthersStateError(ApplicationError, UsageError):
    """The state that a program is to begin from is that of another kind of program: it makes no sense to try
    again."""


def stopper(error: Exception) -> ThenceError:
    """What a node stops with that has met this in the middle of a step."""
    if isinstance(error, StorageError | InvariantError | ApplicationError):
        return error
    bug = InvariantError(f"{type(error).__name__}: {error}")
    bug.__cause__ = error
    return bug


def refused(error: ThenceError, definite: bool = True) -> ThenceError:
    """What a call is told while nothing can be written: an error of the same kind, caused by it. If that is
    not `definite`, what was asked for may be in the log."""
    return told(error, f"nothing is written at present: {error}", definite)


def told(error: ThenceError, text: str = "", definite: bool = True) -> ThenceError:
    """A new error for each that hears of it: one that is raised in several places collects tracebacks."""
    kinds: tuple[type[ThenceError], ...] = (InvariantError, OthersStateError, ApplicationError)
    fresh = next((kind for kind in kinds if isinstance(error, kind)), StorageError)(text or str(error))
    fresh.definite = definite
    fresh.__cause__ = error
    return fresh
