"""Clients that mean no good, at a live node: what they make it keep is bounded, and others go on."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from support.open_nodes import run
from support.stores import Stores, until

from thence.runtime import departure, resp, store_node
from thence.runtime.address import Address
from thence.runtime.open_store import OpenStore, StoreError
from thence.runtime.resp import RespConnection, RespServer
from thence.store import executor, reply, sessions

PING = b"*1\r\n$4\r\nPING\r\n"
Talk = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Site:
    def __init__(self, store: OpenStore, server: RespServer) -> None:
        self.store = store
        self.server = server
        self._talks: list[Talk] = []

    async def visit(self, said: bytes = b"") -> Talk:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port, limit=1 << 26)
        self._talks.append((reader, writer))
        writer.write(said)
        return reader, writer

    def last(self) -> RespConnection:
        return list(self.server.connections.values())[-1]

    async def fine(self) -> None:
        """Another client is served."""
        reader, writer = await self.visit(PING)
        assert await reader.readexactly(7) == b"+PONG\r\n"
        writer.close()

    async def close(self) -> None:
        for _, writer in self._talks:
            writer.transport.abort()
        await self.server.close()
        await until(lambda: not self.server.connections)


@asynccontextmanager
async def site(folder: Path, sync: str = "everysec") -> AsyncIterator[Site]:
    async with Stores(folder, "a").open("a", sync=sync) as store:
        server = RespServer(store.node, Address("127.0.0.1", 0))
        await server.start()
        there = Site(store, server)
        try:
            yield there
        finally:
            await there.close()


def tried(folder: Path, test: Callable[[Site], Awaitable[None]], sync: str = "everysec") -> None:
    async def story() -> None:
        async with site(folder, sync) as there:
            await test(there)

    run(story)


def test_large_replies_are_not_made_for_a_client_that_does_not_read(tmp_path: Path) -> None:
    """One more than fits waits in all, however many were asked for at once."""

    async def test(site: Site) -> None:
        large = 4 << 20
        await site.store.set("k", b"x" * large)
        asked = 500
        _, writer = await site.visit(b"GET k\r\n" * asked)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await until(lambda: bool(site.server.connections) and site.last()._full)
        for _ in range(5):
            await site.fine()
        transport = site.last()._transport
        assert transport is not None
        assert transport.get_write_buffer_size() <= resp.OUTPUT_MAX + 2 * large
        assert site.store.node.engine.calls["GET"] < asked / 10
        assert site.store.node.engine.stats["output"] < 16 * large

    tried(tmp_path, test)


def test_replies_that_wait_for_a_slow_disk_are_bounded(tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        await site.store.set("k", b"x" * 100_000)
        goes_on = threading.Event()
        site.store.node.node._resources.syncer.submit(goes_on.wait)
        try:
            reader, _ = await site.visit(b"".join(b"SET n %d\r\nGET k\r\n" % n for n in range(1000)))
            await until(lambda: bool(site.server.connections) and site.last()._full)
            assert site.last()._owed <= 2 * resp.OUTPUT_MAX + 100_100
            assert site.store.node.engine.calls["GET"] < 500
        finally:
            goes_on.set()
        got = await reader.readexactly(1000 * (5 + len(b"$100000\r\n\r\n") + 100_000))
        assert got.count(b"+OK") == 1000
        assert await site.store.get("n") == b"999"

    tried(tmp_path, test, sync="always")


def test_requests_that_wait_are_not_read_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones take ten times their bytes: who sends faster than it is served is not read from."""
    monkeypatch.setattr(resp, "TURN_MOST", 16)

    async def test(site: Site) -> None:
        count, most = 100_000, 0
        reader, _ = await site.visit(PING * count)

        def look(more: int) -> None:
            nonlocal most
            site.server.input += more
            most = max(most, site.server.input)

        site.server.counted = look  # type: ignore[method-assign]
        assert await reader.readexactly(7 * count) == b"+PONG\r\n" * count
        one_read = 256 << 10
        assert most <= one_read * (len(PING) + 4 * 32) / len(PING)
        assert site.server.input == 0

    tried(tmp_path, test)


def test_of_all_clients_the_one_goes_that_makes_the_node_keep_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resp, "INPUT_MAX", 1 << 20)

    async def test(site: Site) -> None:
        small = [await site.visit(b"*2\r\n$4\r\nECHO\r\n$200000\r\n" + b"s" * 100_000) for _ in range(3)]
        await until(lambda: site.server.input >= 300_000)
        greedy, writer = await site.visit(b"*2\r\n$4\r\nECHO\r\n$500000000\r\n")
        writer.write(b"g" * (2 << 20))
        with pytest.raises(ConnectionResetError):
            await greedy.read()
        for reader, writer in small:
            writer.write(b"s" * 100_000 + b"\r\n")
            assert await reader.readexactly(200_011) == b"$200000\r\n" + b"s" * 200_000 + b"\r\n"
        await until(lambda: site.server.input == 0)

    tried(tmp_path, test)


