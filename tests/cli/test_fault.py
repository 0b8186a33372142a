"""Integration: `thence fault`, told to fake nodes behind real routes, and to a real process."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.controlled import FakeNode, serving

from thence.cli.main import main
from thence.runtime import process
from thence.runtime.control_file import NAME, read

TESTS = Path(__file__).parents[1]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[dict[str, FakeNode]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(serving(tmp_path / name, FakeNode(name))) for name in "abc"}


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A fake node in a process of its own, in the folder a."""
    (tmp_path / "a").mkdir()
    command = [sys.executable, "-m", "support.controlled", str(tmp_path / "a"), "a"]
    with subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        until((tmp_path / "a" / NAME).is_file)
        yield child
        child.send_signal(signal.SIGCONT)
        child.kill()


def until(condition: Callable[[], bool]) -> None:
    """Kernels and processes take a moment; a suite that hangs here is stopped from outside."""
    while not condition():
        pass


def stopped(pid: int) -> bool:
    seen = process.look(pid)
    assert seen is not None, "the process is gone"
    return seen.stopped


def fault(folder: Path, *arguments: str) -> int:
    return main(["fault", *arguments, "--data", str(folder)])


def test_a_link_is_cut_at_both_ends_and_mended_at_both(tmp_path: Path, cluster: dict[str, FakeNode]) -> None:
    assert fault(tmp_path, "cut", "a", "b") == 0
    assert [node.cut for node in cluster.values()] == [["b"], ["a"], []]
    assert fault(tmp_path, "mend", "b", "a") == 0
    assert [node.cut for node in cluster.values()] == [[], [], []]


def test_a_link_is_slowed_in_both_directions(tmp_path: Path, cluster: dict[str, FakeNode]) -> None:
    assert fault(tmp_path, "slow", "a", "c", "--ms", "2.5") == 0
    assert [node.slow_us for node in cluster.values()] == [{"c": 2500}, {}, {"a": 2500}]


def test_all_links_of_one_node_or_all_there_are_can_be_mended(
    tmp_path: Path, cluster: dict[str, FakeNode]
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "identity").write_bytes(b"")  # down, and has no faults that could be mended
    for one, other in ("ab", "ac", "bc"):
        assert fault(tmp_path, "cut", one, other) == 0
    assert fault(tmp_path, "mend", "a") == 0
    assert [node.cut for node in cluster.values()] == [[], ["c"], ["b"]]
    assert fault(tmp_path, "mend") == 0
    assert [node.cut for node in cluster.values()] == [[], [], []]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["cut", "a", "a"], "no link with itself"),
        (["cut", "a", "z"], "there is no node 'z'"),
        (["mend", "z"], "there is no node 'z'"),
        (["slow", "a", "b"], "--ms"),
        (["slow", "a", "b", "--ms", "-1"], "--ms"),
        (["pause", "z"], "there is no node 'z'"),
        (["cut", "a"], "other"),
    ],
)
def test_nonsense_is_one_line_and_exit_2(
    arguments: list[str],
    complaint: str,
    tmp_path: Path,
    cluster: dict[str, FakeNode],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert fault(tmp_path, *arguments) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert complaint in told.err.lower()
    assert [node.cut for node in cluster.values()] == [[], [], []]


def test_the_end_that_can_be_told_is_told_and_the_other_is_named(
    tmp_path: Path, cluster: dict[str, FakeNode], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b" / NAME).rename(tmp_path / "b" / "identity")  # as after a clean stop
    assert fault(tmp_path, "cut", "b", "a") == 2
    assert cluster["a"].cut == ["b"]
    err = capsys.readouterr().err
    assert "no node runs in" in err
    assert "the others were told" in err


def test_a_node_that_allows_no_faults_is_neither_cut_nor_paused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Were it paused, so would be this test: the fake node runs in its process."""
    with (
        serving(tmp_path / "a", FakeNode("a", allow_faults=False)) as a,
        serving(tmp_path / "b", FakeNode("b", allow_faults=False)),
    ):
        assert fault(tmp_path, "cut", "a", "b") == 2
        assert fault(tmp_path, "pause", "a") == 2
        assert a.cut == []
    assert capsys.readouterr().err.count("--allow-faults") == 3


def test_a_paused_node_stops_is_shown_so_and_goes_on(
    tmp_path: Path, child: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    assert fault(tmp_path, "pause", "a") == 0
    until(lambda: stopped(child.pid))
    assert main(["status", str(tmp_path), "--json"]) == 1
    out = capsys.readouterr().out
    assert json.loads(out[out.index("{") :])["nodes"][0]["state"] == "paused"
    assert fault(tmp_path, "resume", "a") == 0
    until(lambda: not stopped(child.pid))
    assert main(["status", str(tmp_path)]) == 0


def test_a_pause_with_an_end_ends_also_when_it_is_interrupted(
    tmp_path: Path, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    def interrupted(seconds: float) -> None:
        slept.append(seconds)
        until(lambda: stopped(child.pid))
        raise KeyboardInterrupt

    monkeypatch.setattr("thence.cli.fault.sleep", interrupted)
    assert fault(tmp_path, "pause", "a", "--seconds", "5") == 130
    assert slept == [5]
    until(lambda: not stopped(child.pid))


def test_a_process_that_got_the_number_later_is_not_signalled(
    tmp_path: Path, child: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    control = tmp_path / "a" / NAME
    control.write_text(json.dumps(json.loads(control.read_text()) | {"started": "before"}))
    assert fault(tmp_path, "pause", "a") == 2
    assert fault(tmp_path, "resume", "a") == 2
    assert "is gone" in capsys.readouterr().err
    assert not stopped(child.pid)
    assert not process.tell(child.pid, "before", signal.SIGKILL)
    assert child.poll() is None


def test_a_process_that_ended_is_not_there(tmp_path: Path, child: subprocess.Popen[bytes]) -> None:
    file = read(tmp_path / "a")
    assert file.process() is not None
    child.kill()
    child.wait()
    assert file.process() is None
    assert not process.tell(file.pid, file.started, signal.SIGCONT)
