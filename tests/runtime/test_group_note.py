"""The group as a node has it written down."""

import pytest
from support.disks import a_disk, a_log

from thence.core.errors import UsageError
from thence.core.storage import DamageError
from thence.oplog.log import OpLog
from thence.oplog.settings import Settings
from thence.runtime.address import Address
from thence.runtime.roster import ROSTER_NOTE, found, recall
from thence.sim.disk import Disk

HERE = [("b", Address("127.0.0.1", 2)), ("a", Address("127.0.0.1", 1))]
MOVED = [("a", Address("127.0.0.1", 11)), ("b", Address("127.0.0.1", 12))]


def reopened(disk: Disk) -> OpLog:
    log = OpLog.open(disk, Settings(), 0)
    log.boot(1, b"machine", 0)
    return log


def written() -> Disk:
    disk = a_disk()
    log = a_log(disk)
    roster = found(log, "cluster", "a", HERE)
    assert roster.names == ["a", "b"]
    log.sync(0)
    return disk


def test_a_group_is_found_once_and_recalled_from_the_log() -> None:
    disk = written()
    log = reopened(disk)
    again = recall(log, "cluster", "a", ())
    assert again is not None
    assert again.names == ["a", "b"]
    assert again.address("b") == Address("127.0.0.1", 2)
    assert [log.member(name) for name in again.names] == [0, 1], "indices are names in the log's own order"
    assert recall(a_log(a_disk()), "cluster", "a", ()) is None


def test_addresses_may_change_and_nothing_else() -> None:
    log = reopened(written())
    moved = recall(log, "cluster", "a", MOVED)
    assert moved is not None
    assert moved.address("b") == Address("127.0.0.1", 12)
    for cluster, me, members, why in (
        ("cluster", "b", HERE, "belongs to a, not to b"),
        ("other", "a", HERE, "cluster 'cluster', not to 'other'"),
        ("cluster", "a", [*HERE, ("c", Address("127.0.0.1", 3))], "knows a group of a, b"),
        ("cluster", "a", HERE[1:], "knows a group of a, b"),
    ):
        with pytest.raises(UsageError, match=why):
            recall(log, cluster, me, members)


def test_a_note_that_cannot_be_read_is_damage() -> None:
    log = reopened(written())
    log.note(ROSTER_NOTE, b"{")
    log.sync(0)
    with pytest.raises(DamageError, match="the note about the group cannot be read"):
        recall(log, "cluster", "a", ())


def test_whoever_is_met_is_known_by_its_log_from_then_on() -> None:
    disk = written()
    log = reopened(disk)
    roster = recall(log, "cluster", "a", ())
    assert roster is not None
    assert roster.meet("b", b"log of b", 3) is None
    assert roster.meet("b", b"log of b", 3) is None, "a link that comes again"
    log.sync(0)
    log = reopened(disk)
    roster = recall(log, "cluster", "a", ())
    assert roster is not None
    assert roster.meet("c", b"", 1) == "c is not a member of this group"
    assert "known here with another log" in (roster.meet("b", b"another", 4) or "")
    assert "a copy of its data folder" in (roster.meet("b", b"log of b", 2) or "")
    assert roster.meet("b", b"log of b", 4) is None, "it was started again"
    assert "a copy of its data folder" in (roster.meet("b", b"log of b", 3) or "")
