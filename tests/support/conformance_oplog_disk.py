"""What a log must do with files that are damaged, torn, full or forgotten: half of its kit."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from support.disks import SMALL, caught, fill, payload
from thence.core.dots import pack
from thence.core.storage import DamageError, DiskError
from thence.oplog.settings import LogSettings
from thence.sim.disk import Disk


def started(log_class: Any, disk: Disk, *names: str, settings: LogSettings = SMALL) -> Any:
    log = log_class.open(disk, settings, 0)
    log.boot(1, b"machine", 0)
    for name in names:
        log.member(name)
    log.sync(0)
    return log


def a_small_log(log_class: Any) -> tuple[Disk, list[tuple[int, Any]]]:
    """Three segments with every kind of record, two snapshots."""
    disk = Disk(Random(1))
    log = started(log_class, disk, "a", "b")
    fill(log, {0: 4, 1: 3})
    log.note(7, b"remember")
    log.mark_stable((2, 1))
    log.mark_taken(log.tail)
    log.sync(0)
    log.snapshot(log.tail, log.vector, b"first", 0)
    fill(log, {0: 5, 1: 3}, each=3)
    log.snapshot(log.tail, log.vector, b"second", 0)
    fill(log, {0: 2, 1: 2}, each=4)
    return disk, list(log.records(log.head))


def check_flips(log_class: Any) -> None:
    """Every byte of every file, one bit at a time (which bit goes round): found and named, or cut off as
    torn at the very end, or harmless; never other records."""
    disk, records = a_small_log(log_class)
    names = disk.names()
    last = max(name for name in names if name.endswith(".log"))
    assert len([name for name in names if name.endswith(".log")]) >= 3, "changed: too few segments"
    for name in names:
        for offset in range(disk.size(name)):
            hurt = disk.copy(Random(0))
            hurt.flip(name, offset, offset % 8)
            before = hurt.copy(Random(0))
            error = caught(DamageError, partial(log_class.open, before, SMALL, 0))
            if error is not None:
                assert error.file == name, f"damage: in {name}, byte {offset}, found in {error.file}"
                assert error.offset <= offset, f"damage: at {offset}, found at {error.offset}"
                assert name.endswith(".log"), f"damage: {name} can be done without"
                continue
            log = log_class.open(hurt, SMALL, 0)
            found = list(log.records(0))
            assert found == records[: len(found)], f"changed: by byte {offset} of {name}"
            if len(found) < len(records):
                assert (log.report.cut_file, name) == (last, last), f"lost: by byte {offset} of {name}"
                assert log.report.cut_at <= offset, f"cut: at {log.report.cut_at}, hurt at {offset}"
                assert len(found) == len(records) - 1, f"lost: whole records, by byte {offset} of {name}"
            else:
                assert not name.endswith(".log"), f"damage: not found at byte {offset} of {name}"
            loaded = log.load()
            assert loaded is not None, "snapshot: none left"
            expected = b"first" if name.endswith(".snapshot") and "second" in _said(disk, name) else b"second"
            assert loaded.data == expected, f"snapshot: {loaded.data!r} by byte {offset} of {name}"


def _said(disk: Disk, name: str) -> str:
    return disk.read(name, 0, disk.size(name)).decode("latin1")


def check_cuts(log_class: Any) -> None:
    """The last segment, cut short at every byte."""
    disk, records = a_small_log(log_class)
    last = max(name for name in disk.names() if name.endswith(".log"))
    size = disk.size(last)
    whole = None
    for length in range(size, -1, -1):
        hurt = disk.copy(Random(0))
        hurt.truncate(last, length)
        log = log_class.open(hurt, SMALL, 0)
        found = list(log.records(0))
        assert found == records[: len(found)], f"changed: when cut at {length}"
        if whole is None or log.report.cut_bytes == 0:
            whole = len(found)
        assert whole - len(found) in (0, 1), f"lost: {whole - len(found)} records when cut at {length}"
        whole = len(found)
        if log.report.cut_bytes:
            assert log.report.cut_file == last, "cut: another file"
            assert log.report.cut_at + log.report.cut_bytes == length, "cut: wrongly reported"
            assert hurt.size(last) == log.report.cut_at, "cut: reported and not done"
        log.boot(2, b"machine", 0)
        log.append(pack(0, 99), b"goes on")
        log.sync(0)
        assert [stored.data for stored in log_class.open(hurt, SMALL, 0).since(0)][-1] == b"goes on", "usable"


def check_damage_further_up(log_class: Any) -> None:
    """A bad record with good ones after it is damage, not a tear; unless the power went and nothing says
    that it had been synced."""
    for synced in (True, False):
        disk = Disk(Random(1))
        log = started(log_class, disk, "a", settings=LogSettings(sync="no"))
        log.append(pack(0, 1), payload(pack(0, 1)))
        log.commit(0)
        if synced:
            log.sync(0)
        offset = disk.size(disk.names()[0])
        for seq in range(2, 5):
            log.append(pack(0, seq), payload(pack(0, seq)))
            log.commit(0)
        disk.flip(disk.names()[0], offset - 10, 3)
        for power_lost in (True, False):
            error = caught(
                DamageError,
                partial(log_class.open, disk.copy(Random(2)), LogSettings(), 0, power_lost=power_lost),
            )
            if error is not None:
                assert synced or not power_lost, "damage: what was never synced may be torn"
                assert "position" in error.affected, "damage: does not say what is affected"
                continue
            assert power_lost, "damage: taken for a torn tail"
            assert not synced, "damage: what was synced was cut off"
            again = log_class.open(disk.copy(Random(2)), LogSettings(), 0, power_lost=True)
            assert again.vector == (0,), f"vector: {again.vector}"


def check_a_missing_segment(log_class: Any) -> None:
    disk, _ = a_small_log(log_class)
    names = [name for name in disk.names() if name.endswith(".log")]
    disk.remove(names[1])
    error = caught(DamageError, partial(log_class.open, disk, SMALL, 0))
    assert error is not None, "damage: a segment is missing, and that is not reported"
    assert "position" in error.affected, "damage: does not say what is missing"


def check_index_files(log_class: Any) -> None:
    """Used when they are good, made again when they are not."""
    disk, records = a_small_log(log_class)
    indexes = [name for name in disk.names() if name.endswith(".index")]
    contents = {name: _said(disk, name) for name in indexes}
    whole = sum([disk.size(name) for name in disk.names() if name.endswith(".log")])
    disk.bytes_read = 0
    log_class.open(disk, replace(SMALL, verify_sealed=False), 0)
    assert disk.bytes_read < whole, "read: sealed segments were read although their index is there"
    for name in indexes:
        disk.remove(name)
    log = log_class.open(disk, SMALL, 0)
    assert sorted(log.report.rebuilt) == indexes, "changed: not all were made again"
    assert {name: _said(disk, name) for name in indexes} == contents, "changed: made again differently"
    assert list(log.records(0)) == records, "changed: records"


def check_holes(log_class: Any) -> None:
    """After a power cut the unsynced end may have holes; it is cut off at the first, what was synced
    stays, and this is not reported as damage."""
    for seed in range(40):
        disk = Disk(Random(seed))
        settings = LogSettings(sync="no")
        log = started(log_class, disk, "a", settings=settings)
        fill(log, {0: 20}, each=7)
        for seq in range(21, 101):
            log.append(pack(0, seq), payload(pack(0, seq)))
            log.commit(0)
            if seq == seed + 30:
                log.sync(0)
        synced = seed + 30
        disk.crash(holes=True)
        found = [stored.dot for stored in log_class.open(disk, settings, 0, power_lost=True).since(0)]
        assert found == [pack(0, seq) for seq in range(1, len(found) + 1)], "changed: by holes"
        assert len(found) >= synced, f"lost: {len(found)} of {synced} that were synced"


def check_page_cache(log_class: Any) -> None:
    """A segment that only the page cache knew, made by a process that died before the folder was synced,
    does not take the next boot with it."""
    for seed in range(10):
        disk = Disk(Random(seed))
        log = started(log_class, disk, "a")
        disk.fail("sync_folder")
        log.append(pack(0, 1), bytes(500))
        error = caught(DiskError, partial(log.commit, 0))
        assert error is not None, "usable: a failed sync went unnoticed"
        assert not error.definite, "definite: it was written"
        boot = log_class.open(disk, SMALL, 0).boot(1, b"machine", 0)
        disk.crash()
        assert log_class.open(disk, SMALL, 0).tail >= boot, "reused: a boot is lost"


def check_definite_is_for_ever(log_class: Any) -> None:
    """What an error said had definitely not happened does not turn up after a crash either."""
    for seed in range(40):
        disk = Disk(Random(seed))
        log = started(log_class, disk, "a")
        for seq in range(1, 6):
            log.append(pack(0, seq), b"refused")
        disk.fail("write")
        error = caught(DiskError, partial(log.commit, 0))
        assert error is not None, "usable: a failed write went unnoticed"
        assert error.definite, "definite: the remains were cut off"
        disk.crash()
        assert list(log_class.open(disk, SMALL, 0).since(0)) == [], "changed: it turned up all the same"


def check_remains_and_age(log_class: Any) -> None:
    """Remains are not sealed in when a new segment is due before the next append has cut them off."""
    settings = replace(SMALL, segment_bytes=1 << 20, segment_age_us=100)
    for seed in range(10):
        disk = Disk(Random(seed))
        log = started(log_class, disk, "a", settings=settings)
        fill(log, {0: 1})
        for seq in range(2, 6):
            log.append(pack(0, seq), bytes(100))
        disk.fail("write")
        disk.fail("truncate")
        error = caught(DiskError, partial(log.commit, 0))
        assert error is not None, "usable: a failed write went unnoticed"
        log.collect(1_000)
        log.append(pack(0, 2), b"x")
        log.sync(1_000)
        assert log_class.open(disk, settings, 0).vector == (2,), "vector"


def check_remains_stay(log_class: Any) -> None:
    """If not even the remains of a failed write can be cut off, the error leaves it open, and the next
    append tries again."""
    disk = Disk(Random(3))
    log = started(log_class, disk, "a")
    disk.fail("write")
    disk.fail("truncate")
    log.append(pack(0, 1), payload(pack(0, 1), 60))
    error = caught(DiskError, partial(log.commit, 0))
    assert error is not None, "usable: a failed write went unnoticed"
    assert not error.definite, "definite: the remains are still there"
    disk.fail("truncate")
    error = caught(DiskError, partial(log.append, pack(0, 1), b"refused"))
    assert error is not None, "usable: appended after remains"
    assert error.definite, "definite: it was not even gathered"
    log.append(pack(0, 1), b"x")
    log.sync(0)
    assert [stored.data for stored in log_class.open(disk, SMALL, 0).since(0)] == [b"x"], (
        "changed: by remains"
    )


def check_full_disk(log_class: Any) -> None:
    """A full disk refuses, definitely; nothing acknowledged is lost; with room again it goes on."""
    for room in range(0, 120, 7):
        disk = Disk(Random(room))
        log = started(log_class, disk, "a", settings=LogSettings(sync="always"))
        fill(log, {0: 5})
        position = log.tail
        disk.capacity = disk.size(disk.names()[0]) + room
        for seq in range(6, 9):
            log.append(pack(0, seq), payload(pack(0, seq), 40))
        error = caught(DiskError, partial(log.commit, 0))
        assert error is not None, "usable: a full disk took everything"
        assert error.definite, "definite: the remains were cut off"
        assert error.full, "usable: does not say that the disk is full"
        assert log.tail == position, "usable: what was refused is counted"
        assert len(list(log.since(0))) == 5, "since: after a full disk"
        disk.capacity = None
        log.append(pack(0, 6), b"again")
        log.sync(0)
        disk.crash()
        found = [stored.data for stored in log_class.open(disk, SMALL, 0).since(0)]
        assert (len(found), found[-1]) == (6, b"again"), f"lost: after a full disk: {found}"


def check_failed_sync(log_class: Any) -> None:
    """After a failed sync it is unknown what the disk has: nothing more is written, reading goes on."""
    disk = Disk(Random(1))
    log = started(log_class, disk, "a")
    log.append(pack(0, 1), b"x")
    disk.fail("sync")
    (sync,) = log.commit(0)
    error = caught(DiskError, partial(disk.sync, sync.file))
    assert error is not None, "sync: did not fail"
    log.sync_failed(sync, error, 0)
    error = caught(DiskError, partial(log.append, pack(0, 2), b"y"))
    assert error is not None, "usable: went on after a failed sync"
    assert error.definite, "definite: nothing was gathered"
    assert len(list(log.since(0))) == 1, "since: after a failed sync"


DISK_CHECKS: dict[str, Callable[[Any], None]] = {
    "flips": check_flips,
    "cuts": check_cuts,
    "damage further up": check_damage_further_up,
    "a missing segment": check_a_missing_segment,
    "index files": check_index_files,
    "full disk": check_full_disk,
    "remains stay": check_remains_stay,
    "definite is for ever": check_definite_is_for_ever,
    "remains and age": check_remains_and_age,
    "page cache": check_page_cache,
    "holes": check_holes,
    "failed sync": check_failed_sync,
}
