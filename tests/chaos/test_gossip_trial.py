"""Integration: real processes whose messages gossip spreads and shared clocks order, killed and cut off."""

import json
from pathlib import Path

import pytest

from thence.cli.main import main
from thence.lab.chaos.gossip import ChangingGossipRound, GossipRound
from thence.lab.chaos.newest import LEFT, Newest
from thence.replica.group.surroundings import Applied, Operation

DELIVERY = {"kind": "order", "node": "a", "message": "b:3", "missing": "c:1"}


@pytest.mark.parametrize("besides", [(), ("--changing",)])
def test_processes_come_through_and_every_error_was_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], besides: tuple[str, ...]
) -> None:
    """The clock of seed 2 has one entry."""
    storm = ["chaos", "--order", "probabilistic", "--minutes", "0.2", "--seed", "2", "--engine", "local"]
    code = main([*storm, "--out", str(tmp_path / "out"), *besides])
    said = capsys.readouterr().out
    assert code == 0, said
    assert "states are equal" in said
    assert "each of them doubted" in said


def test_an_error_that_was_not_doubted_there_is_not_let_pass(tmp_path: Path) -> None:
    trial = GossipRound(2, 4, 10.0, tmp_path / "trial")
    trace = tmp_path / "trial" / "trace"
    trace.mkdir()
    (trace / "b-1.jsonl").write_text(row("b", "doubt", "b", 3) + row("b", "doubt", "c", 3)[:20])
    here = row("a", "deliver", "b", 3) + row("a", "doubt", "b", 2) + row("a", "deliver", "c", 1)
    (trace / "a-1.jsonl").write_text(here)
    assert not trial._forgives(DELIVERY), "not at this node, and not this delivery"
    assert trial._forgives({**DELIVERY, "node": "b"})
    for kind in ("lost", "duplicate", "gap", "unsent"):
        assert not trial._forgives({**DELIVERY, "kind": kind})


def test_a_process_that_was_gone_before_the_cause_came_could_not_notice(tmp_path: Path) -> None:
    trial = GossipRound(2, 4, 10.0, tmp_path / "trial")
    trace = tmp_path / "trial" / "trace"
    trace.mkdir()
    (trace / "b-1.jsonl").write_text(row("b", "deliver", "b", 3) + row("b", "deliver", "c", 1))
    (trace / "a-1.jsonl").write_text(row("a", "deliver", "b", 3))
    assert trial._forgives(DELIVERY)
    circle = {name: value for name, value in DELIVERY.items() if name != "missing"}
    assert not trial._forgives(circle), "deliveries that wait for each other lack no cause that could come"


def row(node: str, kind: str, origin: str, seq: int) -> str:
    return json.dumps({"node": node, "pos": 1, "kind": kind, "origin": origin, "seq": seq}) + "\n"


def test_members_come_and_go_if_that_is_asked_for(tmp_path: Path) -> None:
    fixed, changing = GossipRound(2, 4, 60.0, tmp_path / "a"), ChangingGossipRound(2, 4, 60.0, tmp_path / "b")
    kinds = [{act.kind for act in trial._plan} for trial in (fixed, changing)]
    assert kinds[1] - kinds[0] == {"leave", "lose disk"}


def test_errors_of_order_harm_the_state_until_it_begins_anew(tmp_path: Path) -> None:
    sender = Newest(tmp_path / "a", 0)
    operations = []
    for seq in range(1, 4):
        operations.append(Applied(Operation("a", seq, sender.payload(b"load")), False, None))
        sender.apply(operations[-1])
    right, wrong = Newest(tmp_path / "b", 0), Newest(tmp_path / "c", 0)
    for operation in operations:
        right.apply(operation)
    for operation in reversed(operations):
        wrong.apply(operation)
    assert right.tally[LEFT][0] == 1
    assert wrong.tally != right.tally
    assert wrong.tally["a"] == right.tally["a"]
    wrong.install(b"")
    for operation in operations:
        wrong.apply(operation)
    assert wrong.tally == right.tally
    right.install(wrong.state())
    assert wrong.tally == right.tally


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--order", "probabilistic", "--spread", "tree"], "spreads by gossip: it takes no --spread"),
        (["--order", "graph"], "--order is none or probabilistic; other orders are drawn"),
    ],
)
def test_what_does_not_go_together_is_said(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chaos", *given]) == 2
    assert said in capsys.readouterr().err
