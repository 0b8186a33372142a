"""`thence node`: one real node, as a process."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.processes import PATIENCE_S, eventually

from thence.cli.main import main
from thence.core.errors import ThenceError
from thence.runtime.remote import Control

NODE = (sys.executable, "-m", "thence.cli.main", "node")
HERE = ("--name", "a", "--listen", "127.0.0.1:0")


@contextmanager
def node(folder: Path, *flags: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [*NODE, *HERE, "--data", str(folder), *flags],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def well(folder: Path) -> bool:
    try:
        return Control.of(folder).health() is None
    except ThenceError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_lone_node_founds_a_group_of_one_stops_in_order_and_resumes(
    tmp_path: Path, number: signal.Signals
) -> None:
    with node(tmp_path / "a") as process:
        eventually(lambda: well(tmp_path / "a"))
        assert Control.of(tmp_path / "a").broadcast(b"first") == ("a", 1)
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 0
    with node(tmp_path / "a") as process:
        eventually(lambda: well(tmp_path / "a"))
        assert Control.of(tmp_path / "a").broadcast(b"second") == ("a", 2)


WITHOUT_UVLOOP = """
import sys
sys.modules["uvloop"] = None
from thence.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_node_does_without_uvloop(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_UVLOOP, "node", *HERE, "--data", str(tmp_path / "a")]
    process = subprocess.Popen([*command, "--log-level", "debug"], stderr=subprocess.PIPE, text=True)
    try:
        eventually(lambda: well(tmp_path / "a"))
        assert Control.of(tmp_path / "a").broadcast(b"first") == ("a", 1)
        process.send_signal(signal.SIGTERM)
        told = process.communicate(timeout=PATIENCE_S)[1]
        assert process.returncode == 0
        assert 'debug "uvloop is missing, asyncio\'s loop is used"' in told
    finally:
        process.kill()
        process.communicate()


def test_a_benchmark_against_uvloop_says_that_it_needs_it() -> None:
    command = [sys.executable, "-c", WITHOUT_UVLOOP, "bench", "cluster", "--quick"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr == "thence: this needs uvloop: pip install uvloop\n"


OPEN_WITHOUT_UVLOOP = """
import asyncio, sys
sys.modules["uvloop"] = None
import thence

async def program():
    async with thence.open("a", data=sys.argv[1], listen="127.0.0.1:0", settings={"http": "none"}) as node:
        await node.broadcast(b"hello")
        async for event in node.events():
            if isinstance(event, thence.Stable):
                return print(event.origin, event.seq)

asyncio.run(program())
"""


def test_a_program_opens_a_node_without_uvloop(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OPEN_WITHOUT_UVLOOP, str(tmp_path / "a")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "a 1\n"


def test_a_node_without_a_secret_says_so_in_its_log_and_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with node(tmp_path / "a", "--set", "secret=none") as process:
        eventually(lambda: well(tmp_path / "a"))
        assert main(["status", str(tmp_path / "a")]) == 0
        assert "a has no secret: any process on this machine can pose as a member" in capsys.readouterr().out
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr is not None
        assert "no secret: any process on this machine" in process.stderr.read()
    with node(tmp_path / "b"):
        eventually(lambda: well(tmp_path / "b"))
        assert main(["status", str(tmp_path / "b")]) == 0
        assert "no secret" not in capsys.readouterr().out


def test_a_home_that_takes_no_files_is_told_with_the_ways_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home").write_text("not even a folder")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert main(["node", *HERE, "--data", str(tmp_path / "a")]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "--secret-file" in told
    assert not (tmp_path / "a").exists()


def test_a_node_that_was_killed_goes_on_from_its_log(tmp_path: Path) -> None:
    with node(tmp_path / "a"):
        eventually(lambda: well(tmp_path / "a"))
        Control.of(tmp_path / "a").broadcast(b"first")
    with node(tmp_path / "a"):
        eventually(lambda: well(tmp_path / "a"))
        assert Control.of(tmp_path / "a").broadcast(b"second") == ("a", 2)


def test_settings_come_from_the_environment_and_a_file_too(tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text(
        'name = "z"\nlisten = "127.0.0.1:0"\ndata = "here"\ncluster = "test"\n'
    )
    environment = {**os.environ, "THENCE_CONFIG": str(tmp_path / "node.toml"), "THENCE_NAME": "y"}
    process = subprocess.Popen(NODE, env=environment, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: well(tmp_path / "here"))
        status = Control.of(tmp_path / "here").status()
        assert (status.name, status.cluster) == ("y", "test")
    finally:
        process.kill()
        process.wait()


def test_a_folder_in_use_is_refused_with_one_line(tmp_path: Path) -> None:
    with node(tmp_path / "a") as first:
        eventually(lambda: well(tmp_path / "a"))
        with node(tmp_path / "a") as second:
            _, told = second.communicate(timeout=PATIENCE_S)
            assert second.returncode == 2
            assert f"in use by process {first.pid}" in told


def test_an_address_in_use_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        with node(tmp_path / "a", "--set", "drain_us=0", "--http", "none", "--listen", taken) as process:
            _, told = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 2
            assert taken in told


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "--name"),
        (["--name", "a"], "--data"),
        (["--name", "a", "--data", "d"], "--listen"),
        ([*HERE, "--data", "d", "--listen", "0.0.0.0:1"], "--insecure"),
        ([*HERE, "--data", "d", "--secret", "x"], "--secret"),
        ([*HERE, "--data", "d", "--set", "secret=x"], "seen by all users"),
        ([*HERE, "--data", "d", "--set", "window=1"], "there is no such setting; there is mesh.window"),
        ([*HERE, "--data", "d", "--config", "/nonexistent"], "cannot read /nonexistent"),
        ([*HERE, "--data", "d", "--members", "b=127.0.0.1:1"], "must name a as well"),
        ([*HERE, "--data", "d", "--join", "here"], "--join: 'here' is no address"),
    ],
)
def test_mistakes_are_told_in_one_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["node", *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert complaint in told.err
    assert told.err.count("\n") == 1
