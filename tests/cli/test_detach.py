"""`thence up --detach` and `thence down`, as a script meets them: real processes."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from thence.cli.main import main
from thence.core.errors import UsageError
from thence.local.layout import holder, open_layout


def thence(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "thence.cli.main", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_detached_cluster_is_well_when_the_command_returns_and_gone_after_down(tmp_path: Path) -> None:
    data = tmp_path / "cluster"
    begun = thence("up", "--detach", "--nodes", "2", "--no-store", "--data", str(data), "--wait", "240")
    assert begun.returncode == 0, begun.stderr
    try:
        pid = holder(data)
        assert f"run by process {pid}" in begun.stdout
        assert thence("status", str(data)).returncode == 0
        again = thence("up", "--detach", "--data", str(data))
        assert (again.returncode, again.stderr) == (
            2,
            f"thence: the cluster in {data} is already run by process {pid}\n",
        )
    finally:
        ended = thence("down", "--data", str(data))
    assert ended.returncode == 0, ended.stderr
    assert holder(data) == 0
    assert thence("status", str(data)).returncode == 1


def test_what_a_cluster_refuses_is_told_by_the_command_that_detaches_it(tmp_path: Path) -> None:
    told = thence("up", "--detach", "--nodes", "0", "--data", str(tmp_path / "cluster"))
    assert told.returncode == 2
    assert told.stderr == "thence: --nodes must be between 1 and 256, not 0\n"
    assert holder(tmp_path / "cluster") == 0


def test_a_folder_with_anything_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    told = thence("up", "--detach", "--data", str(tmp_path))
    assert (told.returncode, [path.name for path in tmp_path.iterdir()]) == (2, ["thesis.txt"])


def test_there_is_nothing_to_stop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["down", "--data", str(tmp_path)]) == 2
    assert "no cluster runs from" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["base_port", "http_base"])
def test_a_port_in_use_is_told_before_the_folder_is_bound_to_it(tmp_path: Path, flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} is in use by another program: give another"):
            open_layout(tmp_path / "cluster", 1, **{flag: port})
    assert not (tmp_path / "cluster").exists()
    assert getattr(open_layout(tmp_path / "cluster", 1, **{flag: port}), flag) == port
