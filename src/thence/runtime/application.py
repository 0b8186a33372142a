"""A node inside a program: `thence.open`.

    async with thence.open("a", listen="127.0.0.1:7101", members={...}, data="a/") as node:
        tag = await node.broadcast(b"hello")
        async for event in node.events():
            ...

What a program has taken from `events()` is what it has seen: whatever it broadcasts afterwards follows from
that, and nothing else does. A program that keeps an event's `position` together with its own state, and names
it at the next start, sees every message exactly once, however it ended.
"""

import asyncio
import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from threading import get_ident
from types import TracebackType
from typing import Any, Final

from thence.core.errors import UsageError, told
from thence.core.groups import Place
from thence.replica.contract import Machine
from thence.replica.events import Event, Repeated
from thence.replica.life_tag import LifeTag
from thence.runtime.edge_program import GroupedProgram, addressed_to, grouped_program
from thence.runtime.gathering import Gathering, OnCommit, copied
from thence.runtime.home import Home
from thence.runtime.making import make_node
from thence.runtime.node import Node, enter
from thence.runtime.program import Program, SendAgain
from thence.runtime.program_log import ProgramLog
from thence.runtime.reader import Events, told_again
from thence.runtime.replicated import Chunked, Replicated
from thence.runtime.running import wall_clock
from thence.runtime.settings import NodeSettings
from thence.runtime.status import Status
from thence.runtime.waiting import Bell, Reached, Turns, Waiters


