"""Addressed messages: Spark and the oracle judge the simulator's traces alike, clean and sabotaged."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.traces import read

from thence.check.oracle import judge
from thence.pipeline.verify import verify
from thence.sim.run import simulate
from thence.sim.scenarios import configure

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_spark_and_the_oracle_agree(spark: SparkSession, tmp_path: Path) -> None:
    """One run as it is; one in which messages wait for nothing; one with a misaddressed delivery."""
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
    for name, changed in (("backwards", backwards), ("astray", astray)):
        (tmp_path / name).mkdir()
        pq.write_table(pa.Table.from_pylist(changed, table.schema), tmp_path / name / "sim.parquet")
    report = {judged.run: judged.violations for judged in verify(spark, tmp_path).runs}
    for name in ("clean", "backwards", "astray"):
        [verdict] = judge(read(tmp_path / name / "sim.parquet"))
        assert report[name] == verdict.violations, name
    assert not any(report["clean"].values())
    assert report["backwards"]["order"] > 0
    assert report["astray"]["unsent"] == 1


def _got(row: dict[str, object], node: object) -> bool:
    return row["kind"] == "deliver" and row["node"] == node
