"""Traces of many files: tasks look into them, and say the same as the driver would."""

from pathlib import Path
from random import Random

import pytest
from pipeline.layouts import scatter
from pyspark.sql import SparkSession
from support.runs import random_run

from thence.core.errors import TraceError
from thence.pipeline import files, inputs

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(inputs, "FILES_MANY", 1)
    rng = Random(3)
    rows = [event for number in range(10) for event in random_run(rng, f"r{number}")]
    (tmp_path / "key=value").mkdir()
    scatter(rng, tmp_path, rows, files=9)
    scatter(rng, tmp_path / "key=value", rows, files=3)
    return tmp_path


def test_tasks_cut_files_as_the_driver_does(spark: SparkSession, folder: Path) -> None:
    expected = files.cut(files.trace_files(folder), 1 << 10, 1 << 6)
    assert inputs.splits_of(spark, folder, 2, 1 << 10, 1 << 6) == expected


def test_a_file_that_cannot_be_cut_is_named(spark: SparkSession, folder: Path) -> None:
    (folder / "broken.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(TraceError, match=r"broken\.parquet: not a readable Parquet file"):
        inputs.splits_of(spark, folder, 2, 1 << 10, 1 << 6)
    tolerated = inputs.splits_of(spark, folder, 2, 1 << 10, 1 << 6, tolerant=True)
    assert any(split.path.endswith("broken.parquet") for split in tolerated)
