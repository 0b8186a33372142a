"""Nodes that are nothing but links, over real loopback TCP, and strangers that speak to them by hand.

Nothing here sleeps: `World.until` waits for a condition and looks again whenever any node or log has heard
something. `run` fails a test that leaves tasks behind or lets an error reach the event loop.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from secrets import token_bytes
from typing import Any, TypeVar

import uvloop

from thence.core.errors import PeerError
from thence.local.ports import HOST, free_ports
from thence.runtime.address import Address
from thence.runtime.frames import HEAD, join
from thence.runtime.handshake import Opener
from thence.runtime.hello import Identity, Introduction, Purpose
from thence.runtime.links import Links
from thence.runtime.open_links import OpenLinks
from thence.runtime.options import LinkSettings
from thence.runtime.pacing import LinkLimits
from thence.runtime.peer import Peer, PeerStage
from thence.runtime.tree_links import TreeLinks

T = TypeVar("T")

PATIENCE_S = 120.0
"""Only a test that fails waits so long."""
SECRET = token_bytes(16)
"""Another one in each process: ports are used again, and nodes of another run may still dial them."""
QUICK = LinkSettings(backoff_first_us=5_000, backoff_most_us=50_000)
BRIEF = LinkLimits(drain_us=500_000)
ANY = Address("127.0.0.1", 0)
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


PARTS = {
    PeerStage.IDLE: (False, False, False),
    PeerStage.WAITING: (True, False, False),
    PeerStage.DIALLING: (False, True, False),
    PeerStage.UP: (False, False, True),
    PeerStage.CUT: (False, False, False),
}
"""In each stage: is there a timer, a connection that shakes hands, a link?"""


def parts_of(peer: Peer) -> tuple[bool, bool, bool]:
    return peer.timer is not None, peer.pending is not None, peer.link is not None


def clock() -> int:
    return time.monotonic_ns() // 1000


def run(test: Callable[["World"], Awaitable[T]], loop: str = "asyncio") -> T:
    """Runs a test in a world of its own; whatever it leaves behind or breaks fails it."""
    troubles: list[dict[str, Any]] = []

    async def whole() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
        world = World()
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await test(world)
        finally:
            await world.close()
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, f"tasks left behind: {left}"

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        result = runner.run(whole())
    assert not troubles, troubles
    return result


class Lines:
    """A log that can be looked at."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.lines: list[str] = []

    def info(self, event: str, **fields: object) -> None:
        self.lines.append(" ".join([event, *[f"{key}={value}" for key, value in fields.items()]]))
        self._changed()

    warn = info

    def __contains__(self, text: str) -> bool:
        return any(text in line for line in self.lines)


class Node:
    """A handler that remembers what it heard."""

    def __init__(self, world: "World", name: str) -> None:
        self.name = name
        self.log = Lines(world.changed)
        self.heard: list[str] = []
        """`up b`, `down b`, in order."""
        self.whys: list[str] = []
        self.packets: list[bytes] = []
        self.reads: list[int] = []
        self.refuse: str | None = None
        self.hate: bytes | None = None
        """A packet that no correct peer sends."""
        self.asked: list[Identity] = []
        self.greeting: list[bytes] = []
        """What it writes as soon as a link is up."""
        self.busy = False
        """Set while a test calls into `links`, to see that it is not called back."""
        self.links: Links
        self._world = world

    def admit(self, peer: Identity) -> str | None:
        self.asked.append(peer)
        return self.refuse

    def link_up(self, peer: str, now: int) -> None:
        self._hear(f"up {peer}")
        self.links.write(peer, self.greeting)

    def link_packets(self, peer: str, packets: list[bytes], now: int) -> None:
        if self.hate is not None and self.hate in packets:
            raise PeerError("a packet of no kind")
        self.packets += packets
        self.reads.append(len(packets))
        self._world.changed()

    def link_down(self, peer: str, why: str, now: int) -> None:
        self.whys.append(why)
        self._hear(f"down {peer}")

    def link_bug(self, error: Exception) -> None:
        raise error

    def _hear(self, what: str) -> None:
        assert not self.busy, "called back from inside a call"
        self.heard.append(what)
        self._world.changed()

    def is_up(self, peer: str) -> bool:
        return self.links.status()[peer].up


