"""Verification of a whole trace on Spark: read and pack, plan, judge, report."""

from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession

from thence.core.errors import TraceError
from thence.pipeline import files, frames, report
from thence.pipeline.locate import locate, locate_lives
from thence.pipeline.plan import Share, Size, plan
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
    surveyed = frames.survey(pieces).collect()
    errors = [row["error"] for row in surveyed if row["error"] is not None]
    if errors:
        raise TraceError(min(errors))
    torn = sum(row["torn"] for row in surveyed)
    sizes = [Size(*(row[name] for name in Size._fields)) for row in surveyed if row["events"]]
    shares = plan(sizes, parallelism, blocks)
    rows = _findings(frames.judged(spark, pieces, shares), shares) if shares else []
    twice = sorted((r["run"], r["group"], r["node"], r["pos"]) for r in rows if r["what"] == "twice")
    if twice:
        raise TraceError(locate(splits, *twice[0]))
    torn_apart = sorted((r["run"], r["group"], r["node"]) for r in rows if r["what"] == "lives")
    if torn_apart:
        raise TraceError(locate_lives(splits, *torn_apart[0]))
    return report.build(rows, torn, still_open=still_open)


def _findings(found: DataFrame, shares: list[Share]) -> list[Row]:
    """What the tasks found, settled between blocks where there are several."""
    if all(share.blocks == 1 for share in shares):
        return found.collect()
    found = found.persist()
    try:
        return frames.unmarked(found).unionByName(frames.settled(found)).collect()
    finally:
        found.unpersist()
