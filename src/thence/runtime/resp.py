"""Redis clients: connections, their requests and replies.

Requests of a read are executed in the next turn of the store, all connections' together. Replies leave in
order, each after the operations of its turn. A client that does not read its replies is not read from, nor is
one whose requests wait to be executed; one that sends what no client sends gets Redis' error and is cut off.

What a client can make this process keep is bounded: replies that wait by OUTPUT_MAX and one more reply,
requests by one read and one request, all clients' together by INPUT_MAX: then the one that has most goes.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from socket import SO_KEEPALIVE, SOL_SOCKET
from typing import TYPE_CHECKING, Any, Final, cast

from thence.replica.life_tag import Sent
from thence.runtime.address import Address
from thence.runtime.departure import has_gone
from thence.runtime.descriptors import RESERVE, limit
from thence.runtime.door import Door
from thence.store.client import Client
from thence.store.host import Later
from thence.store.reply import NO_REPLY, Fail, Reply, bounded, encode
from thence.store.resp import BadRequest, Requests

if TYPE_CHECKING:
    from thence.runtime.store_node import StoreNode

TURN_MOST: Final = 1024
TURN_US: Final = 5000
"""Commands of one connection in one turn, and the time that they may take."""

OUTPUT_MAX: Final = 1 << 20
"""Bytes of replies that wait for a client: it is not read from before some have left."""

PUSHED_MAX: Final = 8 << 20
"""Bytes that wait for a client that MONITOR serves: then it is cut off."""

INPUT_MAX: Final = 1 << 30
"""Bytes of requests that are unfinished or wait, of all clients together."""

BLOCKED_MAX: Final = 64 << 10
"""Bytes of requests of a client that waits for something. Up to these it is read from meanwhile, which tells
whether it is still there; from then on the kernel is asked."""

UNBLOCKED: Final = "UNBLOCKED client unblocked via CLIENT UNBLOCK"

IDLE_EVERY_S: Final = 1.0
"""How often to look for clients that have said nothing for CONFIG's `timeout`, or have gone."""

Sending = asyncio.Future[Sequence[Sent]]


