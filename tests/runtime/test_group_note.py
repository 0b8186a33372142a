"""The group as a node of version 1 has it written down."""

import pytest
from support.disks import a_disk, a_log
from support.version1 import found

from thence.core.errors import UsageError
from thence.core.storage import DamageError
from thence.oplog.log import OpLog
from thence.oplog.settings import LogSettings
from thence.runtime.address import Address
from thence.runtime.version1 import ROSTER, recall

HERE = [("b", Address("127.0.0.1", 2)), ("a", Address("127.0.0.1", 1))]
MOVED = [("a", Address("127.0.0.1", 11)), ("b", Address("127.0.0.1", 12))]


def written() -> OpLog:
    disk = a_disk()
    log = a_log(disk)
    found(log, "cluster", "a", HERE)
    log.sync(0)
    return OpLog.open(disk, LogSettings(), 0)


def test_a_group_is_recalled_from_the_log() -> None:
    again = recall(written(), "cluster", "a", ())
    assert again.names == ["a", "b"]
    assert again.members[1].address == "127.0.0.1:2"


def test_addresses_may_change_and_nothing_else() -> None:
    log = written()
    assert recall(log, "cluster", "a", MOVED).members[1].address == "127.0.0.1:12"
    for cluster, me, members, why in (
        ("cluster", "b", HERE, "belongs to a, not to b"),
        ("other", "a", HERE, "cluster 'cluster', not to 'other'"),
        ("cluster", "a", [*HERE, ("c", Address("127.0.0.1", 3))], "knows a group of a, b"),
        ("cluster", "a", HERE[1:], "knows a group of a, b"),
    ):
        with pytest.raises(UsageError, match=why):
            recall(log, cluster, me, members)


def test_a_note_that_cannot_be_read_is_damage() -> None:
    log = written()
    log.boot(1, b"machine", 0)
    log.note(ROSTER, b"{")
    log.sync(0)
    with pytest.raises(DamageError, match="the note about the group cannot be read"):
        recall(log, "cluster", "a", ())
