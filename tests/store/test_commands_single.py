"""One store: replies and errors are those of Redis."""

from contextlib import suppress
from typing import Any

import pytest

from thence.runtime.open_store import LocalStores, StoreError
from thence.store.documented import page
from thence.store.table import ABSENT, TABLE


def play(lines: str) -> Any:
    """The reply of the last command; an error is its text."""
    store = LocalStores("a")["a"]
    reply: Any = None
    for line in lines.split("; "):
        try:
            reply = store.run(*[word.replace("_", " ") for word in line.split()])
        except StoreError as error:
            reply = str(error)
    return reply


NOT_INTEGER = "ERR value is not an integer or out of range"
ROWS = [
    ("SET k 01; INCR k", NOT_INTEGER),
    ("SET k _1; INCR k", NOT_INTEGER),
    ("SET k 9223372036854775807; INCR k", "ERR increment or decrement would overflow"),
    ("DECRBY k -9223372036854775808", "ERR decrement would overflow"),
    ("SET k -0; INCR k", NOT_INTEGER),
    ("INCRBYFLOAT k 3.0e3; INCRBYFLOAT k 200", b"3200"),
    ("INCRBYFLOAT k 0.1; INCRBYFLOAT k 0.2", b"0.3"),
    ("COMMAND GETKEYS ZUNIONSTORE d 2 a b WEIGHTS 1 2", [b"d", b"a", b"b"]),
    ("COMMAND GETKEYS ZINTER 1 a WITHSCORES", [b"a"]),
    ("COMMAND GETKEYS ZINTER 3 a", "ERR Invalid arguments specified for command"),
    ("CLIENT UNBLOCK 99", 0),
    ("CLIENT UNBLOCK 99 NOW", "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
    ("CLIENT KILL", "ERR wrong number of arguments for 'client|kill' command"),
    ("CLIENT CACHING", "ERR unknown subcommand 'CACHING'. Try CLIENT HELP."),
    ("OBJECT ENCODING", "ERR wrong number of arguments for 'object|encoding' command"),
    ("LATENCY HELP x", "ERR wrong number of arguments for 'latency|help' command"),
    ("CONFIG GET", "ERR wrong number of arguments for 'config|get' command"),
    ("INCRBYFLOAT k +inf", "ERR increment would produce NaN or Infinity"),
    ("HINCRBYFLOAT h f -inf", "ERR value is NaN or Infinity"),
    ("MULTI; SAVE", "ERR Command not allowed inside a transaction"),
    ("MULTI; SHUTDOWN; EXEC", "EXECABORT Transaction discarded because of previous errors."),
    ("FUNCTION FLUSH", "OK"),
    ("FUNCTION LIST", []),
    ("FUNCTION LOAD x", "ERR unknown subcommand 'LOAD'. Try FUNCTION HELP."),
    ("COMMAND LIST FILTERBY PATTERN ge?", [b"get"]),
    ("COMMAND LIST FILTERBY", "ERR syntax error"),
    ("MODULE HELP", ["MODULE <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", "LIST", "HELP",
                     "    Prints this help."]),
    ("INCRBYFLOAT k nan", "ERR value is not a valid float"),
    ("SET k 1; INCRBYFLOAT k -1", b"0"),
    ("SADD k a; GET k", "WRONGTYPE Operation against a key holding the wrong kind of value"),
    ("SET k v EX 0", "ERR invalid expire time in 'set' command"),
    ("SET k v EX 9223372036854775807", "ERR invalid expire time in 'set' command"),
    ("SET k v EX 10 KEEPTTL", "ERR syntax error"),
    ("SET k v NX XX", "ERR syntax error"),
    ("SETEX k 0 v", "ERR invalid expire time in 'setex' command"),
    ("GET", "ERR wrong number of arguments for 'get' command"),
    ("NOPE a b", "ERR unknown command 'NOPE', with args beginning with: 'a' 'b' "),
    ("EXEC", "ERR EXEC without MULTI"),
    ("DISCARD", "ERR DISCARD without MULTI"),
    ("MULTI; MULTI", "ERR MULTI calls can not be nested"),
    ("MULTI; WATCH k", "ERR WATCH inside MULTI is not allowed"),
    ("MULTI; GET; EXEC", "EXECABORT Transaction discarded because of previous errors."),
    ("MULTI; SET k 1; INCR k; EXEC", ["OK", 2]),
    ("SET k v; EXPIRE k -1; EXISTS k", 0),
    ("SET k v; EXPIRE k 100; TTL k", 100),
    ("EXPIRE nokey 10", 0),
    ("SET k v; EXPIRE k 10 NX GT", "ERR NX and XX, GT or LT options at the same time are not compatible"),
    ("SET k v; EXPIRE k 10 XY", "ERR Unsupported option XY"),
    ("TTL nokey", -2),
    ("SET k v; TTL k", -1),
    ("RENAME a b", "ERR no such key"),
    ("SET a 1; RENAME a a; GET a", b"1"),
    ("SET a 1; EXPIRE a 100; COPY a b; TTL b", 100),
    ("SET a 1; MOVE a 1; SELECT 1; GET a", b"1"),
    ("COPY a a", "ERR source and destination objects are the same"),
    ("SELECT 16", "ERR DB index is out of range"),
    ("MSETNX k a k b; GET k", b"b"),
    ("SET k v; MSETNX k a l b", 0),
    ("SET k 5; SET k b IFEQ 5; GET k", b"b"),
    ("SET k a; SET k b IFEQ A", None),
    ("SET k a; SET k b IFEQ c GET", b"a"),
    ("SET k a; SET k b GET IFEQ a", b"a"),
    ("SET k b IFEQ a; EXISTS k", 0),
    ("SET k b IFNE a; GET k", b"b"),
    ("SET k b IFNE a GET", None),
    ("SET k a; SET k b IFNE a; GET k", b"a"),
    ("SET k a; SET k b IFNE b EX 10; TTL k", 10),
    ("SET k a EX 10; SET k b IFEQ a KEEPTTL; TTL k", 10),
    ("SADD k a; SET k b IFNE a", "WRONGTYPE Operation against a key holding the wrong kind of value"),
    ("SET k a IFEQ", "ERR syntax error"),
    ("SET k a NX IFEQ b", "ERR syntax error"),
    ("SET k a IFEQ b XX", "ERR syntax error"),
    ("SET k a IFEQ b IFNE c", "ERR syntax error"),
    ("SET k a; DELEX k IFEQ b", 0),
    ("SET k 5; DELEX k ifeq 5; EXISTS k", 0),
    ("SET k a; DELEX k IFNE a", 0),
    ("SET k a; DELEX k IFNE b", 1),
    ("DELEX k IFNE b", 0),
    ("SADD k a; DELEX k", 1),
    ("SADD k a; DELEX k IFEQ a", "ERR Key should be of string type if conditions are specified"),
    ("SET k a; DELEX k IFEQ", "ERR wrong number of arguments for 'delex' command"),
    ("SET k a; DELEX k IF a", "ERR syntax error"),
    ("MSETEX 2 k a l 5 EX 10; MGET k l", [b"a", b"5"]),
    ("MSETEX 2 k a l b EX 10; TTL l", 10),
    ("SET l b; MSETEX 2 k a l c NX; EXISTS k", 0),
    ("MSETEX 2 k a l c NX", 1),
    ("SET l b; MSETEX 2 k a l c XX; MGET k l", [None, b"b"]),
    ("MSET k a l b; EXPIRE l 10; MSETEX 2 k c l d XX KEEPTTL; TTL l", 10),
    ("MSET k a l b; EXPIRE l 10; MSETEX 2 k c l d KEEPTTL; TTL k", -1),
    ("MSET k a l b; EXPIRE l 10; MSETEX 2 k c l d; TTL l", -1),
    ("MSETEX 2 k a k b; GET k", b"b"),
    ("MSETEX 1 k a PXAT 1; EXISTS k", 0),
    ("MSETEX 0 k a", "ERR invalid numkeys value"),
    ("MSETEX x k a", "ERR invalid numkeys value"),
    ("MSETEX 2 k a l", "ERR wrong number of key-value pairs"),
    ("MSETEX 1 k a GET", "ERR syntax error"),
    ("MSETEX 1 k a IFEQ b", "ERR syntax error"),
    ("MSETEX 1 k a EX 0", "ERR invalid expire time in 'msetex' command"),
    ("COMMAND GETKEYS MSETEX 2 k a l b NX", [b"k", b"l"]),
    ("COMMAND GETKEYS MSETEX 2 k a l", "ERR Invalid arguments specified for command"),
    ("SADD s a b c; SINTERSTORE s s s; SCARD s", 3),
    ("SPOP s -1", "ERR value is out of range, must be positive"),
    ("SADD s a; SREM s a; TYPE s", "none"),
    ("SADD s a; EXPIRE s 100; SREM s a; SADD s b; TTL s", -1),
    ("HSET h f", "ERR wrong number of arguments for 'hset' command"),
    ("HSET h f x; HINCRBY h f 1", "ERR hash value is not an integer"),
    ("HSET h f x; HINCRBYFLOAT h f 1", "ERR hash value is not a float"),
    ("ZADD z nan a", "ERR value is not a valid float"),
    ("ZADD z inf a; ZINCRBY z -inf a", "ERR resulting score is not a number (NaN)"),
    ("ZADD z NX XX 1 a", "ERR XX and NX options at the same time are not compatible"),
    ("ZADD z GT NX 1 a", "ERR GT, LT, and/or NX options at the same time are not compatible"),
    ("ZADD z 1 a 1 b 1 c; ZRANGEBYLEX z [b +", [b"b", b"c"]),
    ("ZADD z 1 a; ZRANGEBYLEX z b +", "ERR min or max not valid string range item"),
    ("ZADD z 1 a; ZRANGEBYSCORE z x 1", "ERR min or max is not a float"),
    ("ZADD z 1 a 2 b 3 c; ZRANGE z (1 3 BYSCORE REV", []),
    ("ZADD z 1 a 2 b 3 c; ZRANGE z 3 (1 BYSCORE REV", [b"c", b"b"]),
    ("ZADD z 1 a; ZRANGE z 0 -1 LIMIT 0 1",
     "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"),
    ("ZUNIONSTORE d 0 a", "ERR at least 1 input key is needed for 'zunionstore' command"),
    ("SETBIT k -1 1", "ERR bit offset is not an integer or out of range"),
    ("SETBIT k 0 2", "ERR bit is not an integer or out of range"),
    ("BITFIELD k SET u64 0 1",
     "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."),
    ("BITFIELD k OVERFLOW FAIL INCRBY u2 0 4", [None]),
    ("SCAN x", "ERR invalid cursor"),
    ("CONFIG SET nope 1", "ERR Unknown option or number of arguments for CONFIG SET - 'nope'"),
    ("CONFIG SET maxmemory 100mb; CONFIG GET maxmemory", {b"maxmemory": b"104857600"}),
    ("CONFIG SET maxmemory much",
     "ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value"),
    ("CONFIG SET appendfsync no",
     "ERR CONFIG SET failed (possibly related to argument 'appendfsync') - can't set immutable config"),
    ("CONFIG SET rename-max-bytes 1; SET k value; RENAME k l",
     "ERR this key holds 5 bytes, more than rename-max-bytes"),
    ("SHUTDOWN SOON", "ERR syntax error"),
    ("SHUTDOWN ABORT", "ERR No shutdown in progress."),
    ("SET lock 0123456789abcdef NX EX 10", "OK"),
    ("CONFIG SET lock-policy refuse; SET lock 0123456789abcdef NX EX 10",
     "ERR SET with NX and a deadline is no lock here, and lock-policy is refuse"),
    ("CONFIG SET lock-policy refuse; SET cache 1 NX EX 10", "OK"),
    ("CONFIG SET lock-policy no",
     "ERR CONFIG SET failed (possibly related to argument 'lock-policy') - argument(s) must be one of "
     "the following: ok, warn, refuse"),
    ("CONFIG GET maxclients", {b"maxclients": b"10000"}),
    ("CLUSTER INFO", "ERR This instance has cluster support disabled"),
    ("HELLO 4", "NOPROTO unsupported protocol version"),
    ("OBJECT ENCODING k", None),
    ("SET k 1; OBJECT ENCODING k", b"int"),
    ("THENCE.ATTACH nonsense", "THENCETOKEN this is no token of this cluster"),
    ("SET k 0; LCS k k LEN IDX", "ERR If you want both the length and indexes, please just use IDX."),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "meant"), ROWS)
