"""What the log promises beyond its kit: misuse is refused, stories that once went wrong stay right."""

from dataclasses import replace
from random import Random

import pytest
from support.disks import SMALL, a_disk, a_log, fill
from support.oplog_model import SETTINGS, storm

from thence.core.dots import pack
from thence.core.errors import UsageError
from thence.core.storage import DiskError
from thence.oplog.log import OpLog
from thence.oplog.policy import DiskSync
from thence.oplog.reading import OutOfReachError
from thence.oplog.record import MAX_BODY
from thence.oplog.settings import LogSettings


def test_nothing_is_appended_before_boot() -> None:
    log = OpLog.open(a_disk(), SMALL, 0)
    with pytest.raises(UsageError, match="boot"):
        log.note(1, b"x")


def test_a_log_is_booted_once() -> None:
    log = a_log(a_disk())
    with pytest.raises(UsageError, match="already"):
        log.boot(2, b"machine", 0)


def test_a_boot_that_fails_can_be_repeated() -> None:
    disk = a_disk()
    log = OpLog.open(disk, SMALL, 0)
    disk.fail("write")
    with pytest.raises(DiskError):
        log.boot(1, b"machine", 0)
    with pytest.raises(UsageError, match="boot"):
        log.note(1, b"x")
    log.boot(1, b"machine", 0)
    log.note(1, b"x")
    log.sync(0)
    assert OpLog.open(disk, SMALL, 0).notes == {1: b"x"}


def test_what_was_delivered_is_not_appended_again() -> None:
    log = a_log(a_disk(), "a", "b")
    log.append(pack(0, 1), b"x")
    with pytest.raises(UsageError, match="a:1 is in the log"):
        log.append(pack(0, 1), b"x")
    with pytest.raises(UsageError, match="no name"):
        log.append(pack(2, 1), b"x")


def test_counters_may_have_gaps_where_messages_were_for_others() -> None:
    log = a_log(a_disk(), "a", "b")
    for seq in (3, 4, 9):
        log.append(pack(0, seq), b"%d" % seq)
    log.sync(0)
    assert [stored.data for stored in log.missing((3, 0))] == [b"4", b"9"]


def test_a_member_and_its_first_message_may_share_a_commit() -> None:
    disk = a_disk()
    log = a_log(disk)
    log.append(pack(log.member("late"), 1), b"hello")
    log.sync(0)
    again = OpLog.open(disk, SMALL, 0)
    assert (again.names, again.vector) == (("late",), (1,))


def test_a_member_whose_commit_failed_has_no_index() -> None:
    disk = a_disk()
    log = a_log(disk, "a")
    log.member("b")
    disk.fail("write")
    with pytest.raises(DiskError):
        log.commit(0)
    assert list(log.names) == ["a"]
    assert log.member("c") == 1
    log.sync(0)
    assert list(log.names) == ["a", "c"]


def test_marks_that_make_no_sense_are_refused() -> None:
    log = a_log(a_disk(), "a")
    with pytest.raises(UsageError, match="before it was delivered"):
        log.mark_stable((1,))
    with pytest.raises(UsageError, match="before it was committed"):
        log.mark_taken(log.tail + 1)
    assert log.mark_stable((0,)) is None
    assert log.mark_taken(0) is None


def test_a_snapshot_must_cover_what_it_claims() -> None:
    log = a_log(a_disk(), "a", "b")
    fill(log, {0: 20, 1: 20})
    with pytest.raises(UsageError, match="lacks"):
        log.snapshot(log.tail, (20, 19), b"", 0)
    with pytest.raises(UsageError, match="ahead"):
        log.snapshot(log.tail - 1, (20, 21), b"", 0)
    with pytest.raises(UsageError, match="not committed"):
        log.snapshot(log.tail, (20, 20, 1), b"", 0)
    with pytest.raises(UsageError, match="of a log from"):
        log.snapshot(log.tail + 1, (20, 20), b"", 0)
    log.note(1, b"")
    with pytest.raises(UsageError, match="commit before"):
        log.snapshot(log.tail, (20, 20), b"", 0)


def test_a_snapshot_may_lag_behind_the_log() -> None:
    log = a_log(a_disk(), "a")
    fill(log, {0: 10})
    upto = [stored.position for stored in log.since(0)][3]
    log.snapshot(upto, (4,), b"four", 0)
    loaded = log.load()
    assert loaded is not None
    assert [stored.dot for stored in log.since(loaded.covers)] == [pack(0, seq) for seq in range(5, 11)]


def test_what_was_only_committed_is_durable_with_the_snapshot_after_it_and_the_policy_waits_for_nothing() -> (
    None
):
    disk = a_disk()
    log = a_log(disk, "a", settings=LogSettings(sync="always"))
    log.append(pack(0, 1), b"one")
    log.commit_only()
    log.snapshot(log.tail, (1,), b"state", 0)
    assert log.durable == log.tail
    log.append(pack(0, 2), b"two")
    assert [type(effect) for effect in log.commit(0)] == [DiskSync]
    disk.crash()
    found = a_log(disk, settings=LogSettings(sync="always")).load()
    assert found is not None
    assert found.data == b"state"


def test_a_message_that_is_too_long_is_refused() -> None:
    log = a_log(a_disk(), "a")
    with pytest.raises(UsageError, match="longest"):
        log.append(pack(0, 1), bytes(MAX_BODY))
    log.append(pack(0, 1), b"short")
    log.commit(0)
    assert log.vector == (1,)


def test_positions_before_the_log_are_out_of_reach() -> None:
    log = a_log(a_disk(), "a")
    fill(log, {0: 40})
    log.mark_stable(log.vector)
    log.mark_taken(log.tail)
    log.sync(0)
    log.collect(0)
    with pytest.raises(OutOfReachError):
        log.since(0)
    assert list(log.since(log.tail)) == []


