"""The steps on Spark, DataFrame to DataFrame, with explicit schemas.

Python functions meet Spark as Arrow functions over columns: `packed` maps a task number to the pieces of
its splits, `judged` aggregates a task's pieces to findings, `told_pasts` to what is known of pasts. None
needs pandas.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from thence.core.errors import TraceError
from thence.pipeline import lost, marks
from thence.pipeline.files import Hive, Split, TraceFile, cut
from thence.pipeline.findings import EXAMPLES, Finding
from thence.pipeline.judge import judge, tell_pasts
from thence.pipeline.locate import Suspect, look
from thence.pipeline.outcome import Part
from thence.pipeline.pack import COMMON, WHOLE, pack
from thence.pipeline.plan import Share
from thence.pipeline.readers import read
from thence.pipeline.shards import Payload, Shard

PIECE: Final = (
    "array<struct<run string, `group` string, bucket int, events bigint, sends bigint, restarts bigint, "
    "nodes array<string>, others array<string>, payload binary, torn int, error string>>"
)
FOUND: Final = (
    "run string, `group` string, shard int, block int, what string, verdict string, node string, pos bigint, "
    "message string, number bigint, detail string, payload binary"
)
FINDING: Final = f"array<struct<{FOUND}>>"
PIECE_TYPE: Final = pa.list_(
    pa.struct(
        [
            ("run", pa.string()),
            ("group", pa.string()),
            ("bucket", pa.int32()),
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
    "run": "", "group": "", "bucket": WHOLE, "events": 0, "sends": 0, "restarts": 0, "nodes": [],
    "others": [], "payload": b"", "torn": 0, "error": None,
}  # fmt: skip
CLUES: Final = "array<struct<what string, place string>>"
CLUE_TYPE: Final = pa.list_(pa.struct([("what", pa.string()), ("place", pa.string())]))
TASK: Final = "task int, splits binary"
CUT: Final = "struct<splits binary, error string>"
CUT_TYPE: Final = pa.schema([("splits", pa.binary()), ("error", pa.string())])
MESSAGE: Final = "(?s)^(.*):([0-9]+)$"
SHARE: Final = StructType(
    [
        StructField("run", StringType(), False),
        StructField("group", StringType(), False),
        StructField("block", IntegerType(), False),
        StructField("blocks", IntegerType(), False),
        StructField("task", IntegerType(), False),
        StructField("shard", IntegerType(), False),
        StructField("shards", IntegerType(), False),
        StructField("own", ArrayType(IntegerType(), False), False),
    ]
)
PASTS: Final = -3
"""Instead of a bucket: a row that tells of pasts. Those of later rounds have smaller numbers."""


# Spark tells the form of an Arrow function from its annotations, which its own type stubs do not know.
arrow_function = cast(Any, arrow_udf)


def pieces(splits: Sequence[Split], buckets: int = 1) -> list[dict[str, Any]]:
    """What a task's splits hold, as rows; a row of the trace that cannot be read becomes one that says so."""
    found: list[dict[str, Any]] = []
    for split in splits:
        try:
            for rows, _, torn in read(split):
                if torn:
                    found.append({**NO_PIECE, "torn": torn})
                found.extend({**NO_PIECE, **piece._asdict()} for piece in pack(rows, buckets))
        except TraceError as error:
            found.append({**NO_PIECE, "error": str(error)})
    return found


def tasks_of(spark: SparkSession, tasks: Sequence[Sequence[Split]]) -> DataFrame:
    """A row and a partition for each task: no task is sent the splits of the others."""
    rows = [(number, bytearray(msgspec.msgpack.encode(splits))) for number, splits in enumerate(tasks)]
    return spark.createDataFrame(rows, TASK).repartitionById(len(tasks), F.col("task"))


def cut_up(
    spark: SparkSession,
    tasks: Sequence[Sequence[TraceFile]],
    split_bytes: int,
    split_rows: int,
    tolerant: bool,
) -> DataFrame:
    """The splits of files, looked at in tasks: `task`, `splits`, or the `error` that keeps them from that."""

    def cut_task(tasks: pa.Array) -> pa.Array:
        return pa.array(
            [_cut_task(task, split_bytes, split_rows, tolerant) for task in tasks], pa.struct(list(CUT_TYPE))
        )

    rows = [
        (number, bytearray(msgspec.msgpack.encode([(str(file.path), file.hive) for file in some])))
        for number, some in enumerate(tasks)
    ]
    given = spark.createDataFrame(rows, "task int, files binary").repartitionById(len(tasks), F.col("task"))
    return given.select("task", arrow_function(cut_task, CUT)("files").alias("cut")).select("task", "cut.*")


