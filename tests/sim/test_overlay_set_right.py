"""After an alarm a state is set right from an earlier one, and is what the whole log would give."""

from typing import Any

import pytest
from support.conformance_trees_live import SECOND, made_run

from thence.core.dots import pack
from thence.core.message import Message
from thence.order.keys import Keys
from thence.order.probabilistic import Detector
from thence.replica import tree_right
from thence.replica.tree import TreeReplica
from thence.sim.overlay_program import NewestProgram
from thence.sim.overlay_scenarios import configure


class Counting(TreeReplica):
    """Looks at each state that was set right: the whole log must give the same. Counts what that takes."""

    alarms_met = from_earlier = applied = whole = 0

    def set_right(self) -> bool:
        earlier, program = self._earlier.newest, self._application
        alarms = super().set_right()
        if not alarms:
            return False
        assert isinstance(program, NewestProgram)
        kept, state = list(self._earlier._kept), program.encode()
        self._earlier._kept.clear()
        began = Counted.count
        self._restore()
        Counting.whole += Counted.count - began
        assert program.encode() == state, "not what the whole log gives"
        self._earlier._kept.extend(kept)
        began = Counted.count
        self._restore()
        Counting.applied += Counted.count - began
        assert program.encode() == state
        Counting.alarms_met += 1
        Counting.from_earlier += earlier is not None
        return True

    def _apply(self, message: Message, own: bool) -> None:
        Counted.count += 1
        super()._apply(message, own)


class Counted:
    count = 0


def ran(scenario: str, **given: Any) -> None:
    usual = {"spread": "gossip", "order": "probabilistic", "payload_bytes": 8, "entries": 3, "keys": 1}
    if scenario == "steady":
        usual |= {"nodes": 8, "messages": 30, "interval_ms": 60.0, "warmup_ms": 2000.0}
    run = made_run(configure(scenario, **{**usual, **given}), None, "always", {"replica": Counting})
    run.patience_us = 15 * SECOND
    outcome = run()
    assert outcome.complete, outcome.why


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_right, "EVERY", 4)
    monkeypatch.setattr(tree_right, "SHARE", 1 << 20)
    for count in ("alarms_met", "from_earlier", "applied", "whole"):
        monkeypatch.setattr(Counting, count, 0)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("seed", [1, 2])
def test_what_an_earlier_state_gives_is_what_the_whole_log_gives(seed: int) -> None:
    ran("steady", seed=seed)
    assert Counting.alarms_met > 20
    assert Counting.from_earlier > Counting.alarms_met // 2
    assert Counting.applied < Counting.whole // 2


@pytest.mark.usefixtures("often")
def test_so_it_is_in_storms() -> None:
    """Doubts go far back there, and few earlier states are kept."""
    for seed in range(4):
        ran("tree-storm", seed=seed, interval_ms=50.0)
    assert Counting.alarms_met > 100
    assert Counting.from_earlier > 0


def test_a_detector_tells_whether_its_list_was_long_enough() -> None:
    """One entry: each delivery covers for the one that is late."""
    keys = Keys(1, 1)
    for length, complete in ((3, False), (4, False), (6, True)):
        detector = Detector(keys, length)
        for seq in range(1, 6):
            detector.remember(Message(pack(1, seq), (seq,), b""))
        late = Message(pack(0, 1), (1,), b"")
        assert len(detector.doubts(late, [6])) == min(length, 5)
        assert detector.is_complete is complete
