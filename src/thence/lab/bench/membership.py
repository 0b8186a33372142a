"""`bench membership`: what it costs that members come and go.

On real nodes, three processes on loopback (sync everysec, profile local):

* `membership.join.SIZE`: from the moment that a node begins to look for its group until it has sent its first
  message, with so much application state; every member sends `STEADY` messages a second. Baseline: as many
  bytes over one bare connection, opening it included.
* `membership.join.SIZE.caught-up`: until it has delivered whatever the others had sent by its first message.
  Baseline: its first message.
* `membership.join.SIZE.bytes`: on the links of the joiner until then, both ways. Baseline: the state.
* `membership.churn.half.load`: messages a second of the whole group in what follows, half of what it delivers
  when all send as fast as it goes (the baseline); also a quarter and an eighth. Guests share the
  machine, and each of them gets every message while it is there.
* `membership.churn.half.rate`: joins a second, with as many leaves. Baseline: what was asked for.
* `membership.churn.half.throughput`: messages a second that every lasting member delivers meanwhile.
  Baseline: the same group just before, with no member coming or going.
* `membership.churn.half.cpu`: CPU time of the lasting members per delivery, guests' part left out. Baseline:
  likewise.
* `membership.churn.half.busy`: cores that the lasting members keep busy when none comes or goes; guests
  have the rest. Baseline: the cores of the machine.
* `membership.churn.half.join`, `.leave`: how long it took, as above; until all had the leave.

In the simulator (`membership_sim.py`): `membership.evict`, `membership.grow`, `membership.change`.

Subject and baseline take turns, each figure is the median over the turns.
"""

import asyncio
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import uvloop

from thence.lab.bench import membership_guest, membership_sim
from thence.lab.bench.cluster_nodes import NODES, Stretch, busy, calm, cpu_us, group_rate, running, stretch
from thence.lab.bench.cluster_processes import Told, together
from thence.lab.bench.membership_guest import BEGUN, BenchGuest, GuestGroup
from thence.lab.bench.record import Record
from thence.lab.chaos.expected import program
from thence.local.cluster import NODE
from thence.local.layout import Layout, open_layout
from thence.runtime.load import Load
from thence.runtime.logs import StructuredLog
from thence.runtime.remote import Control

STEADY: Final = 200.0
"""Messages a second from each member while a node joins: there is something to catch up with."""
SIZES: Final = {"0": 0, "1MB": 10**6, "16MB": 16 * 10**6}
PARTS: Final = {"eighth": 8, "quarter": 4, "half": 2}
"""Of what the group delivers when all send as fast as it goes: its members lag behind ever more then,
and guests would too."""
CORES: Final = os.cpu_count() or 1
HOSTS: Final = 2
"""Processes that guests live in: one waits for its disk while the other works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipEffort:
    turns: int = 5
    """Joins of each size; a join is short, and one may meet a busy moment."""
    sizes: tuple[str, ...] = tuple(SIZES)
    churn_turns: int = 3
    loads: tuple[str, ...] = ("eighth", "quarter", "half")
    rate: float = 10.0
    """Joins and leaves a second."""
    warm_s: float = 1.0
    churn_s: float = 4.0
    large: int = 128
    """Members of the largest simulated group."""


QUICK: Final = MembershipEffort(
    turns=1, sizes=("1MB",), churn_turns=1, loads=("eighth",), rate=4.0, warm_s=0.2, churn_s=0.5, large=8
)


def bench(quick: bool) -> Iterator[Record | str]:
    effort = QUICK if quick else MembershipEffort()
    with tempfile.TemporaryDirectory(prefix="thence-bench-") as name:
        for size in effort.sizes:
            yield f"joins with {size} of state"
            yield from _joins(Path(name), size, effort.turns)
        yield from _churn(Path(name), effort)
    yield from membership_sim.bench(effort.large)


@contextmanager
def _running(folder: Path, filler: int) -> Iterator[tuple[Layout, list[Control]]]:
    """A changing group of real processes with so much state."""
    layout = open_layout(folder, NODES, changing=True)
    with running(layout, program(filler) if filler else NODE) as controls:
        yield layout, controls


def _load(controls: list[Control], load: Load) -> None:
    for control in controls:
        control.load(load)


def _group(layout: Layout) -> GuestGroup:
    return GuestGroup(
        layout.cluster, layout.secret, tuple(str(layout.address(name)) for name in layout.names)
    )


# Joins


class Joined(NamedTuple):
    first_s: float
    """Until the first message was sent."""
    caught_up_s: float
    link_bytes: int


def _joins(folder: Path, size: str, turns: int) -> Iterator[Record]:
    state = SIZES[size]
    told, bare = [], []
    log = membership_guest.said()
    with _running(folder / f"state-{size}", state) as (layout, controls):
        _load(controls, Load(rate=STEADY, seconds=3600, bytes=64))
        for turn in range(turns):
            told.append(uvloop.run(_join(f"joiner{turn}", layout, controls[turn % NODES], log)))
            bare.append(bare_transfer_s(state))
    first = median(one.first_s for one in told)
    yield Record(f"membership.join.{size}", 1000 * first, "ms", 1000 * median(bare))
    caught_up = median(one.caught_up_s for one in told)
    yield Record(f"membership.join.{size}.caught-up", 1000 * caught_up, "ms", 1000 * first)
    moved = median(one.link_bytes for one in told)
    yield Record(f"membership.join.{size}.bytes", moved, "bytes", state or None)


async def _join(name: str, layout: Layout, member: Control, log: StructuredLog) -> Joined:
    guest = BenchGuest(name, layout.folder, _group(layout), log)
    begun = time.perf_counter()
    first_s = await guest.join()
    clock = (await asyncio.to_thread(member.status)).clock
    while not guest.has(clock):
        await asyncio.sleep(0.001)
    joined = Joined(first_s, time.perf_counter() - begun, guest.link_bytes)
    await guest.leave()
    return joined


def bare_transfer_s(size: int) -> float:
    """Open a connection over loopback, ask, and get so many bytes and one more."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            there, _ = server.accept()
            with there:
                there.recv(1)
                there.sendall(bytes(size + 1))

        serving = threading.Thread(target=serve)
        begun = time.perf_counter()
        serving.start()
        with socket.create_connection(server.getsockname()) as here:
            here.sendall(b"?")
            left = size + 1
            while left:
                left -= len(here.recv(1 << 18))
        took_s = time.perf_counter() - begun
        serving.join()
    return took_s


