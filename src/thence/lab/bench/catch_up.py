"""`bench catch-up`: how long messages of the others take while a member catches up with what it has missed.

Three programs with a node of a changing group inside (`catch_up_member.py`), on loopback, sync everysec,
profile local; each sends `RATE` messages a second. One of them is stopped (SIGSTOP) until the others have
sent 60,000 messages, and then goes on.

* `catch-up.KIND.median`, `.p99`, `.most`: from `broadcast` to `events()`, of messages between the other two
  that were sent while the third caught up. Baseline: the same before it was stopped, when all three sent as
  much: a machine that is short of cores is so in both.
* `catch-up.KIND.took`: from the moment that it went on until it had what was sent less than `LATE_S` before.

KIND `away`: it is a member all the time, so that nothing becomes stable without it. `evicted`: the others go
on without it, so that it returns as a new incarnation, with a state that holds all of these operations.
"""

import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from thence.core.errors import ThenceError
from thence.lab.bench import catch_up_member
from thence.lab.bench.catch_up_member import EVICT, STOP, UP
from thence.lab.bench.cluster_processes import Told, all_told, kill
from thence.lab.bench.record import Record
from thence.local.ports import HOST, free_ports
from thence.local.spawn import SpawnedProcess, spawn

NAMES: Final = ("a", "b", "c")
AWAY: Final = "c"
RATE: Final = 1000.0
LATE_S: Final = 0.5
PATIENCE_S: Final = 120.0
LOOK_EVERY_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpEffort:
    messages: int = 60_000
    before_s: float = 5.0
    """How long all three are there before one is stopped."""
    after_s: float = 30.0
    """How long the programs go on after the third does."""


QUICK: Final = CatchUpEffort(messages=2000, before_s=1.0, after_s=2.0)


def bench(quick: bool) -> Iterator[Record | str]:
    effort = QUICK if quick else CatchUpEffort()
    with tempfile.TemporaryDirectory(prefix="thence-bench-") as name:
        for kind in ("away", "evicted"):
            yield f"{effort.messages:,} messages, one is {kind}"
            folder = Path(name) / kind
            folder.mkdir()
            yield from _figures(kind, _measured(folder, effort, kind == "evicted"))


class CatchUpTurn(NamedTuple):
    """When all three were there, when one was stopped and when it went on, and what they tell."""

    begun: float
    stopped: float
    went_on: float
    those: list[Told]


def _measured(folder: Path, effort: CatchUpEffort, evicted: bool) -> CatchUpTurn:
    ports = [free_ports(1) for _ in NAMES]
    group = ",".join(f"{name}={HOST}:{port}" for name, port in zip(NAMES, ports, strict=True))
    running: list[SpawnedProcess] = []
    try:
        for name in NAMES:
            call = [sys.executable, "-m", catch_up_member.__name__, name, str(folder), group, str(RATE)]
            running.append(spawn(call, folder / f"{name}.txt"))
            _await(folder / f"{name}.{UP}")
        begun = time.monotonic()
        time.sleep(effort.before_s)
        running[-1].send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        if evicted:
            time.sleep(0.5)
            part = folder / f"{EVICT}.part"
            part.write_text(AWAY)
            part.rename(folder / f"{NAMES[0]}.{EVICT}")
        time.sleep(effort.messages / RATE / (len(NAMES) - 1))
        running[-1].send_signal(signal.SIGCONT)
        went_on = time.monotonic()
        time.sleep(effort.after_s)
        (folder / STOP).touch()
        ends = time.monotonic() + PATIENCE_S
        files = [folder / f"{name}.txt" for name in NAMES]
        return CatchUpTurn(begun, stopped, went_on, all_told(running, files, ends))
    finally:
        kill(running)


def _await(file: Path) -> None:
    until = time.monotonic() + PATIENCE_S
    while not file.exists():
        if time.monotonic() > until:
            raise ThenceError(f"a process of the benchmark is not up after {PATIENCE_S:g} s")
        time.sleep(LOOK_EVERY_S)


def _figures(kind: str, turn: CatchUpTurn) -> Iterator[Record]:
    (*others, third), went_on = turn.those, turn.went_on
    late = [
        sent + took
        for sent_us, took_us in third["taken"].values()
        for sent, took in zip(sent_us, took_us, strict=True)
        if sent + took > went_on * 1e6 and took > LATE_S * 1e6
    ]
    until = max(late, default=went_on * 1e6)
    before = _between(others, turn.begun * 1e6, turn.stopped * 1e6)
    meanwhile = _between(others, went_on * 1e6, until + 1e6)
    for what, share in (("median", 0.5), ("p99", 0.99), ("most", 1.0)):
        yield Record(f"catch-up.{kind}.{what}", _quantile(meanwhile, share), "ms", _quantile(before, share))
    yield Record(f"catch-up.{kind}.took", until / 1e6 - went_on, "s", None)


def _between(those: list[Told], first: float, end: float) -> list[int]:
    """How long messages took that were sent in that time, by the two that are there."""
    return sorted(
        took
        for one in those
        for name, (sent_us, took_us) in one["taken"].items()
        if name != AWAY
        for sent, took in zip(sent_us, took_us, strict=True)
        if first <= sent < end
    )


def _quantile(sorted_us: list[int], share: float) -> float:
    if not sorted_us:
        raise ThenceError("no messages came in the measured time")
    return sorted_us[min(len(sorted_us) - 1, int(share * len(sorted_us)))] / 1000