def test_a_command_answers_as_redis_does(lines: str, meant: Any) -> None:
    assert play(lines) == meant


def test_a_watched_key_that_another_client_writes_fails_the_transaction() -> None:
    store = LocalStores("a")["a"]
    other = store.engine.client()
    store.run("WATCH", "k")
    store.engine.execute(other, [b"SET", b"k", b"1"])
    store.run("MULTI")
    store.run("SET", "k", "2")
    assert type(store.run("EXEC")).__name__ == "NullArray"
    assert store.run("GET", "k") == b"1"
    assert not store.state.space.watched


def test_an_add_of_what_is_there_does_not_touch_what_is_watched() -> None:
    store = LocalStores("a")["a"]
    store.run("SADD", "s", "x")
    for add, meant in (("x", ["PONG"]), ("y", None)):
        store.run("WATCH", "s")
        other = store.engine.client()
        store.engine.execute(other, [b"SADD", b"s", add.encode()])
        store.run("MULTI")
        store.run("PING")
        reply = store.run("EXEC")
        assert (reply if isinstance(reply, list) else None) == meant


def test_a_scan_returns_every_key_that_is_there_throughout() -> None:
    store = LocalStores("a")["a"]
    for number in range(300):
        store.run("SET", f"k{number}", number)
    cursor, found, rounds = b"0", set[bytes](), 0
    while rounds == 0 or cursor != b"0":
        cursor, keys = store.run("SCAN", cursor, "COUNT", 7)
        found.update(keys)
        store.run("SET", f"new{rounds}", 1)
        store.run("DEL", f"new{rounds - 1}")
        rounds += 1
    assert {b"k%d" % number for number in range(300)} <= found
    assert rounds > 30


