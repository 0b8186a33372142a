"""Verification of a whole trace on Spark: read and pack, plan, judge, report."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from thence.core.errors import TraceError
from thence.pipeline import files, frames, inputs, report
from thence.pipeline.findings import EXAMPLES
from thence.pipeline.locate import Clue, Suspect, tell
from thence.pipeline.plan import Size, plan
from thence.pipeline.session import cores

CLUES_MAX: Final = 1000
"""Rows that a look for the cause of an error brings to the driver at most."""


class Survey(NamedTuple):
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
    split_bytes: int = files.SPLIT_BYTES,
    split_rows: int = files.SPLIT_ROWS,
) -> report.Report:
    """The verdicts on a trace. `findings`: a folder that becomes a Parquet table of all that was found;
    `tolerant`: half-written files are left out and counted. `blocks` forces a number of column blocks, split
    sizes how files are cut."""
    limit = EXAMPLES if findings is None else None
    with _judged(spark, path, limit, tolerant, blocks, split_bytes, split_rows) as judged:
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
    split_bytes: int = files.SPLIT_BYTES,
    split_rows: int = files.SPLIT_ROWS,
) -> DataFrame:
    """Everything that is wrong with a trace, a row for each: run, group, verdict, node, pos, origin, seq and
    detail. It stays cached; `unpersist` it when it is no longer needed."""
    with _judged(spark, path, None, tolerant, blocks, split_bytes, split_rows) as judged:
        judged.check()
        told = frames.told(judged.found).persist()
        told.count()
        return told


class Judged(NamedTuple):
    """What was found, settled between blocks."""

    survey: Survey
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
    blocks: int | None,
    split_bytes: int,
    split_rows: int,
) -> Iterator[Judged]:
    """What the trace holds and what was found in it, kept until the caller has done with it."""
    parallelism = cores(spark)
    trace = inputs.find(spark, path, parallelism, split_bytes, split_rows, tolerant)

    def explain(suspect: Suspect) -> str:
        rows = trace.clues(suspect).orderBy("task", "pos").limit(CLUES_MAX).collect()
        return tell(suspect, [Clue(row["what"], row["place"]) for row in rows])

    pieces = trace.packed().persist()
    found = None
    try:
        survey = _survey(pieces)
        shares = plan(survey.sizes, parallelism, blocks)
        found = frames.judged(spark, pieces, shares, limit)
        several = any(share.blocks > 1 for share in shares)
        if several or limit is None:
            found.persist()  # else it is asked once
        settled = frames.unmarked(found).unionByName(frames.settled(found, limit)) if several else found
        yield Judged(survey, settled, explain)
    finally:
        pieces.unpersist()
        if found is not None:
            found.unpersist()


def _survey(pieces: DataFrame) -> Survey:
    surveyed = frames.survey(pieces).collect()
    errors = [row["error"] for row in surveyed if row["error"] is not None]
    if errors:
        raise TraceError(min(errors))
    return Survey(
        [Size(*(row[name] for name in Size._fields)) for row in surveyed if row["events"]],
        sum(row["torn"] for row in surveyed),
        [kind for row in surveyed for kind in row["others"]],
    )
