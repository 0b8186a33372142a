"""The steps on Spark, DataFrame to DataFrame, with explicit schemas.

Python functions meet Spark as Arrow functions over columns: `packed` maps a task number to the pieces of
its splits, `judged` aggregates a task's pieces to findings. Neither needs pandas.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from thence.core.errors import TraceError
from thence.pipeline.files import Split
from thence.pipeline.findings import EXAMPLES
from thence.pipeline.judge import judge
from thence.pipeline.locate import Suspect, look
from thence.pipeline.marks import settle
from thence.pipeline.pack import pack
from thence.pipeline.plan import Share
from thence.pipeline.readers import read

PIECE: Final = (
    "array<struct<run string, `group` string, events bigint, sends bigint, restarts bigint, "
    "nodes array<string>, others array<string>, payload binary, torn int, error string>>"
)
FOUND: Final = (
    "run string, `group` string, what string, verdict string, node string, pos bigint, "
    "message string, number bigint, detail string, payload binary"
)
FINDING: Final = f"array<struct<{FOUND}>>"
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
NO_PIECE: Final = {
    "run": "", "group": "", "events": 0, "sends": 0, "restarts": 0, "nodes": [], "others": [], "payload": b"",
    "torn": 0, "error": None,
}  # fmt: skip
CLUES: Final = "array<struct<what string, place string>>"
CLUE_TYPE: Final = pa.list_(pa.struct([("what", pa.string()), ("place", pa.string())]))
TASK: Final = "task int, splits binary"
MESSAGE: Final = "(?s)^(.*):([0-9]+)$"
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


def pieces(splits: Sequence[Split]) -> list[dict[str, Any]]:
    """What a task's splits hold, as rows; a row of the trace that cannot be read becomes one that says so."""
    found: list[dict[str, Any]] = []
    for split in splits:
        try:
            for rows, _, torn in read(split):
                if torn:
                    found.append({**NO_PIECE, "torn": torn})
                found.extend({**NO_PIECE, **piece._asdict()} for piece in pack(rows))
        except TraceError as error:
            found.append({**NO_PIECE, "error": str(error)})
    return found


def tasks_of(spark: SparkSession, tasks: Sequence[Sequence[Split]]) -> DataFrame:
    """A row and a partition for each task: no task is sent the splits of the others."""
    rows = [(number, bytearray(msgspec.msgpack.encode(splits))) for number, splits in enumerate(tasks)]
    return spark.createDataFrame(rows, TASK).repartitionById(len(tasks), F.col("task"))


def splits_of(task: pa.Scalar) -> list[Split]:
    """Of a row of `tasks_of`."""
    return msgspec.msgpack.decode(task.as_buffer(), type=list[Split])


def packed(spark: SparkSession, tasks: Sequence[Sequence[Split]]) -> DataFrame:
    """One row per packed piece."""
    read_pieces = arrow_function(_read_tasks, PIECE)
    return tasks_of(spark, tasks).select(F.inline(read_pieces("splits")))


def _read_tasks(tasks: pa.Array) -> pa.Array:
    return pa.array([pieces(splits_of(task)) for task in tasks], PIECE_TYPE)


def clues(spark: SparkSession, tasks: Sequence[Sequence[Split]], suspect: Suspect) -> DataFrame:
    """What rows say about a suspect, with the number of the task that read them."""

    def look_in(tasks: pa.Array) -> pa.Array:
        found = [[clue._asdict() for clue in look(splits_of(task), suspect)] for task in tasks]
        return pa.array(found, CLUE_TYPE)

    function = arrow_function(look_in, CLUES)
    return (
        tasks_of(spark, tasks).select("task", F.posexplode(function("splits"))).select("task", "pos", "col.*")
    )


def survey(pieces: DataFrame) -> DataFrame:
    """Per run and group how much there is, the first unreadable row and how many last lines were torn.

    What is wrong with a file belongs to no run; it stands with the unnamed one, which may have no rows.
    """
    nodes = F.size(F.array_distinct(F.flatten(F.collect_set("nodes"))))
    return pieces.groupBy("run", "group").agg(
        F.sum("events").alias("events"),
        F.sum("sends").alias("sends"),
        (nodes + F.sum("restarts")).alias("columns"),
        F.sum("torn").alias("torn"),
        F.min("error").alias("error"),
        F.array_distinct(F.flatten(F.collect_set("others"))).alias("others"),
    )


