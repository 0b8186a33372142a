"""Operations that the group never had: what they become, so that nothing that the group kept is destroyed."""

from typing import Any

from msgspec import msgpack

from thence.core.machine import NEVER
from thence.runtime.open_store import LocalStores
from thence.store import ops
from thence.store.replicated import again
from thence.store.state import FORM


def orphan(*parts: list[Any]) -> bytes:
    return msgpack.encode((FORM, 5, parts))


def returned(before: str, *parts: list[Any]) -> LocalStores:
    group = LocalStores("a", "b")
    for line in filter(None, before.split("; ")):
        group["a"].run(*line.split())
    kept, _ = again(orphan(*parts))
    group["a"].engine.send_again(("a~1", 5), kept)
    group["a"].run("PING")
    group.deliver()
    return group


def test_a_set_is_a_claim_and_removes_come_to_nothing() -> None:
    group = returned(
        "SET k kept; SADD s e; HSET h f kept; ZADD z 1 m",
        [ops.SET, 0, b"k", 0, 0, b"lost", NEVER],
        [ops.SET, 0, b"new", 0, 0, b"v", NEVER],
        [ops.DELETE, 0, b"s", 0, 0, 0],
        [ops.FIELD_SET, 0, b"h", 0, 0, b"f", b"lost", b"g", b"v"],
        [ops.SCORE_SET, 0, b"z", 0, 0, b"m", 9.0, b"n", 2.0],
        [ops.FLUSH, 0, b"", 0, 0],
        [ops.STATE, 0, b"k", 0, 0, 1],
    )
    b = group["b"]
    assert b.run("MGET", "k", "new") == [b"kept", b"v"]
    assert b.run("SMEMBERS", "s") == [b"e"]
    assert b.run("HGETALL", "h") == {b"f": b"kept", b"g": b"v"}
    assert b.run("ZRANGE", "z", 0, -1) == [b"m", b"n"]
    assert b.run("ZSCORE", "z", "m") == 1.0


def test_the_deadline_of_a_set_holds_where_the_group_has_nothing() -> None:
    later = 1 << 42
    group = returned(
        "SET k kept; SET t kept PXAT 5000000000000",
        [ops.SET, 0, b"k", 0, 0, b"lost", later],
        [ops.SET, 0, b"t", 0, 0, b"lost", later],
        [ops.SET, 0, b"new", 0, 0, b"v", later],
        [ops.SET, 0, b"past", 0, 0, b"v", 1],
    )
    b = group["b"]
    assert b.run("MGET", "k", "t", "new", "past") == [b"kept", b"kept", b"v", None]
    assert [b.run("PEXPIRETIME", key) for key in ("k", "t", "new")] == [-1, 5_000_000_000_000, later]
    assert not group["a"].state.space.databases[0].keys.get(b"past")


def test_increments_and_adds_count() -> None:
    group = returned(
        "SET n 5; SADD s e",
        [ops.UPDATE, 0, b"n", 1, 77, (1, 3)],
        [ops.SET_ADD, 0, b"s", 1, 0, b"f"],
        [ops.SCORE_UPDATE, 0, b"z", 1, 0, b"m", (8, 2.5)],
    )
    b = group["b"]
    assert b.run("GET", "n") == b"8"
    assert sorted(b.run("SMEMBERS", "s")) == [b"e", b"f"]
    assert b.run("ZSCORE", "z", "m") == 2.5


def test_what_comes_to_nothing_is_named() -> None:
    _, lost = again(orphan([ops.DELETE, 0, b"s", 0, 0, 0], [ops.SET_ADD, 0, b"s", 0, 0, b"e"]))
    assert lost == [[ops.DELETE, 0, b"s", 0, 0, 0]]
    assert again(b"of another program") == ([], [])
