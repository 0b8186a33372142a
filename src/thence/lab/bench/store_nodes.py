"""Three nodes with stores under fifty clients, 16 commands at a time and one: what a command costs there and
at the others. Where redis-server is installed, its primary with a replica is the baseline,
with an append-only file, in turns with ours. Then 2,000 keys that two nodes set at the same moment.
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from thence.core.errors import UsageError
from thence.lab.bench.cluster_nodes import FLAGS, PATIENCE_S, calm, look
from thence.lab.bench.record import Record
from thence.lab.bench.store_clients import Words, drive, request
from thence.local.cluster import Cluster
from thence.local.layout import open_layout
from thence.local.ports import HOST, free_ports
from thence.local.redis_client import RedisClient
from thence.local.spawn import SpawnedProcess
from thence.local.stores import flags
from thence.runtime.address import Address
from thence.runtime.remote import Control

PIPELINES: Final = (16, 1)
AT_ONCE: Final = 2_000
"""Keys that two nodes set."""
TICKS: Final = 100
"""Of CPU time in /proc, in a second."""


def nodes(commands: Mapping[str, Words], count: int) -> Iterator[Record | str]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        base, controls = stack.enter_context(_cluster(folder / "cluster"))
        pids = stack.enter_context(_redis(folder))
        for pipeline in PIPELINES:
            several = count if pipeline > 1 else count // 4
            for name, words in commands.items():
                yield f"{name}, {pipeline} at a time"
                before = [look(control).cpu_s for control in controls]
                rate = drive(base, name, words, pipeline, several)
                calm(controls)
                spent = [1e6 * (look(one).cpu_s - then) / several
                         for one, then in zip(controls, before, strict=True)]  # fmt: skip
                other = _redis_does(pids, name, words, pipeline, several)
                told = f"store.nodes.p{pipeline}.{name}"
                yield Record(f"{told}.rate", rate, "per s", other and other[0])
                yield Record(f"{told}.writer", spent[0], "us", other and other[1])
                if name != "get":
                    yield Record(f"{told}.receiver", (spent[1] + spent[2]) / 2, "us", other and other[2])
        yield "keys set at two nodes at once"
        yield Record("store.nodes.differ", _differ(base), "keys")


@contextmanager
def _cluster(folder: Path) -> Iterator[tuple[int, list[Control]]]:
    layout, base = open_layout(folder, 3, changing=False), free_ports(3)
    with Cluster(layout, flags=FLAGS, own=flags(layout, base)) as cluster:
        cluster.start()
        cluster.ready(patience_s=PATIENCE_S)
        yield base, [Control.of(node, timeout_s=PATIENCE_S) for node in cluster.folders.values()]


@contextmanager
def _redis(folder: Path) -> Iterator[tuple[int, list[int]] | None]:
    """Port of the primary, and the processes of it and its replica. None: there is no Redis here."""
    program = shutil.which("redis-server")
    if program is None:
        yield None
        return
    port, servers = free_ports(2), []
    try:
        for at in range(2):
            data = folder / f"redis{at}"
            data.mkdir()
            more = ["--replicaof", f"127.0.0.1 {port}"] if at else []
            flags_of = [
                "--save",
                "",
                "--appendonly",
                "yes",
                "--dir",
                str(data),
                "--port",
                str(port + at),
                *more,
            ]
            servers.append(SpawnedProcess([program, *flags_of], stdout=subprocess.DEVNULL))
        _in_step(port)
        yield port, [server.pid for server in servers]
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            try:
                server.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _in_step(port: int) -> None:
    """The replica has all that the primary has."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            with RedisClient(Address(HOST, port)) as ask:
                ask("SET", "in step", 1)
                if ask("WAIT", 1, 1000) == 1:
                    return
        except UsageError:
            time.sleep(0.05)


def _redis_does(
    there: tuple[int, list[int]] | None, name: str, words: Words, pipeline: int, count: int
) -> tuple[float, float, float] | None:
    if there is None:
        return None
    port, pids = there
    before = [_cpu_s(pid) for pid in pids]
    rate = drive(port, name, words, pipeline, count)
    _in_step(port)
    spent = [1e6 * (_cpu_s(pid) - then) / count for pid, then in zip(pids, before, strict=True)]
    return rate, spent[0], spent[1]


def _differ(base: int) -> int:
    """Keys that are not the same at both, of those that both have set."""
    keys = [b"both:%d" % number for number in range(AT_ONCE)]
    with RedisClient(Address(HOST, base)) as one, RedisClient(Address(HOST, base + 1)) as other:
        for at in range(0, AT_ONCE, 50):
            some = keys[at : at + 50]
            for number, ask in enumerate((one, other)):
                ask.begin(b"".join(request([b"SET", key, b"of %d" % number]) for key in some), len(some))
            for ask in (one, other):
                ask.end()
        for ask in (one, other):
            ask("SET", "last", 1)
            ask("WAIT", 2, 60_000)
        return sum(a != b for a, b in zip(one("MGET", *keys), other("MGET", *keys), strict=True))


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
