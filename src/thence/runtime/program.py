"""A program, as its node sees it: what happens to it, and its state if it has one.

Two ways to be a program of a group:

*   **With events alone.** It takes messages when it likes. One that joins begins with nothing: what was
    delivered before it came is not its business. What it misses while the group goes on without its node, or
    forgets with the power, comes when the node is back, or is named in a `Gap`.
*   **As a state** (`Replicated`): every operation is applied to it, its own included, in causal order and
    each once. A joiner begins from the state of the member that lets it in, a restart from the last one that
    was written down and what came after it, a node that returns from the state of the group that it returns
    to.

Invariant: a program is told of nothing that the log does not hold, so that nothing comes twice. Only a state
that is asked for or begun from in the middle of a step is brought up to date before that step is committed
(`state`, `install`), and one that is about to act before that step is durable (`catch_up`). A step that fails
ends in a machine that is built anew, and installs the state that the log has.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Final, NamedTuple, ParamSpec, Protocol, TypeVar, runtime_checkable

from thence.core.errors import ApplicationError
from thence.core.groups import Lost
from thence.replica.events import Delivered, Doubted, Event, Gap, Orphaned, Stable, ViewChanged, gap
from thence.replica.group_parts import Applied, Operation, OperationRun, Orphan
from thence.replica.life_tag import LifeTag
from thence.replica.steps import TAKE_MAX
from thence.runtime.happened import Happened

if TYPE_CHECKING:
    from thence.runtime.node import Node

P = ParamSpec("P")
T = TypeVar("T")

CHUNK_BYTES: Final = 1 << 18
"""Of a state that a program takes in chunks."""

ORPHANS_MAX: Final = 65_536
"""That wait for a program which does not read them. They are sent again all the same."""

SendAgain = Callable[[Orphaned], bool]
"""Whether an orphan is to be sent again."""


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

    def apply_batch(self, origin: str, first_seq: int, ops: Sequence[bytes], tag: LifeTag) -> None:
        """Operations with consecutive counters from `first_seq` on; `tag`: of the last of them, which saw all
        that the others saw, and these. One that comes alone, or was carried, is told with `apply`."""
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


class Installed(NamedTuple):
    """Begin anew from this state."""

    state: bytes


Occurrence = Event | OperationRun | Installed


class Program:
    """`group_parts.Application` for a program that runs in the same process."""

    def __init__(
        self, state: Replicated | Chunked | None, send_again: SendAgain | None = None, events_max: int = 8192
    ) -> None:
        self._state: Final = state
        self._send_again: Final = send_again
        self.happened: Final = Happened[Event](events_max, _key)
        self._fresh: list[Occurrence] = []
        """Of the step that is under way."""
        self._flight: deque[Occurrence] = deque()
        """Of steps whose outputs are still to be released, of a program that is a state."""
        self._done = 0
        """So many of both have reached the state already."""
        self._out = 0
        """So many events were put out and are still to be told."""
        self.repeats = 0
        """So many of those come with a repetition, which waits for them."""
        self.hungry = False
        """A reader waits for its next event."""
        self._listens = False
        """There is, or was, one."""
        self.own = False
        """It is told of what it sent itself, too."""
        self._unheard: dict[str, LifeTag] = {}
        """Of each origin the last operation that became stable before there was a reader."""
        hears: object = state
        self._batches: Final = hears.apply_batch if isinstance(hears, AppliesBatches) else None
        self._hears: Final = hears.stable if isinstance(hears, HearsStable) else None
        self._orphans = 0
        self._view: ViewChanged | None = None
        self._told: ViewChanged | None = None
        self._replays = False

    @property
    def reads(self) -> bool:
        return self._state is None

    def appetite(self) -> int:
        return TAKE_MAX if self.hungry or self._state is not None else 0

    def next(self) -> Event | None:
        event = self.happened.next()
        if type(event) is Orphaned:
            self._orphans -= 1
        return event

    def listen(self, own: bool) -> None:
        """There is a reader from now on."""
        self._listens, self.own = True, own
        unheard, self._unheard = self._unheard, {}
        self.happened.extend([Stable(tag, *tag.dot) for tag in unheard.values()])

    def repeat(self) -> None:
        """A reader gets once more what was taken by now: else what it has not read of it would come twice."""
        self.repeats = self._out
        self.happened.drop(_is_repeated)

    def tell(self, events: Sequence[Occurrence]) -> None:
        """The step in which this happened is in the log."""
        self._out -= len(events)
        if self._state is None:
            again = min(self.repeats, len(events))
            self.repeats -= again
            fresh = [event for event in events[:again] if not _is_repeated(event)] if again else []
            self.happened.extend(_one_by_one([*fresh, *events[again:]]))
            self.hungry = self.hungry and not self.happened
            return
        for event in events:
            self._flight.popleft()
            if self._done:
                self._done -= 1
            else:
                self._reach(event)
            if isinstance(event, Delivered | OperationRun | Installed):
                continue
            if self._listens or type(event) is not Stable:
                self.happened.append(event)

    def _reach(self, event: Occurrence) -> None:
        """Of what happens, so much concerns the state."""
        assert self._state is not None
        if isinstance(event, Delivered):
            called("apply", self._state.apply, event)
        elif isinstance(event, OperationRun):
            if self._batches is not None:
                last = event.tag_of(len(event.payloads) - 1)
                called("apply_batch", self._batches, event.origin, event.first, event.payloads, last)
            else:
                for one in _of_run(event):
                    called("apply", self._state.apply, one)
        elif isinstance(event, Installed):
            self._begin_from(event.state)
        elif isinstance(event, Stable) and self._hears is not None:
            called("stable", self._hears, event)

    # What the machine says

    def recovering(self, begins: bool) -> None:
        """From here on, until it is called again, the machine tells what it finds in its log: all that is in
        flight is part of that."""
        self._replays = begins
        self._fresh.clear()
        self._done = len(self._flight)

    def apply(self, one: Applied) -> None:
        if self._replays:
            if self._state is not None:
                self._reach(_delivered(one))
        elif self._state is not None or not (one.again or (one.own and not self.own)):
            self._fresh.append(_delivered(one))

    def apply_run(self, run: OperationRun) -> None:
        if self._replays:
            if self._state is not None:
                self._reach(run)
        elif self._state is not None or not run.own or self.own:
            self._fresh.append(run)

    def missed(self, operation: Operation, tag: LifeTag | None, position: int) -> None:
        self._fresh.append(_delivered(Applied(operation, tag=tag, position=position)))

    def lost(self, what: tuple[Lost, ...], holders: tuple[str, ...], position: int) -> None:
        self._fresh.append(gap(what, holders, position))

    def stable(self, found: Sequence[LifeTag]) -> None:
        if not self._listens:
            self._unheard.update([(tag.origin, tag) for tag in found])
        if self._replays:
            if self._hears is not None:
                for tag in found:
                    self._reach(Stable(tag, *tag.dot))
        elif self._listens or self._hears is not None:
            self._fresh += [Stable(tag, *tag.dot) for tag in found]

    def doubted(self, doubts: Sequence[LifeTag], late: LifeTag) -> None:
        if not self._replays:
            self._fresh += [Doubted(tag, *tag.dot, late) for tag in doubts]

    def state(self) -> bytes:
        """With all that was applied, told or not."""
        return b"".join(self.state_chunks())

    def state_chunks(self) -> Iterator[bytes]:
        """The same, as it is now; what is not made yet is made when it is asked for."""
        if self._state is None:
            return iter(())
        self.catch_up()
        if not isinstance(self._state, Chunked):
            return iter((_bytes("state", called("state", self._state.state)),))
        chunks = _chunks_of(self._state)
        return chain([first], chunks) if (first := next(chunks, None)) is not None else chunks

    def _begin_from(self, state: bytes) -> None:
        if isinstance(self._state, Chunked):
            called("install_chunks", self._state.install_chunks, _cut(state))
        elif self._state is not None:
            called("install", self._state.install, state)

    @property
    def holds(self) -> bool:
        """Is it a state?"""
        return self._state is not None

    @property
    def merges(self) -> bool:
        """Can states of others be taken in, beside its own?"""
        return isinstance(self._state, MergesChunks if isinstance(self._state, Chunked) else Mergeable)

    def merge(self, state: bytes) -> None:
        """`Mergeable.merge`, after all that was applied."""
        self.catch_up()
        program: object = self._state
        if isinstance(program, MergesChunks):
            called("merge_chunks", program.merge_chunks, _cut(state))
        else:
            assert isinstance(program, Mergeable)
            called("merge", program.merge, state)

    def catch_up(self) -> None:
        """What is still to be told reaches the state now: what the program sends next follows from it."""
        for event in islice(chain(self._flight, self._fresh), self._done, None):
            self._reach(event)
            self._done += 1

    def install(self, state: bytes) -> None:
        if self._state is None:
            return
        self.catch_up()
        self._reach(Installed(state))
        if not self._replays:
            self._fresh.append(Installed(state))
            self._done += 1

    def view_changed(self, members: tuple[str, ...], me: str) -> None:
        """Several changes may follow each other in one step: the last one is told."""
        self._view = ViewChanged(members, me)

    def sends_again(self, orphan: Orphan) -> bool:
        return self._send_again is None or called("send_again", self._send_again, _as_event(orphan))

    def orphaned(self, orphan: Orphan) -> None:
        if self._orphans < ORPHANS_MAX:
            self._orphans += 1
            self._fresh.append(_as_event(orphan))

    def output(self) -> list[Occurrence]:
        if self._view is not None and self._view != self._told:
            self._told = self._view
            self._fresh.append(self._view)
        fresh, self._fresh = self._fresh, []
        self._out += len(fresh)
        if self._state is not None:
            self._flight.extend(fresh)
        return fresh

    def stepped(self, node: "Node", now: int) -> None:
        """Nothing that it was not told."""

    def drop(self) -> None:
        """The step never happened."""
        self._orphans -= sum([isinstance(event, Orphaned) for event in self._fresh])
        self._fresh.clear()
        self._view = None


def called(name: str, callback: Callable[P, T], *words: P.args, **named: P.kwargs) -> T:
    """A callback of the program. What it raises is its own, whatever its type."""
    try:
        return callback(*words, **named)
    except Exception as error:
        raise ApplicationError(f"the program's {name}() raised {type(error).__name__}: {error}") from error


def _chunks_of(program: Chunked) -> Iterator[bytes]:
    chunks = called("state_chunks", program.state_chunks)
    while (chunk := called("state_chunks", next, chunks, None)) is not None:
        yield _bytes("state_chunks", chunk)


def _bytes(name: str, given: object) -> bytes:
    if not isinstance(given, bytes):
        raise ApplicationError(f"the program's {name}() gave {type(given).__name__}, not bytes")
    return given


def _cut(state: bytes) -> Iterator[bytes]:
    return (state[at : at + CHUNK_BYTES] for at in range(0, len(state), CHUNK_BYTES))


def _key(event: Event) -> Hashable | None:
    """Of several that wait with the same key, the last one says it all."""
    if isinstance(event, Stable):
        return event.origin
    return ViewChanged if isinstance(event, ViewChanged) else None


def _delivered(one: Applied) -> Delivered:
    operation = one.operation
    delivered = Delivered(one.tag, operation.payload, *operation.dot, one.position, one.carried)
    return replace(delivered, context=operation.context) if one.carried else delivered


def _of_run(run: OperationRun) -> list[Delivered]:
    """The same as of `each`, without what lies between."""
    origin, first, payloads, tag, life, book, position, _ = run
    return [
        Delivered(LifeTag(tag, life, (origin, seq), book), payload, origin, seq, at)
        for seq, at, payload in zip(count(first), count(position + 1), payloads, strict=False)
    ]


def _one_by_one(events: Iterable[Occurrence]) -> Iterator[Event]:
    """For a reader, which is told nothing of states."""
    for event in events:
        if type(event) is OperationRun:
            yield from _of_run(event)
        else:
            yield event  # type: ignore[misc]  # none is `Installed`


def _is_repeated(event: Occurrence) -> bool:
    return isinstance(event, Delivered | OperationRun | Gap)


def _as_event(orphan: Orphan) -> Orphaned:
    operation, tag = orphan.operation, orphan.tag
    place = operation.dot
    named = None if tag is None else LifeTag(tag, orphan.life, place)
    return Orphaned(named, operation.payload, *place, orphan.again)
