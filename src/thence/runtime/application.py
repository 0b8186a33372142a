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
import os
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol

from thence.core.dots import ORIGIN_MASK, seq_of
from thence.core.errors import InvariantError, ProgramError, StorageError, ThenceError, UsageError
from thence.core.tag import Tag
from thence.oplog.record import Stored
from thence.replica.history import understood
from thence.runtime.asked import told
from thence.runtime.folder import is_fixed
from thence.runtime.happened import Happened
from thence.runtime.home import Home
from thence.runtime.logs import StructuredLog
from thence.runtime.node import Node
from thence.runtime.running import wall_clock
from thence.runtime.settings import ANY_PORT, NodeSettings
from thence.runtime.sources import compose
from thence.runtime.status import Status
from thence.runtime.waiting import Bell, Turns, Waiters

if TYPE_CHECKING:
    from thence.runtime.group_program import Replicated, SendAgain

GIVE_WAY: Final = 64
"""Events handed out in a row before the node gets its turn."""


FIXED: Final = "the group is fixed: its members were named at its start, and nobody joins or leaves"


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message of another member, for the first time; or again, where `events(after=…)` asked for it."""

    tag: Tag | None
    """None without stability, and of a message that is repeated and was stable already: it happened before
    everything that is still to come."""
    payload: bytes
    origin: str
    seq: int
    position: int
    """To be kept with the program's state: `events(after=position)` goes on from here."""


@dataclass(frozen=True, slots=True)
class Stable:
    """Every member has delivered this message, and whatever is delivered here from now on follows from it."""

    tag: Tag
    origin: str
    seq: int


Event = Delivered | Stable


class Events:
    """What happens, one event after another, to the one reader that a node has at a time: it is the reader
    until it ends, is closed, or there is no reference to it any more."""

    def __init__(self, node: "OpenNode", replay: Iterator[Stored], upto: int) -> None:
        self._node: Final = node
        self._replay: Iterator[Stored] | None = replay
        self._upto: Final = upto
        self._handed = 0
        self.ended = False

    def close(self) -> None:
        """It reads no more; another one may."""
        self.ended = True
        self._node.look_again()

    def __aiter__(self) -> "Events":
        return self

    async def __anext__(self) -> Event:
        self._handed += 1
        if self._handed % GIVE_WAY == 0:
            await asyncio.sleep(0)
        if self._replay is not None and self._node.reads(self):
            for stored in self._replay:
                if stored.position > self._upto:
                    break
                repeated = self._node.repeated(stored)
                if repeated is not None:
                    return repeated
            self._replay = None
        try:
            event = await self._node.next_event(self)
        except (StorageError, InvariantError, ProgramError):
            self.ended = True
            raise
        if event is None:
            self.ended = True
            raise StopAsyncIteration
        return event


class Host(Protocol):
    """What runs behind an open node."""

    failed: ThenceError | None

    async def close(self) -> None: ...


