"""A node of a changing group inside a program: what `thence.open` gives where the members are not named.

The same as `application.OpenNode`, and more: events tell of the view and of orphans, the node can leave, and
the program may be a state that joiners begin from (`group_program`).
"""

import asyncio
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from thence.core.errors import ThenceError, UsageError
from thence.core.groups import Place
from thence.core.tag import Tag
from thence.replica.group import GroupNode
from thence.replica.group_member import Member
from thence.runtime.application import Event, Events, OpenNode
from thence.runtime.asked import told
from thence.runtime.group_driver import GroupDriver
from thence.runtime.group_node import ChangingNode
from thence.runtime.group_program import GroupEvent, LifeTag, Program, Replicated, SendAgain
from thence.runtime.group_replay import since
from thence.runtime.home import Home
from thence.runtime.running import wall_clock
from thence.runtime.settings import NodeSettings
from thence.runtime.status import Status


class GroupEvents(Events):
    """As `Events`; what is repeated comes first."""

    def __init__(self, node: "OpenGroupNode", repeated: Iterator[GroupEvent | None]) -> None:
        super().__init__(node, iter(()), 0)
        self._again: Final = repeated

    def __aiter__(self) -> "GroupEvents":
        return self

    async def __anext__(self) -> GroupEvent:  # type: ignore[override]  # more can happen in a changing group
        if self._node.reads(self):
            for event in self._again:
                if event is not None:
                    return event
                await asyncio.sleep(0)
        return await super().__anext__()


