"""Metrics on Spark: every transformation on frames made by hand, and a whole summary against definitions."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual
from support.metrics_model import describe, models, random_trace

from thence.core.errors import UsageError
from thence.pipeline import metrics
from thence.pipeline.metrics import nodes, summaries
from thence.pipeline.metrics.frames import pieces_of, told_rows
from thence.trace.schema import Event

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

EVENTS = (
    "run string, `group` string, node string, pos bigint, kind string, origin string, seq bigint, "
    "at_us bigint, deps array<struct<origin:string,seq:bigint>>"
)


def frame(spark: SparkSession, events: Sequence[Event]) -> DataFrame:
    names = ("run", "group", "node", "pos", "kind", "origin", "seq", "at_us")
    rows = [
        (*[getattr(e, n) for n in names], e.deps and [msgspec.structs.astuple(dot) for dot in e.deps])
        for e in events
    ]
    return spark.createDataFrame(rows, EVENTS)


def rows(spark: SparkSession, *lines: str) -> DataFrame:
    """`node kind at`, or `node kind origin:seq at`; positions count up."""
    events = []
    for pos, line in enumerate(lines):
        node, kind, *about, at = line.split()
        origin, _, seq = about[0].rpartition(":") if about else ("", "", "")
        events.append(
            Event(
                node=node, pos=pos, kind=kind, origin=origin or None, seq=int(seq) if seq else None,
                at_us=None if at == "-" else int(at),
            )
        )  # fmt: skip
    return frame(spark, events)


def told(spark: SparkSession, schema: Any, *values: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame([("", "", *value) for value in values], schema)


@pytest.fixture(scope="module")
def by_hand(spark: SparkSession) -> DataFrame:
    """a sends three times; b gets all, the second one late since it is held; c joins in the middle."""
    events = rows(
        spark,
        "a start 0", "b start 0", "a send a:1 1000000", "b deliver a:1 1000010", "b duplicate a:1 1000015",
        "a send a:2 2000000", "b hold a:2 2000100", "b deliver a:2 2000500", "a stable a:1 2100000",
        "c start 2300000", "c install 2500000", "c deliver a:2 2600000",
        "a send a:3 3000000", "b deliver a:3 3000020", "c deliver a:3 3000040",
        "b evict z:4 3000100", "b stable a:1 3000300", "b heal 2000200",
    )  # fmt: skip
    return metrics.summary(events, parts=2).persist()


def test_delivery_latency(spark: SparkSession, by_hand: DataFrame) -> None:
    found = metrics.distribution(by_hand, "delivery")
    assert found.schema == summaries.DISTRIBUTION["run"]
    assertDataFrameEqual(
        found, told(spark, summaries.DISTRIBUTION["run"], (5, 600570 / 5, 40, 600_000, 600_000, 600_000))
    )
    assertDataFrameEqual(
        metrics.distribution(by_hand, "delivery", by="link"),
        told(
            spark, summaries.DISTRIBUTION["link"],
            ("a", "b", 3, 530 / 3, 20, 500, 500, 500),
            ("a", "c", 2, 300_020.0, 40, 600_000, 600_000, 600_000),
        ),
    )  # fmt: skip
    assertDataFrameEqual(
        metrics.distribution(by_hand, "delivery", by="member"),
        told(
            spark, summaries.DISTRIBUTION["member"],
            ("b", 3, 530 / 3, 20, 500, 500, 500), ("c", 2, 300_020.0, 40, 600_000, 600_000, 600_000),
        ),
    )  # fmt: skip
    assertDataFrameEqual(
        metrics.distribution(by_hand, "delivery", by="bin"),
        told(
            spark, summaries.DISTRIBUTION["bin"],
            (1_000_000, 1, 10.0, 10, 10, 10, 10), (2_000_000, 2, 300_250.0, 500, 600_000, 600_000, 600_000),
            (3_000_000, 2, 30.0, 20, 40, 40, 40),
        ),
    )  # fmt: skip


def test_broadcast_latency_leaves_out_who_came_later(spark: SparkSession, by_hand: DataFrame) -> None:
    assertDataFrameEqual(
        metrics.distribution(by_hand, "broadcast"),
        told(spark, summaries.DISTRIBUTION["run"], (3, 550 / 3, 40, 500, 500, 500)),
    )


def test_time_held_and_stability(spark: SparkSession, by_hand: DataFrame) -> None:
    assertDataFrameEqual(
        metrics.distribution(by_hand, "held", by="member"),
        told(spark, summaries.DISTRIBUTION["member"], ("b", 1, 400.0, 400, 400, 400, 400)),
    )
    assertDataFrameEqual(
        metrics.distribution(by_hand, "stability", by="member"),
        told(
            spark, summaries.DISTRIBUTION["member"],
            ("a", 1, 1_100_000.0, *[1_100_000] * 4), ("b", 1, 2_000_300.0, *[2_000_300] * 4),
        ),
    )  # fmt: skip


def test_counts(spark: SparkSession, by_hand: DataFrame) -> None:
    expected = told(
        spark, summaries.COUNTS, ("sends", "a", 3), ("deliveries", "b", 3), ("deliveries", "c", 2),
        ("stables", "a", 1), ("stables", "b", 1), ("holds", "b", 1), ("duplicates", "b", 1),
    )  # fmt: skip
    assertDataFrameEqual(metrics.counts(by_hand), expected)


def test_a_collected_summary_gives_the_same_tables(spark: SparkSession, by_hand: DataFrame) -> None:
    collected = by_hand.toArrow()
    for view in summaries.VIEWS.values():
        assertDataFrameEqual(spark.createDataFrame(view.table(collected), view.schema), view.frame(by_hand))


def test_not_every_measure_is_taken_by_everything(by_hand: DataFrame) -> None:
    with pytest.raises(UsageError, match="entries is not taken by link"):
        metrics.distribution(by_hand, "entries", by="link")


def test_changes_and_convergence(spark: SparkSession, by_hand: DataFrame) -> None:
    assertDataFrameEqual(
        metrics.changes(by_hand),
        told(
            spark, summaries.CHANGES,
            ("join", "c", "", 2_500_000, 100_000), ("evict", "b", "z", 3_000_100, 200),
        ),
    )  # fmt: skip
    assertDataFrameEqual(metrics.convergence(by_hand), told(spark, summaries.HEALS, (2_000_200, 2, 599_800)))
    assertDataFrameEqual(
        metrics.catch_up(by_hand), told(spark, summaries.CATCH_UPS, ("join", "c", 2_500_000, 1, 100_000))
    )
    assertDataFrameEqual(metrics.spans(by_hand), told(spark, summaries.SPANS, (0, 3_000_300)))


def test_a_change_that_did_not_show_has_no_time(spark: SparkSession) -> None:
    found = metrics.changes(metrics.summary(rows(spark, "c install 5", "b deliver a:1 9"), parts=1))
    assertDataFrameEqual(found, told(spark, summaries.CHANGES, ("join", "c", "", 5, None)))


@pytest.mark.parametrize("seed", range(2))
def test_a_summary_is_that_of_the_definitions(spark: SparkSession, seed: int) -> None:
    events = random_trace(Random(seed), 400)
    found = metrics.summary(frame(spark, events), parts=3, bin_us=500_000).collect()
    for run, model in models(events, 500_000).items():
        ours = {
            (row["measure"], row["by"], row["node"], row["origin"], row["start_us"]): row
            for row in found
            if row["run"] == run and row["measure"] in ("delivery", "broadcast", "stability", "held")
        }
        expected = model.distributions()
        assert ours.keys() == expected.keys()
        for key, row in ours.items():
            for name, value in expected[key].items():
                assert row[name] == pytest.approx(value, rel=2**-19), (key, name)


def test_samples_and_totals(spark: SparkSession) -> None:
    events = rows(
        spark, "a metric disk_bytes:7 10", "a metric sent_bytes_total:5 10", "a metric sent_bytes_total:9 20",
        "a metric sent_bytes_total:2 30", "b metric sent_bytes_total:100 10", "b receive x:1 10",
    )  # fmt: skip
    assertDataFrameEqual(
        metrics.samples(events.where("origin = 'disk_bytes'")),
        told(spark, nodes.SAMPLES, ("a", "disk_bytes", 10, 7)),
    )
    assertDataFrameEqual(metrics.totals(events), told(spark, nodes.TOTALS, ("sent_bytes_total", 111)))


def test_levels(spark: SparkSession) -> None:
    events = rows(spark, "a metric disk_bytes:7 10", "b metric disk_bytes:9 20", "b metric x_total:9 20")
    assertDataFrameEqual(metrics.levels(events), told(spark, nodes.LEVELS, ("disk_bytes", 2, 2, 8.0, 9)))


def test_synchronisations(spark: SparkSession) -> None:
    events = rows(
        spark, "a sync b:1 10", "a lazy c:1 20", "a eager b:1 25", "a sync c:1 30", "b sync a:1 40",
        "b unlink a:1 45", "d synced a:30 90", "d synced a:7 -",
    )  # fmt: skip
    assertDataFrameEqual(
        metrics.synchronisations(events),
        told(
            spark, nodes.SYNCHRONISATIONS,
            ("a", "b", "eager", 10, 15), ("a", "c", None, 30, None), ("b", "a", "unlink", 40, 5),
            ("d", "a", "installed", 60, 30),
        ),
    )  # fmt: skip


def test_stabilisation(spark: SparkSession) -> None:
    """Three nodes become a tree; one goes, and its neighbours find each other."""
    events = rows(
        spark, "a start 0", "b start 0", "c start 0", "a eager b:1 10", "b eager a:1 12", "b eager c:1 20",
        "c eager b:1 25", "b crash 100", "a unlink b:1 110", "c unlink b:1 110", "a eager c:1 120",
        "c eager a:1 130", "c lazy a:1 140", "c eager a:1 160",
    )  # fmt: skip
    assertDataFrameEqual(
        metrics.stabilisation(events),
        told(spark, nodes.STABILISATIONS, (0, 3, 25, 25, 4), (100, 2, 30, 60, 6)),
    )


def test_evictions(spark: SparkSession) -> None:
    events = rows(spark, "a evict z:4 10", "b evict z:4 25", "a evict y:1 30")
    assertDataFrameEqual(
        metrics.evictions(events), told(spark, nodes.EVICTIONS, ("z", 10, 2, 15), ("y", 30, 1, 0))
    )


def test_rows_that_travel_as_they_are_come_back(spark: SparkSession) -> None:
    events = rows(spark, "a metric disk_bytes:7 10", "a send a:1 5", "b crash -", "b unlink a:1 12")
    told = told_rows(pieces_of(events, 2))
    expected = events.where("kind != 'send'").drop("deps")
    assertDataFrameEqual(spark.createDataFrame(told.rows).select(*expected.columns), expected)
    assert (told.error, told.torn) == (None, 0)


def test_a_frame_with_few_columns_will_do(spark: SparkSession) -> None:
    events = rows(spark, "a send a:1 5", "b deliver a:1 9").drop("run", "group", "deps")
    assert [row["p99"] for row in metrics.distribution(metrics.summary(events), "delivery").collect()] == [4]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("b deliver 9", "no origin: run '', group '', node 'b', pos 1, kind 'deliver'"),
        ("b start -9", "negative time"),
    ],
)
def test_a_row_that_cannot_be_read_ends_the_job(spark: SparkSession, line: str, said: str) -> None:
    with pytest.raises(PySparkException, match=said):
        metrics.summary(rows(spark, "a send a:1 5", line), parts=1).collect()


def test_describe_counts_by_nearest_rank() -> None:
    """The oracle's own."""
    assert describe([3, 1, 2]) == {"count": 3, "mean": 2.0, "p50": 2, "p90": 3, "p99": 3, "max": 3}


@pytest.mark.usefixtures("spark")
def test_the_example_of_the_chapter_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chapter = (Path(__file__).parents[2] / "docs" / "METRICS.md").read_text(encoding="utf-8")
    (tmp_path / "mine.csv").write_text(
        "node,pos,kind,origin,seq,at_us\na,0,send,a,1,1000\nb,0,deliver,a,1,251000\nb,1,link,,,\n"
    )
    example = chapter.split("```python\n")[1].split("```")[0]
    exec(example.replace("mine.csv", str(tmp_path / "mine.csv")), {})
    assert "250000" in (shown := capsys.readouterr().out)
    assert "|       0|250.0|" in shown