def judged(
    spark: SparkSession, pieces: DataFrame, shares: Sequence[Share], limit: int | None = EXAMPLES
) -> DataFrame:
    """Findings of all tasks, up to `limit` of a verdict. Each task gets its own partition, so that no two
    large blocks share one."""
    if not shares:
        return spark.createDataFrame([], FOUND)

    def judge_task(batches: Iterator[tuple[pa.Array, ...]]) -> Any:
        return _judge_task(batches, limit)

    plan = spark.createDataFrame([tuple(share) for share in shares], SHARE)
    tasks = max(share.task for share in shares) + 1
    work = (
        pieces.where("events > 0")
        .join(F.broadcast(plan), ["run", "group"])
        .select("task", "run", "group", "block", "blocks", "payload")
        .repartitionById(tasks, F.col("task"))
    )
    judged = arrow_function(judge_task, FINDING)
    found = judged("run", "group", "block", "blocks", "payload").alias("found")
    return work.groupBy("task").agg(found).select(F.inline("found"))


def _judge_task(batches: Iterator[tuple[pa.Array, ...]], limit: int | None) -> Any:
    runs: dict[tuple[str, str, int, int], list[Any]] = {}
    for run, group, block, blocks, payload in batches:
        keys = zip(*(column.to_pylist() for column in (run, group, block, blocks)), strict=True)
        for key, binary in zip(keys, payload, strict=True):
            runs.setdefault(key, []).append(memoryview(binary.as_buffer()))
    binary = payload = None  # a batch goes once its runs are judged
    found = []
    for key in sorted(runs):
        run_name, group_name, number, of = key
        found += [f.row(run_name, group_name) for f in judge(runs.pop(key), number, of, limit)]
    return found


def unmarked(found: DataFrame) -> DataFrame:
    """What needs no settling between blocks."""
    return found.where("what != 'marks'")


def settled(found: DataFrame, limit: int | None = EXAMPLES) -> DataFrame:
    """Counts and examples of the rows that blocks marked, in the form of findings."""

    def settle_run(batches: Iterator[tuple[pa.Array, ...]]) -> Any:
        return _settle_run(batches, limit)

    settled = arrow_function(settle_run, FINDING)
    marks = found.where("what = 'marks'").groupBy("run", "group")
    return marks.agg(settled("run", "group", "payload").alias("found")).select(F.inline("found"))


def _settle_run(batches: Iterator[tuple[pa.Array, ...]], limit: int | None) -> Any:
    scope = "", ""
    payloads: list[Any] = []
    for run, group, payload in batches:
        scope = run[0].as_py(), group[0].as_py()
        payloads += [memoryview(binary.as_buffer()) for binary in payload]
    return [finding.row(*scope) for finding in settle(payloads, limit)]


def told(found: DataFrame) -> DataFrame:
    """Findings for people and their queries: a row for each, and what is to know about it."""
    dot = F.regexp_extract("message", MESSAGE, 1), F.regexp_extract("message", MESSAGE, 2).cast("bigint")
    return found.where("what = 'example'").select(
        "run",
        "group",
        "verdict",
        "node",
        F.when(F.col("pos") >= 0, F.col("pos")).alias("pos"),
        dot[0].alias("origin"),
        dot[1].alias("seq"),
        F.coalesce(
            F.from_json("detail", "map<string, string>"), F.create_map().cast("map<string, string>")
        ).alias("detail"),
    )


def first_ones(found: DataFrame, limit: int = EXAMPLES) -> DataFrame:
    """What a report needs: of every run and verdict the first few examples, and all that is no example."""
    dot = F.regexp_extract("message", MESSAGE, 1), F.regexp_extract("message", MESSAGE, 2).cast("bigint")
    order = Window.partitionBy("run", "group", "verdict").orderBy("node", "pos", *dot)
    examples = found.where("what = 'example'").withColumn("place", F.row_number().over(order))
    few = examples.where(F.col("place") <= limit).drop("place")
    return found.where("what NOT IN ('example', 'marks')").unionByName(few)