class RespServer:
    def __init__(self, store: "StoreNode", address: Address) -> None:
        self.store: Final = store
        self._address: Final = address
        self._door: Final = Door(lambda _: RespConnection(self), self._refuses)
        self._timer: asyncio.TimerHandle | None = None
        self.connections: Final[dict[int, RespConnection]] = {}
        self.port = address.port
        self.input = 0
        """Bytes of requests that are kept."""

    async def start(self) -> None:
        self.port = (await self._door.open(self._address)).port
        engine = self.store.engine
        engine.facts["port"] = self.port
        engine.config.fix("port", str(self.port))
        engine.config.fix("bind", self._address.host)
        self._look_for_idle()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._door.close()
        for connection in list(self.connections.values()):
            connection.cut()

    @property
    def clients_max(self) -> int:
        """Half of what the process may have open; the rest is for the others and the disk."""
        return min(self.store.engine.config.clients_max, (limit() - RESERVE) // 2)

    def _refuses(self, why: str) -> None:
        self.store.says.warn("no Redis clients are accepted at present", why=why)

    def counted(self, more: int) -> None:
        """So many bytes of requests are kept beyond those that were."""
        self.input += more
        if self.input > INPUT_MAX and more > 0:
            most = max(self.connections.values(), key=lambda one: one.kept)
            self.store.says.warn(
                "requests take too much memory: a client goes", bytes=most.kept, all=self.input
            )
            most.drop()

    def _look_for_idle(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(IDLE_EVERY_S, self._look_for_idle)
        engine = self.store.engine
        allowed = engine.config.timeout_s
        since = engine.clock_us() // 1000 - 1000 * allowed if allowed else 0
        for connection in list(self.connections.values()):
            connection.look(since)


class RespConnection(asyncio.Protocol):
    def __init__(self, server: RespServer) -> None:
        self._server: Final = server
        self._store: Final = server.store
        self._engine: Final = server.store.engine
        self._transport: asyncio.Transport | None = None
        self._client: Client | None = None
        self._requests: Final = Requests(self._engine.config.bulk_max)
        self._queue: deque[tuple[Sending | None, bytes]] = deque()
        """Replies that wait, each for the operations of its turn."""
        self._out: list[bytes] = []
        """Those of this turn."""
        self._owed = 0
        """Bytes of replies that wait for their operations."""
        self._leaves = False
        self._scheduled = False
        self._blocked = False
        self._choked = False
        """The transport has enough."""
        self._full = False
        """Replies wait, there or here: nothing is executed for this client."""
        self._paused = False
        """It is not read from."""
        self._over = False
        """The client sends no more."""
        self.kept = 0
        """Bytes of its requests."""
        self._error: str | None = None

    # Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        engine = self._engine
        if len(self._server.connections) >= self._server.clients_max:
            engine.stats["rejected"] += 1
            self._transport.write(b"-ERR max number of clients reached\r\n")
            self._transport.close()
            return
        self._transport.set_write_buffer_limits(OUTPUT_MAX)
        if (here := self._transport.get_extra_info("socket")) is not None:
            here.setsockopt(SOL_SOCKET, SO_KEEPALIVE, 1)
        peer = self._transport.get_extra_info("peername")
        address = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else ""
        client = self._client = engine.client(address)
        here = self._transport.get_extra_info("sockname")
        client.local = f"{here[0]}:{here[1]}" if isinstance(here, tuple) else ""
        client.push = self._push
        client.end = self._ended
        client.unblock = self._wait_no_longer
        self._requests.known = client.authenticated
        self._server.connections[client.id] = self

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._queue.clear()
        if self._blocked:
            self._store.give_up(self._unblock)
        self._server.counted(-self.kept)
        self.kept = 0
        if self._client is not None:
            self._engine.forget(self._client)
            self._server.connections.pop(self._client.id, None)

    def data_received(self, data: bytes) -> None:
        if self._client is None or self._error is not None:
            return
        self._engine.stats["input"] += len(data)
        self._requests.bulk_max = self._engine.config.bulk_max
        self._requests.feed(data)
        self._count()
        self._pace()
        self._schedule()

    def pause_writing(self) -> None:
        self._choked = True
        self._weigh()

    def resume_writing(self) -> None:
        self._choked = False
        self._weigh()

    def _weigh(self) -> None:
        full = self._choked or self._owed > OUTPUT_MAX
        if full != self._full:
            self._full = full
            self._pace()
            self._schedule()

    def eof_received(self) -> bool:
        """What came before the end is still answered, but for what waits for something."""
        if self._blocked:
            return False
        self._over = True
        self._schedule()
        return True

    # Turns

    def _pace(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        most = 0 if self._paused else TURN_MOST  # what is kept is counted until all of it was taken
        behind = self._requests.whole > most or (self._blocked and self.kept > BLOCKED_MAX)
        pauses = self._full or behind
        if pauses != self._paused:
            self._paused = pauses
            if pauses:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _count(self) -> None:
        before, self.kept = self.kept, self._requests.waiting
        if self.kept != before:
            self._server.counted(self.kept - before)

    def _schedule(self) -> None:
        if not (self._scheduled or self._blocked or self._full) and self._transport is not None:
            self._scheduled = True
            self._store.soon(self._take_turn)

    def _take_turn(self) -> None:
        self._scheduled = False
        client, transport = self._client, self._transport
        if client is None or transport is None or transport.is_closing() or self._full:
            return
        out: list[bytes] = []
        engine, following, begun, until, size = self._engine, self._requests.next, 0, 0, 0
        for _ in range(TURN_MOST):
            try:
                request = following()
            except BadRequest as error:
                self._error = str(error)
                encode(Fail(f"ERR {error}"), client.proto, out)
                client.quits = True
                break
            if request is None:
                client.quits = client.quits or self._over
                break
            if not request:
                continue
            if engine.paused_until and engine.holds(client, request):
                self._hold(request)
                break
            reply = engine.execute(client, request, begun)
            begun = engine.ended
            until = until or begun + TURN_US
            if isinstance(reply, Later):
                self._blocked = True
                self._pace()
                self._release(out)
                out = []
                self._store.wait(reply, self._unblock)
                if self._blocked:
                    return
                continue
            if client.replies and not client.skips and reply is not NO_REPLY:
                before = len(out)
                encode(bounded(reply), client.proto, out)
                size += len(out[-1]) if len(out) == before + 1 else sum(map(len, out[before:]))
            else:
                client.skips = max(0, client.skips - 1)
            if client.quits:
                break
            if begun > until or size > OUTPUT_MAX:
                self._schedule()
                break
        else:
            self._schedule()
        self._requests.known = client.authenticated
        self._count()
        self._release(out)
        if self._paused:
            self._pace()

    def _hold(self, request: list[bytes]) -> None:
        """It waits for the end of a pause."""
        engine = self._engine
        self._requests.put_back(request)
        engine.held.append(self._schedule)
        wait_s = engine.paused_until / 1000 - engine.clock_us() / 1_000_000
        asyncio.get_running_loop().call_later(max(0.001, wait_s), self._schedule)

    def _answer(self, client: Client, reply: Reply, out: list[bytes]) -> None:
        if reply is NO_REPLY or not client.replies or client.skips:
            client.skips = max(0, client.skips - 1)
            return
        encode(bounded(reply), client.proto, out)

    def _unblock(self, reply: Reply) -> None:
        client = self._client
        self._blocked = False
        if client is None or self._transport is None:
            return
        out: list[bytes] = []
        self._answer(client, reply, out)
        self._release(out)
        self._pace()
        self._schedule()

    def _wait_no_longer(self, fails: bool) -> bool:
        later = self._store.give_up(self._unblock)
        if later is not None:
            self._unblock(Fail(UNBLOCKED) if fails else later.too_late())
        return later is not None

    def _release(self, out: list[bytes]) -> None:
        """These replies leave when the operations of this turn are in the log."""
        if out or (self._client is not None and self._client.quits):
            self._out += out
            if not self._leaves:
                self._leaves = True
                self._store.soon_after(self._drain_after)

    def _drain_after(self, sent: "Sending | None") -> None:
        """The turn is over: its operations are being written, or there were none."""
        self._leaves = False
        data = b"".join(self._out)
        self._out.clear()
        self._queue.append((sent, data))
        self._owed += len(data)
        self._weigh()
        if sent is None or sent.done():
            self._drain()
        else:
            sent.add_done_callback(self._drain)

    def _drain(self, _: object = None) -> None:
        transport, client = self._transport, self._client
        if transport is None or client is None or transport.is_closing():
            return
        while self._queue:
            sent, data = self._queue[0]
            if sent is not None:
                if not sent.done():
                    return
                if sent.cancelled() or sent.exception() is not None:
                    self.cut()  # whether its writes were made is not known
                    return
            self._queue.popleft()
            self._owed -= len(data)
            self._engine.stats["output"] += len(data)
            if data:
                transport.write(data)
        if client.quits:
            transport.close()
        self._weigh()

    # Out of band

    def _push(self, reply: Any) -> None:
        out: list[bytes] = []
        if self._client is not None and self._transport is not None:
            encode(reply, self._client.proto, out)
            if self._transport.get_write_buffer_size() > PUSHED_MAX:
                self.drop()
                return
            self._transport.write(b"".join(out))

    def _ended(self) -> None:
        self._store.soon(self._finish)

    def _finish(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()

    def cut(self) -> None:
        """Replies that wait may still leave, if the client reads."""
        if self._transport is not None:
            self._transport.close()

    def look(self, since: int) -> None:
        """Is it still there, and not idle since that time?"""
        client = self._client
        if self._blocked:
            if self._paused and has_gone(self._transport):  # nothing else would tell
                self.drop()
        elif client is not None and client.seen < since and not client.monitors:
            self.drop()

    def drop(self) -> None:
        """What waits for it goes as well."""
        if self._transport is not None:
            self._transport.abort()
