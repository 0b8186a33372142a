"""A member of the group sends operations that no store makes: the others count them, and go on."""

from contextlib import suppress
from random import Random
from typing import Any

import pytest
from msgspec import msgpack

import thence
from thence.store.snapshot import dump, load
from thence.store.state import StoreState

KEYS = (b"k", b"l")
COMMANDS: tuple[str, ...] = (
    "SET {k} v", "SET {k} 7 EX 100", "INCR {k}", "INCRBYFLOAT {k} 0.5", "APPEND {k} x", "SETRANGE {k} 3 zz",
    "SETBIT {k} 9 1", "BITFIELD {k} SET u4 2 9", "SETNX {k} c", "DEL {k}", "EXPIRE {k} 50", "SADD {k} a b",
    "SREM {k} a", "HSET {k} f 1 g w", "HINCRBY {k} f 2", "HINCRBYFLOAT {k} f 0.5", "HDEL {k} g",
    "ZADD {k} 1.5 m", "ZINCRBY {k} 2 m", "ZADD {k} GT 9 m", "ZREM {k} m", "FLUSHDB",
)  # fmt: skip
READS: tuple[str, ...] = (
    "GET {k}", "STRLEN {k}", "GETRANGE {k} 0 9", "SMEMBERS {k}", "HGETALL {k}", "ZRANGE {k} 0 -1 WITHSCORES",
    "TYPE {k}", "TTL {k}", "SCAN 0", "DBSIZE", "RANDOMKEY", "INFO", "THENCE.CONFLICTS 0", "THENCE.VALUES {k}",
)  # fmt: skip
LEAVES: tuple[Any, ...] = (
    None, -1, 0, 1, 3, 15, 16, 255, 1 << 40, (1 << 64) - 1, -(1 << 63), 0.5, float("nan"), float("inf"), b"",
    b"x", b"\xff", "text", True, [], [1], [7, b"c"], [6, [[1, 0, 64, 1 << 62, 1]]], {}, {b"a": 1},
)  # fmt: skip


def lie(random: Random, value: Any) -> Any:
    """One leaf is another, or is gone."""
    if not isinstance(value, list) or not value or random.random() < 0.05:
        return random.choice(LEAVES)
    at = random.randrange(len(value))
    rest = [lie(random, value[at])] if random.random() < 0.85 else []
    return [*value[:at], *rest, *value[at + 1 :]]


def asked(stores: thence.LocalStores, name: str, command: str) -> None:
    for key in KEYS:
        stores[name].run(*command.format(k=key.decode()).split())


def refusal(stores: thence.LocalStores, name: str, command: str) -> str:
    """The error in which a command ends, if it does."""
    try:
        asked(stores, name, command)
    except thence.StoreError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("seed", range(40))
def test_operations_that_no_store_makes_are_counted_and_harm_none(seed: int) -> None:
    random = Random(seed)
    stores = thence.LocalStores("a", "b", "l", clock_us=lambda: 5_000_000)
    lies = 0
    for _ in range(60):
        name = random.choice("abl")
        with suppress(thence.StoreError):
            asked(stores, name, random.choice(COMMANDS))
        for at, (tag, payload) in enumerate(stores.made):
            if tag.dot[0] == "l" and random.random() < 0.7:
                lies += 1
                stores.made[at] = tag, msgpack.encode(lie(random, msgpack.decode(payload)))
        if random.random() < 0.3:
            stores.deliver(stable=random.random() < 0.5)
    stores.deliver()
    assert lies > 20
    for name in "ab":
        state = stores[name].state
        again = StoreState(name)
        load(again, dump(state))
        assert dump(again) == dump(state)
        for command in READS:
            assert refusal(stores, name, command)[:9] in ("", "WRONGTYPE")
        assert stores[name].run("SET", "k", "fine") == "OK"
        assert state.foreign > 0
