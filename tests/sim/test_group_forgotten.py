"""What may come late in a storm over a changing group: what its process had forgotten before it sent what
came first, and nothing else; also in the trace, as `thence soak` judges it."""

from pathlib import Path

import pytest
from pipeline.layouts import write_jsonl
from support.groups import excused
from support.run_text import rows

from thence.check import judge
from thence.core.groups import Place
from thence.lab.soak import _unforgiven
from thence.pipeline import local
from thence.sim.groups_forgotten import SeenForgotten

OLD: list[Place] = [("c", number) for number in range(1, 5)]
NEW: list[Place] = [("c~2", 1), ("c~2", 2)]


def after_a_loss(remembers: int = 0) -> SeenForgotten:
    """c has sent four operations, forgotten all but the first of them, and sent two more."""
    found = SeenForgotten()
    for place in OLD:
        found.sends("c", place, carried=False)
    found.forgets("c", OLD[:remembers])
    for place in NEW:
        found.sends("c", place, carried=False)
    return found


def test_what_is_forgotten_may_come_after_what_was_sent_since() -> None:
    assert list(after_a_loss().inversions([*OLD[:2], *NEW, *OLD[2:]])) == []


def test_it_may_not_come_after_what_was_sent_before_it_was_forgotten() -> None:
    """Whatever is forgotten was excused before, wherever it came."""
    order = [OLD[0], OLD[2], OLD[1], *NEW, OLD[3]]
    assert list(after_a_loss().inversions(order)) == [(OLD[1], OLD[2])]


def test_an_operation_that_came_first_and_was_sent_before_is_seen_behind_one_that_was_sent_since() -> None:
    order = [OLD[0], OLD[2], *NEW, OLD[1], OLD[3]]
    assert list(after_a_loss().inversions(order)) == [(OLD[1], OLD[2])]


def test_what_a_disk_still_knew_may_not_come_late() -> None:
    found = after_a_loss(remembers=2)
    assert list(found.inversions([*OLD[:1], *NEW, *OLD[1:]])) == [(OLD[1], NEW[0])]
    assert list(found.inversions([*OLD[:2], *NEW, *OLD[2:]])) == []


def test_an_operation_that_is_sent_again_since_counts_as_sent_since() -> None:
    found = SeenForgotten()
    for place in OLD:
        found.sends("c", place, carried=False)
    found.declines("c", OLD[1])
    found.sends("c", OLD[2], carried=True)
    assert found.may_follow(OLD[1], OLD[2])
    assert not found.may_follow(OLD[0], OLD[2])
    assert not found.may_follow(OLD[1], OLD[3]), "that was not sent since"


def test_what_others_forget_excuses_nothing() -> None:
    found = after_a_loss()
    found.sends("d", ("d", 1), carried=False)
    found.sends("d", OLD[0], carried=True)
    found.declines("d", OLD[0])
    found.forgets("d", ())
    assert not found.may_follow(OLD[0], OLD[1])


def test_one_that_was_put_back_knows_nothing_of_an_incarnation_that_it_had_since() -> None:
    """Numbers say that it was sent before; it was sent after, without a word of the other."""
    found = SeenForgotten()
    found.sends("c", ("c", 1), carried=False)
    found.sends("c", ("c~2", 2), carried=False)
    found.forgets("c", [("c", 1)])
    found.sends("c", ("c", 3), carried=False)
    assert list(found.inversions([("c", 1), ("c~2", 2), ("c", 3)])) == []
    assert list(found.inversions([("c~2", 2), ("c", 1), ("c", 3)])) == [(("c", 1), ("c~2", 2))]


@pytest.mark.parametrize("forgotten", [True, False])
def test_a_trace_may_have_what_was_forgotten_and_nothing_else(forgotten: bool, tmp_path: Path) -> None:
    lost = SeenForgotten()
    for place in OLD[:2]:
        lost.sends("c", place, carried=False)
    if forgotten:
        lost.forgets("c", ())
    lost.sends("c", NEW[0], carried=False)
    text = [
        *rows("c", "send c:1", "send c:2", "crash"),
        *rows("c~2", "install deps=d:1 process=c incarnation=2", "send c~2:1", "deliver c:1", "deliver c:2"),
        *rows("d", "send d:1", "deliver c~2:1", "deliver c:1", "deliver c:2"),
    ]
    [verdict] = judge(text)
    flagged = [flag for flag in verdict.flagged if flag.verdict == "program"]
    assert [(flag.node, flag.message) for flag in flagged] == [
        (node, message) for node in ("c~2", "d") for message in ("c:1", "c:2")
    ]
    assert [excused(flag, lost) for flag in flagged] == [forgotten] * 4
    write_jsonl(tmp_path / "trace.jsonl", text)
    [judged] = local.verify(tmp_path / "trace.jsonl", findings=tmp_path / "findings").runs
    others = sum(judged.violations.values()) - judged.violations["program"]
    assert others == 0, judged.violations
    why = _unforgiven(judged, lost, tmp_path / "findings")
    assert (why == "") is forgotten, why
