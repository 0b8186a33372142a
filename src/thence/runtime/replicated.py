"""A program that is a state: what it may have, and how it is called.

What a program raises is its own, whatever its type (`ApplicationError`). Its state is bytes, whole or in
chunks.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final, ParamSpec, Protocol, TypeVar, runtime_checkable

from thence.core.errors import ApplicationError
from thence.replica.events import Delivered, Stable
from thence.replica.life_tag import LifeTag

P = ParamSpec("P")
T = TypeVar("T")

CHUNK_BYTES: Final = 1 << 18
"""Of a state that a program takes in chunks."""


class Replicated(Protocol):
    """A program that is a state. One that also has a method `stable(event: Stable)` is told there what has
    become stable (`HearsStable`)."""

    def apply(self, event: Delivered) -> None:
        """An operation, with its tag and position; also those that a restart applies again."""
        ...

    def state(self) -> bytes:
        """All of it, with everything that was applied: joiners begin from it, and the log is shortened."""
        ...

    def install(self, state: bytes) -> None:
        """Begin anew from this; nothing at all is `b""`."""
        ...


@runtime_checkable
class Chunked(Protocol):
    """A program that is a large state: it is made, and begun from, in chunks of its choice. These are used
    instead of `state` and `install`, if it has those as well."""

    def apply(self, event: Delivered) -> None:
        """As in `Replicated`."""
        ...

    def state_chunks(self) -> Iterator[bytes]:
        """The state of this moment. The first chunk is asked for at once; the others later, a few at a time,
        between operations that are applied meanwhile and that must not show in any of them."""
        ...

    def install_chunks(self, chunks: Iterator[bytes]) -> None:
        """Begin anew from the same bytes, cut elsewhere; nothing at all is no chunk."""
        ...


@runtime_checkable
class AppliesBatches(Protocol):
    """A program that takes the operations of one message together: a member's operations of one turn."""

    def apply_batch(self, origin: str, first_seq: int, ops: Sequence[bytes], tag: LifeTag | None) -> None:
        """Operations with consecutive counters from `first_seq` on; `tag`: of the last of them, which saw all
        that the others saw, and these; None where messages have no tags. One that comes alone, or was
        carried, is told with `apply`."""
        ...


@runtime_checkable
class HearsStable(Protocol):
    """A program that keeps tags until they are stable: tombstones, say."""

    def stable(self, event: Stable) -> None:
        """Every member has this operation, and all before it of its origin: those that follow the state which
        was installed last, and those that were not stable in it, each at least once."""
        ...


@runtime_checkable
class Mergeable(Protocol):
    """A program whose states can be merged: over a tree whose logs forget."""

    def merge(self, state: bytes) -> None:
        """Take in a peer's state. The same operations give the same state, whichever of them came one by one
        and whichever in a state."""
        ...


@runtime_checkable
class MergesChunks(Protocol):
    """The same of one that is `Chunked`."""

    def merge_chunks(self, chunks: Iterator[bytes]) -> None: ...


def called(name: str, callback: Callable[P, T], *words: P.args, **named: P.kwargs) -> T:
    """A callback of the program. What it raises is its own, whatever its type."""
    try:
        return callback(*words, **named)
    except Exception as error:
        raise raised(name, error) from error


def raised(name: str, error: Exception) -> ApplicationError:
    """By a callback of that name."""
    return ApplicationError(f"the program's {name}() raised {type(error).__name__}: {error}")


def chunks_of(program: Replicated | Chunked) -> Iterator[bytes]:
    """Its state as it is now; what is not made yet is made when it is asked for."""
    if not isinstance(program, Chunked):
        return iter((_bytes("state", called("state", program.state)),))
    chunks = _made_of(program)
    return chain([first], chunks) if (first := next(chunks, None)) is not None else chunks


def _made_of(program: Chunked) -> Iterator[bytes]:
    chunks = called("state_chunks", program.state_chunks)
    while (chunk := called("state_chunks", next, chunks, None)) is not None:
        yield _bytes("state_chunks", chunk)


def begin_from(program: Replicated | Chunked, state: bytes) -> None:
    if isinstance(program, Chunked):
        called("install_chunks", program.install_chunks, _cut(state))
    else:
        called("install", program.install, state)


def merge_into(program: Mergeable | MergesChunks, state: bytes) -> None:
    if isinstance(program, MergesChunks):
        called("merge_chunks", program.merge_chunks, _cut(state))
    else:
        called("merge", program.merge, state)


def _bytes(name: str, given: object) -> bytes:
    if not isinstance(given, bytes):
        raise ApplicationError(f"the program's {name}() gave {type(given).__name__}, not bytes")
    return given


def _cut(state: bytes) -> Iterator[bytes]:
    return (state[at : at + CHUNK_BYTES] for at in range(0, len(state), CHUNK_BYTES))
