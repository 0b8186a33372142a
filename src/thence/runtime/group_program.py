"""A program of a changing group, as its node sees it: what happens to it, and its state if it has one.

Two ways to be a program of such a group:

*   **With events alone.** It takes messages when it likes, as in a fixed group. One that joins begins with
    nothing: what was delivered before it came is not its business. What it misses while the group goes on
    without its node, or forgets with the power, comes when the node is back, or is named in a `Gap`.
*   **As a state** (`Replicated`): every operation is applied to it, its own included, in causal order and
    each once. A joiner begins from the state of whoever lets it in, a restart from the last one that was
    written down and what came after it, a node that returns from the state of the group that it returns to.

Invariant: a program is told of nothing that the log does not hold, so that nothing comes twice.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, ParamSpec, Protocol, TypeVar

from thence.core.dots import pack
from thence.core.errors import ProgramError, ThenceError, UsageError
from thence.core.groups import ALL, CARRY, OPERATION, Lost, Place, Sent, number_of, plain
from thence.core.tag import Tag
from thence.replica.group import GroupNode
from thence.replica.group_member import Member
from thence.replica.group_parts import Operation, Orphan
from thence.replica.group_state import payload_operations
from thence.runtime.application import Delivered, Stable
from thence.runtime.group_driver import GroupDriver
from thence.runtime.group_node import ChangingNode
from thence.runtime.happened import Happened

P = ParamSpec("P")
T = TypeVar("T")

ORDINAL_BITS: Final = 36
PART_BITS: Final = 12
LIFE_BITS: Final = ORDINAL_BITS + PART_BITS
"""A position has 63 bits: the number of the incarnation, how many messages it had delivered, and, of a
message that carries several operations, which of them this is (from 1)."""

ORPHANS_MAX: Final = 65_536
"""That wait for a program which does not read them. They are sent again all the same."""


@dataclass(frozen=True, slots=True)
class ViewChanged:
    """Who is in from now on, by incarnation, and as whom this node is."""

    members: tuple[str, ...]
    me: str


@dataclass(frozen=True, slots=True)
class Orphaned:
    """The group went on without this node and never had this operation. It is sent again, as part of another
    message, unless `thence.open` was told otherwise (`send_again`)."""

    tag: Tag | None
    """The one that it had at this node; None if it was stable there, on the side that was given up."""
    payload: bytes
    origin: str
    seq: int
    again: bool = True
    """It is sent again. If not, that was declined, or something that it follows from was."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages that this program has missed, and that it will not get: the log of whoever let its node in
    again does not reach back so far. Nothing that follows from them came before this."""

    first: Mapping[str, int]
    """By incarnation, the first of its messages that may have been missed."""
    last: Mapping[str, int]
    """And the last. One that is not in here is known to nobody any more: it stands for all of its messages,
    and for earlier incarnations of its process."""
    members: tuple[str, ...]
    """Who was in the group that had them."""
    position: int
    """As of `Delivered`."""


SendAgain = Callable[[Orphaned], bool]
"""Whether an orphan is to be sent again."""

GroupEvent = Delivered | Stable | ViewChanged | Orphaned | Gap


class Replicated(Protocol):
    """A program that is a state."""

    def apply(self, event: Delivered) -> None: ...

    def state(self) -> bytes: ...

    def install(self, state: bytes) -> None:
        """Begin anew from this; nothing at all is `b""`."""
        ...


class LifeTag:
    """A tag, and whose: the incarnation that has seen the message. Tags of two incarnations do not compare:
    between them the node has begun anew from somebody else's state."""

    __slots__ = ("inner", "life", "origin", "seq")

    def __init__(self, inner: Tag, life: str, place: Place) -> None:
        self.inner: Final = inner
        self.life: Final = life
        self.origin, self.seq = place

    @property
    def dot(self) -> int:
        return self.inner.dot

    @property
    def context(self) -> tuple[int, ...]:
        return self.inner.context

    def before(self, other: "LifeTag") -> bool:
        return self.inner.before(self._comparable(other))

    def after(self, other: "LifeTag") -> bool:
        return self.inner.after(self._comparable(other))

    def concurrent(self, other: "LifeTag") -> bool:
        return self.inner.concurrent(self._comparable(other))

    def _comparable(self, other: "LifeTag") -> Tag:
        if self.life != other.life:
            raise UsageError(
                f"tags of {self.life} and {other.life} do not compare: the node returned in between"
            )
        return other.inner


