"""Integration: `thence verify` as people and scripts meet it."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pipeline.layouts import write_jsonl
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from support.processes import alive, eventually
from support.run_text import rows

from thence.cli.main import main
from thence.core.errors import UsageError
from thence.pipeline.files import Split
from thence.pipeline.session import _children, _is_spark, reason

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

FINE = [*rows("a", "send a:1"), *rows("b", "deliver a:1")]
LATE = [*rows("a", "send a:1", "send a:2"), *rows("b", "deliver a:2", "deliver a:1")]


@pytest.mark.usefixtures("spark")
def test_json_is_one_object_of_the_promised_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(tmp_path / "x.jsonl", LATE)
    assert main(["verify", str(tmp_path), "--json"]) == 1
    out = capsys.readouterr()
    assert json.loads(out.out) == {
        "ok": False,
        "torn": 0,
        "runs": [
            {
                "run": "", "group": "", "nodes": 2, "sends": 2, "deliveries": 2, "stables": 0,
                "violations": {
                    "order": 1, "duplicate": 0, "unsent": 0, "gap": 0, "lost": 0, "program": 1, "unstable": 0,
                    "tag": 0,
                },
                "examples": [
                    {"kind": "order", "node": "b", "pos": 0, "message": "a:2", "missing": "a:1"},
                    {
                        "kind": "program", "node": "b", "pos": 1,
                        "message": "a:1", "operation": "a:1", "held": "a:2",
                    },
                ],
            }
        ],
    }  # fmt: skip
    assert out.err == ""
    documented = ["order", "duplicate", "unsent", "gap", "lost", "program", "unstable", "tag"]
    assert list(json.loads(out.out)["runs"][0]["violations"]) == documented


def test_a_table_for_people(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(tmp_path / "x.jsonl", FINE)
    assert main(["verify", str(tmp_path)]) == 0
    assert "deliveries" in capsys.readouterr().out
    write_jsonl(tmp_path / "x.jsonl", LATE)
    assert main(["verify", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "order: a:2 at node b at 0 (missing a:1)" in told
    assert "program: a:1 at node b at 1 (operation a:1, held a:2)" in told
    assert "lost program unstable" in " ".join(told.split())


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_what_is_not_shown_is_counted(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    trace = tmp_path / "x.jsonl"
    write_jsonl(trace, [*rows("a", "send a:1"), *rows("b", *["deliver a:1"] * 177)])
    out = tmp_path / "found"
    assert main(["verify", str(trace), "--engine", engine, "--findings", str(out)]) == 1
    told = capsys.readouterr().out
    assert told.count("duplicate: a:1 at node b") == 10
    assert "duplicate: … and 166 more\n" in told
    found = spark.read.parquet(str(out))
    assert found.count() == 176
    assert found.where("pos = 5 AND detail['first_pos'] = '0' AND origin = 'a' AND seq = 1").count() == 1
    assert main(["verify", str(trace), "--engine", engine, "--findings", str(out)]) == 2
    assert "exists" in capsys.readouterr().err


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_half_written_files_are_left_out_and_counted(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    write_jsonl(tmp_path / "x.jsonl", FINE)
    (tmp_path / "y.parquet").write_bytes(b"PAR1 and then the machine stopped")
    (tmp_path / "z.csv").write_text("node,pos,kind\nc,0,start\nc,1,cra")
    assert main(["verify", str(tmp_path), "--engine", engine]) == 2
    assert "y.parquet: not a readable Parquet file" in capsys.readouterr().err
    assert main(["verify", str(tmp_path), "--engine", engine, "--tolerate-torn", "--open", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["torn"], report["runs"][0]["nodes"]) == (2, 3)


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        (["--engine", "magic"], "it is spark or local"),
        (["--engine", "local", "--master", "local[2]"], "no --master"),
        (["--conf", "spark.x"], "KEY=VALUE"),
    ],
)
def test_flags_that_make_no_sense(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], what: str
) -> None:
    write_jsonl(tmp_path / "x.jsonl", FINE)
    assert main(["verify", str(tmp_path), *flags]) == 2
    assert what in capsys.readouterr().err


def test_judging_here_does_without_spark(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "x.jsonl", FINE)
    program = (
        "import sys; from thence.cli.main import main;"
        f"code = main(['verify', {str(tmp_path)!r}, '--engine', 'local', '--json']);"
        "sys.exit(9 if 'pyspark' in sys.modules else code)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


@pytest.mark.parametrize("flags", [["--master", "spark://127.0.0.1:1"], ["--remote", "sc://127.0.0.1:1"], []])
def test_a_server_that_is_not_there_is_trouble_and_told_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    write_jsonl(tmp_path / "x.jsonl", FINE)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    if not flags:
        monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    assert main(["verify", str(tmp_path), *flags]) == 3
    out = capsys.readouterr()
    assert out.out == ""
    assert out.err.startswith("thence: nothing answers at s")
    assert out.err.count("\n") == 1


@pytest.mark.parametrize(("flag", "scheme"), [("--master", "spark"), ("--remote", "sc")])
def test_a_port_that_says_nothing_is_no_server(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    flag: str,
    scheme: str,
) -> None:
    """It takes connections, as a frozen server's does: the kernel answers for it."""
    write_jsonl(tmp_path / "x.jsonl", FINE)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr("thence.pipeline.reach.REACH_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"{scheme}://127.0.0.1:{server.getsockname()[1]}"
        assert main(["verify", str(tmp_path), flag, address]) == 3
    assert capsys.readouterr().err == f"thence: nothing answers at {address}: timed out\n"


def test_a_name_that_is_not_resolved_is_waited_for_no_longer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor one of several addresses, each of which says nothing."""
    write_jsonl(tmp_path / "x.jsonl", FINE)
    over = threading.Event()

    def resolve(*_: object, **__: object) -> None:
        over.wait()
        raise OSError("no name server answers")

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr("thence.pipeline.reach.REACH_S", 0.2)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert main(["verify", str(tmp_path), "--master", "spark://far:7077,near:7077"]) == 3
    over.set()
    said = "thence: nothing answers at spark://far:7077,near:7077: timed out\n"
    assert capsys.readouterr().err == said


def test_a_master_that_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_jsonl(tmp_path / "x.jsonl", FINE)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    assert main(["verify", str(tmp_path), "--master", "nonsense"]) == 3
    assert capsys.readouterr().err.startswith("thence: nonsense is no master of Spark; ")


def test_a_master_is_asked_for_although_the_environment_names_a_server(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "x.jsonl", FINE)
    command = [
        sys.executable,
        "-m",
        "thence.cli.main",
        "verify",
        str(tmp_path),
        "--master",
        "local[1]",
        "--json",
    ]
    done = subprocess.run(
        command, env=os.environ | {"SPARK_REMOTE": "sc://127.0.0.1:1"}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_a_file_that_vanishes_is_trouble_and_no_verdict(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
) -> None:
    write_jsonl(tmp_path / "x.jsonl", FINE)
    gone = [Split(str(tmp_path / "gone.jsonl"), 0, 10, 10)]
    monkeypatch.setattr("thence.pipeline.files.cut", lambda *_, **__: gone)
    assert main(["verify", str(tmp_path), "--engine", engine]) == 3
    out = capsys.readouterr()
    assert out.err.count("\n") == 1
    assert "gone.jsonl" in out.err


def test_spark_that_cannot_write_does_not_start(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "x.jsonl", FINE)
    scratch = f"spark.local.dir={tmp_path / 'x.jsonl' / 'below'}"  # no folder can be made there
    command = [sys.executable, "-m", "thence.cli.main", "verify", str(tmp_path), "--conf", scratch]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert done.stderr.startswith("thence: Spark did not start on local")


FULL = """An error occurred while calling o229.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: most recent failure: \
Lost task 0.0 in stage 10.0 (TID 11) (localhost executor driver): java.io.IOException: No space left
\tat java.base/sun.nio.ch.FileDispatcherImpl.write0(Native Method)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:3122)
Caused by: java.io.IOException: No space left
\t... 1 more
"""
PYTHON = """Job aborted: Lost task 0.0 in stage 1.0 (TID 3) (127.0.0.1 executor 0): Traceback:
  File "readers.py", line 7, in read
