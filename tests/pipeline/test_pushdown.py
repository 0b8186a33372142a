"""Why the data source takes filters as options: what Spark makes of those that are pushed into a source.

A source of three rows that does as the API asks: `pushFilters` gives back what it does not handle, `read`
yields what matches what it took. The filter of one query then stays with the DataFrame for all later ones. If
these tests fail, Spark has mended it, and the filters of `format("thence")` can be pushed.
"""

from collections.abc import Iterable, Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition
from pyspark.sql.types import StructType

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def source() -> type[DataSource]:
    """Made here, so that it travels to Spark's processes, which do not know this file."""

    class Reader(DataSourceReader):
        wanted: str | None = None

        def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
            for one in filters:
                if isinstance(one, EqualTo) and one.attribute == ("kind",):
                    self.wanted = one.value
                else:
                    yield one

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(0)]

        def read(self, partition: InputPartition) -> Iterator[tuple[str, int]]:
            rows = (("send", 1), ("deliver", 2), ("deliver", 3))
            return (row for row in rows if self.wanted in (None, row[0]))

    class Pushed(DataSource):
        @classmethod
        def name(cls) -> str:
            return "pushed"

        def schema(self) -> str:
            return "kind string, n int"

        def reader(self, schema: StructType) -> DataSourceReader:
            return Reader()

    return Pushed


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    spark.dataSource.register(source())
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield spark
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_pushed_filter_stays_for_later_queries(pushing: SparkSession) -> None:
    frame = pushing.read.format("pushed").load()
    assert frame.count() == 3
    assert frame.where("kind = 'send'").count() == 1
    assert frame.count() == 1, "three rows: Spark has mended it"


def test_two_filters_in_one_query_are_one(pushing: SparkSession) -> None:
    pushing.read.format("pushed").load().createOrReplaceTempView("pushed")
    query = "SELECT n FROM pushed WHERE kind = 'send' UNION ALL SELECT n FROM pushed WHERE kind = 'deliver'"
    found = sorted(row["n"] for row in pushing.sql(query).collect())
    assert found == [2, 2, 3, 3], "1, 2 and 3: Spark has mended it"
