"""How often nodes that gossip err with small clocks, beside what `thence tune` predicts for their delays.

    python scripts/live_errors.py [sim SEED] [NODES] [RATE] [ENTRIES] [KEYS] [SLOW_MS] [SECONDS]

Processes that gossip, each link slowed, under a steady load; `sim`: the same machines in the simulator, over
links of that latency. Delays are those of the trace, from the row `send` to when a message came (`hold`, or
`deliver`). Live nodes keep the order of one member's messages, which the prediction does not know: it is told
with and without causes of the same sender.

Both take delays for independent of each other. Over gossip they are not, and so a third figure does without
them: it counts from exact pasts which causes were missing when a message came, and which other members had
sent what the receiver had, and the message did not follow from, just before the last of them came. A clock
with keys drawn by chance takes the message too early with `order.tuning.covered_by` of these members.
"""

import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import combinations
from pathlib import Path
from statistics import fmean, pstdev, pvariance

import msgspec
import pyarrow.parquet as pq

from thence.lab.chaos.plan import Act, draw_setup
from thence.lab.chaos.quiescence import await_rest
from thence.lab.chaos.rounds import read_findings
from thence.lab.chaos.storm import Storm
from thence.local.cluster import Cluster
from thence.local.layout import open_layout
from thence.local.node import as_arguments
from thence.order.tuning import Lateness, OfferedLoad, covered_by
from thence.pipeline import local
from thence.sim.overlay_durable import DurableOverlayRun
from thence.sim.overlay_scenarios import configure
from thence.sim.run import whole_trace
from thence.trace.schema import Event

WARM_S = 3.0


class InOrder(OfferedLoad):
    """Of members whose own messages come in order."""

    def late(self) -> list[Lateness]:
        own = OfferedLoad(2, self.rate, self.delay_ms, self.deviation_ms, self.skew_ms).late()
        return [replace(a, causes=a.causes - b.causes) for a, b in zip(super().late(), own, strict=True)]


def live(
    folder: Path, nodes: int, rate: float, entries: int, keys: int, slow_ms: float, seconds: float
) -> None:
    layout = open_layout(folder / "data", nodes, changing=True)
    setup = replace(
        draw_setup(0, 4), order="probabilistic", spread="gossip", sync="no", segment_bytes=1 << 20,
        window=8192, inbox_max=8192, message_bytes=64, rates=(rate,) * nodes,
    )  # fmt: skip
    clock = {"clock.entries": entries, "clock.keys": keys, "clock.recent": 50_000}
    common = {"profile": "local", "allow_faults": True, "trace": folder / "trace"}
    cluster = Cluster(layout, flags=as_arguments({**common, **setup.flags(), **clock}))
    links = tuple(combinations(layout.names, 2))
    with cluster:
        storm = Storm(
            cluster, setup, [Act(0.0, seconds, "slow", links=links, delay_ms=slow_ms)], lambda _: None
        )
        storm.start()
        storm.run(seconds)
        storm.calm()
        await_rest(cluster, 90, print)
        cluster.stop(grace_s=20)


def simulated(
    folder: Path, seed: int, nodes: int, rate: float, entries: int, keys: int, slow_ms: float, seconds: float
) -> None:
    settings = configure(
        "steady", spread="gossip", order="probabilistic", nodes=nodes, messages=round(rate * seconds),
        interval_ms=1000 / rate, warmup_ms=3000.0, entries=entries, keys=keys, seed=seed, latency="fixed",
        latency_ms=slow_ms, payload_bytes=8,
    )  # fmt: skip
    (folder / "trace").mkdir()
    with whole_trace(folder / "trace") as sink:
        DurableOverlayRun(settings, sink)()


def rows(trace: Path) -> Iterator[Event]:
    decoder = msgspec.json.Decoder(Event)
    for path in sorted(trace.iterdir()):
        if path.suffix == ".parquet":
            told = pq.read_table(path, columns=["node", "pos", "kind", "origin", "seq", "at_us"])
            yield from (Event(**row) for row in told.to_pylist())
        else:
            yield from decoder.decode_lines(path.read_bytes())


@dataclass
class Receiver:
    """One node, as far as its trace was read. Sets of messages are bit maps."""

    came: int = 0
    released: int = 0
    seen: int = 0
    """What was released, and what that follows from."""
    short: dict[int, int] = field(default_factory=dict)
    """Messages that came, and what they follow from that had not."""