class Program:
    """`group_drain.GroupApplication` for a program that runs in the same process."""

    def __init__(
        self, state: Replicated | None, send_again: SendAgain | None = None, events_max: int = 8192
    ) -> None:
        self._state: Final = state
        self._send_again: Final = send_again
        self.node: ChangingNode | None = None
        self.happened: Final = Happened[GroupEvent](events_max, _key)
        self._taken: asyncio.Future[list[Sent]] | None = None
        """Done when the message that was taken last is written down."""
        self._unsure: list[GroupEvent] = []
        """What was told of it, and must not be if it cannot be written down."""
        self._takes = False
        self.listens = False
        """Somebody reads what happens."""
        self._orphans = 0
        self._view: tuple[str, ...] = ()
        self._replays = False
        self._parts: dict[Place, int] = {}
        """Of the message that is being taken: which of its operations is which; empty: it is one."""

    def next(self) -> GroupEvent | None:
        if not self.happened:
            return None
        event = self.happened.popleft()
        self._orphans -= isinstance(event, Orphaned)
        return event

    def _tell(self, event: GroupEvent) -> None:
        self.happened.append(event)
        if self._takes:
            self._unsure.append(event)

    @property
    def reads(self) -> bool:
        return self._state is None

    @property
    def machine(self) -> GroupNode:
        assert self.node is not None
        assert self.node.driver is not None
        return self.node.driver.node

    @property
    def position(self) -> int:
        member = self.machine.member
        return place_of(self.machine.number, sum(member.ledger.counts) if member else 0)

    async def take(self, driver: GroupDriver) -> None:
        """Take the next message; if it cannot be written down it was not taken."""
        member = self.machine.member
        assert member is not None
        payload = plain(member.inbox[0].payload)
        carried = payload_operations(payload) if payload[0] == CARRY else []
        self._parts = {(op.origin, op.seq): part for part, op in enumerate(carried, 1)}
        self._unsure, self._takes = [], True
        self._taken = driver.take()
        self._parts, self._takes = {}, False
        await self.written_down()

    async def written_down(self) -> None:
        """Until what was taken is; also if the reader that took it was cancelled."""
        if self._taken is None:
            return
        try:
            await asyncio.shield(self._taken)
        except ThenceError:
            self._taken = None
            self.happened.drop(self._unsure)
            raise
        self._taken = None

    def read(self, driver: GroupDriver) -> GroupEvent:
        """The next of what was missed; if that cannot be written down it was not read."""
        found: list[Operation | tuple[Lost, ...]] = []
        driver.call(lambda node, _: found.append(node.read()))
        member = self.machine.member
        assert member is not None
        [what] = found
        return missed_event(member, what, member.reading.count)

    # What the machine says

    def apply(self, operation: Operation, own: bool, tag: Tag, again: bool) -> None:
        place = operation.dot
        if self._replays:
            if self._state is not None:
                called("apply", self._state.apply, Delivered(None, operation.payload, *place, 0))
            return
        member = self.machine.member
        named = LifeTag(tag, member.me if member else "", place)
        if self._state is not None:
            called("apply", self._state.apply, Delivered(named, operation.payload, *place, self.position))
        elif not own and not again:
            position = self.position | min(self._parts.get(operation[:2], 0), (1 << PART_BITS) - 1)
            self._tell(Delivered(named, operation.payload, *place, position))

    def stable(self, place: Place, tag: Tag) -> None:
        if self._replays or not self.listens:
            return
        member = self.machine.member
        self._tell(Stable(LifeTag(tag, member.me if member else "", place), *place))

    def state(self) -> bytes:
        state = b"" if self._state is None else called("state", self._state.state)
        if not isinstance(state, bytes):
            raise ProgramError(f"the program's state() gave {type(state).__name__}, not bytes")
        return state

    def install(self, state: bytes) -> None:
        if self._state is not None:
            called("install", self._state.install, state)

    def view_changed(self, members: tuple[str, ...]) -> None:
        """Looked at when the step is over: several changes may follow each other in one."""

    def sends_again(self, orphan: Orphan) -> bool:
        return self._send_again is None or called("send_again", self._send_again, _as_event(orphan))

    def orphaned(self, orphan: Orphan) -> None:
        if self._orphans < ORPHANS_MAX:
            self._orphans += 1
            self._tell(_as_event(orphan))

    # What the node says

    def recovering(self, begins: bool) -> None:
        self._replays = begins

    def taking(self, node: ChangingNode, now: int) -> None:
        if node.driver is None:
            return
        if self._state is not None:
            node.driver.drain(now)
            return
        machine = node.driver.node
        # Joins and leaves are nothing that a program could take: they must not wait for it.
        while (member := machine.member) is not None and member.inbox:
            if concerns_programs(member.inbox[0].payload):
                return
            machine.take(now)

    def stepped(self, node: ChangingNode, now: int) -> None:
        del now
        member = node.driver.node.member if node.driver is not None else None
        if member is not None and (view := tuple(sorted(member.view.view))) != self._view:
            self._view = view
            self._tell(ViewChanged(view, member.me))


