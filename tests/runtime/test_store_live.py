"""Stores on real nodes: over TCP, with disks, through restarts, joins and returns."""

import asyncio
import threading
from pathlib import Path

import pytest
from support.changing import SWIFT
from support.failing_disk import FailingDisk
from support.open_nodes import run
from support.stores import Stores, contents, same, stable, until

import thence
from thence.core.errors import OthersStateError, StorageError, UsageError
from thence.runtime import driver
from thence.runtime.address import Address
from thence.runtime.open_store import StoreError
from thence.runtime.resp import RespServer
from thence.store import effects


def test_writes_at_two_nodes_meet_and_become_stable(tmp_path: Path) -> None:
    async def test() -> None:
        group = Stores(tmp_path, "ab")
        async with group.open("a") as a, group.open("b") as b:
            await asyncio.gather(*[store.incr("n") for store in (a, b) for _ in range(20)])
            await a.sadd("s", "x")
            await b.execute("WAIT", 1, 0)
            await same(a, b)
            assert await a.get("n") == await b.get("n") == b"40"
            assert await b.smembers("s") == {b"x"}
            await stable(a, b)
            assert contents(a) == contents(b)
            assert not a.node.state.space.flight

    run(test)


def test_a_command_sees_what_its_node_has_taken_and_not_synced(tmp_path: Path) -> None:
    """Its operation follows from that for the middleware, which may call it stable before the operation
    comes: a delete that had not seen it would remove it there, and not here."""

    async def test() -> None:
        group = Stores(tmp_path, "ab")
        async with group.open("a", sync="always") as a, group.open("b", sync="always") as b:
            await a.sadd("s", "y")
            await same(a, b)
            await stable(a, b)
            goes_on = threading.Event()
            a.node.node._resources.syncer.submit(goes_on.wait)
            try:
                taken = a.node.node.running.steps.taken
                await b.sadd("s", "x")
                await until(lambda: a.node.node.running.steps.taken > taken)
                deleted = asyncio.create_task(a.delete("s"))
                await until(lambda: bool(a.node.state.pending))
                assert not deleted.done()
            finally:
                goes_on.set()
            await deleted
            await same(a, b)
            assert await a.smembers("s") == await b.smembers("s") == frozenset()

    run(test)


def test_a_restart_keeps_what_is_unstable_apart(tmp_path: Path) -> None:
    """Operations that were concurrent are so after a restart, from the log and from a state."""

    async def test() -> None:
        group = Stores(tmp_path, "ab")
        async with group.open("a") as a:
            await a.set("k", "5")
            await a.sadd("s", "x", "y")
            await a.execute("SET", "t", "1", "EX", 1000)
        async with group.open("a") as a:
            assert await a.get("k") == b"5"
            assert a.node.state.unstable == 3
            await a.delete("k")
            async with group.open("b") as b:
                await same(a, b)
                assert await b.get("k") is None
                assert await b.smembers("s") == {b"x", b"y"}
                assert 0 < await b.execute("TTL", "t") <= 1000
                await stable(a, b)

    run(test)


def test_concurrent_writes_before_a_restart_are_merged_after_it(tmp_path: Path) -> None:
    async def test() -> None:
        group = Stores(tmp_path, "ab")
        async with group.open("a") as a:
            await a.sadd("s", "e")
            async with group.open("b") as b:
                await same(a, b)
                await stable(a, b)
            await a.execute("SREM", "s", "e")
            await a.sadd("s", "f")
        async with group.open("b") as b:
            await b.sadd("s", "e")  # it has not seen the remove
            async with group.open("a") as a:
                await same(a, b)
                assert await a.smembers("s") == await b.smembers("s") == {b"e", b"f"}
                await stable(a, b)
                assert await a.smembers("s") == {b"e", b"f"}

    run(test)


def test_a_joiner_begins_with_the_state_of_the_group(tmp_path: Path) -> None:
    async def test() -> None:
        group = Stores(tmp_path, "ab", changing=True)
        async with group.open("a") as a:
            for number in range(50):
                await a.execute("HSET", "h", f"f{number}", number)
            async with group.open("b", join="a") as b:
                await b.incr("n")
                await same(a, b)
                assert await b.hgetall("h") == await a.hgetall("h")
                assert await a.get("n") == b"1"
                await stable(a, b)

    run(test)