FileNotFoundError: [Errno 2] No such file or directory: 'gone.jsonl'

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:555)

JVM stacktrace:
org.apache.spark.SparkException
"""


@pytest.mark.parametrize(
    ("account", "what"),
    [
        (FULL, "java.io.IOException: No space left"),
        (PYTHON, "FileNotFoundError: [Errno 2] No such file or directory: 'gone.jsonl'"),
        ("one line", "one line"),
        ("first\n\tat x.y\n\tSuppressed: java.io.IOException: full", "java.io.IOException: full"),
        ("", "RuntimeError"),
    ],
)
def test_the_line_that_says_what_happened(account: str, what: str) -> None:
    assert reason(RuntimeError(account)) == what


def test_an_interrupt_while_spark_starts_leaves_no_java_behind(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "x.jsonl", FINE)
    command = [sys.executable, "-m", "thence.cli.main", "verify", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True) as process:
        while not (started := [pid for pid in _children(process.pid) if _is_spark(pid)]):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr is not None
        assert process.stderr.read() == b"thence: interrupted\n"
    eventually(lambda: not any(map(alive, started)))


def test_errors_are_one_line_on_standard_error(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.jsonl").write_text("{}\n")
    assert main(["verify", str(tmp_path), "--json"]) == 2
    out = capsys.readouterr()
    assert out.out == ""
    assert out.err.count("\n") == 1
    assert "x.jsonl: line 1: " in out.err
    assert main(["verify", str(tmp_path / "missing"), "--json"]) == 2


def test_nothing_to_judge_is_no_good_news(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_jsonl(tmp_path / "x.jsonl", rows("a", "receive", "link"))
    for flags in ([], ["--json"], ["--open"], ["--engine", "local"]):
        assert main(["verify", str(tmp_path), *flags]) == 2
        out = capsys.readouterr()
        assert out.out == ""
        why = "no row of a kind that counts; it has link, receive"
        assert out.err == f"thence: {tmp_path}: holds nothing to judge ({why})\n"


@pytest.mark.parametrize(
    "error",
    [
        PythonException("a worker was killed\n  at java.lang.Thread"),
        Py4JNetworkError("Answer from Java side is empty"),
        MemoryError("no room for a matrix"),
        OSError(28, "No space left on device"),
    ],
)
def test_a_failure_of_spark_or_the_machine_is_told_apart_from_the_trace(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    write_jsonl(tmp_path / "x.jsonl", FINE)
    monkeypatch.setattr("thence.pipeline.session.session", lambda *_: None)
    monkeypatch.setattr("thence.pipeline.verify.verify", fail)
    assert main(["verify", str(tmp_path), "--json"]) == 3
    out = capsys.readouterr()
    assert out.out == ""
    assert out.err.count("\n") == 1
    assert str(error).splitlines()[0] in out.err


def test_spark_that_does_not_start_is_no_fault_of_the_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_java(*_: object) -> None:
        raise UsageError("no Java 17 or newer")

    write_jsonl(tmp_path / "x.jsonl", FINE)
    monkeypatch.setattr("thence.pipeline.session.session", no_java)
    assert main(["verify", str(tmp_path)]) == 3
    assert capsys.readouterr().err == "thence: no Java 17 or newer\n"
