"""What concurrent commands become: one row for each pair that docs/STORE.md tells of."""

from contextlib import suppress
from itertools import permutations
from random import Random
from typing import Any

import pytest

from thence.runtime.open_store import LocalStores, StoreError
from thence.store.contents import contents

NOW_MS = 1_700_000_000_000


class Clock:
    def __init__(self) -> None:
        self.us = NOW_MS * 1000

    def __call__(self) -> int:
        return self.us


def pair(before: str, one: str, other: str, asked: str, remove_wins: bool = False) -> Any:
    """The second is later by its stamp. What both replicas answer once all is delivered."""
    clock = Clock()
    group = LocalStores("a", "b", "c", clock_us=clock, remove_wins=remove_wins)
    for line in filter(None, before.split("; ")):
        group["a"].run(*line.split())
    group.deliver()
    clock.us += 5000
    for line in one.split("; "):
        group["a"].run(*line.split())
    clock.us += 5000
    for line in other.split("; "):
        group["b"].run(*line.split())
    group.deliver()
    shown = [_plain(group[name].run(*asked.split())) for name in "abc"]
    assert shown[0] == shown[1] == shown[2]
    assert not group["a"].state.unstable
    return shown[0]


def _plain(reply: Any) -> Any:
    if type(reply).__name__ in ("Members", "list"):
        return sorted(reply, key=repr)
    return reply


ROWS = [
    ("", "SET k a", "SET k b", "GET k", b"b"),
    ("SET k 5", "SET k 10", "INCR k", "GET k", b"11"),
    ("SET k 5", "SET k x", "INCR k", "GET k", b"x"),
    ("", "INCR k", "INCRBYFLOAT k 1.5", "GET k", b"2.5"),
    ("SET k 10", "DEL k", "INCR k", "GET k", b"1"),
    ("SET k 10", "DEL k", "SET k z", "GET k", b"z"),
    ("", "SETNX k a", "SETNX k b", "GET k", b"a"),
    ("", "SETNX k a", "SET k b", "GET k", b"b"),
    ("", "SET k a", "SETNX k b", "GET k", b"a"),
    ("", "APPEND k x", "APPEND k y", "GET k", b"xy"),
    ("SET k 0", "SET k v", "APPEND k x", "GET k", b"vx"),
    ("SET k aaaa", "SETRANGE k 0 xx", "SETRANGE k 1 yy", "GET k", b"xyya"),
    ("", "SETBIT k 7 1", "SETBIT k 7 0", "GETBIT k 7", 0),
    ("", "SETBIT k 7 1", "SETBIT k 6 1", "BITCOUNT k", 2),
    ("", "MSET a 1 b 1", "MSET a 2 b 2", "MGET a b", [b"2", b"2"]),
    ("", "MULTI; SET a 1; SET b 1; EXEC", "MULTI; SET a 2; SET b 2; EXEC", "MGET a b", [b"2", b"2"]),
    ("SADD s e", "SREM s e", "SADD s e", "SMEMBERS s", [b"e"]),
    ("SADD s e", "DEL s", "SADD s f", "SMEMBERS s", [b"f"]),
    ("SADD s e", "SREM s e", "SREM s e", "EXISTS s", 0),
    ("SADD a e", "SMOVE a b e", "SMOVE a c e", "SUNION b c", [b"e"]),
    ("HSET h f 1", "HDEL h f", "HSET h f 2", "HGET h f", b"2"),
    ("HSET h f 10", "HDEL h f", "HINCRBY h f 3", "HGET h f", b"3"),
    ("", "HSET h f 1", "HSET h g 2", "HLEN h", 2),
    ("HSET h f 1", "DEL h", "HSET h g 2", "HKEYS h", [b"g"]),
    ("", "ZADD z GT 5 m", "ZADD z GT 7 m", "ZSCORE z m", 7.0),
    ("ZADD z 1 m", "ZADD z 5 m", "ZINCRBY z 1 m", "ZSCORE z m", 6.0),
    ("ZADD z 1 m", "ZREM z m", "ZINCRBY z 2 m", "ZSCORE z m", 2.0),
    ("SADD x e", "RENAME x y", "SADD x f", "SMEMBERS x", [b"f"]),
    ("SADD x e", "RENAME x y", "SADD x f", "SMEMBERS y", [b"e"]),
    ("SADD x e", "RENAME x y", "RENAME x z", "SUNION y z", [b"e"]),
    ("SET k 1", "FLUSHALL", "SET l 2", "KEYS *", [b"l"]),
    ("SET k 1", "EXPIRE k 10", "EXPIRE k 50", "PEXPIRETIME k", NOW_MS + 50_010),
    ("SET k 1; EXPIRE k 90", "EXPIRE k 10", "PERSIST k", "TTL k", -1),
    ("SET k 1", "EXPIRE k 10", "SET k 2", "TTL k", -1),
    ("SET k 1", "EXPIRE k 10", "INCR k", "TTL k", 10),
    ("", "SET k 1 EX 50", "SET k 2 EX 5", "GET k", b"2"),
    ("", "SET k 1 EX 50", "SET k 2 EX 5", "TTL k", 50),
    ("", "SADD k e", "SET k v", "TYPE k", "string"),
    ("", "SADD k e", "HSET k f v", "TYPE k", "hash"),
]


