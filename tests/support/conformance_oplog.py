"""What a log must do, as checks of a class: the real one in tests/oplog, mutants in tests/mutants.

The first word of a failure says what kind of trouble it is: `changed` (other records than were written),
`lost`, `forgot` (a mark), `reused` (a position), `vector`, `since`, `missing`, `reach`, `durable`,
`definite`, `needed` (collected too early), `kept` (not collected), `snapshot`, `cut`, `damage` (not found,
or not named), `read` (too much was), `sync`, `usable`.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from support.disks import SMALL, caught, fill, payload
from support.oplog_model import SETTINGS, storm
from thence.core.dots import ORIGIN_MASK, pack, seq_of
from thence.core.errors import UsageError
from thence.core.storage import DamageError, DiskError
from thence.oplog.settings import Settings
from thence.sim.disk import Disk

ALL_SETTINGS = (
    SETTINGS,
    replace(SETTINGS, sync="everysec", sync_interval_us=2_000),
    replace(SETTINGS, sync="no", verify_sealed=False),
    replace(SETTINGS, keep_bytes=900),
    replace(SETTINGS, sync="everysec", sync_interval_us=2_000, keep_us=5_000),
)


def started(log_class: Any, disk: Disk, *names: str, settings: Settings = SMALL) -> Any:
    log = log_class.open(disk, settings, 0)
    log.boot(1, b"machine", 0)
    for name in names:
        log.member(name)
    log.sync(0)
    return log


def check_storm(log_class: Any) -> None:
    for seed in range(60):
        storm(log_class, seed, ALL_SETTINGS[seed % 5])


def check_storm_with_holes(log_class: Any) -> None:
    for seed in range(1000, 1060):
        storm(log_class, seed, ALL_SETTINGS[seed % 5], holes=True)


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
        log = started(log_class, disk, "a", settings=Settings(sync="no"))
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
                partial(log_class.open, disk.copy(Random(2)), Settings(), 0, power_lost=power_lost),
            )
            if error is not None:
                assert synced or not power_lost, "damage: what was never synced may be torn"
                assert "position" in error.affected, "damage: does not say what is affected"
                continue
            assert power_lost, "damage: taken for a torn tail"
            assert not synced, "damage: what was synced was cut off"
            again = log_class.open(disk.copy(Random(2)), Settings(), 0, power_lost=True)
            assert again.vector == (0,), f"vector: {again.vector}"


def check_a_missing_segment(log_class: Any) -> None:
    disk, _ = a_small_log(log_class)
    names = [name for name in disk.names() if name.endswith(".log")]
    disk.remove(names[1])
    error = caught(DamageError, partial(log_class.open, disk, SMALL, 0))
    assert error is not None, "damage: a segment is missing and nobody noticed"
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


def check_catch_up(log_class: Any) -> None:
    """Whatever a peer lacks comes, in log order, and near the end without reading the rest."""
    disk = Disk(Random(1))
    settings = Settings(sync="no", segment_bytes=20_000, spacing=16)
    log = started(log_class, disk, "a", "b", "c", "d", settings=settings)
    dots = fill(log, {0: 900, 1: 300, 2: 900}, each=50)
    dots += fill(log, {3: 1}) + fill(log, {0: 100, 2: 100}, each=50)
    for opened in (log, log_class.open(disk, settings, 0)):
        for vector in (
            (0, 0, 0, 0),
            (1000, 290, 990, 0),
            (),
            (1000, 300, 1000, 1),
            (999, 299),
            (500, 0, 1000, 5, 7),
        ):
            has = dict(enumerate(vector))
            lacking = [dot for dot in dots if seq_of(dot) > has.get(dot & ORIGIN_MASK, 0)]
            found = [stored.dot for stored in opened.missing(vector)]
            assert found == lacking, f"missing: {len(found)} of {len(lacking)} for {vector}"
        disk.bytes_read = 0
        assert len(list(opened.missing((990, 300, 990, 1)))) == 20, "missing: near the end"
        assert disk.bytes_read < 5_000, f"read: {disk.bytes_read} bytes for 20 messages"
        disk.bytes_read = 0
        list(opened.missing((1000, 300, 1000, 0)))
        assert disk.bytes_read < 20_000, f"read: {disk.bytes_read} bytes for an origin that the peer lacks"
        disk.bytes_read = 0
        tail = opened.tail
        assert len(list(opened.since(tail - 20))) in range(10, 21), "since: near the end"
        assert disk.bytes_read < 5_000, f"read: {disk.bytes_read} bytes to resume near the end"


def check_snapshots(log_class: Any) -> None:
    """The newest counts; a damaged one is replaced by the one before and the log since."""
    disk = Disk(Random(1))
    log = started(log_class, disk, "a", "b")
    for data in (b"one", b"two", b"three"):
        fill(log, {0: 10, 1: 10})
        log.mark_stable(log.vector)
        log.sync(0)
        log.snapshot(log.tail, log.vector, data, 0)
        log.collect(0)
    files = [name for name in disk.names() if name.endswith(".snapshot")]
    assert len(files) == 2, f"kept: {files}"
    fill(log, {0: 3})
    loaded = log_class.open(disk, SMALL, 0).load()
    assert loaded.data == b"three", "snapshot: not the newest"
    assert dict(loaded.clock) == {"a": 30, "b": 30}, "snapshot: another clock"
    disk.flip(files[1], 40, 1)
    again = log_class.open(disk, SMALL, 0)
    loaded = again.load()
    assert loaded.data == b"two", "snapshot: not the one before"
    assert len(list(again.since(loaded.covers))) == 23, "needed: to go on from the older snapshot"
    disk.flip(files[0], 40, 1)
    error = caught(DamageError, log_class.open(disk, SMALL, 0).load)
    assert error is not None, "snapshot: no state is whole and nobody noticed"
    assert error.file == files[1], "damage: names another file"


def check_half_a_snapshot(log_class: Any) -> None:
    """Whatever fails on the way, the one from before counts, and nothing stays behind."""
    for operation in ("write", "sync", "rename", "sync_folder"):
        disk = Disk(Random(1))
        log = started(log_class, disk, "a")
        fill(log, {0: 3})
        log.snapshot(log.tail, log.vector, b"one", 0)
        fill(log, {0: 3})
        disk.fail(operation)  # type: ignore[arg-type]
        error = caught(DiskError, partial(log.snapshot, log.tail, log.vector, b"two", 0))
        assert error is not None and error.definite, (
            f"definite: a snapshot whose {operation} failed counts for nothing"
        )
        assert not [name for name in disk.names() if "temporary" in name], f"kept: litter after {operation}"
        fill(log, {0: 3})
        again = log_class.open(disk, SMALL, 0)
        assert again.load().data == b"one", f"snapshot: after {operation}"
        assert again.vector == (9,), "vector"
        assert len([name for name in disk.names() if name.endswith(".snapshot")]) == 1, "kept: a stray one"


def check_installed(log_class: Any) -> None:
    """A state from a peer moves the vector; below it only a state helps; own messages go on."""
    disk = Disk(Random(1))
    log = started(log_class, disk, "a", "b")
    fill(log, {0: 5, 1: 5})
    log.snapshot(log.tail, (5, 40), b"theirs", 0)
    assert log.vector == (5, 40), f"vector: {log.vector} after an install"
    log.append(pack(1, 41), b"next")
    log.append(pack(0, 6), b"own")
    log.sync(0)
    fill(log, {0: 30})
    for opened in (log, log_class.open(disk, SMALL, 0)):
        assert opened.vector == (36, 41), f"vector: {opened.vector}"
        assert not opened.reaches((5, 5)), "reach: there is a hole"
        assert not opened.reaches((36, 39)), "reach: there is a hole"
        assert opened.reaches((0, 40)), "reach: all that is lacking is there"
        assert next(opened.missing((35, 40))).data == b"next", "missing"
    name = next(name for name in disk.names() if name.endswith(".snapshot"))
    disk.flip(name, 30, 0)
    error = caught(DamageError, log_class.open(disk, SMALL, 0).load)
    assert error is not None, "snapshot: the installed state is gone and nobody noticed"
    assert error.file == name, "damage: names another file"


def check_collection(log_class: Any) -> None:
    disk = Disk(Random(1))
    log = started(log_class, disk, "a", "b")
    fill(log, {0: 30, 1: 30})
    segments = len([name for name in disk.names() if name.endswith(".log")])
    assert log.collect(0).segments == 0, "needed: nothing is stable or taken"
    log.mark_stable(log.vector)
    log.sync(0)
    assert log.collect(0).segments == 0, "needed: the application has taken nothing"
    log.mark_taken(log.tail)
    log.sync(0)
    last = [stored.position for stored in log.since(0)][-1]
    collected = log.collect(0)
    assert collected.segments >= segments - 1, "kept: what nobody needs"
    assert collected.bytes > 0, "kept: bytes"
    assert log.taken >= last, "forgot: taken"
    assert not log.reaches((0, 0)), "reach: it was collected"
    assert caught(UsageError, partial(log.missing, (0, 0))), "reach: it was collected"
    again = log_class.open(disk, SMALL, 0)
    assert (again.vector, again.stable) == ((30, 30), (30, 30)), "forgot: with the segments"
    assert again.names == ("a", "b"), "forgot: names"
    assert (again.taken, again.head) == (log.taken, log.head), "forgot: taken"


def check_collection_by_size_and_age(log_class: Any) -> None:
    for settings in (replace(SMALL, keep_bytes=1_000), replace(SMALL, keep_us=50)):
        disk = Disk(Random(1))
        log = started(log_class, disk, "a", "b", settings=settings)
        fill(log, {0: 20, 1: 20})
        log.mark_taken(log.tail)
        log.sync(0)
        assert log.collect(100).segments == 0, "needed: a peer may lack it and no snapshot stands in"
        log.snapshot(log.tail, log.vector, b"one", 10)
        fill(log, {0: 10}, 40)
        assert settings.keep_us is None or log.collect(30).segments == 0, "needed: it is not old yet"
        count = log.collect(55).segments
        assert count > 0, "kept: although a snapshot stands in for it"
        if settings.keep_bytes:
            assert log.size_bytes > 400, "needed: more than the limit asks for"
        assert log.head <= log.load().covers, "needed: to go on from the snapshot"
        assert len(list(log.since(log.load().covers))) == 10, "needed: since the snapshot"


def check_full_disk(log_class: Any) -> None:
    """A full disk refuses, definitely; nothing acknowledged is lost; with room again it goes on."""
    for room in range(0, 120, 7):
        disk = Disk(Random(room))
        log = started(log_class, disk, "a", settings=Settings(sync="always"))
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


def check_failed_sync(log_class: Any) -> None:
    """After a failed sync nobody knows what the disk has: nothing more is written, reading goes on."""
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


def check_group_commit(log_class: Any) -> None:
    """One write for a batch, one sync for whatever came in while the last one was under way."""
    disk = Disk(Random(1))
    log = started(log_class, disk, "a", settings=Settings(sync="always"))
    disk.writes = disk.syncs = 0
    for seq in range(1, 101):
        log.append(pack(0, seq), b"x")
    (first,) = log.commit(0)
    assert disk.writes == 1, f"sync: {disk.writes} writes for a batch"
    for seq in range(101, 111):
        log.append(pack(0, seq), b"x")
        assert log.commit(0) == [], "sync: two under way at once"
    disk.sync(first.file)
    (second,) = log.synced(first, 0)
    assert first.position < log.tail == second.position, "durable: the second covers all"
    assert log.durable == first.position, "durable: what the first covered"
    disk.sync(second.file)
    assert log.synced(second, 0) == [], "sync: nothing is left to sync"
    assert (log.durable, disk.syncs) == (log.tail, 2), "durable: all"


def check_everysec(log_class: Any) -> None:
    disk = Disk(Random(1))
    log = started(log_class, disk, "a", settings=Settings(sync="everysec", sync_interval_us=1_000))
    log.append(pack(0, 1), b"x")
    (wake,) = log.commit(10)
    assert wake.at == 1_010, f"sync: a wake-up at {wake.at}"
    log.append(pack(0, 2), b"x")
    assert log.commit(500) == [], "sync: one wake-up is enough"
    assert [effect.at for effect in log.wake(900)] == [1_010], "sync: too early"
    (sync,) = log.wake(1_010)
    assert sync.position == log.tail, "sync: covers all"
    disk.sync(sync.file)
    assert log.synced(sync, 1_020) == [], "sync: nothing is left"
    assert log.durable == log.tail, "durable: all"
    assert log.wake(5_000) == [], "sync: nothing to do, and yet"


OPLOG_CHECKS: dict[str, Callable[[Any], None]] = {
    "storm": check_storm,
    "storm with holes": check_storm_with_holes,
    "flips": check_flips,
    "cuts": check_cuts,
    "damage further up": check_damage_further_up,
    "a missing segment": check_a_missing_segment,
    "index files": check_index_files,
    "catch-up": check_catch_up,
    "snapshots": check_snapshots,
    "half a snapshot": check_half_a_snapshot,
    "installed": check_installed,
    "collection": check_collection,
    "collection by size and age": check_collection_by_size_and_age,
    "full disk": check_full_disk,
    "remains stay": check_remains_stay,
    "failed sync": check_failed_sync,
    "group commit": check_group_commit,
    "everysec": check_everysec,
}
