"""Four kinds of trouble, four types.

Whoever catches an error must know whose fault it is, since that decides what happens next:
misuse is reported to the caller, a peer's garbage costs the peer its connection, trouble with
storage refuses writes, and a broken invariant stops the node.
"""


class ThenceError(Exception):
    """Base of everything that thence raises on purpose."""


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
