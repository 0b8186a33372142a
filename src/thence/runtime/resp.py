"""Redis clients: connections, their requests and replies.

Requests of a read are executed in the next turn of the store, all connections' together. Replies leave in
order, each after the operations of its turn. A client that does not read its replies is not read from; one
that sends what no client sends gets Redis' error and is cut off.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from thence.replica.life_tag import Sent
from thence.runtime.address import Address
from thence.store.client import Client
from thence.store.executor import Later
from thence.store.reply import NO_REPLY, Fail, Reply, encode
from thence.store.resp import BadRequest, Requests

if TYPE_CHECKING:
    from thence.runtime.store_node import StoreNode

TURN_MOST: Final = 1024
"""Commands of one connection in one turn."""

OUTPUT_MAX: Final = 1 << 20
"""Bytes of replies that wait for a client: it is not read from before some have left."""

INPUT_MAX: Final = 1 << 30
"""Bytes of unfinished requests, of all clients together; of one, the same."""

Sending = asyncio.Future[Sequence[Sent]]


class RespServer:
    def __init__(self, store: "StoreNode", address: Address) -> None:
        self.store: Final = store
        self._address: Final = address
        self._server: asyncio.Server | None = None
        self.connections: Final[dict[int, RespConnection]] = {}
        self.port = address.port

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: RespConnection(self), self._address.host, self._address.port, backlog=1024
        )
        self.port = self._server.sockets[0].getsockname()[1]
        engine = self.store.engine
        engine.facts["port"] = self.port
        engine.config.fix("port", str(self.port))
        engine.config.fix("bind", self._address.host)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections.values()):
            connection.cut()
        if self._server is not None:
            await self._server.wait_closed()


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
        self._leaves = False
        self._scheduled = False
        self._blocked = False
        self._full = False
        self._over = False
        """The client sends no more."""
        self._error: str | None = None

    # Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        engine = self._engine
        if len(engine.clients) >= engine.config.clients_max:
            engine.stats["rejected"] += 1
            self._transport.write(b"-ERR max number of clients reached\r\n")
            self._transport.close()
            return
        self._transport.set_write_buffer_limits(OUTPUT_MAX)
        peer = self._transport.get_extra_info("peername")
        address = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else ""
        client = self._client = engine.client(address)
        here = self._transport.get_extra_info("sockname")
        client.local = f"{here[0]}:{here[1]}" if isinstance(here, tuple) else ""
        client.push = self._push
        client.end = self._ended
        self._requests.known = client.authenticated
        self._server.connections[client.id] = self

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._queue.clear()
        if self._blocked:
            self._store.give_up(self._unblock)
        if self._client is not None:
            self._engine.forget(self._client)
            self._server.connections.pop(self._client.id, None)

    def data_received(self, data: bytes) -> None:
        if self._client is None or self._error is not None:
            return
        self._engine.stats["input"] += len(data)
        self._requests.bulk_max = self._engine.config.bulk_max
        self._requests.feed(data)
        if self._requests.waiting > INPUT_MAX:
            self.cut()
        self._schedule()

    def pause_writing(self) -> None:
        self._full = True
        self._pace()

    def resume_writing(self) -> None:
        self._full = False
        self._pace()
        self._schedule()

    def eof_received(self) -> bool:
        """What came before the end is still answered."""
        self._over = True
        self._schedule()
        return True

    # Turns

    def _pace(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._full or self._blocked:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _schedule(self) -> None:
        if not (self._scheduled or self._blocked or self._full) and self._transport is not None:
            self._scheduled = True
            self._store.soon(self._take_turn)

    def _take_turn(self) -> None:
        self._scheduled = False
        client, transport = self._client, self._transport
        if client is None or transport is None or transport.is_closing():
            return
        out: list[bytes] = []
        engine, following, begun = self._engine, self._requests.next, 0
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
                encode(reply, client.proto, out)
            else:
                client.skips = max(0, client.skips - 1)
            if client.quits:
                break
        else:
            self._schedule()
        self._requests.known = client.authenticated
        self._release(out)

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
        encode(reply, client.proto, out)

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
        self._queue.append((sent, b"".join(self._out)))
        self._out.clear()
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
            self._engine.stats["output"] += len(data)
            if data:
                transport.write(data)
        if client.quits:
            transport.close()

    # Out of band

    def _push(self, reply: Any) -> None:
        out: list[bytes] = []
        if self._client is not None and self._transport is not None:
            encode(reply, self._client.proto, out)
            if self._transport.get_write_buffer_size() > 8 * OUTPUT_MAX:
                self.cut()
                return
            self._transport.write(b"".join(out))

    def _ended(self) -> None:
        self._store.soon(self._finish)

    def _finish(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()

    def cut(self) -> None:
        if self._transport is not None:
            self._transport.close()