def test_what_is_announced_takes_no_memory(tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        for said in (b"*1048576\r\n$3\r\nDEL\r\n", b"*2\r\n$4\r\nECHO\r\n$536870912\r\nx", b"*1\r\n" * 50):
            await site.visit(said)
        await until(lambda: site.store.node.engine.stats["input"] > 240)
        assert site.server.input < 1000
        for said, told in (
            (b"*1048577\r\n", b"invalid multibulk length"),
            (b"*1\r\n$536870913\r\n", b"invalid bulk length"),
            (b"*1\r\n:4\r\n", b"expected '$', got ':'"),
            (b"*1\r\n$" + b"1" * 70_000, b"too big bulk count string"),
            (b'GET "k\r\n', b"unbalanced quotes"),
            (bytes(range(256)) * 300, b"-ERR"),
        ):
            reader, _ = await site.visit(said)
            assert told in await reader.read()
        await site.fine()

    tried(tmp_path, test)


def test_a_million_words_are_one_command(tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        count = 1 << 20
        reader, writer = await site.visit(b"*%d\r\n$3\r\nDEL\r\n" % count)
        writer.write(b"$1\r\nx\r\n" * (count - 1))
        assert await reader.readline() == b":0\r\n"
        writer.write(b"*%d\r\n$4\r\nSADD\r\n$1\r\ns\r\n" % (1 << 16))
        writer.write(b"".join(b"$5\r\n%05d\r\n" % number for number in range((1 << 16) - 2)))
        assert await reader.readline() == b":%d\r\n" % ((1 << 16) - 2)
        assert site.server.input == 0
        await site.fine()

    tried(tmp_path, test)


def test_a_transaction_without_end_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "TRANSACTION_MAX", 10_000)

    async def test(site: Site) -> None:
        reader, _ = await site.visit(
            b"MULTI\r\n" + b"SET k v\r\n" * 1000 + b"EXEC\r\nMULTI\r\nSET k w\r\nEXEC\r\n"
        )
        told = (await reader.readuntil(b"-EXECABORT")).split(b"\r\n")
        assert b"-ERR a transaction of more than 10000 bytes" in told
        assert told.count(b"+QUEUED") == 999
        assert (await reader.readuntil(b"*1\r\n+OK\r\n")).endswith(b"+QUEUED\r\n*1\r\n+OK\r\n")
        assert await site.store.get("k") == b"w"

    tried(tmp_path, test)


def test_one_reply_of_many_large_values_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply, "REPLY_MAX", 10_000)

    async def test(site: Site) -> None:
        await site.store.set("k", b"x" * 1000)
        transaction = b"MULTI\r\n" + b"MGET k k k\r\n" * 9 + b"EXEC\r\n"
        reader, _ = await site.visit(b"MGET" + b" k" * 11 + b"\r\n" + transaction + PING)
        told = await reader.readuntil(b"+PONG\r\n")
        assert told.count(b"-ERR the reply has more than 10000 bytes") == 2
        assert b"xxx" not in told

    tried(tmp_path, test)


def test_a_monitor_that_does_not_read_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resp, "PUSHED_MAX", 1 << 18)

    async def test(site: Site) -> None:
        _, watcher = await site.visit(b"MONITOR\r\n")
        engine = site.store.node.engine
        await until(lambda: bool(engine.monitors))
        watcher.transport.pause_reading()  # type: ignore[attr-defined]
        transport = site.last()._transport
        assert transport is not None
        reader, writer = await site.visit()
        most = 0
        while engine.monitors:
            writer.write(b"SET k " + b"y" * 1000 + b"\r\n" + b"GET k\r\n")
            assert await reader.readline() == b"+OK\r\n"
            await reader.readexactly(len(b"$1000\r\n\r\n") + 1000)
            most = max(most, transport.get_write_buffer_size())
        assert most <= resp.PUSHED_MAX + 2000
        await site.fine()

    tried(tmp_path, test)