def test_an_operation_may_be_larger_than_a_frame(tmp_path: Path) -> None:
    """Others get it, and so do those that join, restart, or return to it in a state."""

    async def test() -> None:
        group, large = Stores(tmp_path, "ab", changing=True), b"0123456789" * 2_000_000
        async with group.open("a") as a, group.open("b", join="a") as b:
            await a.set("k", large)
            await a.execute("APPEND", "k", "!")
            with pytest.raises(StoreError, match=f"more than {effects.OPERATION_MAX} bytes"):
                await a.set("k", bytes(effects.OPERATION_MAX))
            await same(a, b)
            assert await b.get("k") == large + b"!"
        async with group.open("a") as a, group.open("b") as b:
            assert await a.get("k") == await b.get("k") == large + b"!"
            await b.incr("n")
            await same(a, b)

    run(test)


def test_a_session_is_carried_to_another_node(tmp_path: Path) -> None:
    async def test() -> None:
        group = Stores(tmp_path, "ab")
        async with group.open("a") as a, group.open("b") as b:
            await a.set("k", "v")
            token = await a.execute("THENCE.SESSION")
            assert await b.execute("THENCE.ATTACH", token) == "OK"
            assert await b.get("k") == b"v"
            assert await a.execute("THENCE.STABLE", "WAIT", 0) == 1
            members = await a.execute("THENCE.MEMBERS")
            assert [one[b"name"] for one in members] == [b"a", b"b"]

    run(test)


def test_what_expired_is_reaped_everywhere(tmp_path: Path) -> None:
    async def test() -> None:
        group = Stores(tmp_path, "ab")
        async with group.open("a") as a, group.open("b") as b:
            await a.execute("SET", "k", "v", "PX", 30)
            await until(lambda: b.node.state.space.reaped == 1)
            await same(a, b)
            await stable(a, b)
            assert not a.node.state.space.databases[0].keys
            assert not b.node.state.space.databases[0].deadlines

    run(test)


def test_a_store_without_tags_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        with pytest.raises(UsageError, match="order graph or vector"):
            async with Stores(tmp_path, "a").open("a", settings={"order": "none"}):
                pass

    run(test)


def test_all_nodes_of_a_group_have_a_store_or_none(tmp_path: Path) -> None:
    """One without would let others in with nothing, and one with would show nothing of what is there."""

    async def test() -> None:
        settings: dict[str, object] = {**SWIFT, "group.join_timeout_us": 500_000}
        group = Stores(tmp_path, "ab", changing=True)
        async with group.open("a") as a:
            await a.set("k", "v")
            plain = thence.open(
                "b", data=tmp_path / "b", listen=group.at["b"], join=[group.at["a"]], settings=settings
            )
            with pytest.raises(OthersStateError, match="state of a store: all nodes"):
                async with plain:
                    pass
            assert await a.get("k") == b"v"
        with pytest.raises(OthersStateError, match="state of a store: all nodes"):
            async with thence.open("a", data=tmp_path / "a", listen=group.at["a"], settings=settings):
                pass
        async with group.open("a") as a:
            assert await a.get("k") == b"v"
        other = Stores(tmp_path / "other", "cd", changing=True)
        async with thence.open("c", data=tmp_path / "c", listen=other.at["c"], settings=settings) as c:
            await c.broadcast(b"hello")
            with pytest.raises(OthersStateError, match="node without a store: all nodes"):
                async with other.open("d", join="c", settings=settings):
                    pass

    run(test)


def test_a_transaction_is_one_operation(tmp_path: Path) -> None:
    async def test() -> None:
        group = Stores(tmp_path, "a")
        async with group.open("a") as a:
            assert await a.transaction([("SET", "k", "1"), ("INCR", "k"), ("GET", "k")]) == ["OK", 2, b"2"]
            assert sum(a.node.delivered().values()) == 1
            with pytest.raises(StoreError, match="WRONGTYPE"):
                await a.execute("SADD", "k", "x")

    run(test)


