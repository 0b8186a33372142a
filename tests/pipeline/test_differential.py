"""Differential: Spark against the oracle, thousands of small runs, correct and broken, at a time."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pipeline.layouts import scatter, write_jsonl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from support.run_channels import channel_run
from support.runs import random_run, sabotage

from thence.check.oracle import RunVerdict, judge
from thence.pipeline import local
from thence.pipeline.report import RunReport
from thence.pipeline.verify import findings, verify
from thence.trace.schema import VERDICTS, Event

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

RUNS = 2000
FEW = 300
"""Where all that is found is compared, and not the first ten."""


def runs(seed: int, count: int) -> Iterator[list[Event]]:
    """Half of them broken; some share their run's name and differ in the group; some have channels."""
    rng = Random(seed)
    for number in range(count):
        run, group = f"r{number // 2}", rng.choice(["", "g"]) + str(number % 2)
        if number % 5 == 4:
            yield channel_run(rng, run, group)
            continue
        events = random_run(rng, run, group)
        yield events if rng.random() < 0.5 else sabotage(rng, events)


def expected(verdict: RunVerdict) -> tuple[Any, ...]:
    flags: dict[str, list[tuple[Any, ...]]] = {name: [] for name in VERDICTS}
    for flag in verdict.flagged:
        flags[flag.verdict].append((flag.node, -1 if flag.pos is None else flag.pos, flag.message))
    first = {name: sorted(found, key=_place)[:10] for name, found in flags.items()}
    counts = (verdict.nodes, verdict.sends, verdict.deliveries, verdict.stables)
    return (verdict.run, verdict.group, counts, verdict.violations, first)


def reported(report: RunReport) -> tuple[Any, ...]:
    flags: dict[str, list[tuple[Any, ...]]] = {name: [] for name in VERDICTS}
    for example in report.examples:
        flags[example["kind"]].append((example["node"], example.get("pos", -1), example["message"]))
    first = {name: sorted(found, key=_place) for name, found in flags.items()}
    counts = (report.nodes, report.sends, report.deliveries, report.stables)
    return (report.run, report.group, counts, report.violations, first)


def _place(flag: tuple[Any, ...]) -> tuple[Any, ...]:
    node, pos, message = flag
    origin, _, seq = message.rpartition(":")
    return (node, pos, origin, int(seq))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    events = [event for run in runs(1, RUNS) for event in run]
    scatter(Random(1), folder, events, files=12)
    return folder


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("few")
    scatter(Random(2), folder, [event for run in runs(2, FEW) for event in run], files=6)
    return folder


@pytest.fixture(scope="module")
def verdicts() -> list[tuple[Any, ...]]:
    return [expected(verdict) for run in runs(1, RUNS) for verdict in judge(run)]


@pytest.mark.parametrize(("blocks", "shards"), [(1, None), (3, None), (None, 3)])
def test_spark_and_the_oracle_agree_row_by_row(
    spark: SparkSession,
    folder: Path,
    verdicts: list[tuple[Any, ...]],
    blocks: int | None,
    shards: int | None,
) -> None:
    report = verify(spark, folder, blocks=blocks, shards=shards, split_bytes=1 << 18, split_rows=1 << 14)
    found = [reported(run) for run in report.runs]
    assert len(found) == len(verdicts)
    differences = [pair for pair in zip(sorted(verdicts), sorted(found), strict=True) if pair[0] != pair[1]]
    assert not differences, differences[0]


@pytest.mark.parametrize("blocks", [None, 3])
def test_judging_in_one_process_says_the_same(
    spark: SparkSession, few: Path, tmp_path: Path, blocks: int | None
) -> None:
    """Word for word, and finding by finding; also where columns are judged in blocks, one after the other."""
    here = local.verify(few, findings=tmp_path / "here", blocks=blocks)
    on_spark = verify(spark, few, findings=tmp_path / "there")
    assert here == on_spark
    one, other = (spark.read.parquet(str(tmp_path / name)) for name in ("here", "there"))
    assert one.dtypes == other.dtypes
    assert [one.exceptAll(other.select(one.columns)).count() for one, other in ((_flat(one), _flat(other)),
            (_flat(other), _flat(one)))] == [0, 0]  # fmt: skip


@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_one_process_and_the_oracle_agree_row_by_row(
    folder: Path, verdicts: list[tuple[Any, ...]], blocks: int
) -> None:
    found = sorted(reported(run) for run in local.verify(folder, blocks=blocks).runs)
    assert found == sorted(verdicts)


def _flat(found: DataFrame) -> DataFrame:
    """Maps cannot be compared."""
    return found.withColumn("detail", F.array_sort(F.map_entries("detail")))


@pytest.mark.parametrize(("blocks", "shards"), [(1, None), (3, None), (2, 3)])
def test_every_finding_is_told(
    spark: SparkSession, few: Path, blocks: int | None, shards: int | None
) -> None:
    told = findings(spark, few, blocks=blocks, shards=shards, split_bytes=1 << 16, split_rows=1 << 12)
    found = [(row[0], row[1], row[2], row[3], row[4], f"{row[5]}:{row[6]}") for row in told.collect()]
    told.unpersist()
    flags = [
        (verdict.run, verdict.group, flag.verdict, flag.node, flag.pos, flag.message)
        for run in runs(2, FEW)
        for verdict in judge(run)
        for flag in verdict.flagged
    ]
    assert Counter(found) == Counter(flags)
    assert {flag[2] for flag in flags} == set(VERDICTS)


def test_every_verdict_occurs_in_what_is_compared(verdicts: list[tuple[Any, ...]]) -> None:
    for name in VERDICTS:
        assert sum(counts[name] > 0 for _, _, _, counts, _ in verdicts) >= 20, name


def test_correct_runs_are_found_correct(spark: SparkSession, tmp_path: Path) -> None:
    rng = Random(7)
    rows = [event for number in range(300) for event in random_run(rng, f"r{number}")]
    write_jsonl(tmp_path / "all.jsonl", rows)
    report = verify(spark, tmp_path)
    assert report.ok
    assert [run.examples for run in report.runs] == [[]] * 300
