"""Addressed messages: Spark, one process and the oracle judge a trace alike, as it is and sabotaged."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.traces import read

from thence.check.oracle import judge
from thence.pipeline import local
from thence.pipeline.verify import verify
from thence.sim.run import simulate
from thence.sim.scenarios import configure

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_all_three_agree(spark: SparkSession, tmp_path: Path) -> None:
    """One run as it is; one in which messages wait for nothing; one with a misaddressed delivery; one that
    lacks a delivery."""
    settings = configure("storm", order="separator", seed=12)
    assert simulate(settings, tmp_path / "clean", run="clean").complete
    table = pq.read_table(tmp_path / "clean" / "sim.parquet")
    rows = table.to_pylist()
    backwards = [dict(row, run="backwards") for row in rows]
    astray = [dict(row, run="astray") for row in rows]
    busy = max({row["node"] for row in rows}, key=lambda node: sum(_got(row, node) for row in rows))
    places = [number for number, row in enumerate(rows) if _got(row, busy)]
    for one, other in zip(places, reversed(places), strict=True):
        if one < other:
            first, last = backwards[one], backwards[other]
            first["pos"], last["pos"] = last["pos"], first["pos"]
    sent = next(row for row in rows if row["kind"] == "send" and busy not in (*row["dest"], row["node"]))
    astray.append(dict(sent, run="astray", kind="deliver", node=busy, pos=10**6, dest=None, deps=None))
    lacking = [dict(row, run="lacking") for number, row in enumerate(rows) if number != places[-1]]
    for name, changed in (("backwards", backwards), ("astray", astray), ("lacking", lacking)):
        (tmp_path / name).mkdir()
        pq.write_table(pa.Table.from_pylist(changed, table.schema), tmp_path / name / "sim.parquet")
    on_spark = verify(spark, tmp_path)
    assert [local.verify(tmp_path, blocks=blocks) for blocks in (None, 4)] == [on_spark] * 2
    assert verify(spark, tmp_path, shards=3) == on_spark
    report = {judged.run: judged.violations for judged in on_spark.runs}
    for name in ("clean", "backwards", "astray", "lacking"):
        [verdict] = judge(read(tmp_path / name / "sim.parquet"))
        assert report[name] == verdict.violations, name
    assert not any(report["clean"].values())
    assert report["backwards"]["order"] > 0
    assert report["astray"]["unsent"] == 1
    assert report["lacking"]["lost"] == 1


def _got(row: dict[str, object], node: object) -> bool:
    return row["kind"] == "deliver" and row["node"] == node
