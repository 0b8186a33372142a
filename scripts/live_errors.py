"""How often live nodes with small clocks err, beside what `thence tune` predicts for their delays.

    python scripts/live_errors.py [NODES] [RATE] [ENTRIES] [KEYS] [SLOW_MS] [SECONDS]

Processes that gossip, each link slowed, under a steady load. Delays are those of the trace, from the row
`send` to when a message came (`hold`, or `deliver`). Live nodes keep the order of one member's messages,
which the prediction does not know: it is told with and without causes of the same sender.
"""

import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import fmean, pstdev, pvariance

import msgspec

from thence.lab.chaos.plan import Act, draw_setup
from thence.lab.chaos.quiescence import await_rest
from thence.lab.chaos.rounds import read_findings
from thence.lab.chaos.storm import Storm
from thence.local.cluster import Cluster
from thence.local.layout import open_layout
from thence.local.node import as_arguments
from thence.order.tuning import Lateness, OfferedLoad
from thence.pipeline import local
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


def rows(trace: Path) -> Iterator[Event]:
    decoder = msgspec.json.Decoder(Event)
    for path in sorted(trace.iterdir()):
        yield from decoder.decode_lines(path.read_bytes())


def main(folder: Path, words: list[str]) -> None:
    usual = [12.0, 10.0, 8.0, 2.0, 50.0, 40.0]
    given = [float(word) for word in words]
    nodes, rate, entries, keys, slow_ms, seconds = [*given, *usual[len(given) :]]
    live(folder, int(nodes), rate, int(entries), int(keys), slow_ms, seconds)
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


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(Path(made), sys.argv[1:])
