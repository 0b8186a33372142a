"""What the demo's figures and claims are made from: samples of the nodes' status, and their traces."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from thence.core.errors import ThenceError
from thence.lab.tour import measure
from thence.lab.tour.claims import Claims
from thence.lab.tour.figures import spans
from thence.lab.tour.live import Story
from thence.lab.tour.page import page
from thence.lab.tour.resumed import Resumed, resumed, seen_elsewhere
from thence.lab.tour.samples import Sample, acknowledged, lag_of, sparkline
from thence.local.probe import NodeProbe
from thence.pages.timeline import TimelinePoint
from thence.pipeline.report import RunReport
from thence.runtime.status import LogStatus, MemberStatus, Status
from thence.trace.schema import VERDICTS


def status(name: str, sent: int, lags: dict[str, int], link: str = "up", unstable: int = 0) -> Status:
    members = [MemberStatus(name=name, address="", link="me")]
    members += [MemberStatus(name=peer, address="", link=link, lag=lag) for peer, lag in lags.items()]  # type: ignore[arg-type]
    return Status(
        name=name, cluster="", pid=1, uptime_s=0, state="running", boot=1, members=members, sent=sent,
        delivered=0, inbox=0, held=0, unstable=unstable, oldest_unstable_s=None, holding_stability_back=[],
        log=LogStatus(bytes=0, head=0, tail=0, durable=0, sync="no"),
    )  # fmt: skip


def story(*samples: Sample) -> Story:
    return Story(
        lonely="c", victim="b", sleeper="d", newcomer="e", begun_us=1_000_000, cut_us=2_000_000,
        mended_us=3_000_000, killed_us=4_000_000, back_us=5_000_000, samples=list(samples),
    )  # fmt: skip


def write(path: Path, *rows: dict[str, object]) -> None:
    path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))


def row(node: str, kind: str, origin: str, seq: int, at_us: int = 0) -> dict[str, object]:
    return {"node": node, "pos": 1, "kind": kind, "origin": origin, "seq": seq, "at_us": at_us}


def test_the_lag_of_a_member_is_the_most_that_any_member_has_for_it() -> None:
    statuses = {"a": status("a", 9, {"b": 1, "c": 5}), "b": status("b", 9, {"a": 2, "c": 7})}
    assert [lag_of(name, statuses) for name in "abc"] == [2, 1, 7]


def test_the_lag_of_a_member_that_is_down_counts_on() -> None:
    assert lag_of("b", {"a": status("a", 9, {"b": 4}, link="down")}) == 4


def test_a_node_that_has_just_come_back_does_not_know_what_others_lack() -> None:
    """It counts everything that it ever sent, until they have met."""
    assert lag_of("a", {"b": status("b", 0, {"a": 2000}, link="down")}) == 0
    assert lag_of("a", {"b": status("b", 0, {"a": 3}, link="up")}) == 3


def test_joins_and_leaves_are_marked_like_troubles() -> None:
    told = story()
    told.joins_us, told.joined_us, told.leaves_us, told.left_us = 1_500_000, 1_700_000, 6_000_000, 6_100_000
    marked = {span.what: (span.from_s, span.to_s) for span in spans(told)}
    assert marked["e joins"] == (0.5, 0.7)
    assert marked["e leaves"] == (5.0, 5.1)
    assert {"c cut off", "b down", "d asleep"} < marked.keys()


def test_what_a_peer_has_is_what_was_sent_without_its_lag() -> None:
    assert acknowledged(status("a", 9, {"b": 4}), "b") == 5


@pytest.mark.parametrize(
    ("values", "line"),
    [([], ""), ([0, 0], "▁▁"), ([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█"), ([100, 0], "█▁")],
)
def test_a_sparkline_has_a_bar_for_each_value(values: list[int], line: str) -> None:
    assert sparkline(values) == line


def test_a_long_sparkline_keeps_its_peaks() -> None:
    line = sparkline([0] * 500 + [9] + [0] * 500, width=10)
    assert len(line) == 10
    assert line.count("█") == 1


def test_what_a_node_came_back_with_is_what_stands_before_its_return(tmp_path: Path) -> None:
    write(tmp_path / "b-1.jsonl", row("b", "send", "b", 1), row("b", "deliver", "a", 1))
    with (tmp_path / "b-1.jsonl").open("a") as file:
        file.write('{"node":"b","po')  # it was killed in the middle of a line
    write(
        tmp_path / "b-2.jsonl",
        row("b", "deliver", "a", 2),
        row("b", "send", "b", 2),
        {"node": "b", "pos": 1, "kind": "restart", "deps": []},
        row("b", "send", "b", 3),
    )
    assert resumed(tmp_path, "b", 2) == Resumed(own=2, others=2, completed=2)
    with pytest.raises(ThenceError, match="no word of its return"):
        resumed(tmp_path, "b", 3)


def test_what_others_have_seen_of_a_node_is_not_read_from_its_own_trace(tmp_path: Path) -> None:
    write(tmp_path / "b-1.jsonl", row("b", "send", "b", 9), row("b", "deliver", "a", 9))
    write(tmp_path / "a-1.jsonl", row("a", "deliver", "b", 7), row("a", "stable", "b", 8))
    write(tmp_path / "b-x-1.jsonl", row("b-x", "deliver", "b", 8))
    assert seen_elsewhere(tmp_path, "b") == 8
    assert seen_elsewhere(tmp_path, "unknown") == 0


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_latencies_are_shown_when_sent_and_apart_for_the_two_in_trouble(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(
        tmp_path / "a-1.jsonl",
        {"node": "a", "pos": 0, "kind": "start", "at_us": 900_000},
        row("a", "send", "a", 9, 999_000),  # before the load
        row("a", "send", "a", 1, 1_000_000),
        row("a", "deliver", "c", 1, 3_100_000),
    )
    write(
        tmp_path / "b-1.jsonl", row("b", "deliver", "a", 9, 999_100), row("b", "deliver", "a", 1, 1_002_000)
    )
    write(tmp_path / "c-1.jsonl", row("c", "deliver", "a", 1, 1_004_000), row("c", "send", "c", 1, 2_100_000))
    write(tmp_path / "d-1.jsonl", row("d", "deliver", "a", 1, 1_008_000))
    rows = measure.read(tmp_path)
    found = {(one.series, one.s): one.value for one in measure.latencies(spark, rows, story())}
    assert found == {
        ("among the others", 0): 8,
        ("to and from b", -0.25): 0.1,
        ("to and from b", 0): 2,
        ("to and from c", 0): 4,
        ("to and from c", 1.0): 1000,
    }


def test_a_time_without_deliveries_is_a_rate_of_zero(tmp_path: Path) -> None:
    write(
        tmp_path / "a-1.jsonl",
        row("a", "deliver", "b", 1, 1_000_000),
        row("a", "deliver", "b", 2, 1_100_000),
        row("a", "deliver", "b", 3, 1_600_000),
    )
    rates = measure.rates(measure.read(tmp_path), story())
    assert [(one.s, one.value) for one in rates] == [(0, 8), (0.25, 0), (0.5, 4)]


def test_a_line_that_a_killed_node_left_unfinished_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "a-1.jsonl", row("a", "send", "a", 1))
    with (tmp_path / "a-1.jsonl").open("a") as file:
        file.write('{"node":"a","po')
    (tmp_path / "b-1.jsonl").write_text("")
    assert measure.read(tmp_path).num_rows == 1


def test_samples_become_points_of_each_node(tmp_path: Path) -> None:
    seen = [
        NodeProbe(tmp_path, "a", "running", status("a", 9, {"b": 5}, unstable=3)),
        NodeProbe(tmp_path, "b", "crashed"),
    ]
    one = story(Sample(1_500_000, seen))
    assert measure.unstable(one) == [TimelinePoint(0.5, "a", 3)]
    assert measure.lags(one) == [TimelinePoint(0.5, "a", 0), TimelinePoint(0.5, "b", 5)]


def test_the_page_shows_what_did_not_hold_and_escapes_what_it_shows() -> None:
    claims = Claims()
    claims.step("a < b", "short")
    claims.claim("x & y", False)
    violations = dict.fromkeys(VERDICTS, 0) | {"order": 1234}
    run = RunReport("", "", nodes=3, sends=1, deliveries=2, stables=0, violations=violations, examples=[])
    shown = page(claims, [], {"the <cluster>": run}, {}, "thence demo")
    assert '<li class="bad">x &amp; y</li>' in shown
    assert "1. a &lt; b" in shown
    assert "Something did not hold" in shown
    counted = {"nodes": 3, "sends": 1, "deliveries": 2, "stables": 0}
    cells = "".join(f'<td class="n" data-of="{name}">{count}</td>' for name, count in counted.items())
    name, bad = '<td class="name" data-of="trace">', '<td class="n bad" data-of="order">'
    assert f"{name}the &lt;cluster&gt;</td>{cells}{bad}1,234</td>" in shown
