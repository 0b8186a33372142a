"""redis-py as a client, in both versions of the protocol."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.open_nodes import run
from support.stores import Stores

from thence.runtime.address import Address
from thence.runtime.resp import RespServer

redis = pytest.importorskip("redis")


def use(port: int, protocol: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with redis.Redis(port=port, protocol=protocol, db=9) as client:
        found["set"] = client.set("k", "v", ex=100)
        found["get"] = client.get("k")
        client.hset("h", mapping={"a": 1, "b": 2})
        found["hash"] = client.hgetall("h")
        client.zadd("z", {"m": 1.5, "n": 2})
        found["zset"] = client.zrange("z", 0, -1, withscores=True)
        client.sadd("s", "x", "y")
        found["members"] = client.smembers("s")
        with client.pipeline() as pipe:
            pipe.incr("n").incr("n").get("n")
            found["pipe"] = pipe.execute()
        found["scan"] = sorted(client.scan_iter("*"))
        found["version"] = client.info("server")["redis_version"]
        try:
            client.incr("h")
        except redis.ResponseError as error:
            found["error"] = str(error)
        client.flushdb()
    return found


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_is_served(tmp_path: Path, protocol: int) -> None:
    async def test() -> dict[str, Any]:
        async with Stores(tmp_path, "a").open("a") as a:
            server = RespServer(a.node, Address("127.0.0.1", 0))
            await server.start()
            found = await asyncio.to_thread(use, server.port, protocol)
            await server.close()
            return found

    found = run(test)
    assert found.pop("zset") in ([(b"m", 1.5), (b"n", 2.0)], [[b"m", 1.5], [b"n", 2.0]])
    assert found == {
        "set": True, "get": b"v", "hash": {b"a": b"1", b"b": b"2"}, "members": {b"x", b"y"},
        "pipe": [1, 2, b"2"], "scan": [b"h", b"k", b"n", b"s", b"z"], "version": "7.2.5",
        "error": "WRONGTYPE Operation against a key holding the wrong kind of value",
    }  # fmt: skip


def test_a_session_goes_with_a_client_to_another_node(tmp_path: Path) -> None:
    from thence.client import SessionConnection

    def write_and_move(first: int, second: int) -> list[bytes | None]:
        pool = redis.ConnectionPool(connection_class=SessionConnection, port=first, token_every_s=0)
        client = redis.Redis(connection_pool=pool)
        found = []
        for number in range(20):
            client.set("k", number)
            pool.disconnect()
            pool.connection_kwargs["port"] = second if number % 2 == 0 else first
            found.append(client.get("k"))
        client.close()
        return found

    async def test() -> list[bytes | None]:
        group = Stores(tmp_path, "ab")
        async with group.open("a") as a, group.open("b") as b:
            servers = [RespServer(one.node, Address("127.0.0.1", 0)) for one in (a, b)]
            for server in servers:
                await server.start()
            found = await asyncio.to_thread(write_and_move, *[server.port for server in servers])
            for server in servers:
                await server.close()
            return found

    assert run(test) == [b"%d" % number for number in range(20)]
