"""When a member writes itself down: often, but a large state seldom."""

from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from support.schedules_groups import Play

from thence.oplog.policy import DiskSync
from thence.replica.group.lifecycle.checkpoints import CHECKPOINT_BYTES, Checkpoints
from thence.replica.group.process.node import GroupNode
from thence.replica.group.settings import GroupSettings

MB = 1 << 20


@pytest.mark.parametrize(
    ("size", "every"),
    [(0, CHECKPOINT_BYTES), (MB, CHECKPOINT_BYTES), (9 * CHECKPOINT_BYTES, 9 * CHECKPOINT_BYTES // 2)],
)
def test_one_is_wanted_when_the_log_has_grown_by_some_megabytes_and_by_half_of_the_last(
    size: int, every: int
) -> None:
    log: Any = SimpleNamespace(appended_bytes=CHECKPOINT_BYTES)
    checkpoints = Checkpoints()
    assert checkpoints.wanted(log)
    checkpoints.made(log, size)
    log.appended_bytes += every - 1
    assert not checkpoints.wanted(log)
    log.appended_bytes += 1
    assert checkpoints.wanted(log)


def test_another_log_has_nothing_written_down() -> None:
    checkpoints, log, other = Checkpoints(), *[SimpleNamespace(appended_bytes=9 * MB) for _ in range(2)]
    checkpoints.made(log)  # type: ignore[arg-type]
    assert not checkpoints.wanted(log)  # type: ignore[arg-type]
    assert checkpoints.wanted(other)  # type: ignore[arg-type]


def points(play: Play) -> Iterator[str]:
    """A checkpoint of b, point by point; the state of many pieces is made and written in many steps, and
    b sends meanwhile."""
    b = node_of(play)
    assert b.writes_down(play.now)
    log = b.log
    assert log is not None
    yield "begun"
    while not log.drafted:
        b.broadcast([b"meanwhile"], play.now)
        b.wake(play.now)
        effects = deque(b.commit(play.now))
        yield "made" if b._lives.checkpoints._making is not None else "written"
        while effects:
            sync = effects.popleft()
            if isinstance(sync, DiskSync):
                sync.carry_out(log.files)
                yield "synced"
                effects += log.synced(sync, play.now)
                yield "told"
    assert log.drafted
    assert b.has_written_down(play.now)
    yield "over"


def node_of(play: Play) -> GroupNode:
    found = play.processes["b"].node
    assert found is not None
    return found


def busy() -> Play:
    """Two that are members, one that is away, and operations that are not stable."""
    play = Play("abc", GroupSettings(history_bytes=1, step_max=1)).together("abc")
    for _ in range(15):
        play.send("b", bytes(100))
        play.send("a", bytes(100))
    play.passes(2)
    assert node_of(play).checkpoint(play.now)
    play.cuts("ca", "cb")
    for _ in range(15):
        play.send("a", bytes(100))
    play.passes(1)
    return play


@pytest.mark.parametrize("power", [False, True])
def test_a_crash_at_any_point_of_a_checkpoint_loses_nothing(power: bool) -> None:
    names = list(points(busy()))
    assert {"begun", "made", "written", "synced", "told", "over"} <= set(names)
    assert names.count("made") > 3
    for at in (*range(4), *range(4, len(names) - 16, 5), *range(len(names) - 16, len(names))):
        play = busy()
        durable = list(play.processes["b"].application.order)
        for _ in zip(range(at + 1), points(play), strict=False):
            pass
        before = list(play.processes["b"].application.order)
        play.crash("b", power=power)
        play.boot("b")
        after = play.processes["b"].application.order
        if power:  # what was not synced may be lost, the last first
            assert durable == after[: len(durable)], names[at]
            assert after == before[: len(after)], names[at]
        else:
            assert after == before, names[at]
        play.heals()
        assert play.ends_well() == "", names[at]


def test_what_was_not_stable_in_a_checkpoint_stays_in_the_log_until_the_next_but_one() -> None:
    """It was made before and counts after it has become stable everywhere."""
    play = Play("abc", GroupSettings(history_bytes=1)).together("abc")
    for _ in range(30):
        play.send("a", bytes(4000))
        play.send("b", bytes(4000))
    play.passes(0.01)
    b = node_of(play)
    assert b.checkpoint(play.now)
    play.call("b", lambda node: node.writes_down(play.now))
    log = b.log
    assert log is not None
    play.passes(6)  # made, written, synced, and everything is stable
    assert b._lives.checkpoints.log is None, "it is over"
    assert len(log._writer.state.snapshots) == 2
    play.send("a")
    play.passes(1)
    order = list(play.processes["b"].application.order)
    play.crash("b")
    play.boot("b")
    assert play.processes["b"].application.order == order
    assert play.ends_well() == ""
