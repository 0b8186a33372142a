"""A large store on two nodes of a changing group: memory of a key at rest, a restart, and a join while
clients go on, with CPU time of the node that starts and the longest time that a client waited for an answer.
"""

import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from thence.core.errors import ThenceError, UsageError
from thence.lab.bench.cluster_nodes import FLAGS, PATIENCE_S, look
from thence.lab.bench.record import Record
from thence.lab.bench.store_clients import request
from thence.local.cluster import Cluster
from thence.local.layout import open_layout
from thence.local.ports import HOST, free_ports
from thence.local.redis_client import RedisClient
from thence.local.stores import flags
from thence.runtime.address import Address
from thence.runtime.remote import Control
from thence.store.reply import Fail

KEYS_EACH: Final = 100
"""In one MSET."""
VALUE_BYTES: Final = 64
REST_S: Final = 3.0
"""Until what filling it needed has gone back to the system."""
RATE: Final = 2_000
"""Of one client during a join; a second one asks for a key all the time."""


def large(count: int) -> Iterator[Record | str]:
    with tempfile.TemporaryDirectory() as folder:
        layout, base = open_layout(Path(folder) / "cluster", 3, changing=True), free_ports(3)
        own, through = flags(layout, base), layout.names[:1]
        with Cluster(layout, flags=FLAGS, own=own, contacts=through) as cluster:
            yield f"{count:,} keys"
            first, other, joiner = cluster.names
            cluster.start(first, other)
            cluster.ready(first, other, patience_s=PATIENCE_S)
            size = _fill(base, count)
            yield Record("store.large.key", size, "bytes", _plain(count))
            yield "a restart"
            cluster.kill(other)
            begun = time.monotonic()
            cluster.start(other)
            _holds(base + 1, count)
            yield Record("store.large.recovery", time.monotonic() - begun, "s")
            yield _cpu(cluster, other, "recovery")
            yield "a join"
            yield from _joins(cluster, base, joiner, count)
            yield _cpu(cluster, joiner, "join")


def _cpu(cluster: Cluster, name: str, what: str) -> Record:
    """Of the process since its start."""
    control = Control.of(cluster.folders[name], timeout_s=PATIENCE_S)
    return Record(f"store.large.{what}.cpu", look(control).cpu_s, "s")


def _joins(cluster: Cluster, base: int, joiner: str, count: int) -> Iterator[Record]:
    ends = threading.Event()
    waits: list[float] = []
    threads = [
        threading.Thread(target=_asks, args=(base, ends, waits)),
        threading.Thread(target=_writes, args=(base, ends)),
    ]
    for each in threads:
        each.start()
    try:
        time.sleep(1.0)
        before = max(waits)
        waits.clear()
        begun = time.monotonic()
        cluster.start(joiner)
        _holds(base + 2, count)
        took = time.monotonic() - begun
    finally:
        ends.set()
        for each in threads:
            each.join()
    yield Record("store.large.join", took, "s")
    yield Record("store.large.join.pause", 1e3 * max(waits), "ms", 1e3 * before)


def _asks(port: int, ends: threading.Event, waits: list[float]) -> None:
    with RedisClient(Address(HOST, port), PATIENCE_S) as ask:
        while not ends.is_set():
            begun = time.monotonic()
            ask("GET", "key:00000000")
            waits.append(time.monotonic() - begun)
            time.sleep(0.001)


def _writes(port: int, ends: threading.Event) -> None:
    with RedisClient(Address(HOST, port), PATIENCE_S) as ask:
        batch = b"".join([request([b"INCR", b"n:%d" % number]) for number in range(RATE // 100)])
        while not ends.is_set():
            ask.send(batch, RATE // 100)
            time.sleep(0.01)


def _fill(port: int, count: int) -> float:
    """Bytes of the process for each key, all of them stable."""
    with RedisClient(Address(HOST, port), PATIENCE_S) as ask:
        before = _memory(ask)
        for begun in range(0, count, 10 * KEYS_EACH):
            batch = [
                request([b"MSET", *[word for number in range(at, at + KEYS_EACH) for word in _pair(number)]])
                for at in range(begun, begun + 10 * KEYS_EACH, KEYS_EACH)
            ]
            ask.send(b"".join(batch), len(batch))
        until = time.monotonic() + PATIENCE_S
        while ask("THENCE.STABLE", "WAIT", 1000) != 1 and time.monotonic() < until:
            pass
        time.sleep(REST_S)
        return (_memory(ask) - before) / count


def _pair(number: int) -> tuple[bytes, bytes]:
    return b"key:%08d" % number, b"x%0*d" % (VALUE_BYTES - 1, number)


def _memory(ask: RedisClient) -> int:
    told: str = ask("INFO", "memory").decode()
    return int(told.partition("used_memory:")[2].partition("\r")[0])


def _plain(count: int) -> float:
    """The same in a dictionary."""
    from thence.runtime.instruments import resident_bytes

    before = resident_bytes()
    kept = dict(map(_pair, range(count)))
    found = (resident_bytes() - before) / count
    del kept
    return found


def _holds(port: int, count: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            with RedisClient(Address(HOST, port), PATIENCE_S) as ask:
                if ask("DBSIZE") >= count:
                    return
        except (Fail, UsageError):  # loading, or not there yet
            pass
        time.sleep(0.02)
    raise ThenceError(f"not all keys are there after {PATIENCE_S:g} s")