class World:
    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []
        self._nodes: list[Node] = []
        self._strangers: list[Stranger] = []

    def changed(self) -> None:
        for node in self._nodes:
            for peer in node.links._peers.values():
                assert parts_of(peer) == PARTS[peer.stage], f"{peer.name} is {peer.stage.value}"
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    def make(
        self,
        name: str,
        *,
        secret: bytes = SECRET,
        cluster: str = "test",
        boot: int = 1,
        log_id: bytes | None = None,
        listen: Address = ANY,
        settings: LinkSettings = QUICK,
        limits: LinkLimits = BRIEF,
        seed: int = 1,
        now: Callable[[], int] = clock,
        on_demand: bool = False,
    ) -> Node:
        node = Node(self, name)
        me = Identity(cluster, name, log_id or b"log of " + name.encode(), boot)
        if on_demand:
            node.links = TreeLinks(
                me, secret, listen, settings, node, Random(seed), now, node.log, lambda _: b"", limits=limits
            )
        else:
            node.links = Links(
                me, secret, listen, {}, settings, node, Random(seed), now, node.log, limits=limits
            )
        self._nodes.append(node)
        return node

    async def node(self, name: str, **options: Any) -> Node:
        node = self.make(name, **options)
        await node.links.start()
        return node

    async def open_node(
        self, name: str, answer: Callable[[Introduction], bytes] = lambda _: b"", boot: int = 1
    ) -> tuple[Node, OpenLinks]:
        """Of a group whose members change."""
        node = Node(self, name)
        me = Identity("test", name, b"log of " + name.encode(), boot)
        links = OpenLinks(me, SECRET, ANY, QUICK, node, Random(1), clock, node.log, answer, limits=BRIEF)
        node.links = links
        self._nodes.append(node)
        await links.start()
        return node, links

    async def pair(self, **options: Any) -> tuple[Node, Node]:
        """a and b, connected."""
        a, b = await self.node("a", **options), await self.node("b", **options)
        introduce(a, b)
        await self.until(lambda: a.heard and b.heard)
        return a, b

    async def stranger(self, node: Node) -> "Stranger":
        reader, writer = await asyncio.open_connection(*node.links.address)
        stranger = Stranger(reader, writer)
        self._strangers.append(stranger)
        return stranger

    async def close(self) -> None:
        for stranger in self._strangers:
            await stranger.close()
        for node in self._nodes:
            await node.links.close()


def free_addresses(count: int) -> list[Address]:
    """No process listens there now; sorted. The system hands out none of them to outgoing connections: one of
    another test could take it before a node listens there, or while one restarts."""
    start = free_ports(count)
    return [Address(HOST, port) for port in range(start, start + count)]


def introduce(*nodes: Node) -> None:
    for node in nodes:
        for other in nodes:
            if other is not node:
                node.links.add_peer(other.name, other.links.address)


class Stranger:
    """Bytes by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def frame(self) -> bytes:
        head = await self.reader.readexactly(HEAD)
        return await self.reader.readexactly(int.from_bytes(head, "little"))

    async def until_closed(self) -> bytes:
        """Everything that still comes."""
        with suppress(ConnectionError):
            return await self.reader.read(-1)
        return b""

    async def shake_hands(
        self, name: str = "a", target: str = "b", *, instance: bytes = b"instance", boot: int = 1,
        secret: bytes = SECRET, cluster: str = "test", heard: list[bytes] | None = None,
    ) -> list[bytes]:  # fmt: skip
        """As a proper member would; says which frames it sent. `heard` gets those of the other side."""
        me = Identity(cluster, name, b"log of " + name.encode(), boot)
        hello = Introduction(me, target, Purpose.LINK, instance, bytes(range(32)))
        opener = Opener(hello, secret, lambda _: None)
        sent = opener.start()
        self.send(join(sent))
        while not opener.done:
            frame = await self.frame()
            if heard is not None:
                heard.append(frame)
            answers = opener.take(frame)
            self.send(join(answers))
            sent += answers
        return sent

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()