def test_members_are_drawn_alike() -> None:
    store = LocalStores("a")["a"]
    store.run("SADD", "s", *range(10))
    drawn = store.run("SRANDMEMBER", "s", -5000)
    counts = [drawn.count(b"%d" % one) for one in range(10)]
    assert sum((count - 500) ** 2 / 500 for count in counts) < 40  # chi-square, nine degrees of freedom


def test_the_page_of_commands_is_that_of_the_table() -> None:
    from pathlib import Path

    found = Path(__file__).parents[2] / "docs" / "STORE_COMMANDS.md"
    assert found.read_text(encoding="utf-8") == page()


def test_no_command_is_both_there_and_absent() -> None:
    absent = {name for names, _ in ABSENT.values() for name in names.split()}
    assert not absent & TABLE.keys()


def test_writes_that_need_memory_are_refused_above_maxmemory() -> None:
    group = LocalStores("a", "b")
    a = group["a"]
    a.run("SET", "k", "v")
    a.run("CONFIG", "SET", "maxmemory", "1000")
    a.engine.memory = 1001
    for words in (("SET", "k", "w"), ("SADD", "s", "x"), ("INCR", "n")):
        with pytest.raises(StoreError, match="OOM command not allowed when used memory > 'maxmemory'"):
            a.run(*words)
    a.run("MULTI")
    a.run("SET", "k", "w")
    with pytest.raises(StoreError, match="EXECABORT Transaction discarded because of: OOM"):
        a.run("EXEC")
    group["b"].run("SET", "other", "taken all the same")
    group.deliver()
    assert a.run("GET", "other") == b"taken all the same"
    assert a.run("DEL", "k") == 1
    a.engine.memory = 1000
    assert a.run("SET", "k", "w") == "OK"


