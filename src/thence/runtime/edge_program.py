"""A program on an edge tree: a state per group, or events with the group in each.

A group with a state (`runtime.replicated`) is applied to, its own messages included; messages of the others
come as events. Both are told in the order in which the node accepted them, and only of what the log holds, as
`runtime.program` says: what a state must know in the middle of a step reaches it then (`catch_up`).
docs/protocols/edge.md#live.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from thence.core.errors import UsageError
from thence.replica.edge_parts import EdgeEntry, addressed
from thence.replica.edge_replay import each_of
from thence.replica.events import Delivered, Gap
from thence.replica.live import EDGE, SEPARATOR
from thence.replica.steps import TAKE_MAX
from thence.replica.zone import directed
from thence.runtime.drain import NodeApplication
from thence.runtime.program import Program
from thence.runtime.replicated import AppliesBatches, Chunked, Replicated, begin_from, called, chunks_of
from thence.runtime.settings import NodeSettings


class GroupState(NamedTuple):
    """Begin a group anew from this."""

    state: bytes


class GroupRun(NamedTuple):
    """Messages that one origin sent in one turn, for a state that takes them together."""

    origin: str
    first: int
    payloads: Sequence[bytes]


class Told(NamedTuple):
    event: Delivered | Gap | GroupState | GroupRun
    handler: Replicated | Chunked | None
    """The state of its group, when it happened."""


class GroupedProgram(Program):
    def __init__(self, groups: Mapping[str, Replicated | Chunked | None], events_max: int) -> None:
        super().__init__(None, None, events_max)
        self.handlers: Final[dict[str, Replicated | Chunked | None]] = dict(groups)
        self._begun: list[Told] = []
        """Of the step that is under way."""
        self._under_way: deque[Told] = deque()
        """Of steps whose outputs are still to be released."""
        self._reached = 0
        """So many of both have reached their states already."""

    def appetite(self) -> int:
        """Messages of all groups come in one order: one that a reader has not taken holds back the others."""
        reads = not self.handlers or None in self.handlers.values()
        return TAKE_MAX if self.hungry or not reads else 0

    def tell(self, events: Sequence[Any]) -> None:
        self._out -= len(events)
        for told in events:
            self._under_way.popleft()
            if self._reached:
                self._reached -= 1
            else:
                _reach(told)
            again, self.repeats = self.repeats > 0, max(0, self.repeats - 1)
            if told.handler is None and not (again and isinstance(told.event, Delivered | Gap)):
                self.happened.append(told.event)
        self.hungry = self.hungry and not self.happened

    def output(self) -> list[Any]:
        begun, self._begun = self._begun, []
        self._out += len(begun)
        self._under_way.extend(begun)
        return begun

    def drop(self) -> None:
        self._begun.clear()

    def recovering(self, begins: bool) -> None:
        super().recovering(begins)
        self._begun.clear()
        self._reached = len(self._under_way)

    def catch_up(self) -> None:
        for told in islice(chain(self._under_way, self._begun), self._reached, None):
            _reach(told)
            self._reached += 1

    # What the machine says

    def takes_runs(self, group: str) -> bool:
        return isinstance(self.handlers.get(group), AppliesBatches)

    def deliver_run(self, group: str, run: GroupRun) -> None:
        told = Told(run, self.handlers[group])
        if self._replays:
            _reach(told)
        else:
            self._begun.append(told)

    def deliver(self, event: Delivered, own: bool) -> None:
        handler = self.handlers.get(event.group)
        if self._replays:
            if handler is not None:
                _reach(Told(event, handler))
        elif handler is not None or self.own or not own:
            self._begun.append(Told(event, handler))

    def chunks(self, group: str) -> Iterator[bytes]:
        handler = self.handlers.get(group)
        if handler is None:
            return iter(())
        self.catch_up()
        return chunks_of(handler)

    def begins(self, group: str, state: bytes) -> None:
        handler = self.handlers.get(group)
        if handler is None:
            return
        self.catch_up()
        told = Told(GroupState(state), handler)
        _reach(told)
        if not self._replays:
            self._begun.append(told)
            self._reached += 1

    def lacks(self, gap: Gap, group: str) -> None:
        if self.handlers.get(group) is None and not self._replays:
            self._begun.append(Told(gap, None))


def _reach(told: Told) -> None:
    if told.handler is None:
        return
    if isinstance(told.event, Delivered):
        called("apply", told.handler.apply, told.event)
    elif isinstance(told.event, GroupState):
        begin_from(told.handler, told.event.state)
    elif isinstance(told.event, GroupRun):
        assert isinstance(told.handler, AppliesBatches)
        called("apply_batch", told.handler.apply_batch, *told.event, None)


class EdgeSide:
    """`replica.edge.EdgeProgram` for what takes a node's messages: a program, or one that keeps nothing."""

    def __init__(self, application: NodeApplication) -> None:
        self._application: Final = application
        self._grouped: Final = application if isinstance(application, GroupedProgram) else None

    def reads(self, group: str) -> bool:
        return self._grouped is not None and self._grouped.handlers.get(group) is None

    def apply(self, entry: EdgeEntry, position: int, own: bool, part: int = 0) -> None:
        if self._grouped is None:
            return
        if entry.span > 1 and self._grouped.takes_runs(entry.group):
            run = GroupRun(entry.origin, entry.numbers.start, list(entry.operations))
            self._grouped.deliver_run(entry.group, run)
            return
        for number, payload, at in each_of(entry, position, part):
            event = Delivered(None, payload, entry.origin, number, at, group=entry.group)
            self._grouped.deliver(event, own)

    def state_chunks(self, group: str) -> Iterator[bytes]:
        return iter(()) if self._grouped is None else self._grouped.chunks(group)

    def install(self, group: str, state: bytes) -> None:
        if self._grouped is not None:
            self._grouped.begins(group, state)

    def missed(self, group: str, first: Mapping[str, int], last: Mapping[str, int], position: int) -> None:
        if self._grouped is not None:
            gap = Gap(MappingProxyType(dict(first)), MappingProxyType(dict(last)), (), position)
            self._grouped.lacks(gap, group)

    def forget(self, group: str) -> None:
        self.install(group, b"")

    def output(self) -> Sequence[Any]:
        return self._application.output()

    def drop(self) -> None:
        self._application.drop()


def addressed_to(order: str, payload: bytes, group: str | None, to: Sequence[str] | None) -> bytes:
    """A call of `multicast`: to a group of an edge tree, or, with order `separator`, to processes."""
    if order == SEPARATOR:
        if group is not None or to is None:
            raise UsageError("no addressee: multicast(payload, to=[…]); send(payload) goes to all")
        return directed((to,) if isinstance(to, str) else to, payload)
    if to is not None:
        raise UsageError("to=… is for orders in which a message names its receivers: this node has none")
    if group is None:
        raise UsageError("which group? multicast(payload, group=…)")
    return addressed(group, payload)


def grouped_program(
    settings: NodeSettings,
    program: Replicated | Chunked | None,
    groups: Mapping[str, Replicated | Chunked | None] | None,
) -> GroupedProgram | None:
    """Of a node on an edge tree."""
    if settings.spread != EDGE:
        return None
    if program is not None:
        raise UsageError("on an edge tree each group has a state of its own: groups={name: state, …}")
    return GroupedProgram(
        groups if groups is not None else dict.fromkeys(settings.groups), settings.application.events_max
    )
