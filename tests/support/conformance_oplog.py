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

from support.conformance_oplog_disk import DISK_CHECKS, started
from support.disks import SMALL, caught, fill
from support.oplog_model import SETTINGS, WITH_DRAFTS, storm
from thence.core.dots import ORIGIN_MASK, pack, seq_of
from thence.core.errors import UsageError
from thence.core.storage import DamageError, DiskError
from thence.oplog.policy import Policy
from thence.oplog.settings import LogSettings
from thence.sim.disk import Disk

ALL_SETTINGS = (
    SETTINGS,
    replace(SETTINGS, sync="everysec", sync_interval_us=2_000),
    replace(SETTINGS, sync="no", verify_sealed=False),
    replace(SETTINGS, keep_bytes=900),
    replace(SETTINGS, sync="everysec", sync_interval_us=2_000, keep_us=5_000),
)


def check_storm(log_class: Any) -> None:
    for seed in range(60):
        storm(log_class, seed, ALL_SETTINGS[seed % 5])


def check_storm_with_holes(log_class: Any) -> None:
    for seed in range(1000, 1060):
        storm(log_class, seed, ALL_SETTINGS[seed % 5], holes=True)


def check_storm_of_drafts(log_class: Any) -> None:
    for seed in range(700, 800):
        storm(log_class, seed, ALL_SETTINGS[seed % 5], holes=bool(seed % 2), names=WITH_DRAFTS)


def check_catch_up(log_class: Any) -> None:
    """Whatever a peer lacks comes, in log order, and near the end without reading the rest."""
    disk = Disk(Random(1))
    settings = LogSettings(sync="no", segment_bytes=20_000, spacing=16)
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
        for count in range(5, 95, 10):
            disk.bytes_read = 0
            vector = (1000 - count, 300, 1000 - count, 1)
            assert len(list(opened.missing(vector))) == 2 * count, "missing: near the end"
            assert disk.bytes_read < 40 * 2 * (count + 20), f"read: {disk.bytes_read} bytes for {2 * count}"
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
    assert again.head <= loaded.covers, "needed: to go on from the older snapshot"
    assert len(list(again.since(loaded.covers))) == 23, "needed: to go on from the older snapshot"
    disk.flip(files[0], 40, 1)
    error = caught(DamageError, log_class.open(disk, SMALL, 0).load)
    assert error is not None, "snapshot: no state is whole, and that is not reported"
    assert error.file == files[1], "damage: names another file"


def check_half_a_snapshot(log_class: Any) -> None:
    """Whatever fails on the way, the one from before counts, and nothing stays behind."""
    for operation in ("write", "sync", "sync_folder"):
        disk = Disk(Random(1))
        log = started(log_class, disk, "a")
        fill(log, {0: 3})
        log.snapshot(log.tail, log.vector, b"one", 0)
        fill(log, {0: 3})
        disk.fail(operation)
        error = caught(DiskError, partial(log.snapshot, log.tail, log.vector, b"two", 0))
        assert error is not None, f"snapshot: its failed {operation} went unnoticed"
        assert error.definite, f"definite: a snapshot whose {operation} failed counts for nothing"
        kept = [name for name in disk.names() if name.endswith(".snapshot")]
        assert len(kept) == 1, f"kept: litter after {operation}"
        fill(log, {0: 3})
        again = log_class.open(disk, SMALL, 0)
        assert again.load().data == b"one", f"snapshot: after {operation}"
        assert again.vector == (9,), "vector"
        assert len([name for name in disk.names() if name.endswith(".snapshot")]) == 1, "kept: a stray one"


def check_a_draft_that_was_given_up(log_class: Any) -> None:
    """What was synced of it says nothing of the one that is written now."""
    disk = Disk(Random(1))
    log = started(log_class, disk, "a")
    fill(log, {0: 3})
    syncs = []
    for data in (b"one", b"two"):
        log.draft(log.tail, log.vector, [data])
        log.commit(0)
        syncs.append(log.write_draft(1000))
    assert log.synced(syncs[0], 0) == [], "counts: by a sync of another"
    assert log.load() is None, "counts: by a sync of another"
    syncs[1].carry_out(disk)
    following = log.synced(syncs[1], 0)
    assert not log.drafted, "counts: before its record is durable"
    for sync in following:
        sync.carry_out(disk)
        log.synced(sync, 0)
    assert log.drafted, "counts: it is durable, and its record too"
    log.settle_draft()
    log.draft(log.tail, log.vector, [b"three"])
    log.commit(0)
    log.write_draft(1000)
    again = log_class.open(disk, SMALL, 0)
    assert again.load().data == b"two", "snapshot: another"
    assert len([name for name in disk.names() if name.endswith(".snapshot")]) == 1, "kept: a stray one"