# Coming and going


class MembershipTurn(NamedTuple):
    """What the members did without guests, and then with guests; and what became of those."""

    rest: list[Stretch]
    storm: list[Stretch]
    guests: list[Told]


def _churn(folder: Path, effort: MembershipEffort) -> Iterator[Record | str]:
    with _running(folder / "churn", 0) as (layout, controls):
        yield "what the group sustains"
        _load(controls, Load(rate=0, seconds=3600, bytes=64))
        full = group_rate(stretch(controls, effort.warm_s, effort.churn_s))
        calm(controls)
        for part in effort.loads:
            load, turns = full / PARTS[part], []
            for turn in range(effort.churn_turns):
                yield f"{load:,.0f} messages a second, turn {turn + 1} of {effort.churn_turns}"
                _load(controls, Load(rate=load / NODES, seconds=3600, bytes=64))
                rest = stretch(controls, effort.warm_s, effort.churn_s)
                turns.append(MembershipTurn(rest, *_visited(layout, controls, effort, f"{part}-{turn}")))
                calm(controls)
            yield Record(f"membership.churn.{part}.load", load, "messages/s", full)
            yield from _figures(f"membership.churn.{part}", turns, effort.rate)


def _figures(name: str, turns: list[MembershipTurn], asked: float) -> Iterator[Record]:
    rates = [sum(told["joins"] / told["seconds"] for told in turn.guests) for turn in turns]
    yield Record(f"{name}.rate", median(rates), "joins/s", asked)
    ours, theirs = (
        median(group_rate(turn.storm) for turn in turns),
        median(group_rate(turn.rest) for turn in turns),
    )
    yield Record(f"{name}.throughput", ours, "messages/s", theirs)
    ours, theirs = median(cpu_us(turn.storm) for turn in turns), median(cpu_us(turn.rest) for turn in turns)
    yield Record(f"{name}.cpu", ours, "us", theirs)
    yield Record(f"{name}.busy", median(busy(turn.rest) for turn in turns), "cores", CORES)
    for what in ("join", "leave"):
        took = median(told[f"{what}_s"] for turn in turns for told in turn.guests)
        yield Record(f"{name}.{what}", 1000 * took, "ms", None)


def _visited(
    layout: Layout, controls: list[Control], effort: MembershipEffort, turn: str
) -> tuple[list[Stretch], list[Told]]:
    """What the members did while guests came and went, and what became of those."""
    measured: list[list[Stretch]] = []
    group, folder = _group(layout), layout.folder / f"guests-{turn}"
    folders = [folder / f"{turn}-{host}" for host in range(HOSTS)]
    for one in folders:
        one.mkdir(parents=True)

    def watch() -> None:
        while not all((one / BEGUN).exists() for one in folders):  # however long processes take to start
            time.sleep(0.01)
        measured.append(stretch(controls, effort.warm_s, effort.churn_s))
        _load(controls, Load(count=0))  # guests that are still there get out

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    call = (group.cluster, group.secret, ",".join(group.join), effort.rate / HOSTS)
    seconds = effort.warm_s + effort.churn_s
    told = together(
        membership_guest.__name__,
        [(one, *call, effort.warm_s, effort.churn_s) for one in folders],
        folder / "said",
        seconds,
    )
    watching.join()
    return measured[0], told
