"""Integration: `thence load` and `thence broadcast`, over fake nodes behind real routes."""

import io
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.controlled import FakeNode, serving

from thence.cli.main import main
from thence.runtime.remote import Absence, Control, NoAnswer
from thence.runtime.status import Status


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[dict[str, FakeNode]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(serving(tmp_path / name, FakeNode(name))) for name in "abc"}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks again at once: the nodes are quick, and so shall be the test."""
    monkeypatch.setattr("thence.cli.load.LOOK_EVERY_S", 0)


def test_every_node_sends_what_was_asked_for(
    tmp_path: Path, cluster: dict[str, FakeNode], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["load", "--data", str(tmp_path), "--count", "150", "--bytes", "10"]) == 0
    assert [len(node.payloads) for node in cluster.values()] == [150, 150, 150]
    assert {len(payload) for payload in cluster["b"].payloads} == {10}
    out = capsys.readouterr().out
    assert "b: 150 messages in" in out
    assert "together: 450 messages in" in out


def test_only_the_named_nodes_send_and_json_is_for_programs(
    tmp_path: Path, cluster: dict[str, FakeNode], capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["--node", "c", "--node", "a", "--node", "c"]
    assert (
        main(["load", "--data", str(tmp_path), *names, "--rate", "1000", "--seconds", "0.05", "--json"]) == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert list(told) == ["c", "a"]
    assert all(not load["running"] and load["failed"] is None for load in told.values())
    assert [len(node.payloads) > 0 for node in cluster.values()] == [True, False, True]


def test_a_node_that_fails_is_told_and_exit_1(
    tmp_path: Path, cluster: dict[str, FakeNode], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster["b"].disk_full = True
    assert main(["load", "--data", str(tmp_path), "--count", "5"]) == 1
    assert "failed: no space left for the log" in capsys.readouterr().out
    assert len(cluster["a"].payloads) == 5


def test_nodes_that_are_down_are_passed_over_unless_named(
    tmp_path: Path, cluster: dict[str, FakeNode], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "identity").write_bytes(b"")
    assert main(["load", "--data", str(tmp_path), "--count", "5"]) == 0
    assert main(["load", "--data", str(tmp_path), "--count", "5", "--node", "d"]) == 2
    assert "no node runs in" in capsys.readouterr().err


def test_a_node_that_is_too_busy_to_answer_is_asked_again(
    tmp_path: Path, cluster: dict[str, FakeNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, silent = Control.status, [2]

    def sometimes(control: Control) -> Status:
        if control.name == "b" and silent[0]:
            silent[0] -= 1
            raise NoAnswer("silent", "timed out")
        return status(control)

    monkeypatch.setattr(Control, "status", sometimes)
    assert main(["load", "--data", str(tmp_path), "--count", "5"]) == 0
    assert silent == [0]


@pytest.mark.parametrize(("absence", "patience_s"), [("gone", 60), ("silent", 0)])
def test_a_node_that_is_gone_or_silent_for_long_has_failed_and_the_others_go_on(
    absence: Absence,
    patience_s: float,
    tmp_path: Path,
    cluster: dict[str, FakeNode],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    status = Control.status

    def never(control: Control) -> Status:
        if control.name == "b":
            raise NoAnswer(absence, "no answer")
        return status(control)

    monkeypatch.setattr(Control, "status", never)
    monkeypatch.setattr("thence.cli.load.PATIENCE_S", patience_s)
    assert main(["load", "--data", str(tmp_path), "--count", "5"]) == 1
    out = capsys.readouterr().out
    assert "failed: no answer" in out
    assert "c: 5 messages" in out


def test_an_interrupt_ends_the_load_in_the_nodes_too(
    tmp_path: Path, cluster: dict[str, FakeNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("thence.cli.load.sleep", interrupted)
    assert main(["load", "--data", str(tmp_path), "--rate", "1", "--seconds", "3600"]) == 130
    assert [node.loader.running for node in cluster.values() if node.loader] == [False, False, False]


def test_a_second_load_is_refused_and_the_first_goes_on(
    tmp_path: Path,
    cluster: dict[str, FakeNode],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    second: list[int] = []

    def meanwhile(_: float) -> None:
        second.append(main(["load", "--data", str(tmp_path), "--count", "1", "--node", "a"]))
        assert cluster["a"].loader is not None
        assert cluster["a"].loader.running
        raise KeyboardInterrupt

    monkeypatch.setattr("thence.cli.load.sleep", meanwhile)
    assert main(["load", "--data", str(tmp_path), "--rate", "1", "--seconds", "3600"]) == 130
    assert second == [2]
    assert "a load is running already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "seconds or count"),
        (["--rate", "-5", "--count", "1"], "-5"),
        (["--count", "0"], "no messages"),
        (["--count", "1", "--bytes", "-1"], "-1"),
        (["--count", "1", "--node", "z"], "no node 'z'"),
    ],
)
def test_nonsense_is_one_line_and_exit_2(
    arguments: list[str],
    complaint: str,
    tmp_path: Path,
    cluster: dict[str, FakeNode],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["load", "--data", str(tmp_path), *arguments]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert complaint in err
    assert all(node.payloads == [] for node in cluster.values())


def test_a_broadcast_tells_the_message_s_dot(
    tmp_path: Path,
    cluster: dict[str, FakeNode],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert main(["broadcast", "grüße", "--data", str(tmp_path / "a")]) == 0
    assert capsys.readouterr().out == "message 1 of a, 7 bytes\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\x00\xff")))
    assert main(["broadcast", "-", "--data", str(tmp_path), "--node", "a", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"origin": "a", "seq": 2}
    assert cluster["a"].payloads == ["grüße".encode(), b"\x00\xff"]


def test_a_broadcast_needs_to_know_from_whom(
    tmp_path: Path, cluster: dict[str, FakeNode], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["broadcast", "x", "--data", str(tmp_path)]) == 2
    assert "There is a, b, c: say --node NAME" in capsys.readouterr().err
    assert all(node.payloads == [] for node in cluster.values())


def test_a_broadcast_that_fails_is_exit_1(
    tmp_path: Path, cluster: dict[str, FakeNode], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster["a"].disk_full = True
    assert main(["broadcast", "x", "--data", str(tmp_path / "a")]) == 1
    assert capsys.readouterr().err == "thence: node a: no space left for the log\n"
