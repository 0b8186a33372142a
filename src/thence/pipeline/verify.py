"""Verification of a whole trace on Spark: read and pack, plan, judge, report."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from thence.core.errors import TraceError
from thence.pipeline import files, frames, inputs, report
from thence.pipeline.findings import EXAMPLES
from thence.pipeline.locate import Clue, Suspect, tell
from thence.pipeline.plan import Share, Size, plan
from thence.pipeline.session import cores

CLUES_MAX: Final = 1000
"""Rows that a look for the cause of an error brings to the driver at most."""
FORCED_BUCKETS: Final = 32
"""Where a number of shards is forced."""


class Sharding(NamedTuple):
    """Into how many parts runs are to be cut; None: as is best."""

    blocks: int | None = None
    shards: int | None = None


class TraceSurvey(NamedTuple):
    """What a trace holds, before it is judged."""

    sizes: list[Size]
    torn: int
    kinds: list[str]


def verify(
    spark: SparkSession,
    path: str | Path,
    *,
    still_open: bool = False,
    findings: str | Path | None = None,
    tolerant: bool = False,
    blocks: int | None = None,
    shards: int | None = None,
    split_bytes: int = files.SPLIT_BYTES,
    split_rows: int = files.SPLIT_ROWS,
) -> report.Report:
    """The verdicts on a trace. `findings`: a folder that becomes a Parquet table of all that was found;
    `tolerant`: half-written files are left out and counted. `blocks` and `shards` force into how many
    parts runs are cut, split sizes how files are."""
    limit = EXAMPLES if findings is None else None
    with _judged(spark, path, limit, tolerant, Sharding(blocks, shards), split_bytes, split_rows) as judged:
        if findings is None:
            rows = judged.found.collect()
            judged.refuse(report.suspect(rows))
        else:
            judged.check()
            target = findings if files.is_url(str(findings)) else Path(findings).absolute()
            frames.told(judged.found).write.parquet(str(target))
            rows = frames.first_ones(judged.found).collect()
        return report.build(rows, judged.survey.torn, judged.survey.kinds, still_open=still_open)


def findings(
    spark: SparkSession,
    path: str | Path,
    *,
    tolerant: bool = False,
    blocks: int | None = None,
    shards: int | None = None,
    split_bytes: int = files.SPLIT_BYTES,
    split_rows: int = files.SPLIT_ROWS,
) -> DataFrame:
    """Everything that is wrong with a trace, a row for each: run, group, verdict, node, pos, origin, seq and
    detail. It stays cached; `unpersist` it when it is no longer needed."""
    with _judged(spark, path, None, tolerant, Sharding(blocks, shards), split_bytes, split_rows) as judged:
        judged.check()
        told = frames.told(judged.found).persist()
        told.count()
        return told


class SettledVerdicts(NamedTuple):
    """What was found, settled between blocks."""

    survey: TraceSurvey
    found: DataFrame
    explain: Callable[[Suspect], str]

    def check(self) -> None:
        """Raise what makes the trace unreadable as a whole."""
        blamed = self.found.where(self.found["what"].isin(list(report.UNREADABLE)))
        self.refuse(report.suspect(blamed.limit(CLUES_MAX).collect()))

    def refuse(self, suspect: Suspect | None) -> None:
        if suspect is not None:
            raise TraceError(self.explain(suspect))


@contextmanager
def _judged(
    spark: SparkSession,
    path: str | Path,
    limit: int | None,
    tolerant: bool,
    cut: Sharding,
    split_bytes: int,
    split_rows: int,
) -> Iterator[SettledVerdicts]:
    """What the trace holds and what was found in it, kept until the caller has done with it."""
    parallelism = cores(spark)
    buckets = FORCED_BUCKETS if cut.shards else None
    trace = inputs.find(spark, path, parallelism, split_bytes, split_rows, tolerant, buckets)

    def explain(suspect: Suspect) -> str:
        rows = trace.clues(suspect).orderBy("task", "pos").limit(CLUES_MAX).collect()
        return tell(suspect, [Clue(row["what"], row["place"]) for row in rows])

    pieces = trace.packed().persist()
    kept: list[DataFrame] = [pieces]
    try:
        survey = _survey(pieces)
        shares = plan(survey.sizes, parallelism, cut.blocks, cut.shards, trace.buckets)
        if all(share.blocks == share.shards == 1 for share in shares):
            found = frames.judged(spark, pieces, shares, limit)
            if limit is None:  # else it is asked once
                kept.append(found.persist())
        else:
            parts = list(_in_rounds(spark, pieces, survey.sizes, shares, limit, trace.buckets, kept))
            found = reduce(DataFrame.unionByName, [_settled(part, limit) for part in parts])
        yield SettledVerdicts(survey, found, explain)
    finally:
        for frame in kept:
            frame.unpersist()


def _settled(part: DataFrame, limit: int | None) -> DataFrame:
    """What was found, with what its parts settled between them: most traces leave nothing to settle, and are
    not sent to workers once more."""
    found = frames.unmarked(part)
    return found.unionByName(frames.settled(part, limit)) if frames.unsettled(part).count() else found


def _in_rounds(
    spark: SparkSession,
    pieces: DataFrame,
    sizes: Sequence[Size],
    shares: Sequence[Share],
    limit: int | None,
    buckets: int,
    kept: list[DataFrame],
) -> Iterator[DataFrame]:
    """What is found in all runs, some of which are in shards and judged until all pasts are known.

    From the second round on each shard tells all that it knows. So a round needs nothing but the one before
    it, and Spark's plan grows by a round's length; one that joined all of them would double each time."""
    number = frames.PASTS
    cut = [share for share in shares if share.shards > 1]
    pasts = frames.told_pasts(spark, pieces, cut, buckets).persist() if cut else None
    while shares:
        complete = number < frames.PASTS
        found = frames.judged(spark, pieces, shares, limit, buckets, pasts, again=complete).persist()
        kept += [found] if pasts is None else [found, pasts]
        if pasts is None:
            yield found
            return
        open_ = found.where("what IN ('pasts', 'circle')").groupBy("run", "group")
        told = open_.agg(F.max(F.col("what") == "circle").alias("circle")).collect()
        again = {(row["run"], row["group"]): row["circle"] for row in told}
        yield _without(spark, found, list(again))
        circles = [size for size in sizes if again.get((size.run, size.group))]
        if circles:  # what waits for itself has no pasts that shards could find
            whole = frames.judged(spark, pieces, plan(circles, cores(spark)), limit).persist()
            kept.append(whole)
            yield whole
        number -= 1
        shares = [share for share in shares if again.get((share.run, share.group)) is False]
        fresh = frames.pasts_in(found, number)
        pasts = fresh if complete else pasts.unionByName(fresh)


def _without(spark: SparkSession, found: DataFrame, scopes: list[tuple[str, str]]) -> DataFrame:
    if not scopes:
        return found
    gone = spark.createDataFrame(scopes, "run string, `group` string")
    return found.join(F.broadcast(gone), ["run", "group"], "left_anti").select(*found.columns)


def _survey(pieces: DataFrame) -> TraceSurvey:
    surveyed = frames.survey(pieces).collect()
    errors = [row["error"] for row in surveyed if row["error"] is not None]
    if errors:
        raise TraceError(min(errors))
    return TraceSurvey(
        [_size(row) for row in surveyed if row["events"]],
        sum(row["torn"] for row in surveyed),
        [kind for row in surveyed for kind in row["others"]],
    )


def _size(row: Any) -> Size:
    buckets = tuple(sorted((one["bucket"], one["events"]) for one in row["buckets"]))
    told = {name: row[name] for name in Size._fields if name != "buckets"}
    return Size(**told, buckets=buckets)