def test_a_pause_holds_writes_or_all_until_it_is_over_or_ended() -> None:
    clock = [1_000_000]
    a = LocalStores("a", clock_us=lambda: clock[0])["a"]
    engine, client = a.engine, a.engine.client()
    write, read = [b"SET", b"k", b"v"], [b"GET", b"k"]
    a.run("CLIENT", "PAUSE", 100, "WRITE")
    assert engine.holds(client, write)
    assert not engine.holds(client, read)
    assert not engine.holds(client, [b"CLIENT", b"UNPAUSE"])
    engine.execute(client, [b"MULTI"])
    engine.execute(client, write)
    assert engine.holds(client, [b"EXEC"])
    a.run("CLIENT", "PAUSE", 50, "ALL")
    assert engine.holds(engine.client(), read)
    told: list[bool] = []
    engine.held.append(lambda: told.append(True))
    a.run("CLIENT", "UNPAUSE")
    assert told == [True]
    assert not engine.paused_until
    a.run("CLIENT", "PAUSE", 50)
    clock[0] += 50_000
    assert not engine.holds(engine.client(), write)
    with pytest.raises(StoreError, match="mode must be WRITE or ALL"):
        a.run("CLIENT", "PAUSE", 50, "READ")


def test_info_tells_of_errors_commands_and_what_looks_like_locks() -> None:
    store = LocalStores("a")["a"]
    warned: list[object] = []
    store.engine.facts["warn"] = lambda _, **about: warned.append(about)
    for _ in range(2):
        store.run("SET", "lock", "0123456789abcdef", "NX", "PX", 1000)
    with pytest.raises(StoreError, match="WRONGTYPE"):
        store.run("SADD", "lock", "a")
    store.engine.sample(5)
    store.engine.sample(3)
    told = store.run("INFO", "all").decode().split("\r\n")
    assert "errorstat_WRONGTYPE:count=1" in told
    assert "thence_lock_like_sets:2" in told
    assert "used_memory:3" in told
    assert "used_memory_peak:5" in told
    assert len(warned) == 1