def check_a_draft_with_a_large_part(log_class: Any) -> None:
    """One write does not take all of the part."""
    disk = Disk(Random(1))
    log = started(log_class, disk, "a")
    fill(log, {0: 3})
    parts = [b"one", Random(2).randbytes(1_000_000), b"two"]
    log.draft(log.tail, log.vector, parts)
    log.commit(0)
    written, sync = 0, None
    while sync is None:
        sync = log.write_draft(100_000, slice_bytes=1 << 30)
        [name] = [one for one in disk.names() if one.endswith(".snapshot")]
        assert disk.size(name) - written <= 200_000, "draft: too much in one write"
        written = disk.size(name)
    sync.carry_out(disk)
    for following in log.synced(sync, 0):
        following.carry_out(disk)
        log.synced(following, 0)
    assert log.drafted, "counts: it is durable"
    found = log.load()
    assert found is not None, "snapshot: it cannot be read"
    assert found.data == b"".join(parts), "snapshot: another"


def check_a_draft_that_cannot_be_synced(log_class: Any) -> None:
    """It is given up, and the log goes on."""
    disk = Disk(Random(1))
    log = started(log_class, disk, "a")
    fill(log, {0: 3})
    log.draft(log.tail, log.vector, [b"one"])
    log.commit(0)
    sync = log.write_draft(1000)
    error = caught(DiskError, partial(log.sync_failed, sync, DiskError("no", file=sync.file), 0))
    assert error is not None, "snapshot: nobody is told that its sync failed"
    assert error.definite, "definite: nothing refers to it"
    assert not [name for name in disk.names() if name.endswith(".snapshot")], "kept: a stray one"
    assert not log.drafting, "snapshot: it goes on"
    fill(log, {0: 3})
    assert log.broken is None, "snapshot: the log is not to blame"
    assert log.snapshot(log.tail, log.vector, b"two", 0) > 0
    assert log_class.open(disk, SMALL, 0).load().data == b"two", "snapshot: another"


def check_installed(log_class: Any) -> None:
    """A state from a peer moves the vector; below it only a state helps; own messages go on."""
    disk = Disk(Random(1))
    log = started(log_class, disk, "a", "b")
    fill(log, {0: 2, 1: 2})
    log.snapshot(log.tail, log.vector, b"own", 0)
    fill(log, {0: 3, 1: 3})
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
    name = max(name for name in disk.names() if name.endswith(".snapshot"))
    disk.flip(name, 30, 0)
    error = caught(DamageError, log_class.open(disk, SMALL, 0).load)
    assert error is not None, "snapshot: the installed state is gone, and that is not reported"
    assert error.file == name, "damage: names another file"


def check_collection(log_class: Any) -> None:
    taken = started(log_class, Disk(Random(1)), "a", "b")
    fill(taken, {0: 30, 1: 30})
    taken.mark_taken(taken.tail)
    taken.mark_stable((30, 0))
    taken.sync(0)
    assert taken.collect(0).segments == 0, "needed: by a peer that has nothing of b"
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
    assert collected.segments >= segments - 1, "kept: what is not needed"
    assert collected.bytes > 0, "kept: bytes"
    assert log.taken >= last, "forgot: taken"
    assert not log.reaches((0, 0)), "reach: it was collected"
    assert caught(UsageError, partial(log.missing, (0, 0))), "reach: it was collected"
    fill(log, {0: 20})
    again = log_class.open(disk, SMALL, 0)
    assert (again.vector, again.stable) == ((50, 30), (30, 30)), "forgot: with the segments"
    assert again.names == ("a", "b"), "forgot: names"
    assert (again.taken, again.head) == (log.taken, log.head), "forgot: taken"


