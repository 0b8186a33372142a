"""What holds for all tests: a machine, a shell and a state folder that none may lean on, and one Spark
session for those that need one, since starting it takes longer than most of them."""

import os
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from thence.runtime.folder import BOOT_APART
from thence.runtime.sources import CONFIG, KINDS, variable_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_configure() -> None:
    """For tests, their workers and the processes that they start. Data folders that were made on this machine
    are those of another one: the suite runs under a boot of its own. Settings of nodes that the user's shell
    holds are not meant for tests."""
    os.environ.setdefault(BOOT_APART, uuid.uuid4().hex)
    for variable in (CONFIG, *map(variable_of, KINDS)):
        os.environ.pop(variable, None)


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nodes without a secret make one there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    from thence.pipeline.session import session  # only where it is needed: importing Spark takes a second

    spark = session("local[2]")
    yield spark
    spark.stop()
