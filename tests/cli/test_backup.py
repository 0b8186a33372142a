"""Stores that are written down and made anew, on real nodes."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest
from support.processes import eventually

from thence.cli.backup import ABOUT, COMMANDS, PASSWORD, About, at, backup, read_about, restore
from thence.core.errors import UsageError
from thence.core.groups import told_apart
from thence.lab.tour.live import FLAGS, running
from thence.local import stores as store
from thence.local.cluster import Cluster
from thence.local.layout import open_layout
from thence.local.ports import HOST, free_ports
from thence.local.redis_client import RedisClient
from thence.runtime.address import Address
from thence.store import sessions
from thence.store.reply import Fail, encode
from thence.store.resp import Requests
from thence.store.sessions import cluster_id


def answers(address: Address) -> bool:
    try:
        with RedisClient(address) as ask:
            ask("DBSIZE")
    except (Fail, UsageError):  # loading, or not there yet
        return False
    return True


def begins(ask: RedisClient) -> bool:
    try:
        ask("THENCE.DUMP", "BEGIN")
    except Fail:
        return False
    return True


@contextmanager
def stores(folder: Path, nodes: int) -> Iterator[list[Address]]:
    layout = open_layout(folder, nodes, changing=True)
    base = store.resp_base(layout, None)
    cluster = Cluster(layout, flags=FLAGS, own=store.flags(layout, base))
    with running(cluster):
        cluster.start()
        cluster.ready()
        there = [Address(HOST, base + at) for at in range(nodes)]
        for each in there:
            eventually(partial(answers, each))
        yield there


def test_a_store_is_made_anew_at_another_group(tmp_path: Path) -> None:
    saved = tmp_path / "saved" / "monday"
    with stores(tmp_path / "one", 2) as (a, b), RedisClient(a) as ask, RedisClient(b) as other:
        ask("SET", "k", b"\0\r\n\xff")
        ask("HSET", "h", "f", 1, "g", "two")
        ask("ZADD", "z", "1.5", "m", "-inf", "n")
        ask("SADD", "s", "x", "y")
        ask("SET", "t", "later", "PXAT", 1 << 42)
        ask("SELECT", 3)
        ask("INCRBY", "n", 41)
        assert ask("WAIT", 1, 0) == 1
        assert backup(saved, str(b)) == 0
        ask("SET", "k", "since")
        with pytest.raises(UsageError, match="there already"):
            backup(saved, str(b))
        with pytest.raises(UsageError, match="holds 7 keys"):
            restore(saved, str(a), merge=False)
        with RedisClient(b) as third:
            other("THENCE.DUMP", "BEGIN")
            with pytest.raises(Fail, match="under way"):
                third("THENCE.DUMP", "BEGIN")
            other("RESET")
            third("THENCE.DUMP", "BEGIN")
        eventually(partial(begins, other))  # the connection is gone, and its dump
    with stores(tmp_path / "two", 1) as (c,), RedisClient(c) as ask:
        damaged = tmp_path / "damaged"
        damaged.mkdir()
        (damaged / ABOUT).write_bytes((saved / ABOUT).read_bytes())
        (damaged / COMMANDS).write_bytes((saved / COMMANDS).read_bytes()[:-1])
        with pytest.raises(UsageError, match="damaged"):
            restore(damaged, str(c), merge=False)
        assert ask("DBSIZE") == 0
        told = msgspec.json.decode((saved / ABOUT).read_bytes(), type=About).session
        ask(
            "SET", "first", 1
        )  # its node has the names of the other group's, and messages that count from one
        with pytest.raises(Fail, match="THENCETOKEN"):
            ask("THENCE.ATTACH", told, "TIMEOUT", 0)
        ask("DEL", "first")
        assert restore(saved, str(c), merge=False) == 0
        assert ask("GET", "k") == b"\0\r\n\xff"
        assert ask("HGETALL", "h") == [b"f", b"1", b"g", b"two"]
        assert ask("ZRANGE", "z", 0, -1, "WITHSCORES") == [b"n", b"-inf", b"m", b"1.5"]
        assert sorted(ask("SMEMBERS", "s")) == [b"x", b"y"]
        assert ask("PEXPIRETIME", "t") == 1 << 42
        ask("SELECT", 3)
        assert ask("INCR", "n") == 42
        ask("SELECT", 0)
        ask("DEL", "s")
        ask("SET", "s", "another kind", "EX", 1000)
        ask("HSET", "h", "since", 1)
        ask("SADD", "stays", "here")
        assert restore(saved, str(c), merge=True) == 0
        assert sorted(ask("SMEMBERS", "s")) == [b"x", b"y"]
        assert ask("TTL", "s") == -1
        assert ask("HGETALL", "h") == [b"f", b"1", b"g", b"two"]
        assert ask("SMEMBERS", "stays") == [b"here"]
        ask("SELECT", 3)
        assert ask("GET", "n") == b"41"


def requests(folder: Path) -> list[list[bytes]]:
    found, taken = Requests(), []
    found.feed((folder / COMMANDS).read_bytes())
    while (one := found.next()) is not None:
        taken.append(one)
    return taken


def test_a_store_as_it_was_at_an_operation(tmp_path: Path) -> None:
    """From the folder of a node that runs; what came after it, also in the same turn, is not in it."""
    one = tmp_path / "one"
    with stores(one, 2) as (a, b), RedisClient(a) as ask, RedisClient(b) as other:
        ask("SADD", "s", "x")
        assert ask("WAIT", 1, 0) == 1
        ask("SET", "k", "one")
        cluster = cluster_id(open_layout(one, 2, changing=True).cluster)
        [(name, seq)] = sessions.read(cluster, ask("THENCE.SESSION")).items()
        out: list[bytes] = []
        for words in ([b"SET", b"k", b"two"], [b"DEL", b"s"]):
            encode(words, 2, out)
        ask.send(b"".join(out), 2)
        assert ask("WAIT", 1, 0) == 1
        assert other("GET", "k") == b"two"
        for after, value in ((0, b"one"), (1, b"two")):
            tag = f"{told_apart(name)[0]}:{seq + after}"
            for node in ("a", "b"):
                saved = tmp_path / f"at {after} {node}"
                assert at(tag, one / node, saved, "graph") == 0
                expected = [[b"SELECT", b"0"], [b"SADD", b"s", b"x"], [b"SET", b"k", value]]
                assert sorted(requests(saved)) == sorted(expected)
                assert read_about(saved).keys == 2
        with pytest.raises(UsageError, match="was not delivered here"):
            at("a:1000000", one / "a", tmp_path / "never", "graph")
        with pytest.raises(UsageError, match="named like a:1041"):
            at("a", one / "a", tmp_path / "never", "graph")
        with pytest.raises(UsageError, match="no data folder"):
            at("a:1", tmp_path, tmp_path / "never", "graph")
        assert not (tmp_path / "never").exists()
        assert ask("GET", "k") == b"two"


def test_without_its_password_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with stores(tmp_path / "one", 1) as (a,), RedisClient(a) as ask:
        ask("CONFIG", "SET", "requirepass", "secret")
        with pytest.raises(UsageError, match=f"NOAUTH .*{PASSWORD}"):
            backup(tmp_path / "saved", str(a))
        assert sorted(path.name for path in tmp_path.iterdir()) == ["one"]
        monkeypatch.setenv(PASSWORD, "wrong")
        with pytest.raises(UsageError, match="WRONGPASS"):
            backup(tmp_path / "saved", str(a))
        monkeypatch.setenv(PASSWORD, "secret")
        assert backup(tmp_path / "saved", str(a)) == 0


def test_what_is_no_backup_and_who_is_no_store_is_said(tmp_path: Path) -> None:
    nowhere = f"{HOST}:{free_ports(1)}"
    with pytest.raises(UsageError, match="no store answers"):
        backup(tmp_path / "saved", nowhere)
    with pytest.raises(UsageError, match="is no backup"):
        restore(tmp_path, nowhere, merge=False)
    (tmp_path / ABOUT).write_text("[]")
    with pytest.raises(UsageError, match="is no backup"):
        restore(tmp_path, nowhere, merge=False)
    (tmp_path / ABOUT).write_text('{"form": 2, "made": "", "source": "", "session": "", "keys": 0, '
                                  '"hidden": 0, "bytes": 0, "sha256": ""}')  # fmt: skip
    with pytest.raises(UsageError, match="form 2"):
        restore(tmp_path, nowhere, merge=False)