def check_collection_and_crash(log_class: Any) -> None:
    """The marks that allow a collection do not go down with the machine after it."""
    settings = replace(SMALL, sync="no")
    for seed in range(10):
        disk = Disk(Random(seed))
        log = started(log_class, disk, "a", settings=settings)
        fill(log, {0: 30})
        log.mark_stable(log.vector)
        log.mark_taken(log.tail)
        log.commit(0)
        assert log.collect(0).segments, "kept: what is not needed"
        disk.crash()
        again = log_class.open(disk, settings, 0)
        assert again.taken >= again.head, "forgot: that it was taken"
        assert list(again.since(again.taken)) == [], "forgot: that it was taken"


def check_collection_by_size_and_age(log_class: Any) -> None:
    for settings in (replace(SMALL, keep_bytes=1_000), replace(SMALL, keep_us=50)):
        disk = Disk(Random(1))
        log = started(log_class, disk, "a", "b", settings=settings)
        fill(log, {0: 20, 1: 20})
        log.mark_taken(log.tail)
        log.sync(0)
        assert log.collect(100).segments == 0, "needed: a peer may lack it and no snapshot stands in"
        log.snapshot(log.tail, log.vector, b"one", 10)
        fill(log, {0: 3}, 40)
        assert settings.keep_us is None or log.collect(30).segments == 0, "needed: it is not old yet"
        count = log.collect(55).segments
        assert count > 0, "kept: although a snapshot stands in for it"
        if settings.keep_bytes:
            assert log.size_bytes > settings.keep_bytes - 500, "needed: more went than the limit asks for"
        assert log.head <= log.load().covers, "needed: to go on from the snapshot"
        assert len(list(log.since(log.load().covers))) == 3, "needed: since the snapshot"


def check_group_commit(log_class: Any) -> None:
    """One write for a batch, one sync for whatever came in while the last one was under way."""
    disk = Disk(Random(1))
    log = started(log_class, disk, "a", settings=LogSettings(sync="always"))
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
    log = started(log_class, disk, "a", settings=LogSettings(sync="everysec", sync_interval_us=1_000))
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


def check_insisted(log_class: Any) -> None:
    """Whatever the policy, a caller may insist that what it commits is synced before it leaves."""

    def syncs(effects: list[Any]) -> list[Any]:
        return [effect for effect in effects if hasattr(effect, "file")]

    policies: tuple[Policy, ...] = ("no", "everysec")
    for policy in policies:
        disk = Disk(Random(1))
        log = started(log_class, disk, "a", settings=LogSettings(sync=policy))

        def append(seq: int, log: Any = log, insists: bool = True) -> list[Any]:
            log.append(pack(0, seq), b"x")
            if insists:
                log.insist()
            return syncs(log.commit(0))

        assert append(1, insists=False) == [], "sync: no caller insists"
        assert log.may_leave(log.tail), "durable: a commit is enough"
        synced = append(2)
        assert len(synced) == 1, "sync: a caller insists"
        first = synced[0]
        assert not log.may_leave(log.tail), "durable: it leaves too early"
        assert append(3) == [], "sync: two under way at once"
        assert not log.may_leave(log.tail), "durable: what follows leaves too early"
        disk.sync(first.file)
        again = syncs(log.synced(first, 0))
        assert len(again) == 1, "sync: what was insisted on meanwhile"
        assert not log.may_leave(log.tail), "durable: what follows is not synced"
        disk.sync(again[0].file)
        assert syncs(log.synced(again[0], 0)) == [], "sync: again"
        assert append(4, insists=False) == [], "sync: no caller insists any more"
        assert log.may_leave(log.tail), "durable: a commit is enough again"


OPLOG_CHECKS: dict[str, Callable[[Any], None]] = {
    **DISK_CHECKS,
    "storm": check_storm,
    "storm with holes": check_storm_with_holes,
    "catch-up": check_catch_up,
    "snapshots": check_snapshots,
    "half a snapshot": check_half_a_snapshot,
    "a draft that was given up": check_a_draft_that_was_given_up,
    "a draft with a large part": check_a_draft_with_a_large_part,
    "a draft that cannot be synced": check_a_draft_that_cannot_be_synced,
    "storm of drafts": check_storm_of_drafts,
    "installed": check_installed,
    "collection": check_collection,
    "collection and crash": check_collection_and_crash,
    "collection by size and age": check_collection_by_size_and_age,
    "group commit": check_group_commit,
    "everysec": check_everysec,
    "insisted": check_insisted,
}
