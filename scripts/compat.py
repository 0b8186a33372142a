"""Others' test suites against stores: what is there is run, nothing is fetched.

    mkdir suites; cd suites
    for one in redis==6.4.0 fakeredis==2.40.0 django-redis==7.0.0 aiocache==0.12.3 dogpile.cache==1.5.0; do
        pip download --no-deps --no-binary ${one%%=*} $one; done; for one in *.tar.gz; do tar xzf $one; done
    python -m venv venv; venv/bin/pip install redis==6.4.0 fakeredis==2.40.0 pytest pytest-asyncio mock \
        pytest-cov pytest-timeout pytest-mock pytest-django pytest-xdist hypothesis django msgpack valkey \
        numpy ujson lz4 decorator stevedore aiomcache
    # Redis' own, in Tcl: its sources (7.0.15: a release, or `apt-get source redis` of Debian 12), and tclsh
    make compat SUITES=suites                    # one node; `--nodes 2`: two, behind a proxy that takes turns

Suites name ports of their own (6379, 6390): a proxy listens there, which must be free. What may fail is in
tests/compat, a line for each test and a reason (NAME.several.txt: against several nodes, beside NAME.txt); a
test that fails and is not listed is an error, and so is one that is listed and passes. The lists may only
shrink.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from xml.etree import ElementTree

import compat_tcl

from thence.local.ports import free_ports
from thence.runtime.remote import Control

ROOT = Path(__file__).parents[1]
PATIENCE_S = 60.0
TEST_S = 60
PORTS = (6379, 6390)


@dataclass(frozen=True)
class Suite:
    folder: str
    """Of its sources; the newest that is there."""
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    has: str = "PKG-INFO"
    """A file in it: several have folders of one name."""


REDIS_PY = (
    "commands", "pipeline", "encoding", "hash", "monitor", "connection_pool", "connection", "multiprocessing",
    "retry", "asyncio/test_commands", "asyncio/test_pipeline", "asyncio/test_encoding", "asyncio/test_hash",
    "asyncio/test_monitor", "asyncio/test_connection_pool", "asyncio/test_cwe_404", "asyncio/test_retry",
)  # fmt: skip
FAKEREDIS = ("connection", "hash", "joint", "server", "set", "string", "transaction", "zset")
SUITES = {
    "redis-py": Suite(
        "redis-[0-9]*",
        (*[f"tests/test_{name}.py" for name in REDIS_PY], "--redis-url=redis://127.0.0.1:6379/9",
         "--redis-mod-url=redis://127.0.0.1:6379/9", "-k", "not cluster and not sentinel and not ssl"),
    ),
    "fakeredis": Suite(
        "fakeredis-*",
        (*[f"test/test_hypothesis/test_{name}.py" for name in FAKEREDIS], "-p", "compat_fakeredis",
         "--timeout=600"),
        (("FAKEREDIS_HYPOTHESIS_EXAMPLES", "30"),),
    ),
    "django-redis": Suite(
        "django_redis-*", ("tests", "--numprocesses=0"), (("DJANGO_SETTINGS_MODULE", "settings.sqlite"),)
    ),
    "aiocache": Suite("aiocache-*", ("tests/acceptance", "-k", "redis or Redis")),
    "redis-tcl": Suite("redis-[0-9]*", (), has=compat_tcl.RUNS),
    "dogpile": Suite("dogpile_cache-*", ("tests/cache/test_redis_backend.py", "-k", "not Mutex")),
}  # fmt: skip


def listed(name: str, nodes: int) -> dict[str, str]:
    """Tests that may fail, and why."""
    folder = ROOT / "tests" / "compat"
    files = [folder / f"{name}.txt", *([folder / f"{name}.several.txt"] if nodes > 1 else [])]
    lines = [
        line for each in files if each.exists() for line in each.read_text(encoding="utf-8").splitlines()
    ]
    found = [line.partition(": ") for line in lines if line and not line.startswith("#")]
    return {test: why for test, _, why in found}


def results(report: Path) -> dict[str, bool]:
    """By test, without its parameters: whether all of it passed. Those that were skipped are left out."""
    found: dict[str, bool] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("skipped") is None:
            test = f"{case.get('classname')}.{case.get('name', '').partition('[')[0]}"
            good = case.find("failure") is None and case.find("error") is None
            found[test] = found.get(test, True) and good
    return found


def run(name: str, folder: Path, python: str, nodes: int) -> int:
    suite = SUITES[name]
    if suite.has == compat_tcl.RUNS:
        return judged(name, compat_tcl.results(folder, PORTS[0], listed(name, nodes)), nodes)
    with tempfile.TemporaryDirectory() as out:
        report = Path(out) / "report.xml"
        command = [
            python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:warnings", "--tb=no",
            "--no-header", f"--junitxml={report}", f"--timeout={TEST_S}", *suite.arguments,
        ]  # fmt: skip
        environment = {
            **os.environ,
            **dict(suite.environment),
            "PYTHONPATH": f"{folder}:{folder / 'tests'}:{ROOT / 'scripts'}",
        }
        subprocess.run(command, cwd=folder, check=False, env=environment, stdout=subprocess.DEVNULL)
        if not report.exists():
            print(f"{name}: pytest did not run", file=sys.stderr)
            return 1
        found = results(report)
    return judged(name, found, nodes)


def judged(name: str, found: dict[str, bool], nodes: int) -> int:
    may = listed(name, nodes)
    bad = sorted(test for test, good in found.items() if not good and test not in may)
    mended = sorted(test for test in may if found.get(test, False))
    for test in bad:
        print(f"{name}: {test} fails, and is not listed")
    for test in mended:
        print(f"{name}: {test} passes: take it off tests/compat/{name}.txt")
    passed = sum(found.values())
    print(f"{name}: {passed} pass, {len(found) - passed} fail, {len(may)} may", flush=True)
    return int(bool(bad or mended or not found))


class Proxy:
    """Takes each connection to the next node."""

    def __init__(self, targets: list[int]) -> None:
        self._targets = cycle(targets)
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()
        if not self._ready.wait(PATIENCE_S):
            raise OSError("ports are in use: " + ", ".join(map(str, PORTS)))

    def _run(self) -> None:
        async def serve() -> None:
            for port in PORTS:
                await asyncio.start_server(self._serve, "127.0.0.1", port)
            self._ready.set()
            await asyncio.Event().wait()

        with suppress(OSError):
            self._loop.run_until_complete(serve())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to = await asyncio.open_connection("127.0.0.1", next(self._targets))

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                while data := await source.read(1 << 16):
                    sink.write(data)
                    await sink.drain()
            sink.close()

        await asyncio.gather(pump(reader, to), pump(there, writer))


@contextmanager
def stores(count: int) -> Iterator[list[int]]:
    """Ports at which they answer Redis clients."""
    base, links = free_ports(count), free_ports(count)
    with tempfile.TemporaryDirectory() as data:
        nodes = []
        for at in range(count):
            join = ["--join", f"127.0.0.1:{links}"] if at else []
            folder = Path(data) / str(at)
            nodes.append(subprocess.Popen(
                [sys.executable, "-m", "thence.cli.main", "node", "--name", f"n{at}", "--data", str(folder),
                 "--listen", f"127.0.0.1:{links + at}", "--resp", f"127.0.0.1:{base + at}",
                 "--log-level", "warn", *join]
            ))  # fmt: skip
            until = time.monotonic() + PATIENCE_S
            while not (folder / "control.json").exists() or Control.of(folder).health() is not None:
                if time.monotonic() > until or nodes[-1].poll() is not None:
                    raise OSError("a node does not come up")
                time.sleep(0.1)
        try:
            yield [base + at for at in range(count)]
        finally:
            for node in nodes:
                node.terminate()
            for node in nodes:
                node.wait()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--suites", type=Path, default=Path("suites"))
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--python", default="", help="with the suites' packages; else SUITES/venv, or this")
    parser.add_argument("names", nargs="*", help=", ".join(SUITES))
    asked = parser.parse_args()
    here = asked.suites / "venv" / "bin" / "python"
    python = asked.python or (str(here.absolute()) if here.exists() else sys.executable)
    found = {
        name: sorted(path for path in asked.suites.glob(suite.folder) if (path / suite.has).exists())
        for name, suite in SUITES.items()
        if name in asked.names or not asked.names
    }
    if not any(found.values()):
        print(f"no suites in {asked.suites}: see the head of {Path(__file__).name}", file=sys.stderr)
        return 2
    with stores(asked.nodes) as ports:
        Proxy(ports)
        return max(
            run(name, folders[-1].absolute(), python, asked.nodes)
            for name, folders in found.items()
            if folders
        )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as problem:
        sys.exit(f"compat: {problem}")
