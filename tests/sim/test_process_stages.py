"""Processes of a group go from stage to stage as the table says, in schedules by hand."""

from collections.abc import Callable

import pytest
from support.schedules_closing import CLOSING
from support.schedules_forgetful import FORGETFUL
from support.schedules_leaving import LEAVING
from support.schedules_returning import RETURNING
from support.schedules_rollback import ROLLBACK

from thence.replica.group.lifecycle.stages import PROCESS, ProcessStage
from thence.replica.group.process.node import GroupNode
from thence.sim.groups import GroupWorld, Process

Move = tuple[ProcessStage, ProcessStage]

SCHEDULES: dict[str, Callable[[], str]] = CLOSING | FORGETFUL | LEAVING | RETURNING | ROLLBACK


def moves_of(schedule: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> set[Move]:
    """From one step of a machine to its next."""
    found, last, real = set[Move](), dict[GroupNode, ProcessStage](), GroupWorld._look

    def look(self: GroupWorld, name: str, process: Process, node: GroupNode) -> None:
        if node in last and last[node] is not node.stage:
            found.add((last[node], node.stage))
        else:
            assert node in last or node.stage in (*PROCESS.first, ProcessStage.JOINING)
        last[node] = node.stage
        real(self, name, process, node)

    monkeypatch.setattr(GroupWorld, "_look", look)
    assert schedule() == ""
    return found


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_a_process_goes_on_as_the_table_says(
    schedule: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    moves = moves_of(schedule, monkeypatch)
    assert not {move for move in moves if not PROCESS.may_follow(*move)}


def test_schedules_have_most_of_its_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set[Move]().union(*[moves_of(schedule, monkeypatch) for schedule in SCHEDULES.values()])
    table = {(row.before, row.after) for row in PROCESS.rows}
    rare = {
        (ProcessStage.RETURNING, ProcessStage.LEAVING),
        (ProcessStage.RETURNING, ProcessStage.JOINING),
        (ProcessStage.LEAVING, ProcessStage.MEMBER),
        (ProcessStage.LEAVING, ProcessStage.JOINING),
    }
    assert table - rare <= seen
