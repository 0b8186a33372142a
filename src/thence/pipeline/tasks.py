"""A list of points, each worked on by a function of its own, as the tasks of one Spark job.

One partition per point: Spark gives a core the next point when it is done with the last. What a point
yields is small, so that the driver collects it.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

Point = TypeVar("Point")


def run_points(
    spark: SparkSession, points: Sequence[Point], work: Callable[[Point], dict[str, Any]]
) -> list[dict[str, Any]]:
    """`work` done on every point, in parallel; the results in the order of the points."""
    if not points:
        return []

    def task(number: int) -> str:
        return json.dumps(work(points[number]))

    numbered = spark.range(0, len(points), 1, numPartitions=len(points))
    rows = numbered.select("id", udf(task, "string", useArrow=False)("id").alias("result")).collect()
    return [json.loads(row["result"]) for row in sorted(rows, key=lambda row: int(row["id"]))]
