"""One Spark session for all tests of the pipeline: starting one takes longer than most of them."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from thence.pipeline.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    spark = session("local[2]")
    yield spark
    spark.stop()