class OpenNode:
    """A live node, from `async with` to its end."""

    def __init__(
        self,
        settings: NodeSettings,
        program: Replicated | Chunked | None = None,
        send_again: SendAgain | None = None,
        groups: Mapping[str, Replicated | Chunked | None] | None = None,
    ) -> None:
        self.settings: Final = settings
        self._log: Final = ProgramLog(settings.log_level)
        self._grouped: Final = grouped_program(settings, program, groups)
        self._program: Final = self._grouped or Program(program, send_again, settings.application.events_max)
        self._reader: weakref.ref[Events] | None = None
        self._turns: Final = Turns(settings.application.broadcasts_max)
        self._gathering: Final = Gathering(settings.application.broadcasts_max)
        self._add: Final = self._gathering.add
        self._home: Home | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bell: Final = Bell()
        self._waiting: Final = Waiters()
        self._node: Node | None = None
        self._closed = False

    async def __aenter__(self) -> "OpenNode":
        if self._node is not None:
            raise UsageError("a node is opened once")
        self._home = Home()
        node = self._node = make_node(self.settings, self._program, self._log, wall_clock())
        node.on_step = self._look
        try:
            await enter(node)
        except BaseException:
            self._closed = True
            self._log.close()
            raise
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._home is None or self._home.left:
            return  # it is the other process that has the node
        self._closed, self._loop = True, None
        self._wake()
        host = self._host
        try:
            await host.close()
        finally:
            self._log.close()
        if kind is None and host.failed is not None:
            raise host.failed

    @property
    def _host(self) -> Node:
        if self._node is None:
            raise UsageError("this node is not open: `async with thence.open(…) as node`")
        return self._node

    @property
    def _machine(self) -> Machine[Any]:
        machine: Machine[Any] = self._host.running.steps.machine
        return machine

    # What a program does

    async def broadcast(self, payload: bytes | bytearray | memoryview) -> LifeTag:
        """Send to every member. When it returns, the message is tagged, written down and delivered here;
        under `sync="always"` it is on the disk. If many wait for their answers it waits for its turn.
        Cancelled: the message is in the log and goes to all members, or it never was."""
        self.must_be_open()
        payload = copied(payload)
        self._must_read()
        async with self._turns:
            self.must_be_open()
            [(_, tag)] = await self._host.publish([payload])
        if tag is None:
            sent = UsageError("the message is on its way, but without stability it has no tag")
            sent.definite = False
            raise sent
        return tag

    def broadcast_nowait(self, payload: bytes | bytearray | memoryview) -> Place:
        """Send to every member with all others of this turn of the loop, as one message. Returns its name at
        once; `committed` tells what became of it. `UsageError`: it was not sent, and never will be."""
        home = self._home
        if type(payload) is bytes and home and get_ident() == home.thread and not self._program.own:
            place = self._add(payload)  # what holds for the first of a run holds for all of it
            if place is not None:
                return place
            if self._loop is None or not self._loop.is_running():
                self.must_be_open()
        else:
            self.must_be_open()
            payload = copied(payload)
            self._must_read()
            if (place := self._gathering.add(payload)) is not None:
                return place
        node = self._node
        return self._gathering.begin((node and node.driver) or self._host.running, payload)

    async def committed(self, dot: Place) -> None:
        """Until an operation that was sent with `broadcast_nowait` is in the log, under `sync="always"` on
        the disk. It raises what `broadcast` would have raised."""
        self.must_be_open()
        await self._gathering.committed(dot, lambda place: self._machine.has_delivered(place))

    def on_commit(self, callback: OnCommit) -> None:
        """From now on `callback(me, first, last)` is called with the counters of operations that were sent
        with `broadcast_nowait` and are in the log, in order."""
        self._gathering.on_commit.append(callback)

    @property
    def room(self) -> int:
        """So many operations may be sent with `broadcast_nowait` before others are answered."""
        return self._gathering.room

    async def until_room(self) -> None:
        """Back-pressure: until there is room for one more."""
        self.must_be_open()
        await self._gathering.until_room()

    def _must_read(self) -> None:
        """A reader that wants to have what this node sends has to take it."""
        program, reader = self._program, None if self._reader is None else self._reader()
        program.own = program.own and reader is not None and not reader.ended
        if program.own and len(program.happened) > self.settings.application.events_max:
            raise UsageError(f"not sent: {len(program.happened)} events wait for a reader with own=True")

    async def multicast(
        self,
        payload: bytes | bytearray | memoryview,
        *,
        group: str | None = None,
        to: Sequence[str] | None = None,
    ) -> Place:
        """Send to a group of an edge tree, whether this node is a member or not; or, with order `separator`,
        to these processes. When it returns, the message is in the log of this node, and under `sync="always"`
        on its disk: it does not wait for other nodes. Returns the sender and the message's number."""
        self.must_be_open()
        call = addressed_to(self.settings.order, copied(payload), group, to)
        if group is not None:
            self._must_have_groups()
        self._must_read()
        async with self._turns:
            self.must_be_open()
            [(place, _)] = await self._host.publish([call])
            return place

    async def join_group(self, group: str, state: Replicated | Chunked | None = None) -> None:
        """Be a member of a group of an edge tree from now on. Returns once this node is one: its parent has
        to answer, or a node above. `state` begins from that of the node which lets it in; without one,
        messages come as events."""
        self.must_be_open()
        grouped = self._must_have_groups()
        known = grouped.handlers.get(group)
        if state is not None and known is not None and known is not state:
            raise UsageError(f"{group!r} has a state already: leave_group comes first")
        if group not in grouped.handlers or state is not None:
            grouped.handlers[group] = state
        self._host.running.call(lambda machine, now: machine.join_group(group, now))
        await self._until(lambda: self._host.running.machine.book.is_in(group))

    async def leave_group(self, group: str) -> None:
        """Be no member of this group any more. What was sent to it before, and not taken, is told first."""
        self.must_be_open()
        grouped = self._must_have_groups()
        self._host.running.call(lambda machine, now: machine.leave_group(group, now))
        grouped.handlers.pop(group, None)

    @property
    def groups(self) -> tuple[str, ...]:
        """Those of an edge tree that this node is a member of."""
        self.must_be_open()
        self._must_have_groups()
        book = self._host.running.machine.book
        return tuple(sorted([group for group in book.groups if book.is_in(group)]))

    def _must_have_groups(self) -> "GroupedProgram":
        if self._grouped is None:
            raise UsageError('groups are of edge trees: open the node with spread="edge"')
        return self._grouped

    async def send(self, payload: bytes | bytearray | memoryview) -> Place:
        """The same where there are no tags (a tree with order none, order `separator`): who sent it, and its
        number."""
        self.must_be_open()
        payload = copied(payload)
        async with self._turns:
            self.must_be_open()
            return await self._host.broadcast(payload)

    def must_be_open(self) -> None:
        """Whatever a program asks for, it asks an open node in the process and loop that opened it."""
        if self._home is None:
            raise UsageError("this node is not open: `async with thence.open(…) as node`")
        self._home.check()
        if self._closed:
            raise UsageError("this node is closed")
        if self._node is None or self._node.driver is None:
            raise UsageError("this node is not open yet")

    def events(self, after: int | None = None, own: bool = False) -> Events:
        """Messages of the others as they are delivered, and what has become stable. With `after`, from that
        position on; without it, from the last one that was taken. With `own`, what this node sends as well:
        a program that keeps positions then has all that it sent, however it ended. One reader at a time.
        Messages are taken in batches: all of a batch count as delivered when its first event is handed
        out."""
        self.must_be_open()
        reader = None if self._reader is None else self._reader()
        if reader is not None and not reader.ended:
            raise UsageError("the events of this node have a reader already: close() that one first")
        repeated: Iterator[Event | None] = iter(())
        if after is not None:
            replay, driver = partial(self._replay, own), self._host.running
            repeated = told_again(driver, replay, after, replay(after))
            self._program.repeat()
        reader = Events(self, self._host, self._program, self._bell, repeated)
        self._reader = weakref.ref(reader)
        self._program.listen(own)
        return reader

    def _replay(self, own: bool, after: int) -> Iterator[Repeated | None]:
        return self._host.running.call(lambda machine, now: machine.replay(after, now, own))

    async def until_stable(self, tag: LifeTag, at: int | None = None) -> None:
        """Until the message is causally stable; with `at`, until it is known to have been delivered at so
        many members, its sender among them."""
        self.must_be_open()
        named, driver = _own_tag(tag), self._host.running
        members = len(driver.machine.members)
        if at is not None and not 1 <= at <= members:
            raise UsageError(f"a message reaches 1 to {members} members, not {at}")
        if not self.settings.stability.enabled:
            raise UsageError("this node runs without stability: it would never know")
        await self._until(lambda: self._machine.has_reached(named, at))

    async def reached(self, dot: LifeTag | Place, members: int) -> None:
        """Until the operation is known to have been delivered at so many members, its sender among them."""
        await self.until_stable(dot if isinstance(dot, LifeTag) else self.tag(*dot), members)

    def tag(self, origin: str, seq: int) -> LifeTag:
        """The tag of an operation that was delivered here: as it was given out, or after a restart, or of one
        that came with the state that this node began from. `UsageError`: it was not delivered here."""
        self.must_be_open()
        return self._machine.tag((origin, seq))

    def context(self) -> dict[str, int]:
        """What was delivered here by now: per member, the last of its messages. To be handed to a program at
        another node, which awaits `delivered(context)` before it goes on."""
        self.must_be_open()
        return self._machine.delivered()

    async def delivered(self, context: Mapping[str, int]) -> None:
        """Until everything that a context of another node names was delivered here."""
        self.must_be_open()
        lacking = dict(context)
        for name, seq in lacking.items():
            if not isinstance(name, str) or not isinstance(seq, int) or seq < 0:
                raise UsageError(f"a context has names and counters, not {name!r}: {seq!r}")

        def is_here() -> bool:
            machine = self._machine
            for place in [place for place in lacking.items() if machine.has_delivered(place)]:
                del lacking[place[0]]
            return not lacking

        await self._until(is_here)

    async def _until(self, reached: Reached) -> None:
        driver = self._host.running
        if driver.broken.done() and not reached():
            raise told(driver.broken.result())
        await self._waiting.add(reached)

    async def leave(self, force: bool = False) -> bool:
        """Leave the group for good: only where the members were not named at the start. Returns whether all
        members have what was sent. `force`: also the last one, though one that was evicted may come back and
        find no group."""
        self.must_be_open()
        self._host.leave(force)
        await self._host.stopping.wait()
        if self._host.failed is not None:
            raise told(self._host.failed)
        self._waiting.refuse(UsageError("the node has left its group"))
        return not self._host.unclean

    def evict(self, who: str) -> str:
        """Let the group go on without a member, a process or an incarnation; which incarnation that is."""
        self.must_be_open()
        return self._host.evict(who, force=True)

    @property
    def me(self) -> str:
        """The incarnation that this node runs."""
        return self._machine.me

    @property
    def members(self) -> tuple[str, ...]:
        """By incarnation."""
        return self._machine.members

    @property
    def position(self) -> int:
        """Of the last event that was taken."""
        return self._machine.position

    def name_of(self, tag: LifeTag) -> Place:
        """The origin, and which of its messages it is: `tag.dot`."""
        return _own_tag(tag).dot

    def status(self) -> Status:
        """What `thence status` shows: members, links, log, what waits."""
        return self._host.status()

    # Between the node and its readers

    def reads(self, reader: Events) -> bool:
        """Whether this reader gets what happens: not when it, or the node, was closed."""
        return not reader.ended and not self._closed

    def at_hand(self) -> Event | None:
        """What the reader need not wait for: most events of a batch."""
        if self._closed or self._home is None:
            return None
        self._home.check()
        return self._program.next()

    def _look(self) -> None:
        """A step is over."""
        host, program = self._node, self._program
        if host is None or host.driver is None:
            return
        if host.failed is not None:
            self._waiting.refuse(told(host.failed))
        if self._waiting.waiting:
            self._waiting.look()
        if self._bell.awaited and (
            program.happened or not program.hungry or host.failed is not None or host.stopping.is_set()
        ):
            self._wake()

    def _wake(self) -> None:
        self._bell.ring()
        if self._closed:
            self._waiting.refuse(UsageError("the node was closed"))


def _own_tag(tag: object) -> LifeTag:
    if not isinstance(tag, LifeTag):
        raise UsageError("this is no tag of this node")
    return tag
