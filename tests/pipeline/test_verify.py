"""Integration: whole traces through Spark, in every format, layout and cut."""

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest
from pipeline.layouts import scatter, write_csv, write_jsonl, write_parquet
from pyspark.sql import SparkSession
from support.run_text import rows

from thence.core.errors import TraceError
from thence.pipeline.report import Report
from thence.pipeline.verify import verify
from thence.trace.schema import VERDICTS, Event

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

Writer = Callable[[Path, Sequence[Event]], None]
FORMATS: dict[str, Writer] = {"jsonl": write_jsonl, "csv": write_csv, "parquet": write_parquet}

# c delivers b:1 before a:1, which b:1 depends on, and calls a:1 stable too early; d never gets b:1.
BROKEN = [
    *rows("a", "send a:1 deps=", "deliver b:1", "link"),
    *rows("b", "deliver a:1", "send b:1 deps=a:1"),
    *rows("c", "stable a:1", "deliver b:1", "deliver a:1", "deliver a:1", "deliver z:9"),
    *rows("d", "deliver a:1", "send d:2 deps="),
    *rows("e", "deliver a:1", "deliver b:1", "deliver d:2", "crash"),
]
COUNTS = {
    "order": 1, "duplicate": 1, "unsent": 1, "gap": 1, "lost": 4, "program": 0, "unstable": 1, "tag": 1
}  # fmt: skip

# c is evicted by all others and comes back as c~2, which sends c:3 again, and c:2 only after something new.
RETURNED = [
    *rows("c", "send c:1 deps=", "send c:2 deps=", "send c:3 deps=", "crash"),
    *rows("c~2", "install deps=c:1 process=c incarnation=2", "evict c:1", "send c~2:1 deps=c:1 carries=-:0"),
    *rows("c~2", *["link"] * 4, "send c~2:2 deps= carries=c:3", "send c~2:3 deps=")[4:],
    *rows("c~2", *["link"] * 6, "send c~2:4 deps= carries=c:2,c:3")[6:],
    *rows("a", "deliver c:1", "evict c:1", *[f"deliver c~2:{k}" for k in (1, 2, 3, 4)]),
    *rows("b", "install deps=c~2:3", "evict c:1", "deliver c~2:4"),
]


def check(report: Report) -> None:
    (run,) = report.runs
    assert not report.ok
    assert (run.nodes, run.sends, run.deliveries, run.stables) == (5, 3, 10, 1)
    assert run.violations == COUNTS
    shown = [example["kind"] for example in run.examples]
    assert shown == [name for name in VERDICTS for _ in range(COUNTS[name])]


@pytest.mark.parametrize("form", list(FORMATS))
@pytest.mark.parametrize("blocks", [None, 2, 5])
def test_every_format(spark: SparkSession, tmp_path: Path, form: str, blocks: int | None) -> None:
    FORMATS[form](tmp_path / f"trace.{form}", BROKEN)
    check(verify(spark, tmp_path / f"trace.{form}", blocks=blocks))