def test_a_reader_whose_segment_was_collected_is_told() -> None:
    log = a_log(a_disk(), "a")
    fill(log, {0: 40})
    reader = log.since(0)
    next(reader)
    log.mark_stable(log.vector)
    log.mark_taken(log.tail)
    log.sync(0)
    log.collect(0)
    with pytest.raises(OutOfReachError, match="collected"):
        list(reader)


def test_a_reader_sees_what_was_there_when_it_was_asked_for() -> None:
    log = a_log(a_disk(), "a")
    fill(log, {0: 4})
    reader = log.since(0)
    next(reader)
    fill(log, {0: 40})
    assert len(list(reader)) == 3


def test_what_is_gathered_is_not_read() -> None:
    log = a_log(a_disk(), "a")
    log.append(pack(0, 1), b"x")
    assert list(log.since(0)) == []
    assert log.vector == (0,)


def test_a_quiet_log_is_sealed_by_age_and_then_collected() -> None:
    settings = LogSettings(segment_age_us=1_000)
    log = a_log(a_disk(), "a", settings=settings)
    fill(log, {0: 3})
    log.mark_stable(log.vector)
    log.mark_taken(log.tail)
    log.sync(0)
    assert log.collect(999).segments == 0
    assert log.collect(1_000).segments == 1


def test_a_new_segment_without_room_leaves_the_old_one_in_use() -> None:
    disk = a_disk()
    log = a_log(disk, "a")
    fill(log, {0: 3})
    disk.fail("write", after=1)
    log.append(pack(0, 4), bytes(500))
    log.commit(0)
    assert len([name for name in disk.names() if name.endswith(".log")]) == 1
    log.append(pack(0, 5), b"x")
    log.sync(0)
    assert len([name for name in disk.names() if name.endswith(".log")]) == 2
    assert OpLog.open(disk, SMALL, 0).vector == (5,)


def test_remains_of_a_failed_write_are_not_sealed_in() -> None:
    """Once they were, when age asked for a new segment before the next append had cut them off."""
    disk = a_disk(5)
    settings = replace(SMALL, segment_bytes=1 << 20, segment_age_us=100)
    log = a_log(disk, "a", settings=settings)
    disk.fail("write")
    disk.fail("truncate")
    log.append(pack(0, 1), bytes(100))
    with pytest.raises(DiskError):
        log.commit(0)
    disk.fail("truncate")
    log.collect(1_000)
    log.collect(1_000)
    assert OpLog.open(disk, settings, 0).report.rebuilt == []


def test_a_segment_that_only_the_page_cache_knew_is_not_trusted_with_a_boot() -> None:
    """Once a boot was lost with the file that it stood in: made by a process that died before the folder
    was synced, found by the next one, synced itself, and unknown to the folder."""
    disk = a_disk(2)
    log = a_log(disk, "a")
    disk.fail("sync_folder")
    log.append(pack(0, 1), bytes(500))
    with pytest.raises(DiskError):
        log.commit(0)
    again = OpLog.open(disk, SMALL, 0)
    boot = again.boot(1, b"machine", 0)
    disk.crash()
    assert OpLog.open(disk, SMALL, 0).tail >= boot


def test_a_sync_of_a_segment_that_was_sealed_meanwhile_may_fail() -> None:
    disk = a_disk()
    log = a_log(disk, "a", settings=replace(SMALL, sync="always", segment_bytes=1_000))
    log.append(pack(0, 1), b"x")
    (sync,) = log.commit(0)
    assert isinstance(sync, DiskSync)
    log.append(pack(0, 2), bytes(2_000))
    log.commit(0)
    log.sync_failed(sync, DiskError("no such file", file=sync.file), 0)
    log.append(pack(0, 3), b"x")
    (sync,) = log.commit(0)
    assert isinstance(sync, DiskSync)
    assert sync.position == log.tail


@pytest.mark.parametrize("seed", [24013, 24546, 527, 1156])
def test_storms_that_once_found_something(seed: int) -> None:
    everysec = replace(SETTINGS, sync="everysec", sync_interval_us=2_000)
    limits = (SETTINGS, everysec, replace(SETTINGS, sync="no"), replace(SETTINGS, keep_bytes=900))
    settings = (*limits, replace(everysec, keep_us=5_000))[seed % 5]
    storm(OpLog, seed, settings, holes=seed % 3 == 0)


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_at_the_very_first_moment(seed: int) -> None:
    disk = a_disk(seed)
    disk.fail("sync" if seed % 2 else "sync_folder")
    with pytest.raises(DiskError):
        OpLog.open(disk, SMALL, 0)
    disk.crash()
    log = OpLog.open(disk, SMALL, 0)
    log.boot(1, b"machine", 0)
    disk.crash()
    assert OpLog.open(disk, SMALL, 0).incarnation == 1


def test_settings_are_checked() -> None:
    with pytest.raises(UsageError, match="segment_bytes"):
        LogSettings(segment_bytes=0)
    with pytest.raises(UsageError, match="policy"):
        OpLog.open(a_disk(), replace(SMALL, sync="sometimes"), 0)  # type: ignore[arg-type]


def test_chance_is_the_disks_own() -> None:
    """The same seed tears the same way."""

    def torn(seed: int) -> list[bytes]:
        disk = a_disk(seed)
        log = a_log(disk, "a", settings=LogSettings(sync="no"))
        for seq in range(1, 30):
            log.append(pack(0, seq), Random(seq).randbytes(30))
            log.commit(0)
        disk.crash()
        return [disk.read(name, 0, 1 << 20) for name in disk.names()]

    assert torn(4) == torn(4)
    assert len({b"".join(torn(seed)) for seed in range(8)}) > 4