def _cut_task(task: pa.Scalar, split_bytes: int, split_rows: int, tolerant: bool) -> dict[str, Any]:
    named = msgspec.msgpack.decode(task.as_buffer(), type=list[tuple[str, Hive]])
    try:
        found = cut(
            [TraceFile(Path(path), hive) for path, hive in named], split_bytes, split_rows, tolerant=tolerant
        )
    except TraceError as error:
        return {"splits": None, "error": str(error)}
    return {"splits": msgspec.msgpack.encode(found), "error": None}


def splits_of(task: pa.Scalar) -> list[Split]:
    """Of a row of `tasks_of`."""
    return msgspec.msgpack.decode(task.as_buffer(), type=list[Split])


def packed(spark: SparkSession, tasks: Sequence[Sequence[Split]], buckets: int) -> DataFrame:
    """One row per packed piece."""

    def read_tasks(tasks: pa.Array) -> pa.Array:
        return pa.array([pieces(splits_of(task), buckets) for task in tasks], PIECE_TYPE)

    return tasks_of(spark, tasks).select(F.inline(arrow_function(read_tasks, PIECE)("splits")))


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
    by_bucket = pieces.groupBy("run", "group", "bucket").agg(
        *(F.sum(name).alias(name) for name in ("events", "sends", "restarts", "torn")),
        F.min("error").alias("error"),
        *(F.array_distinct(F.flatten(F.collect_set(name))).alias(name) for name in ("nodes", "others")),
    )
    nodes = F.size(F.array_distinct(F.flatten(F.collect_list("nodes"))))
    return (
        by_bucket.where(f"bucket != {COMMON}")
        .groupBy("run", "group")
        .agg(
            F.sum("events").alias("events"),
            F.sum("sends").alias("sends"),
            (nodes + F.sum("restarts")).alias("columns"),
            F.sum("restarts").alias("restarts"),
            F.collect_list(F.when(F.col("bucket") >= 0, F.struct("bucket", "events"))).alias("buckets"),
            F.sum("torn").alias("torn"),
            F.min("error").alias("error"),
            F.array_distinct(F.flatten(F.collect_list("others"))).alias("others"),
        )
    )


def _work(
    spark: SparkSession, pieces: DataFrame, shares: Sequence[Share], pasts: DataFrame | None
) -> DataFrame:
    """Each part's pieces in its task, a partition for each: no two large parts share one."""
    rows = [(*share[:-1], list(share.own)) for share in shares]  # Connect takes no tuple for an array
    plan = F.broadcast(spark.createDataFrame(rows, SHARE))
    tasks = max(share.task for share in shares) + 1
    needed = (
        f"CASE WHEN shards = 1 THEN bucket != {COMMON} ELSE bucket < 0 OR array_contains(own, bucket) END"
    )
    columns = ("task", "run", "group", "block", "blocks", "shard", "shards", "own", "bucket", "payload")
    work = pieces.where("events > 0").join(plan, ["run", "group"]).where(needed).select(*columns)
    if pasts is not None:
        known = pasts.join(plan.where("shards > 1"), ["run", "group", "block"])
        work = work.unionByName(known.select(*columns))
    return work.repartitionById(tasks, F.col("task"))


def _by_task(work: DataFrame, judge_task: Any) -> DataFrame:
    names = ("run", "group", "block", "blocks", "shard", "shards", "own", "bucket", "payload")
    found = arrow_function(judge_task, FINDING)(*names).alias("found")
    return work.groupBy("task").agg(found).select(F.inline("found"))


def judged(
    spark: SparkSession,
    pieces: DataFrame,
    shares: Sequence[Share],
    limit: int | None = EXAMPLES,
    buckets: int = 1,
    pasts: DataFrame | None = None,
    *,
    again: bool = False,
) -> DataFrame:
    """Findings of all tasks, up to `limit` of a verdict; `pasts`: what is known of them, for shards. `again`:
    as `judge` has it."""
    if not shares:
        return spark.createDataFrame([], FOUND)

    def judge_task(batches: Iterator[tuple[pa.Array, ...]]) -> Any:
        return _each_part(
            batches, limit, buckets, lambda rows, part, told: judge(rows, part, told, again=again)
        )

    return _by_task(_work(spark, pieces, shares, pasts), judge_task)