class OpenGroupNode(OpenNode):
    """A live node of a changing group, from `async with` to its end."""

    def __init__(
        self,
        settings: NodeSettings,
        program: Replicated | None = None,
        send_again: SendAgain | None = None,
    ) -> None:
        super().__init__(settings)
        self._is_state: Final = program is not None
        self._program: Final = Program(program, send_again, settings.application.events_max)

    async def __aenter__(self) -> "OpenGroupNode":
        if self._program.node is not None:
            raise UsageError("a node is opened once")
        self._home = Home()
        node = self._program.node = ChangingNode(self.settings, self._program, self._log, wall_clock())
        node.on_step = self._look
        try:
            await node.start()
            try:
                await node.entered()
            except BaseException:
                await node.close()
                raise
        except BaseException:
            self._closed = True
            self._log.close()
            raise
        return self

    @property
    def _host(self) -> ChangingNode:
        if self._program.node is None:
            raise UsageError("this node is not open: `async with thence.open(…) as node`")
        return self._program.node

    def _must_be_open(self) -> None:
        super()._must_be_open()
        if self._host.driver is None:
            raise UsageError("this node is not open yet")

    @property
    def _driver(self) -> GroupDriver:
        driver = self._host.driver
        assert driver is not None
        return driver

    @property
    def _member(self) -> Member:
        member = self._driver.node.member
        if member is None:
            raise UsageError(f"{self.settings.name} is in no group any more")
        return member

    # What a program does

    async def _send(self, payload: bytes) -> Tag:
        [(place, tag)] = await self._host.controls.send([payload])
        return LifeTag(tag, place[0], place)

    def events(self, after: int | None = None) -> GroupEvents:
        self._must_be_open()
        reader = GroupEvents(self, self._since(after))
        self._must_be_the_only_reader()
        self._reader = weakref.ref(reader)
        self._program.listens = True
        return reader

    async def until_stable(self, tag: Tag, at: int | None = None) -> None:
        self._must_be_open()
        named, members = _own_tag(tag), len(self._member.view.view)
        if at is not None and not 1 <= at <= members:
            raise UsageError(f"a message reaches 1 to {members} members, not {at}")
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._settle(named, at, future)
        if not future.done():
            if self._driver.broken.done():
                raise told(self._driver.broken.result())
            self._waiting.add(named, at, future)
        await future

    async def leave(self, force: bool = False) -> bool:
        """Leave the group for good. Returns whether everybody has what was sent. `force`: also the last one,
        though somebody who was evicted may come back and find nobody."""
        self._must_be_open()
        self._host.controls.leave(force)
        await self._host.stopping.wait()
        if self._host.failed is not None:
            raise told(self._host.failed)
        self._waiting.refuse(UsageError("the node has left its group"))
        return not self._host.unclean

    def evict(self, who: str) -> str:
        """Let the group go on without a member, a process or an incarnation; which incarnation that is."""
        self._must_be_open()
        return self._host.controls.evict(who, force=True)

    @property
    def members(self) -> tuple[str, ...]:
        """By incarnation."""
        return tuple(sorted(self._member.view.view))

    @property
    def me(self) -> str:
        """As whom this node is a member."""
        return self._member.me

    @property
    def position(self) -> int:
        return self._program.position

    def name_of(self, tag: Tag) -> Place:
        named = _own_tag(tag)
        return named.origin, named.seq

    def status(self) -> Status:
        return self._host.controls.status()

    # Between the node and its readers

    async def next_event(self, reader: Events) -> Event | None:
        driver = self._driver
        while self.reads(reader):
            self._must_be_open()
            with suppress(ThenceError):  # one that was taken by a reader who was cancelled meanwhile
                await self._program.written_down()
            event = self._program.next()
            if event is not None:
                return event  # type: ignore[return-value]  # `GroupEvents` says what else there is
            if driver.trouble is None and driver.node.unread:
                with suppress(ThenceError):
                    return self._program.read(driver)  # type: ignore[return-value]
            if driver.trouble is None and driver.node.waiting:
                with suppress(ThenceError):  # it comes again, when it can be written down
                    await self._program.take(driver)
                continue
            if driver.broken.done():
                raise told(driver.broken.result())
            if self._host.stopping.is_set():
                return None
            await self._bell.wait()
        return None

    def _look(self) -> None:
        """A step is over."""
        host, driver = self._host, self._host.driver
        if driver is None:
            return
        if host.failed is not None:
            self._waiting.refuse(told(host.failed))
        if driver.node.member is not None:
            self._waiting.look(self._settle)
        if self._bell.awaited and (
            self._program.happened or self._has_news(driver.node) or host.stopping.is_set()
        ):
            self._wake()

    def _has_news(self, node: GroupNode) -> bool:
        return node.waiting > 0 or node.unread > 0

    def _settle(self, tag: Tag, at: int | None, future: "asyncio.Future[None]") -> None:
        tag = _own_tag(tag)
        ledger, me = self._member.ledger, self._member.me
        reached = ledger.stable(tag.origin) >= tag.seq
        if at is not None and tag.life == me:
            reached = reached or ledger.window.reached(tag.dot) >= at
        if reached:
            future.set_result(None)
        elif tag.life != me and tag.seq > ledger.count(tag.origin):
            why = f"{tag.origin}:{tag.seq} is an orphan: the group never had it, and it is sent again"
            future.set_exception(UsageError(why))

    def _since(self, after: int | None) -> Iterator[GroupEvent | None]:
        """What the program had taken, or has missed, and does not know of."""
        if after is None:
            return iter(())
        if self._is_state:
            raise UsageError("a program that is a state goes on from its state: it needs no position")
        now = self.position
        if after > now:
            raise UsageError(f"position {after} is ahead of this log, which ends at {now}")
        self._driver.call(lambda node, _: node.read_all())
        return self._replayed(after)

    def _replayed(self, after: int) -> Iterator[GroupEvent | None]:
        """The log may be replaced by that of another incarnation meanwhile: then go on in that one."""
        read = self._driver.log
        while True:
            while (log := self._driver.log) is None or self._driver.trouble is not None:
                yield None
            if log is not read:
                read = log
                self._driver.call(lambda node, _: node.read_all())
            for event in since(self._member, log, after):
                if event is not None:
                    after = event.position
                yield event
                if self._driver.log is not log:
                    break
            else:
                return


def _own_tag(tag: Tag) -> LifeTag:
    if not isinstance(tag, LifeTag):
        raise UsageError("this is no tag of this node")
    return tag