class Missing:
    """Exact pasts beside a trace: causes that are missing when a message comes, and what would cover them."""

    def __init__(self, entries: int, keys: int) -> None:
        self._entries, self._keys = entries, keys
        self._numbers: dict[tuple[str, int], int] = {}
        self._origins: list[str] = []
        self._past: list[int] = []
        self._nodes: dict[str, Receiver] = defaultdict(Receiver)
        self.arrivals = self.lacking = self.causes = self.errors = 0
        self.expected = 0.0
        """Errors, over all that the keys could have been."""

    def read(self, events: Iterable[Event]) -> None:
        by_node: dict[str, list[Event]] = defaultdict(list)
        for row in events:
            if row.kind in ("send", "hold", "deliver") and row.at_us is not None:
                by_node[row.node].append(row)
        for each in by_node.values():
            each.sort(key=lambda row: row.pos)
        for row in merge(*by_node.values(), key=lambda row: (row.at_us or 0, row.kind != "send")):
            self._read(row)

    def _read(self, row: Event) -> None:
        node, place = self._nodes[row.node], (row.origin or "", row.seq or 0)
        if row.kind == "send":
            number = self._numbers[place] = len(self._past)
            self._origins.append(row.node)
            self._past.append(node.seen)
            node.came |= 1 << number
            self._release(node, number)
            return
        number = self._numbers[place]
        if not node.came >> number & 1:
            self._comes(node, number)
        if row.kind == "deliver":
            self.errors += self._past[number] & ~node.released != 0
            self._release(node, number)

    def _release(self, node: Receiver, number: int) -> None:
        node.released |= 1 << number
        node.seen |= self._past[number] | 1 << number

    def _comes(self, node: Receiver, number: int) -> None:
        self.arrivals += 1
        for other, lacks in list(node.short.items()):
            if lacks == 1 << number:
                del node.short[other]
                self.expected += self._covered(node, other, number)
            elif lacks >> number & 1:
                node.short[other] = lacks & ~(1 << number)
        node.came |= 1 << number
        lacks = self._past[number] & ~node.came
        if any(self._origins[each] != self._origins[number] for each in bits(lacks)):
            self.lacking += 1
            self.causes += lacks.bit_count()
            node.short[number] = lacks

    def _covered(self, node: Receiver, number: int, last: int) -> float:
        """That the clock takes a message too early, before the last of its causes comes."""
        if self._origins[last] == self._origins[number]:
            return 0.0  # messages of one member come in order
        beside = node.released & ~self._past[number] & ~(1 << number)
        others = {self._origins[each] for each in bits(beside) if not self._past[each] >> number & 1}
        return covered_by(self._entries, self._keys, len(others), 1.0)


def bits(found: int) -> Iterator[int]:
    while found:
        lowest = found & -found
        yield lowest.bit_length() - 1
        found ^= lowest


def main(folder: Path, words: list[str]) -> None:
    usual = [12.0, 10.0, 8.0, 2.0, 50.0, 40.0]
    seed = int(words[1]) if words[:1] == ["sim"] else None
    given = [float(word) for word in (words if seed is None else words[2:])]
    nodes, rate, entries, keys, slow_ms, seconds = [*given, *usual[len(given) :]]
    if seed is None:
        live(folder, int(nodes), rate, int(entries), int(keys), slow_ms, seconds)
    else:
        simulated(folder, seed, int(nodes), rate, int(entries), int(keys), slow_ms, seconds)
    tell(folder, nodes, entries, keys)


def tell(folder: Path, nodes: float, entries: float, keys: float) -> None:
    missing = Missing(int(entries), int(keys))
    missing.read(rows(folder / "trace"))
    sent: dict[tuple[str, int], int] = {}
    came: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)
    doubted = set()
    for row in rows(folder / "trace"):
        if row.origin is None or row.seq is None or row.at_us is None:
            continue
        dot = row.origin, row.seq
        if row.kind == "send":
            sent[dot] = row.at_us
        elif row.kind in ("hold", "deliver"):
            came[dot][row.node] = min(row.at_us, came[dot].get(row.node, row.at_us))
        elif row.kind == "doubt":
            doubted.add((row.node, f"{row.origin}:{row.seq}"))
    ends = max(sent.values()) - 1_000_000
    begins = min(sent.values()) + int(WARM_S * 1e6)
    steady = {dot: at for dot, at in sent.items() if begins <= at <= ends}
    delays = {dot: [(at - steady[dot]) / 1000 for at in came[dot].values()] for dot in steady}
    every = [delay for each in delays.values() for delay in each]
    mean, deviation = fmean(every), pstdev(every)
    skew = min(deviation, fmean([pvariance(each) for each in delays.values()]) ** 0.5)
    local.verify(folder / "trace", findings=folder / "findings")
    named = {f"{origin}:{seq}" for origin, seq in steady}
    found = [one for one in read_findings(folder / "findings") if one["message"] in named]
    errors = {(one["node"], one["message"]) for one in found if one["kind"] == "order"}
    others = [one for one in found if one["kind"] != "order"]
    real = len(steady) / nodes / ((ends - begins) / 1e6)
    load = (int(nodes), real, mean, deviation, skew)
    plain, ordered = (kind(*load) for kind in (OfferedLoad, InOrder))
    print(f"{int(nodes)} processes, {real:.3g} messages a second of each, {len(every):,} deliveries")
    print(f"delay {mean:.1f} ms, deviation {deviation:.1f}, of one message's receivers {skew:.1f}")
    print(f"X = {plain.under_way:.3g}, missing causes {plain.missing:.2g}")
    print(f"{len(errors):,} errors ({len(errors) / len(every):.4%}), {len(errors - doubted)} undoubted")
    told = [each.clock(int(entries), int(keys)).errors for each in (plain, ordered)]
    print(f"predicted {told[0]:.4%}; without causes of the same sender {told[1]:.4%}")
    print(f"other findings: {len(others)}")
    some = missing.lacking / missing.arrivals
    print(f"{missing.causes / missing.arrivals:.2g} causes were missing, some at {some:.3%} of arrivals")
    print(
        f"from these, of the whole run: {missing.expected:.1f} errors predicted "
        f"({missing.expected / missing.arrivals:.4%}), {missing.errors} counted"
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(Path(made), sys.argv[1:])
