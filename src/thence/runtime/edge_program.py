"""A program on an edge tree: a state per group, or events with the group in each.

A group with a state (`Replicated`) is applied to, its own messages included; messages of the others come as
events. Both are told in the order in which the node accepted them, and only of what the log holds, as
`runtime.program` says: what a state must know in the middle of a step reaches it then (`catch_up`).
docs/protocols/edge.md#live.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from thence.core.errors import ApplicationError
from thence.replica.edge import EdgeEntry
from thence.replica.events import Delivered, Gap
from thence.replica.steps import TAKE_MAX
from thence.runtime.drain import NodeApplication
from thence.runtime.program import Program, Replicated, called


class GroupState(NamedTuple):
    """Begin a group anew from this."""

    state: bytes


class Told(NamedTuple):
    event: Delivered | Gap | GroupState
    handler: Replicated | None
    """The state of its group, when it happened."""


class GroupedProgram(Program):
    def __init__(self, groups: Mapping[str, Replicated | None], events_max: int) -> None:
        super().__init__(None, None, events_max)
        self.handlers: Final[dict[str, Replicated | None]] = dict(groups)
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
            if told.handler is None and not (again and isinstance(told.event, Delivered)):
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

    def deliver(self, event: Delivered, own: bool) -> None:
        handler = self.handlers.get(event.group)
        if self._replays:
            if handler is not None:
                _reach(Told(event, handler))
        elif handler is not None or self.own or not own:
            self._begun.append(Told(event, handler))

    def state_of(self, group: str) -> bytes:
        handler = self.handlers.get(group)
        if handler is None:
            return b""
        self.catch_up()
        state = called("state", handler.state)
        if not isinstance(state, bytes):
            raise ApplicationError(f"the state() of {group!r} gave {type(state).__name__}, not bytes")
        return state

    def begin_from(self, group: str, state: bytes) -> None:
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
        called("install", told.handler.install, told.event.state)


class EdgeSide:
    """`replica.edge.EdgeProgram` for what takes a node's messages: a program, or one that keeps nothing."""

    def __init__(self, application: NodeApplication) -> None:
        self._application: Final = application
        self._grouped: Final = application if isinstance(application, GroupedProgram) else None

    def apply(self, entry: EdgeEntry, position: int, own: bool) -> None:
        if self._grouped is not None:
            event = Delivered(
                None, entry.payload, entry.origin, entry.number, position, group=entry.group
            )  # fmt: skip
            self._grouped.deliver(event, own)

    def state(self, group: str) -> bytes:
        return b"" if self._grouped is None else self._grouped.state_of(group)

    def install(self, group: str, state: bytes) -> None:
        if self._grouped is not None:
            self._grouped.begin_from(group, state)

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