def test_monitors_see_long_commands_in_part_and_passwords_never(tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        watcher, _ = await site.visit(b"MONITOR\r\n")
        assert await watcher.readline() == b"+OK\r\n"
        config = b"*4\r\n$6\r\nCONFIG\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n"
        site.store.node.engine.config.slower_than_us = 0
        reader, _ = await site.visit(
            config % (11, b"requirepass", 6, b"secret")
            + b"AUTH secret\r\nHELLO 2 AUTH default secret\r\n"
            + b"*2\r\n$4\r\nECHO\r\n$5000\r\n" + b"z" * 5000 + b"\r\n"
            + b"DEL" + b" k" * 1000 + b"\r\n"
        )  # fmt: skip
        line = await watcher.readline()
        assert line.count(b"z") == 1024
        assert line.endswith(b'"... (3976 more bytes)\r\n')
        line = await watcher.readline()
        assert line.count(b'"k"') == 127
        assert line.endswith(b" ... (873 more arguments)\r\n")
        await reader.readuntil(b":0\r\n")
        assert not any(b"secret" in word for slow in site.store.node.engine.slow for word in slow.arguments)

    tried(tmp_path, test)


def test_one_client_with_very_much_to_do_does_not_keep_others_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in commands: of what one client sent at once, other clients wait for a turn's share at most."""
    monkeypatch.setattr(resp, "TURN_US", 0)
    monkeypatch.setattr(store_node, "TURN_US", 0)

    async def test(site: Site) -> None:
        engine, count = site.store.node.engine, 2000
        busy, _ = await site.visit(b"SET k v\r\n" * count)
        await until(lambda: engine.calls["SET"] > 0)
        reader, writer = await site.visit()
        for _ in range(5):
            before = engine.calls["SET"]
            writer.write(PING)
            assert await reader.readline() == b"+PONG\r\n"
            assert engine.calls["SET"] - before < count / 8
        assert await busy.readexactly(5 * count) == b"+OK\r\n" * count

    tried(tmp_path, test)


def test_thousands_that_wait_are_all_told(tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        node, count = site.store.node, 3 * store_node.LOOKS
        done = node.delivered().get("a", 0)
        token = sessions.token(node.engine.cluster, {"a": done + 1})
        waits = [asyncio.create_task(site.store.execute("THENCE.ATTACH", token, "TIMEOUT", 0)) for _ in "ab"]
        assert all(
            isinstance(one, StoreError) for one in await asyncio.gather(*waits, return_exceptions=True)
        )
        waits = [
            asyncio.create_task(site.store.execute("THENCE.ATTACH", token, "TIMEOUT", 10**6))
            for _ in range(count)
        ]
        await until(lambda: len(node._blocked) == count)
        await site.store.set("k", "v")
        assert await asyncio.gather(*waits) == ["OK"] * count

    tried(tmp_path, test)


@pytest.mark.parametrize("abruptly", [True, False])
def test_who_waits_and_has_gone_is_forgotten(tmp_path: Path, abruptly: bool) -> None:
    async def test(site: Site) -> None:
        reader, writer = await site.visit(b"SET k v\r\nWAIT 5 0\r\n" + PING)
        assert await reader.readline() == b"+OK\r\n"
        await until(lambda: len(site.store.node._blocked) == 1)
        if abruptly:
            writer.transport.abort()
        else:
            writer.close()
        await until(lambda: not site.store.node._blocked)
        await until(lambda: not site.server.connections)

    tried(tmp_path, test)


def test_who_waits_is_not_read_ahead(tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        _, writer = await site.visit(b"SET k v\r\nWAIT 5 0\r\n")
        await until(lambda: len(site.store.node._blocked) == 1)
        writer.write(PING * 1_000_000)
        await until(lambda: site.last()._paused)
        await site.fine()
        one_read = 256 << 10
        assert site.server.input <= 2 * one_read * (len(PING) + 4 * 32) / len(PING)

    tried(tmp_path, test)


def test_a_client_that_waits_can_be_unblocked(tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        for reason, meant in ((b"", b":0\r\n"), (b" ERROR", b"-UNBLOCKED ")):
            reader, _ = await site.visit(b"SET k v\r\nWAIT 5 0\r\n" + PING)
            assert await reader.readline() == b"+OK\r\n"
            await until(lambda: len(site.store.node._blocked) == 1)
            client = site.last()._client
            assert client is not None
            other, _ = await site.visit(b"CLIENT UNBLOCK %d%b\r\n" % (client.id, reason) * 2)
            assert await other.readexactly(8) == b":1\r\n:0\r\n"
            assert (await reader.readline()).startswith(meant)
            assert await reader.readline() == b"+PONG\r\n"

    tried(tmp_path, test)


@pytest.mark.skipif(departure.TCP_INFO is None, reason="the kernel does not tell of connections")
@pytest.mark.parametrize("abruptly", [True, False])
def test_a_client_that_waits_is_not_read_from_and_has_gone_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abruptly: bool
) -> None:
    monkeypatch.setattr(resp, "IDLE_EVERY_S", 0.001)
    size = 64

    async def test(site: Site) -> None:
        _, writer = await site.visit(b"SET k v\r\nWAIT 5 0\r\n")
        await until(lambda: len(site.store.node._blocked) == 1)
        writer.write(PING * (2 * resp.BLOCKED_MAX // size))
        await until(lambda: site.last()._paused)
        await site.fine()
        assert len(site.store.node._blocked) == 1
        if abruptly:
            writer.transport.abort()
        else:
            writer.close()
        await until(lambda: not site.store.node._blocked)
        await until(lambda: not site.server.connections)

    tried(tmp_path, test)


def test_clients_that_say_nothing_may_be_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resp, "IDLE_EVERY_S", 0.001)

    async def test(site: Site) -> None:
        idle, _ = await site.visit(PING)
        assert await idle.readline() == b"+PONG\r\n"
        client = site.last()._client
        assert client is not None
        watcher, _ = await site.visit(b"MONITOR\r\n")
        assert await watcher.readline() == b"+OK\r\n"
        site.store.node.engine.config.set(b"timeout", b"100")
        for one in site.store.node.engine.clients.values():
            one.seen -= 200_000
        with suppress(ConnectionResetError):
            assert await idle.read() == b""
        assert len(site.server.connections) == 1  # who monitors says nothing

    tried(tmp_path, test)