def called(name: str, callback: Callable[P, T], *words: P.args, **named: P.kwargs) -> T:
    """A callback of the program. What it raises is its own, whatever its type."""
    try:
        return callback(*words, **named)
    except Exception as error:
        raise ProgramError(f"the program's {name}() raised {type(error).__name__}: {error}") from error


def _key(event: GroupEvent) -> Hashable | None:
    """Of several that wait with the same key, the last one says it all."""
    if isinstance(event, Stable):
        return event.origin
    return ViewChanged if isinstance(event, ViewChanged) else None


def missed_event(member: Member, what: Operation | tuple[Lost, ...], count: int) -> "Delivered | Gap":
    """What a program had missed, the `count`th of it; or what it will not get."""
    life, ledger = number_of(member.me), member.ledger
    position = min(place_of(life, 0) + count, place_of(life, member.reading.begun))
    if not isinstance(what, Operation):
        return gap(what, member.reading.holders, position)
    place, inner = what.dot, None
    if ledger.knows(what.origin):
        inner = ledger.window.tag_of(pack(ledger.number(what.origin), what.seq))
    tag = None if inner is None else LifeTag(inner, member.me, place)
    return Delivered(tag, what.payload, *place, position)


def gap(lost: Iterable[Lost], members: Iterable[str], position: int) -> Gap:
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for one in lost:
        first[one.origin] = min(one.first, first.get(one.origin, one.first))
        last[one.origin] = max(one.last, last.get(one.origin, 0))
    known = {origin: seq for origin, seq in last.items() if seq < ALL}
    return Gap(MappingProxyType(first), MappingProxyType(known), tuple(sorted(members)), position)


def _as_event(orphan: Orphan) -> Orphaned:
    operation, tag = orphan.operation, orphan.tag
    place = operation.dot
    named = None if tag is None else LifeTag(tag, orphan.life, place)
    return Orphaned(named, operation.payload, *place, orphan.again)


def place_of(life: int, ordinal: int) -> int:
    """A position: the whole of a message."""
    return life << LIFE_BITS | ordinal << PART_BITS


def concerns_programs(payload: bytes) -> bool:
    """Is there an operation in a message?"""
    payload = plain(payload)
    return payload[0] == OPERATION or (payload[0] == CARRY and bool(payload_operations(payload)))
