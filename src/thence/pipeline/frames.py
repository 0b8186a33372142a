"""The steps on Spark, DataFrame to DataFrame, with explicit schemas.

Python functions meet Spark as Arrow functions over columns: `packed` maps a task number to the pieces of
its splits, `judged` aggregates a task's pieces to findings. Neither needs pandas.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from thence.core.errors import TraceError
from thence.pipeline.files import Split
from thence.pipeline.judge import judge
from thence.pipeline.marks import settle
from thence.pipeline.pack import pack
from thence.pipeline.plan import Share
from thence.pipeline.readers import read

PIECE: Final = (
    "array<struct<run string, `group` string, events bigint, sends bigint, restarts bigint, "
    "nodes array<string>, others array<string>, payload binary, torn int, error string>>"
)
FINDING: Final = (
    "array<struct<run string, `group` string, what string, verdict string, node string, pos bigint, "
    "message string, number bigint, detail string, payload binary>>"
)
PIECE_TYPE: Final = pa.list_(
    pa.struct(
        [
            ("run", pa.string()),
            ("group", pa.string()),
            ("events", pa.int64()),
            ("sends", pa.int64()),
            ("restarts", pa.int64()),
            ("nodes", pa.list_(pa.string())),
            ("others", pa.list_(pa.string())),
            ("payload", pa.binary()),
            ("torn", pa.int32()),
            ("error", pa.string()),
        ]
    )
)
SHARE: Final = StructType(
    [
        StructField("run", StringType(), False),
        StructField("group", StringType(), False),
        StructField("block", IntegerType(), False),
        StructField("blocks", IntegerType(), False),
        StructField("task", IntegerType(), False),
    ]
)


# Spark tells the form of an Arrow function from its annotations, which its own type stubs do not know.
arrow_function = cast(Any, arrow_udf)


def _pieces(splits: Sequence[Split]) -> list[dict[str, Any]]:
    """What a task's splits hold; a row that cannot be read becomes a piece that says so."""
    found: list[dict[str, Any]] = []
    empty = {"run": "", "group": "", "events": 0, "sends": 0, "restarts": 0, "nodes": [], "payload": b""}
    for split in splits:
        try:
            for rows, _, torn in read(split):
                if torn:
                    found.append({**empty, "torn": torn, "error": None})
                found.extend({**piece._asdict(), "torn": 0, "error": None} for piece in pack(rows))
        except TraceError as error:
            return [{**empty, "torn": 0, "error": str(error)}]
    return found


def packed(spark: SparkSession, tasks: Sequence[Sequence[Split]]) -> DataFrame:
    """One row per packed piece."""

    def read_task(numbers: pa.Array) -> pa.Array:
        return pa.array([_pieces(tasks[number]) for number in numbers.to_pylist()], PIECE_TYPE)

    read_pieces = arrow_function(read_task, PIECE)
    count = len(tasks)
    return spark.range(0, count, 1, count).select(F.inline(read_pieces("id")))


def survey(pieces: DataFrame) -> DataFrame:
    """Per run and group how much there is, the first unreadable row and how many last lines were torn.

    What is wrong with a file belongs to no run; it stands with the unnamed one, which may have no rows.
    """
    nodes = F.size(F.array_distinct(F.flatten(F.collect_list("nodes"))))
    return pieces.groupBy("run", "group").agg(
        F.sum("events").alias("events"),
        F.sum("sends").alias("sends"),
        (nodes + F.sum("restarts")).alias("columns"),
        F.sum("torn").alias("torn"),
        F.min("error").alias("error"),
    )


def judged(spark: SparkSession, pieces: DataFrame, shares: Sequence[Share]) -> DataFrame:
    """Findings of all tasks. Each task gets its own partition, so that no two large blocks share one."""
    plan = spark.createDataFrame([tuple(share) for share in shares], SHARE)
    tasks = max(share.task for share in shares) + 1
    work = (
        pieces.where("events > 0")
        .join(F.broadcast(plan), ["run", "group"])
        .select("task", "run", "group", "block", "blocks", "payload")
        .repartitionById(tasks, F.col("task"))
    )
    judge_task = arrow_function(_judge_task, FINDING)
    found = judge_task("run", "group", "block", "blocks", "payload").alias("found")
    return work.groupBy("task").agg(found).select(F.inline("found"))


def _judge_task(batches: Iterator[tuple[pa.Array, ...]]) -> Any:
    runs: dict[tuple[str, str, int, int], list[Any]] = {}
    for run, group, block, blocks, payload in batches:
        keys = zip(*(column.to_pylist() for column in (run, group, block, blocks)), strict=True)
        for key, binary in zip(keys, payload, strict=True):
            runs.setdefault(key, []).append(memoryview(binary.as_buffer()))
    found = []
    for key in sorted(runs):
        run_name, group_name, number, of = key
        scope = {"run": run_name, "group": group_name}
        found += [scope | finding._asdict() for finding in judge(runs.pop(key), number, of)]
    return found


def unmarked(found: DataFrame) -> DataFrame:
    """What needs no settling between blocks."""
    return found.where("what != 'marks'")


def settled(found: DataFrame) -> DataFrame:
    """Counts and examples of the rows that blocks marked, in the form of findings."""
    settle_run = arrow_function(_settle_run, FINDING)
    marks = found.where("what = 'marks'").groupBy("run", "group")
    return marks.agg(settle_run("run", "group", "payload").alias("found")).select(F.inline("found"))


def _settle_run(batches: Iterator[tuple[pa.Array, ...]]) -> Any:
    scope: dict[str, Any] = {}
    payloads: list[Any] = []
    for run, group, payload in batches:
        scope = {"run": run[0].as_py(), "group": group[0].as_py()}
        payloads += [memoryview(binary.as_buffer()) for binary in payload]
    return [scope | finding._asdict() for finding in settle(payloads)]