@pytest.mark.parametrize(("before", "one", "other", "asked", "meant"), ROWS)
def test_a_pair_becomes_what_is_written(before: str, one: str, other: str, asked: str, meant: Any) -> None:
    assert pair(before, one, other, asked) == meant


def test_removes_win_where_the_group_was_made_so() -> None:
    assert pair("SADD s e", "SADD s e", "SREM s e", "SMEMBERS s", remove_wins=True) == []
    assert pair("", "SADD s e", "SREM s e", "SMEMBERS s", remove_wins=True) == []
    assert pair("SADD s e; SREM s e", "SADD s e", "SADD s f", "SMEMBERS s", remove_wins=True) == [b"e", b"f"]


def test_a_hidden_kind_goes_with_the_visible_one() -> None:
    group = LocalStores("a", "b", clock_us=Clock())
    group["a"].run("SADD", "k", "e")
    group["b"].run("HSET", "k", "f", "v")
    group.deliver()
    assert group["a"].run("THENCE.VALUES", "k") == {b"hash": 1, b"set": 1}
    assert group["a"].run("THENCE.CONFLICTS", 0)[1] == [b"k"]
    group["b"].run("HDEL", "k", "f")
    group.deliver()
    assert group["a"].run("TYPE", "k") == "none"


def test_concurrent_values_are_shown_until_they_are_stable() -> None:
    clock = Clock()
    group = LocalStores("a", "b", clock_us=clock)
    group["a"].run("SET", "k", "x")
    clock.us += 5000
    group["b"].run("SET", "k", "y")
    group.deliver(stable=False)
    assert group["a"].run("THENCE.VALUES", "k") == group["b"].run("THENCE.VALUES", "k") == [b"y", b"x"]


def test_a_key_that_expired_is_reaped_and_a_late_update_dies_with_it() -> None:
    clock = Clock()
    group = LocalStores("a", "b", clock_us=clock)
    group["a"].run("SET", "n", "5", "PX", "100")
    group.deliver()
    clock.us += 50_000
    group["b"].run("INCR", "n")
    clock.us += 100_000
    assert group["a"].run("GET", "n") is None
    group["a"].engine.perform([[14, 0, b"", 0, 0, clock.us // 1000]])
    group["a"].run("PING")
    group.deliver()
    for name in "ab":
        assert group[name].run("GET", "n") is None
        assert not group[name].state.space.databases[0].keys
        assert not group[name].state.space.databases[0].deadlines


def test_a_write_to_an_expired_key_begins_anew() -> None:
    clock = Clock()
    group = LocalStores("a", clock_us=clock)
    group["a"].run("SET", "n", "5", "PX", "100")
    clock.us += 200_000
    assert group["a"].run("INCR", "n") == 1
    assert group["a"].run("TTL", "n") == -1


COMMANDS = (
    "SET k {n}", "INCR n", "APPEND k {n}", "DEL k", "SADD s {n}", "SREM s {m}", "HSET h f {n}",
    "HINCRBY h g {n}", "HDEL h f", "ZADD z {n} m", "ZINCRBY z 1 m", "ZREM z m", "SETNX c {n}", "FLUSHDB",
    "RENAME h r", "EXPIRE k 100", "PERSIST k",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
def test_merged_states_are_those_that_operations_one_by_one_make(seed: int) -> None:
    """Each store merges with others at any time; in a twin of the group the same operations are delivered."""
    random, names, moment = Random(seed), "abc", 1_000_000_000_000
    group, twin = (LocalStores(*names, clock_us=lambda: moment) for _ in range(2))
    for _ in range(40):
        name, line = random.choice(names), random.choice(COMMANDS)
        words = line.format(n=random.randint(0, 9), m=random.randint(0, 9)).split()
        with suppress(StoreError):  # a key of another kind, or none
            group[name].run(*words)
        if random.random() < 0.3:
            one, other = random.sample(names, 2)
            group[one].merge(group[other])
    for tag, payload in group.made:
        twin["a"].take(tag, payload)
    for one, other in permutations(names, 2):
        group[one].merge(group[other])
    meant = list(contents(twin["a"].state))
    assert [list(contents(group[name].state)) for name in names] == [meant] * 3
    group.deliver()
    assert [list(contents(group[name].state)) for name in names] == [meant] * 3
    assert not any(group[name].state.unstable for name in names)


def test_errors_are_raised() -> None:
    group = LocalStores("a")
    with pytest.raises(StoreError, match="wrong number of arguments"):
        group["a"].run("GET")