def test_under_always_a_reply_leaves_after_the_sync(tmp_path: Path) -> None:
    async def test() -> None:
        group = Stores(tmp_path, "a")
        async with group.open("a", sync="always") as a:
            driver = a.node.node.running
            before = driver.syncs
            await a.set("k", "v")
            assert driver.syncs > before

    run(test)


def test_a_write_that_a_full_disk_refuses_was_never_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took effect before its operation could not be written: the store begins anew from its log, and
    answers nothing until then."""
    monkeypatch.setattr(driver, "PROBE_EVERY_US", 10_000)
    disk = FailingDisk(tmp_path / "a", monkeypatch)

    async def test() -> None:
        group = Stores(tmp_path, "ab")
        async with group.open("a") as a:
            await a.incr("n")
            await a.sadd("s", "x")
            disk.full = True
            with pytest.raises(StorageError):
                await a.incr("n")
            with pytest.raises(StoreError, match="LOADING"):
                await a.get("n")
            disk.full = False
            await until(lambda: a.node.node.running.trouble is None)
            assert await a.get("n") == b"1"
            assert await a.incr("n") == 2
            async with group.open("b") as b:
                await same(a, b)
                assert await b.get("n") == b"2"
                assert await b.smembers("s") == {b"x"}
                await stable(a, b)

    run(test)


async def speak(port: int, *chunks: bytes, patient: bool = True) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for chunk in chunks:
        writer.write(chunk)
        await writer.drain()
    if patient:
        writer.write_eof()
    found = await reader.read()
    writer.close()
    return found


def test_clients_that_break_the_protocol_do_no_harm(tmp_path: Path) -> None:
    async def test() -> None:
        group = Stores(tmp_path, "a")
        async with group.open("a") as a:
            server = RespServer(a.node, Address("127.0.0.1", 0))
            await server.start()
            port = server.port
            try:
                assert await speak(port, b"PING\r\nPING\r\n") == b"+PONG\r\n+PONG\r\n"
                assert await speak(port, b"*1\r\n$4\r\nPI", b"NG\r\n") == b"+PONG\r\n"
                assert b"invalid multibulk length" in await speak(port, b"*99999999\r\n", patient=False)
                assert b"invalid bulk length" in await speak(port, b"*1\r\n$9999999999\r\n", patient=False)
                assert b"too big inline" in await speak(port, b"x" * 100_000, patient=False)
                many = b"".join(
                    b"*3\r\n$3\r\nSET\r\n$2\r\nk%d\r\n$1\r\nv\r\n" % (n % 10) for n in range(3000)
                )
                assert await speak(port, many) == b"+OK\r\n" * 3000
                assert await speak(port, b"QUIT\r\nPING\r\n", patient=False) == b"+OK\r\n"
                a.node.engine.config.set(b"maxclients", b"1")
                first = await asyncio.open_connection("127.0.0.1", port)
                first[1].write(b"PING\r\n")
                assert await first[0].readline() == b"+PONG\r\n"
                assert await speak(port, b"") == b"-ERR max number of clients reached\r\n"
                first[1].close()
                a.node.engine.config.set(b"maxclients", b"100")
                a.node.engine.config.set(b"requirepass", b"secret")
                assert await speak(port, b"GET k\r\nAUTH secret\r\nSET k v\r\n") == (
                    b"-NOAUTH Authentication required.\r\n+OK\r\n+OK\r\n"
                )
            finally:
                await server.close()
                await until(lambda: not server.connections)

    run(test)


def test_a_client_that_does_not_read_is_not_read_from(tmp_path: Path) -> None:
    async def test() -> None:
        group = Stores(tmp_path, "a")
        async with group.open("a") as a:
            server = RespServer(a.node, Address("127.0.0.1", 0))
            await server.start()
            await a.set("k", b"x" * 500_000)
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET k\r\n" * 2000)
            connection = None
            while connection is None or not connection._full:
                await asyncio.sleep(0)
                connection = next(iter(server.connections.values()), None)
            executed = a.node.engine.calls["GET"]
            assert executed < 2000
            assert await a.get("k") is not None
            writer.close()
            await until(lambda: not server.connections)
            await server.close()

    run(test)
