"""One Spark session for all tests that need one: starting it takes longer than most of them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    from thence.pipeline.session import session  # only where it is needed: importing Spark takes a second

    spark = session("local[2]")
    yield spark
    spark.stop()
