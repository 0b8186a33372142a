"""`bench trees-live`: what members of a live tree notice of others that come, leave or die.

Real processes on loopback (tags, order `graph`, profile local, sync everysec), each sending `RATE` messages a
second; what happened is read from their traces. Figures are medians over the turns, `.worst` the worst one.

* `trees-live.join`: from the moment that a node begins to look for its group until it has sent its first
  message. Baseline: until it has delivered one.
* `trees-live.join.heard`: from its first message until every member has delivered that. Baseline: the median
  latency of all deliveries in the seconds before.
* `trees-live.leave`, `trees-live.kill`: the median latency at the other members of what they sent in the
  second after a member says that it leaves, or is killed. Baseline: that of the seconds before.

How long a killed member counts as one is left as it is: it stays in the view, as it does until it is evicted.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import uvloop

from thence.core.errors import ThenceError
from thence.lab.bench import membership_guest
from thence.lab.bench.cluster_nodes import FLAGS, LOOK_EVERY_S, PATIENCE_S, PAYLOAD_BYTES
from thence.lab.bench.membership_guest import BenchGuest, GuestGroup
from thence.lab.bench.record import Record
from thence.local.cluster import Cluster
from thence.local.layout import open_layout
from thence.runtime.load import Load

RATE: Final = 20.0
CALM_S: Final = 4.0
"""Before each event; the first part of it is for what the last one left behind."""
COUNTED_S: Final = 2.0
"""Of that, what a baseline is taken from."""
AFTER_S: Final = 1.0


class TracedSend(NamedTuple):
    at_us: int
    delivered: dict[str, int]
    """When, by member."""


class Happening(NamedTuple):
    what: str
    who: str
    at_us: int
    """When it began, by the clock that traces go by."""
    others: frozenset[str]
    """Members that were there before and are afterwards."""
    took_s: float = 0.0
    """A join: until its first message was sent."""


def bench(quick: bool) -> Iterator[Record | str]:
    nodes, turns = (5, 1) if quick else (20, 5)
    with tempfile.TemporaryDirectory(prefix="thence-bench-") as name:
        trace = Path(name) / "trace"
        happened: list[Happening] = []
        yield from _run(Path(name), trace, nodes, turns, happened)
        yield "reading the traces"
        yield from figures(LiveRows(trace), happened)


def _run(folder: Path, trace: Path, nodes: int, turns: int, happened: list[Happening]) -> Iterator[str]:
    layout = open_layout(folder / "tree", nodes, changing=True)
    with Cluster(layout, flags=(*FLAGS, "--spread", "tree", "--trace", str(trace))) as cluster:
        cluster.start()
        cluster.ready(patience_s=PATIENCE_S)
        yield f"{nodes} processes"
        _all_see(cluster, set(cluster.names))
        for node in cluster.names:
            cluster.control(node).load(Load(rate=RATE, seconds=3600, bytes=PAYLOAD_BYTES))
        time.sleep(CALM_S)
        alive = set(cluster.names)
        addresses = tuple(str(layout.address(node)) for node in layout.names)
        group = GuestGroup(layout.cluster, layout.secret, addresses)
        for turn in range(turns):
            yield f"turn {turn + 1} of {turns}: one joins and leaves, one is killed"
            uvloop.run(_visit(f"guest{turn}", layout.folder, group, trace, frozenset(alive), happened))
            time.sleep(CALM_S)
            victim = layout.names[(1 + 2 * turn) % nodes]
            happened.append(Happening("kill", victim, now_us(), frozenset(alive - {victim})))
            cluster.kill(victim)
            time.sleep(AFTER_S + CALM_S)
            cluster.start(victim)
            cluster.ready(victim, patience_s=PATIENCE_S)
            time.sleep(CALM_S)


def _all_see(cluster: Cluster, members: set[str]) -> None:
    until = time.monotonic() + PATIENCE_S
    for node in cluster.names:
        while (told := cluster.control(node).status().group) is None or not members <= set(told.view):
            if time.monotonic() > until:
                raise ThenceError(f"{node} does not see all members after {PATIENCE_S:g} s")
            time.sleep(LOOK_EVERY_S)


async def _visit(
    name: str, folder: Path, group: GuestGroup, trace: Path, others: frozenset[str], happened: list[Happening]
) -> None:
    more = {"spread": "tree", "trace": str(trace)}
    guest = BenchGuest(name, folder, group, membership_guest.said(), more)
    began_us = now_us()
    happened.append(Happening("join", name, began_us, others, await guest.join()))
    await asyncio.sleep(AFTER_S + CALM_S)
    happened.append(Happening("leave", name, now_us(), others))
    await guest.leave()
    await asyncio.sleep(AFTER_S)


def now_us() -> int:
    return time.time_ns() // 1000


# What the traces say


class LiveRows:
    """Of all traces: what was sent and delivered, and when."""

    def __init__(self, trace: Path) -> None:
        self._sent: Final[dict[tuple[str, int], TracedSend]] = {}
        self._first_delivered: Final[dict[str, int]] = {}
        delivered: list[tuple[str, int, str, int]] = []
        for path in sorted(trace.rglob("*.jsonl")):
            for line in path.read_bytes().splitlines():
                row = json.loads(line)
                if row["kind"] == "send":
                    self._sent[row["origin"], row["seq"]] = TracedSend(row["at_us"], {})
                elif row["kind"] == "deliver":
                    delivered.append((row["origin"], row["seq"], row["node"], row["at_us"]))
                    self._first_delivered.setdefault(row["node"], row["at_us"])
        for origin, seq, node, at_us in delivered:
            if sent := self._sent.get((origin, seq)):
                sent.delivered.setdefault(node, at_us)

    def latency_ms(self, from_s: float, to_s: float, about: Happening) -> float:
        """The median at the other members of what they sent in that time, counted from when it began."""
        first, last, members = about.at_us + 1e6 * from_s, about.at_us + 1e6 * to_s, about.others
        found = [
            at_us - sent.at_us
            for (origin, _), sent in self._sent.items()
            if first <= sent.at_us < last and origin in members
            for node, at_us in sent.delivered.items()
            if node in members
        ]
        if not found:
            raise ThenceError(f"no member delivered anything when {about.who} was to {about.what}")
        return median(found) / 1000

    def first_delivered_ms(self, join: Happening) -> float:
        return (self._first_delivered[join.who] - join.at_us) / 1000

    def heard_ms(self, join: Happening) -> float:
        """Until all others had its first message."""
        _, first = min((seq, sent) for (origin, seq), sent in self._sent.items() if origin == join.who)
        if missing := join.others - first.delivered.keys():
            raise ThenceError(f"{sorted(missing)} did not deliver the first message of {join.who}")
        return max(first.delivered[node] for node in join.others) / 1000 - first.at_us / 1000


def figures(rows: LiveRows, happened: list[Happening]) -> Iterator[Record]:
    joins = [one for one in happened if one.what == "join"]
    delivered = median(map(rows.first_delivered_ms, joins))
    yield from _each("trees-live.join", [1000 * one.took_s for one in joins], delivered)
    usual = median(rows.latency_ms(-COUNTED_S, 0, one) for one in happened)
    yield from _each("trees-live.join.heard", [*map(rows.heard_ms, joins)], usual)
    for what in ("leave", "kill"):
        those = [one for one in happened if one.what == what]
        before = median(rows.latency_ms(-COUNTED_S, 0, one) for one in those)
        yield from _each(f"trees-live.{what}", [rows.latency_ms(0, AFTER_S, one) for one in those], before)


def _each(name: str, values: list[float], baseline: float) -> Iterator[Record]:
    yield Record(name, median(values), "ms", baseline)
    yield Record(f"{name}.worst", max(values), "ms", baseline)
