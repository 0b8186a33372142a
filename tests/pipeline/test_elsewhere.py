"""Integration: the same words wherever Spark runs: on clusters, over Connect, by spark-submit, from URLs."""

import importlib.util
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipeline.layouts import scatter, write_jsonl
from pyspark.sql import SparkSession
from support.run_text import rows
from support.runs import random_run, sabotage
from support.spark_cluster import HOME, cluster, connect_server, environment

from thence.cli import submit
from thence.cli.main import main
from thence.core.errors import TraceError
from thence.pipeline import local
from thence.pipeline.metrics.measured import measure
from thence.pipeline.session import PATIENCE
from thence.pipeline.verify import verify

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trace in `trace`, by which commands that run there call it."""
    folder = tmp_path_factory.mktemp("elsewhere")
    rng = Random(5)
    events = [event for number in range(20) for event in sabotage(rng, random_run(rng, f"r{number}"))]
    (folder / "trace").mkdir()
    scatter(rng, folder / "trace", events, files=4)
    return folder


@pytest.fixture(scope="module")
def expected(folder: Path) -> str:
    report = local.verify(folder / "trace")
    assert not report.ok
    return report.to_json() + "\n"


@pytest.fixture(scope="module")
def measured(spark: SparkSession, folder: Path) -> str:
    """What a session of this process makes of it."""
    return measure(spark, folder / "trace").report.to_json() + "\n"


def start(folder: Path, *flags: str, command: str = "verify") -> "subprocess.Popen[str]":
    words = [sys.executable, "-m", "thence.cli.main", command, "trace", "--json", *flags]
    return subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_cluster_says_the_same_also_when_a_worker_is_killed(
    folder: Path, expected: str, measured: str, tmp_path: Path
) -> None:
    """Under a relative path, with a Python that is named or sent along, and without a word on standard
    error."""
    with cluster(tmp_path) as servers:
        settings = ["--conf", f"spark.pyspark.python={sys.executable}", "--conf", f"{PATIENCE}=15min"]
        with start(folder, "--master", servers.url, *settings) as command:
            while not list(tmp_path.glob("work0/app-*/*")):
                assert command.poll() is None
                time.sleep(0.1)
            servers.workers[0].end()  # it has begun to work
            assert command.communicate() == (expected, "")
            assert command.returncode == 1
        used = tmp_path / "used"
        packed = ["--conf", f"spark.archives={packed_python(tmp_path, used)}#lab"]
        packed += ["--conf", "spark.pyspark.python=./lab/bin/python"]
        with start(folder, "--master", servers.url, *packed, command="metrics") as command:
            assert command.communicate() == (measured, "")
        assert used.exists()


def packed_python(folder: Path, used: Path) -> Path:
    """An environment as venv-pack makes it, but that it is a few lines which lead to this one."""
    program = folder / "python"
    program.write_text(f'#!/bin/sh\ntouch "{used}"\nexec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    with tarfile.open(folder / "lab.tar.gz", "w:gz") as archive:
        archive.add(program, "bin/python")
    return folder / "lab.tar.gz"


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("grpc", "grpc_status", "pandas")),
    reason="needs thence[connect]",
)
def test_connect_says_the_same(folder: Path, expected: str, measured: str, tmp_path: Path) -> None:
    with connect_server(tmp_path) as url:
        with start(folder, "--remote", url) as command:
            assert command.communicate() == (expected, "")
            assert command.returncode == 1
        with start(folder, "--remote", url, command="metrics") as command:
            assert command.communicate() == (measured, "")


def test_spark_submit_says_the_same(folder: Path, expected: str) -> None:
    found = subprocess.run([sys.executable, "-m", "thence.cli.submit"], capture_output=True, text=True)
    assert found.stdout == f"{submit.__file__}\n"
    command = [str(HOME / "bin" / "spark-submit"), "--master", "local[2]", found.stdout.strip()]
    done = subprocess.run(
        [*command, "verify", "trace", "--json"], cwd=folder, env=environment(), capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == (expected, 1)


def test_a_url_is_read_through_spark(spark: SparkSession, folder: Path, expected: str) -> None:
    assert verify(spark, f"file://{folder}/trace").to_json() + "\n" == expected


def test_a_url_is_measured_through_spark(spark: SparkSession, folder: Path) -> None:
    here, there = measure(spark, folder / "trace"), measure(spark, f"file://{folder}/trace")
    assert there.report == here.report
    assert sorted(there.tables) == sorted(here.tables)


def test_any_file_system_of_hadoop_is_read(spark: SparkSession, folder: Path, expected: str) -> None:
    """One that only settings tell of (as `--conf spark.hadoop.fs.…`): its paths mean nothing to a task."""
    spark.conf.set("fs.viewfs.mounttable.lab.link./runs", f"file://{folder}")
    assert verify(spark, "viewfs://lab/runs/trace").to_json() + "\n" == expected
    assert measure(spark, "viewfs://lab/runs/trace").report == measure(spark, folder / "trace").report


@pytest.mark.parametrize("url", ["file:///nowhere/at/all", "thence-nothing://bucket/trace"])
def test_a_url_that_leads_nowhere(spark: SparkSession, capsys: pytest.CaptureFixture[str], url: str) -> None:
    code = main(["verify", url])
    out = capsys.readouterr()
    assert out.err.count("\n") == 1
    assert (code, out.err.partition("; --conf")[0].strip()) in (
        (2, f"thence: {url}: no such file or folder"),
        (3, "thence: Spark or the machine failed: this Spark has no file system for thence-nothing://"),
    )


def test_folders_and_errors_of_a_url(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "run=r1").mkdir()
    table = pa.table({"node": ["a", "a"], "pos": [0, 1], "kind": ["start", "leave"]})
    pq.write_table(table, tmp_path / "run=r1" / "x.parquet")
    assert [run.run for run in verify(spark, f"file://{tmp_path}").runs] == ["r1"]
    write_jsonl(tmp_path / "run=r1" / "y.jsonl", rows("a", "link"))
    with pytest.raises(
        TraceError, match=r"position 0 more than once, run r1: file:/.*x\.parquet row 1; .* line 1"
    ):
        verify(spark, f"file://{tmp_path}")
    (tmp_path / "z.csv").write_text("node,pos,kind\na,x,start\n")
    with pytest.raises(TraceError, match=r"^file:/.*z\.csv: line 2: cannot read 'x' as pos"):
        verify(spark, f"file://{tmp_path}")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(TraceError, match="unknown kind of file"):
        verify(spark, f"file://{tmp_path}")