def test_info_tells_how_often_each_command_ran_failed_or_was_not_run_and_how_long_it_took() -> None:
    store = LocalStores("a")["a"]
    ticks = iter(range(1_000_000, 10**9, 7))
    store.engine.clock_us = lambda: next(ticks)  # type: ignore[misc]
    for words in (
        ["SET", "k", "a"],
        ["set", "k", "b"],
        ["SET", "k"],
        ["INCR", "k"],
        ["MULTI"],
        ["SET", "k", "c"],
    ):
        with suppress(StoreError):
            store.run(*words)
    store.run("EXEC")
    told = dict(
        line.split(":") for line in store.run("INFO", "commandstats").decode().split("\r\n") if ":" in line
    )
    assert told["cmdstat_set"] == "calls=3,usec=14,usec_per_call=4.67,rejected_calls=1,failed_calls=0"
    assert told["cmdstat_incr"] == "calls=1,usec=7,usec_per_call=7.00,rejected_calls=0,failed_calls=1"
    assert told["cmdstat_multi"].startswith("calls=1,usec=7,")
    assert told["cmdstat_exec"].startswith("calls=1,usec=7,")
    store.run("CONFIG", "RESETSTAT")
    assert "cmdstat_set" not in store.run("INFO", "commandstats").decode()
