"""Verification of a whole trace on Spark: read and pack, plan, judge, report."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from thence.core.errors import TraceError
from thence.pipeline import files, frames, report
from thence.pipeline.locate import locate
from thence.pipeline.plan import plan
from thence.pipeline.session import cores


def verify(
    spark: SparkSession,
    path: str | Path,
    *,
    still_open: bool = False,
    blocks: int | None = None,
    split_bytes: int = files.SPLIT_BYTES,
    split_rows: int = files.SPLIT_ROWS,
) -> report.Report:
    """The verdicts on a trace. `blocks` forces a number of column blocks, split sizes how files are cut."""
    splits = files.cut(files.trace_files(Path(path)), split_bytes, split_rows)
    parallelism = cores(spark)
    tasks = files.share_out(splits, tasks_min=2 * parallelism, task_bytes=split_bytes)
    pieces = frames.packed(spark, tasks).persist()
    try:
        return _judge(spark, pieces, splits, parallelism, still_open, blocks)
    finally:
        pieces.unpersist()


def _judge(
    spark: SparkSession,
    pieces: DataFrame,
    splits: list[files.Split],
    parallelism: int,
    still_open: bool,
    blocks: int | None,
) -> report.Report:
    trouble = frames.troubles(pieces).collect()[0]
    if trouble["error"] is not None:
        raise TraceError(trouble["error"])
    shares = plan(frames.to_sizes(frames.sizes(pieces)), parallelism, blocks)
    if not shares:
        return report.build([], trouble["torn"])
    found = frames.judged(spark, pieces, shares).persist()
    try:
        rows = frames.settle(found).collect()
    finally:
        found.unpersist()
    twice = sorted((r["run"], r["group"], r["node"], r["pos"]) for r in rows if r["what"] == "twice")
    if twice:
        raise TraceError(locate(splits, *twice[0]))
    return report.build(rows, trouble["torn"], still_open=still_open)
