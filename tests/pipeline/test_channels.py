"""Channels: the kernels of the pipeline and the oracle agree on random runs, and on storms of edge trees."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from pipeline.layouts import table, write_jsonl, write_parquet
from support.run_channels import channel_run

from thence.check import judge
from thence.pipeline import local
from thence.pipeline.judge import judge as judge_block
from thence.pipeline.marks import settle
from thence.pipeline.outcome import Part
from thence.pipeline.pack import pack
from thence.pipeline.rows import decode
from thence.pipeline.shards import Payload
from thence.sim.edge_storm import EdgeStorm
from thence.sim.edge_weather import draw_edge
from thence.trace.schema import Event

pytestmark = pytest.mark.xdist_group("spark")
"""Where its kernels are compiled."""


@pytest.mark.parametrize("seed", range(3))
def test_kernels_and_oracle_agree(tmp_path: Path, seed: int) -> None:
    rng, found = Random(seed), Counter[str]()
    runs = [channel_run(rng, f"r{number}") for number in range(400)]
    events = [event for run in runs for event in run]
    (write_jsonl if seed % 2 else write_parquet)(tmp_path / f"t.{'jsonl' if seed % 2 else 'parquet'}", events)
    report = local.verify(tmp_path)
    verdicts = {verdict.run: verdict for verdict in judge(events)}
    for run in report.runs:
        assert run.violations == verdicts[run.run].violations, run.run
        found.update(verdict for verdict, count in run.violations.items() if count)
    assert len(report.runs) == len(verdicts)
    assert all(found[verdict] > 20 for verdict in ("order", "duplicate", "unsent", "lost")), found


@pytest.mark.parametrize("blocks", [1, 3])
def test_a_run_that_is_judged_in_blocks(blocks: int) -> None:
    for seed in range(120):
        events = channel_run(Random(seed), "r")
        found, marks = Counter[str](), []
        for number in range(blocks):
            payloads = [Payload(piece.bucket, piece.payload) for piece in pack(decode(table(events)))]
            for finding in judge_block(payloads, Part(number, blocks)):
                found[finding.verdict] += finding.number if finding.what == "count" else 0
                marks += [finding.payload] if finding.what == "marks" else []
        for finding in settle(marks):
            found[finding.verdict] += finding.number if finding.what == "count" else 0
        [verdict] = judge(events)
        assert +found == +Counter(verdict.violations), f"seed {seed}"


def test_a_storm_over_an_edge_tree_is_faultless_to_both(tmp_path: Path) -> None:
    storm = EdgeStorm(8, draw_edge(8))
    assert storm() == ""
    events = list(storm.world.events())
    write_jsonl(tmp_path / "t.jsonl", events)
    [here] = local.verify(tmp_path).runs
    [verdict] = judge(events)
    assert here.violations == verdict.violations
    assert not any(here.violations.values())
    assert not verdict.flagged


def test_a_member_of_two_channels_gets_them_in_causal_order() -> None:
    def row(node: str, pos: int, kind: str, seq: int = 0, origin: str = "a", channel: str = "") -> Event:
        about = (origin, seq) if seq else (None, None)
        return Event(node=node, pos=pos, kind=kind, origin=about[0], seq=about[1], channel=channel or None)

    sender = [row("a", 0, "send", 1, channel="x"), row("a", 1, "send", 2, channel="y")]
    both = [row("b", 0, "subscribe", channel="x"), row("b", 1, "subscribe", channel="y")]
    early = [*both, row("b", 2, "deliver", 2), row("b", 3, "deliver", 1)]
    [verdict] = judge([*sender, *early])
    assert verdict.violations["order"] == 1
    one = [both[1], row("b", 2, "deliver", 2)]
    [verdict] = judge([*sender, *one])
    assert verdict.ok
    late = [*both, row("b", 2, "unsubscribe", channel="x"), row("b", 3, "deliver", 2)]
    [verdict] = judge([*sender, *late])
    assert verdict.ok
