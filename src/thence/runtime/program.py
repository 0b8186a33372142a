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
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Final, NamedTuple, ParamSpec, TypeVar

from thence.core.errors import OthersStateError
from thence.core.groups import Lost
from thence.replica.events import Delivered, Doubted, Event, Gap, Orphaned, Stable, ViewChanged, gap
from thence.replica.group.surroundings import Applied, Operation, OperationRun, Orphan
from thence.replica.life_tag import LifeTag
from thence.replica.steps import TAKE_MAX
from thence.runtime.happened import Happened
from thence.runtime.replicated import (
    AppliesBatches,
    Chunked,
    HearsStable,
    Mergeable,
    MergesChunks,
    Replicated,
    begin_from,
    called,
    chunks_of,
    merge_into,
    raised,
)
from thence.store.ops import STATE_MAGIC

if TYPE_CHECKING:
    from thence.runtime.node import Node

P = ParamSpec("P")
T = TypeVar("T")

ORPHANS_MAX: Final = 65_536
"""That wait for a program which does not read them. They are sent again all the same."""

SendAgain = Callable[[Orphaned], bool]
"""Whether an orphan is to be sent again."""


class Installed(NamedTuple):
    """Begin anew from this state."""

    state: bytes


Occurrence = Event | OperationRun | Installed

FOR_STATES: Final = (Delivered, OperationRun, Installed)
REPEATED: Final = (Delivered, OperationRun, Gap)


class Program:
    """`group.surroundings.Application` for a program that runs in the same process."""

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
            elif type(event) is Delivered:
                try:  # as `called` does
                    self._state.apply(event)
                except Exception as error:
                    raise raised("apply", error) from error
                continue
            else:
                self._reach(event)
            if isinstance(event, FOR_STATES):
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
            begin_from(self._state, event.state)
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

    def deliver(self, event: Delivered, own: bool) -> None:
        if self._replays:
            if self._state is not None:
                self._reach(event)
        elif self._state is not None or not own or self.own:
            self._fresh.append(event)

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
        return chunks_of(self._state)

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
        assert isinstance(program, MergesChunks | Mergeable)
        merge_into(program, state)

    def catch_up(self) -> None:
        """What is still to be told reaches the state now: what the program sends next follows from it."""
        for event in islice(chain(self._flight, self._fresh), self._done, None):
            self._reach(event)
            self._done += 1

    def install(self, state: bytes) -> None:
        if self._state is None:
            if state.startswith(STATE_MAGIC):
                raise OthersStateError(
                    "this is the state of a store: all nodes of a group have one (--resp), or none"
                )
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


def _key(event: Event) -> Hashable | None:
    """Of several that wait with the same key, the last one says it all."""
    if isinstance(event, Stable):
        return event.origin
    return ViewChanged if isinstance(event, ViewChanged) else None


def _delivered(one: Applied) -> Delivered:
    operation, tag, carried = one.operation, one.tag, one.carried
    origin, seq = operation.dot if tag is None else tag.dot
    context = operation.context if carried else ()
    return Delivered(tag, operation.payload, origin, seq, one.position, carried, "", context)


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
    return isinstance(event, REPEATED)


def _as_event(orphan: Orphan) -> Orphaned:
    operation, tag = orphan.operation, orphan.tag
    place = operation.dot
    named = None if tag is None else LifeTag(tag, orphan.life, place)
    return Orphaned(named, operation.payload, *place, orphan.again)