@pytest.mark.parametrize("seed", range(3))
def test_mixed_files_in_any_order_cut_small(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    scatter(Random(seed), tmp_path, BROKEN, files=4)
    check(verify(spark, tmp_path, split_bytes=40, split_rows=1))


def test_examples_say_what_a_person_needs(spark: SparkSession, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "x.jsonl", BROKEN)
    (run,) = verify(spark, tmp_path).runs
    first: dict[str, dict[str, object]] = {}
    for example in run.examples:
        first.setdefault(example["kind"], example)
    assert first == {
        "order": {"kind": "order", "node": "c", "pos": 1, "message": "b:1", "missing": "a:1"},
        "duplicate": {"kind": "duplicate", "node": "c", "pos": 3, "message": "a:1", "first_pos": 2},
        "unsent": {"kind": "unsent", "node": "c", "pos": 4, "message": "z:9", "reason": "no send row"},
        "gap": {
            "kind": "gap", "node": "d", "pos": 1, "message": "d:2",
            "reason": "a counter was left out", "expected": 1,
        },
        "lost": {"kind": "lost", "node": "a", "message": "d:2", "held_by": "d"},
        "unstable": {
            "kind": "unstable", "node": "c", "pos": 0, "message": "a:1",
            "reason": "the node does not hold it",
        },
        "tag": {"kind": "tag", "node": "d", "pos": 1, "message": "d:2", "missing": "a:1"},
    }  # fmt: skip


@pytest.mark.parametrize("form", list(FORMATS))
@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_program_order_over_incarnations(spark: SparkSession, tmp_path: Path, form: str, blocks: int) -> None:
    FORMATS[form](tmp_path / f"trace.{form}", RETURNED)
    (run,) = verify(spark, tmp_path, blocks=blocks).runs
    late = {"kind": "program", "message": "c~2:4", "operation": "c:2", "held": "c~2:3"}
    assert run.examples == [{**late, "node": "a", "pos": 5}, {**late, "node": "b", "pos": 2}]
    assert run.violations == dict.fromkeys(VERDICTS, 0) | {"program": 2}


def test_a_node_that_is_two_is_an_error_that_names_both_rows(spark: SparkSession, tmp_path: Path) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "two.csv"
    write_jsonl(one, rows("c", "start process=c", "link", "link"))
    write_csv(other, rows("c", *["link"] * 3, "link process=d incarnation=2")[3:])
    with pytest.raises(TraceError) as caught:
        verify(spark, tmp_path)
    expected = f"process c in {one} line 1; process d in {other} line 2"
    assert (
        str(caught.value)
        == f"node c is not the same in all rows: incarnation 2 in {other} line 2; {expected}"
    )
    write_jsonl(one, rows("c", "start process=c", "link", "link process=d"))
    other.unlink()
    with pytest.raises(TraceError, match="node c is not the same in all rows"):
        verify(spark, tmp_path)


def test_runs_and_groups_are_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    fine = ["send a:1", "deliver b:1"]
    for run, group in (("r", "x"), ("r", "y"), ("s", "")):
        mine = [*rows("a", *fine, run=run, group=group), *rows("b", "send b:1", run=run, group=group)]
        if group == "x":
            mine += rows("b2", "deliver b:1", "deliver b:1", run=run, group=group)
        write_jsonl(tmp_path / f"{run}{group}.jsonl", mine)
    report = verify(spark, tmp_path)
    assert [(run.run, run.group, run.violations["duplicate"]) for run in report.runs] == [
        ("r", "x", 1), ("r", "y", 0), ("s", "", 0),
    ]  # fmt: skip


def test_only_ten_examples_but_all_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    again = ["deliver a:1"] * 31
    write_csv(tmp_path / "x.csv", [*rows("a", "send a:1"), *rows("b", *again)])
    for blocks in (1, 2):
        (run,) = verify(spark, tmp_path, blocks=blocks).runs
        assert run.violations["duplicate"] == 30
        assert [example["pos"] for example in run.examples] == list(range(1, 11))


def test_a_place_claimed_twice_is_an_error_that_names_both_rows(spark: SparkSession, tmp_path: Path) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "two.csv"
    write_jsonl(one, [*rows("a", "start", "send a:1"), *rows("b", "link")])
    write_csv(other, rows("a", "link"))
    with pytest.raises(TraceError) as caught:
        verify(spark, tmp_path)
    message = str(caught.value)
    assert message.startswith("node a has position 0 more than once")
    assert f"{one} line 1" in message
    assert f"{other} line 2" in message


def test_an_unreadable_row_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"node": "a", "pos": 0, "kind": "start"}\nnonsense\n')
    with pytest.raises(TraceError, match=r"x\.jsonl: line 2: "):
        verify(spark, tmp_path)


def test_torn_lines_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_jsonl(tmp_path / f"{name}.jsonl", rows(name, "start"))
        with (tmp_path / f"{name}.jsonl").open("a") as file:
            file.write('{"node"')
    report = verify(spark, tmp_path)
    assert (report.ok, report.torn, report.runs[0].nodes) == (True, 2, 2)


def test_a_trace_without_rows_is_fine(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("node,pos,kind\n")
    write_jsonl(tmp_path / "metrics.jsonl", rows("a", "link", "receive"))
    report = verify(spark, tmp_path)
    assert report.ok
    assert report.runs == []


def test_an_open_trace_is_not_judged_by_what_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "x.jsonl", [*rows("a", "send a:1"), *rows("b", "start")])
    assert not verify(spark, tmp_path).ok
    report = verify(spark, tmp_path, still_open=True)
    assert report.ok
    assert report.runs[0].violations["lost"] == 1


def test_what_is_optional_may_be_null_and_unknown_columns_are_ignored(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "x.jsonl").write_text(
        '{"node": "a", "pos": 1, "kind": "send", "origin": "a", "seq": 1, "run": null, "colour": "red"}\n'
        '{"node": "b", "pos": 1, "kind": "deliver", "origin": "a", "seq": 1, "group": null, "deps": null}\n'
    )
    (run,) = verify(spark, tmp_path).runs
    assert (run.run, run.group, run.nodes) == ("", "", 2)
    assert not any(run.violations.values())