class OpenNode:
    """A live node, from `async with` to its end."""

    def __init__(self, settings: NodeSettings) -> None:
        if settings.spread == "eco-sync-tree":
            raise UsageError(
                "eco-sync-tree hands states to an application that merges them, not events: use spread tree"
            )
        self.settings: Final = settings
        self._log: Final = StructuredLog(settings.log_level, settings.log_format, sys.stderr)
        self._stable: Final = Happened[Stable](settings.application.events_max, lambda event: event.origin)
        self._reader: weakref.ref[Events] | None = None
        self._turns: Final = Turns(settings.application.broadcasts_max)
        self._home: Home | None = None
        self._bell: Final = Bell()
        self._waiting: Final = Waiters[Tag]()
        self._node: Node | None = None
        self._closed = False

    async def __aenter__(self) -> "OpenNode":
        if self._node is not None:
            raise UsageError("a node is opened once")
        self._home = Home()
        self._node = Node(self.settings, self, self._log, wall_clock())
        try:
            await self._node.start()
        except BaseException:
            self._closed = True
            self._log.close()
            raise
        self._node.driver.broken.add_done_callback(lambda broken: self._broke(broken.result()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._home is None or self._home.left:
            return  # it is the other process that has the node
        self._closed = True
        self._wake()
        host = self._host
        try:
            await host.close()
        finally:
            self._log.close()
        if kind is None and host.failed is not None:
            raise host.failed

    @property
    def _host(self) -> Host:
        return self._running

    @property
    def _running(self) -> Node:
        if self._node is None:
            raise UsageError("this node is not open: `async with thence.open(…) as node`")
        return self._node

    # What a program does

    async def broadcast(self, payload: bytes) -> Tag:
        """Send to every member. When it returns, the message is tagged, written down and delivered here;
        under `sync="always"` it is on the disk. If many wait for their answers it waits for its turn.
        Cancelled: the message is in the log and goes to everybody, or it never was."""
        self._must_be_open()
        if not isinstance(payload, bytes):
            raise UsageError(f"a payload is bytes, not {type(payload).__name__}")
        async with self._turns:
            self._must_be_open()
            return await self._send(payload)

    async def _send(self, payload: bytes) -> Tag:
        [delivered] = await self._running.publish([payload])
        if delivered.tag is None:
            sent = UsageError("the message is on its way, but without stability it has no tag")
            sent.definite = False
            raise sent
        return delivered.tag

    def _must_be_open(self) -> None:
        """Whatever a program asks for, it asks an open node in the process and loop that opened it."""
        if self._home is None:
            raise UsageError("this node is not open: `async with thence.open(…) as node`")
        self._home.check()
        if self._closed:
            raise UsageError("this node is closed")

    def _must_be_the_only_reader(self) -> None:
        reader = None if self._reader is None else self._reader()
        if reader is not None and not reader.ended:
            raise UsageError("the events of this node have a reader already: close() that one first")

    def events(self, after: int | None = None) -> Events:
        """Messages of the others as they are delivered, and what has become stable. With `after`, from that
        position on; without it, from the last one that was taken. One reader at a time."""
        self._must_be_open()
        node, log = self._running, self._running.log
        taken = node.driver.replica.taken
        if after is not None and after > log.tail:
            raise UsageError(f"position {after} is ahead of this log, which ends at {log.tail}")
        self._must_be_the_only_reader()
        while after is not None and node.driver.takeable and node.driver.replica.next_position <= after:
            node.driver.take()  # it had been seen, and the process ended before that was written down
        replay = log.since(after) if after is not None and after < taken else iter(())
        reader = Events(self, replay, taken)
        self._reader = weakref.ref(reader)
        return reader

    async def until_stable(self, tag: Tag, at: int | None = None) -> None:
        """Until the message is causally stable; with `at`, until it is known to have been delivered at so
        many members, its sender among them."""
        self._must_be_open()
        members = len(self._running.names)
        if at is not None and not 1 <= at <= members:
            raise UsageError(f"a message reaches 1 to {members} members, not {at}")
        if not self.settings.stability.enabled:
            raise UsageError("this node runs without stability: nobody would ever know")
        if self._is_there(tag, at):
            return
        if self._running.driver.broken.done():
            raise told(self._running.driver.broken.result())
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(tag, at, future)
        await future

    async def leave(self, force: bool = False) -> bool:  # noqa: ARG002
        """Leave the group for good: only where the members were not named at the start."""
        raise UsageError(FIXED)

    def evict(self, who: str) -> str:  # noqa: ARG002
        """Let the group go on without a member, under the same condition."""
        raise UsageError(FIXED)

    @property
    def me(self) -> str:
        return self.settings.name

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(self._running.names)

    @property
    def position(self) -> int:
        """Of the last event that was taken."""
        return self._running.driver.replica.taken

    def name_of(self, tag: Tag) -> tuple[str, int]:
        """Who sent it, and which of its messages it is."""
        return self._running.names[tag.dot & ORIGIN_MASK], seq_of(tag.dot)

    def status(self) -> Status:
        return self._running.status()

    # Between the node and its readers

    def reads(self, reader: Events) -> bool:
        """Whether this reader gets what happens: not when it, or the node, was closed."""
        return not reader.ended and not self._closed

    def stepped(self, node: Node, now: int) -> None:
        del now
        replica = node.driver.replica
        if replica.stable:
            if self._reader is not None:
                for tag in replica.stable:
                    self._stable.append(Stable(tag, *self.name_of(tag)))
            replica.stable.clear()
        self._waiting.look(self._settle)
        if self._bell.awaited and (self._stable or node.driver.takeable):
            self._wake()

    def _settle(self, tag: Tag, at: int | None, future: "asyncio.Future[None]") -> None:
        if self._is_there(tag, at):
            future.set_result(None)

    def _is_there(self, tag: Tag, at: int | None) -> bool:
        replica = self._running.driver.replica
        return replica.is_stable(tag.dot) or (at is not None and replica.reached(tag.dot) >= at)

    async def next_event(self, reader: Events) -> Event | None:
        driver = self._running.driver
        while self.reads(reader):
            self._must_be_open()
            if self._stable:
                return self._stable.popleft()
            if driver.takeable:
                taken = driver.take()
                message = taken.message
                origin, seq = self._running.names[message.dot & ORIGIN_MASK], seq_of(message.dot)
                return Delivered(taken.tag, message.payload, origin, seq, driver.replica.taken)
            if driver.broken.done():
                raise told(driver.broken.result())
            await self._bell.wait()
        return None

    def repeated(self, stored: Stored) -> Delivered | None:
        """A message that was taken before, as an event; None if it is the program's own."""
        node = self._running
        origin = stored.dot & ORIGIN_MASK
        if origin == node.me:
            return None
        message = understood(node.codec, stored)
        tag = node.driver.replica.tag_of(stored.dot)
        return Delivered(tag, message.payload, node.names[origin], seq_of(stored.dot), stored.position)

    def look_again(self) -> None:
        """A reader that waits has something to see."""
        self._bell.ring()

    def _wake(self) -> None:
        self.look_again()
        if self._closed:
            self._waiting.refuse(UsageError("the node was closed"))

    def _broke(self, error: ThenceError) -> None:
        self._wake()
        self._waiting.refuse(told(error))


def open_node(
    name: str,
    *,
    listen: str | None = None,
    join: Sequence[str] = (),
    members: Mapping[str, str] | None = None,
    data: str | Path,
    spread: str | None = None,
    order: str | None = None,
    sync: str | None = None,
    trace: str | Path | None = None,
    secret: str | None = None,
    config: str | Path | None = None,
    settings: Mapping[str, object] | None = None,
    application: "Replicated | None" = None,
    send_again: "SendAgain | None" = None,
) -> OpenNode:
    """See `thence.open`. What is not given comes from the environment, the configuration file, the profile,
    the defaults."""
    given: dict[str, object | None] = {
        "name": name,
        "listen": listen or (None if members else str(ANY_PORT)),
        "data": str(data),
        "join": ",".join(join) or None,
        "members": ",".join(f"{member}={address}" for member, address in (members or {}).items()) or None,
        "spread": spread,
        "order": order,
        "log.sync": sync,
        "trace": None if trace is None else str(trace),
        "log_level": "warn",
        **(settings or {}),
    }
    environment = dict(os.environ)
    if secret is not None:  # given by a program, it is not seen in a list of processes
        environment.pop("THENCE_SECRET_FILE", None)
        environment["THENCE_SECRET"] = secret
    composed = compose(given, environment, None if config is None else Path(config))
    if not composed.members and not is_fixed(composed.data):
        from thence.runtime.group_application import OpenGroupNode  # it is made of what is above

        return OpenGroupNode(composed, application, send_again)
    if application is not None:
        raise UsageError("nobody joins a fixed group, so nobody needs a state: take what `events()` brings")
    if send_again is not None:
        raise UsageError(
            "a fixed group never goes on without a member: `send_again` is for groups that change"
        )
    return OpenNode(composed)
