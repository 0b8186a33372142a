"""`thence bench store`: what an operation of the store costs, where it is made and where it arrives.

First in one process, without a node: CPU time of a command (`store.make`), of its operation at another
replica (`store.receive`), and memory of a key that is stable, beside a plain dictionary. Then three nodes
and a client that sends 16 commands at a time: CPU time per write at the writer and at each receiver. Where
redis-server is installed, its primary with a replica is the baseline.
"""

import shutil
import socket
import subprocess
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final

from thence.cli.bench.cluster_nodes import FLAGS, PATIENCE_S, calm, look
from thence.cli.bench.record import Record
from thence.cli.cluster import Cluster
from thence.cli.layout import free_ports, open_layout
from thence.cli.store import flags
from thence.runtime.open_store import LocalTag
from thence.runtime.remote import Control
from thence.store import commands
from thence.store.executor import Executor
from thence.store.state import StoreState

_ = commands
NO_TAG: Final = LocalTag(("", 0), {})
"""Of one origin: counters tell the order."""
VALUE: Final = b"x" * 64
KEYS: Final = 1000
BATCH: Final = 16
COMMANDS: Final[dict[str, Callable[[int], list[bytes]]]] = {
    "set": lambda n: [b"SET", b"key:%d" % (n % KEYS), VALUE],
    "incr": lambda n: [b"INCR", b"count:%d" % (n % KEYS)],
    "sadd": lambda n: [b"SADD", b"set:%d" % (n % 10), b"e%d" % (n % KEYS)],
    "hset": lambda n: [b"HSET", b"hash:%d" % (n % 10), b"f%d" % (n % KEYS), VALUE],
    "get": lambda n: [b"GET", b"key:%d" % (n % KEYS)],
}


def bench(quick: bool) -> Iterator[Record | str]:
    yield from _alone(5_000 if quick else 50_000)
    yield _memory(10_000 if quick else 100_000)
    yield "three nodes"
    yield from _nodes(200 if quick else 2_000)


def _alone(count: int) -> Iterator[Record]:
    for name, words in COMMANDS.items():
        here, there = StoreState("a"), StoreState("b")
        engine = Executor(here, _clock_us, Random(0))
        client = engine.client()
        asked = [words(number) for number in range(count)]
        plain: dict[bytes, bytes] = {}
        begun = time.process_time()
        for one in asked:
            plain[one[1]] = VALUE
        floor = time.process_time() - begun
        made = []
        begun = time.process_time()
        for number, one in enumerate(asked, 1):
            engine.execute(client, one)
            if engine.outbox:
                payload = engine.outbox.pop()
                here.deliver("a", number, payload, NO_TAG)
                made.append(payload)
                if not number % 64:
                    here.stable("a", number - 32)
        yield Record(
            f"store.make.{name}", 1e6 * (time.process_time() - begun) / count, "us", 1e6 * floor / count
        )
        if made:
            begun = time.process_time()
            for number, payload in enumerate(made, 1):
                there.deliver("a", number, payload, NO_TAG)
                if not number % 64:
                    there.stable("a", number - 32)
            yield Record(f"store.receive.{name}", 1e6 * (time.process_time() - begun) / count, "us")


def _memory(count: int) -> Record:
    """Of a key whose value is stable."""

    def plain() -> object:
        return {b"key:%08d" % number: b"%064d" % number for number in range(count)}

    def stored() -> object:
        state = StoreState("a")
        engine = Executor(state, _clock_us, Random(0))
        client = engine.client()
        for number in range(count):
            engine.execute(client, [b"SET", b"key:%08d" % number, b"x%063d" % number])
            state.deliver("a", number + 1, engine.outbox.pop(), NO_TAG)
            state.stable("a", number + 1)
        return state

    sizes = []
    for make in (stored, plain):
        tracemalloc.start()
        kept = make()
        sizes.append(tracemalloc.get_traced_memory()[0] / count)
        tracemalloc.stop()
        del kept
    return Record("store.memory.key", sizes[0], "bytes", sizes[1])


def _nodes(batches: int) -> Iterator[Record]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "cluster"
        layout = open_layout(folder, 3, changing=False)
        base = free_ports(3)
        cluster = stack.enter_context(Cluster(layout, flags=FLAGS, own=flags(layout, base)))
        cluster.start()
        cluster.ready(patience_s=PATIENCE_S)
        controls = [Control.of(node, timeout_s=PATIENCE_S) for node in cluster.folders.values()]
        for name, words in COMMANDS.items():
            before = [look(control).cpu_s for control in controls]
            begun = time.monotonic()
            _send(base, words, batches)
            took = time.monotonic() - begun
            calm(controls)
            spent = [1e6 * (look(one).cpu_s - then) / (batches * BATCH)
                     for one, then in zip(controls, before, strict=True)]  # fmt: skip
            redis = _redis(words, batches)
            yield Record(f"store.nodes.{name}.rate", batches * BATCH / took, "per s", redis and redis[0])
            yield Record(f"store.nodes.{name}.writer", spent[0], "us", redis and redis[1])
            yield Record(f"store.nodes.{name}.receiver", (spent[1] + spent[2]) / 2, "us")


def _send(port: int, words: Callable[[int], list[bytes]], batches: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = client.makefile("rb")
        for batch in range(batches):
            asked = [words(batch * BATCH + at) for at in range(BATCH)]
            client.sendall(b"".join(
                b"*%d\r\n" % len(one) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in one)
                for one in asked
            ))  # fmt: skip
            for _ in asked:
                line = reader.readline()
                if line[:1] == b"$" and line != b"$-1\r\n":
                    reader.read(int(line[1:]) + 2)


def _redis(words: Callable[[int], list[bytes]], batches: int) -> tuple[float, float] | None:
    """Commands per second, and CPU time of each in microseconds, of a primary with a replica. None: there
    is none here."""
    program = shutil.which("redis-server")
    if program is None:
        return None
    port = free_ports(2)
    with tempfile.TemporaryDirectory() as folder:
        common = [program, "--save", "", "--appendonly", "yes", "--dir"]
        servers = []
        for at in range(2):
            (Path(folder) / str(at)).mkdir()
            more = ["--replicaof", f"127.0.0.1 {port}"] if at else []
            servers.append(subprocess.Popen([*common, f"{folder}/{at}", "--port", str(port + at), *more],
                                            stdout=subprocess.DEVNULL))  # fmt: skip
        try:
            time.sleep(1.0)
            before, begun = _cpu_s(servers[0].pid), time.monotonic()
            _send(port, words, batches)
            took = time.monotonic() - begun
            return batches * BATCH / took, 1e6 * (_cpu_s(servers[0].pid) - before) / (batches * BATCH)
        finally:
            for server in servers:
                server.terminate()
                server.wait()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _clock_us() -> int:
    return time.time_ns() // 1000