def told_pasts(spark: SparkSession, pieces: DataFrame, shares: Sequence[Share], buckets: int) -> DataFrame:
    """What shards know of pasts from their rows alone: run, group, block, bucket (PASTS), payload."""

    def tell_task(batches: Iterator[tuple[pa.Array, ...]]) -> Any:
        return _each_part(batches, None, buckets, lambda payloads, part, _: tell_pasts(payloads, part))

    return pasts_in(_by_task(_work(spark, pieces, shares, None), tell_task), PASTS)


def pasts_in(found: DataFrame, number: int) -> DataFrame:
    """The pasts that were told, as of this round."""
    told = found.where("what IN ('pasts', 'same')").withColumn("bucket", F.lit(number))
    return told.select("run", "group", "block", "bucket", "payload")


def _each_part(
    batches: Iterator[tuple[pa.Array, ...]],
    limit: int | None,
    buckets: int,
    work: Callable[[list[Payload], Part, list[Any]], list[Finding]],
) -> list[dict[str, Any]]:
    """What `work` finds in the parts of a task."""
    parts: dict[tuple[Any, ...], list[Payload]] = {}
    for *columns, payload in batches:
        keys = zip(*(column.to_pylist() for column in columns), strict=True)
        for (run, group, block, blocks, shard, shards, own, bucket), binary in zip(
            keys, payload, strict=True
        ):
            key = (run, group, block, blocks, shard, shards, tuple(own))
            parts.setdefault(key, []).append(Payload(bucket, memoryview(binary.as_buffer())))
    binary = payload = None  # a batch goes once its parts are judged
    found = []
    for key in sorted(parts):
        run_name, group_name, block, blocks, shard, shards, own = key
        here = Shard(shard, shards, frozenset(own), buckets) if shards > 1 else None
        given = parts.pop(key)
        told = sorted((one for one in given if one.bucket <= PASTS), key=lambda one: -one.bucket)
        rows = [one for one in given if one.bucket > PASTS]
        given.clear()
        part = Part(block, blocks, limit, here)
        findings = work(rows, part, [one.binary for one in told])
        found += [
            {**finding.row(run_name, group_name), "shard": shard, "block": block} for finding in findings
        ]
    return found


def unmarked(found: DataFrame) -> DataFrame:
    """What needs no settling between the parts of a run."""
    return found.where("what NOT IN ('marks', 'holding', 'pasts', 'same')")


def unsettled(found: DataFrame) -> DataFrame:
    """What `settled` would make something of: marks, and shards that lack a message."""
    return found.where("what = 'marks' OR (what = 'holding' AND number > 0)")


def settled(found: DataFrame, limit: int | None = EXAMPLES) -> DataFrame:
    """What the parts of runs have to settle between them, in the form of findings: rows that blocks marked,
    and messages that some shard lacks and another one has."""

    def settle_blocks(batches: Iterator[tuple[pa.Array, ...]]) -> Any:
        return _settle(batches, marks.settle, limit)

    def settle_shards(batches: Iterator[tuple[pa.Array, ...]]) -> Any:
        return _settle(batches, lost.settle, limit)

    columns = ("run", "group", "shard", "block", "payload")
    blocks = found.where("what = 'marks'").groupBy("run", "group", "shard")
    shards = found.where("what = 'holding'").groupBy("run", "group", "block")
    one = blocks.agg(arrow_function(settle_blocks, FINDING)(*columns).alias("found"))
    other = shards.agg(arrow_function(settle_shards, FINDING)(*columns).alias("found"))
    return one.select(F.inline("found")).unionByName(other.select(F.inline("found")))


def _settle(batches: Iterator[tuple[pa.Array, ...]], settle: Any, limit: int | None) -> list[dict[str, Any]]:
    place: dict[str, Any] = {}
    scope = "", ""
    payloads: list[Any] = []
    for run, group, shard, block, payload in batches:
        scope = run[0].as_py(), group[0].as_py()
        place = {"shard": shard[0].as_py(), "block": block[0].as_py()}
        payloads += [memoryview(binary.as_buffer()) for binary in payload]
    return [{**finding.row(*scope), **place} for finding in settle(payloads, limit)]


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
    return found.where("what NOT IN ('example', 'marks', 'holding', 'pasts', 'same')").unionByName(few)
