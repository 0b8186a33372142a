"""Files: old ones are read as they were meant, broken ones are refused by name.

`golden/v1` is a log that version 1 wrote, `golden/v1.txt` what is in it. When a format gets a new version
these files stay, beside those of the new one: a log must be readable by every later release.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from support.conformance_oplog_disk import a_small_log
from support.disks import SMALL, a_disk, a_log, fill

from thence.core.dots import pack
from thence.core.storage import DamageError
from thence.oplog.index import Index
from thence.oplog.log import OpLog
from thence.oplog.segment import position_of
from thence.oplog.settings import LogSettings
from thence.runtime.files import DiskFiles
from thence.sim.disk import Disk

GOLDEN = Path(__file__).parent / "golden"


def golden(version: str) -> Disk:
    disk = Disk(Random(0))
    for path in sorted((GOLDEN / version).iterdir()):
        disk.write(path.name, 0, path.read_bytes())
        disk.sync(path.name)
    disk.sync_folder()
    return disk


def told(log: OpLog) -> str:
    """Everything that a log says, as text."""
    lines = [f"{position:#x} {record!r}" for position, record in log.records(log.head)]
    facts = ("names", "vector", "stable", "taken", "head", "tail", "incarnation", "machine", "notes")
    lines += [f"{name}: {getattr(log, name)!r}" for name in facts]
    lines.append(f"load: {log.load()!r}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("version", ["v1"])
def test_a_log_of_any_version_reads_as_it_was_written(version: str) -> None:
    log = OpLog.open(golden(version), SMALL, 0)
    assert told(log) == (GOLDEN / f"{version}.txt").read_text()
    assert (log.report.cut_bytes, log.report.removed, log.report.rebuilt) == (0, [], [])


@pytest.mark.parametrize("version", ["v1"])
def test_a_log_of_any_version_can_be_continued(version: str) -> None:
    disk = golden(version)
    log = OpLog.open(disk, SMALL, 0)
    log.boot(2, b"machine", 0)
    fill(log, {0: 20, 1: 20})
    again = OpLog.open(disk, SMALL, 0)
    assert again.vector == tuple([seq + 20 for seq in OpLog.open(golden(version), SMALL, 0).vector])


def test_what_is_written_today_is_what_the_newest_golden_files_are() -> None:
    """A format does not change by accident. If it changes on purpose: a new version, new files, and the
    old ones stay."""
    disk, _ = a_small_log(OpLog)
    old = golden("v1")
    assert disk.names() == old.names()
    for name in disk.names():
        assert disk.read(name, 0, 1 << 20) == old.read(name, 0, 1 << 20), name


def test_index_files_are_as_the_index_in_memory() -> None:
    disk, _ = a_small_log(OpLog)
    for name in [name for name in disk.names() if position_of(name, ".index") is not None]:
        sealed = Index.decode(disk.read(name, 0, 1 << 20), SMALL.spacing)
        assert sealed is not None
        encoded = sealed.index.encode(sealed.seed, sealed.crc, sealed.size, sealed.last)
        assert encoded == disk.read(name, 0, 1 << 20)


def _overwrite(offset: int, data: bytes) -> Callable[[Disk, str], None]:
    return lambda disk, name: disk.write(name, offset, data)


BROKEN: dict[str, tuple[int, Callable[[Disk, str], None], str]] = {
    "a first segment without a header": (0, lambda disk, name: disk.truncate(name, 0), "cut short"),
    "a header cut short": (0, lambda disk, name: disk.truncate(name, 20), "cut short"),
    "another program's file": (0, _overwrite(0, b"PK\3\4PK\3\4"), "no log"),
    "a version from the future": (0, _overwrite(8, b"\2\0"), "version 2"),
    "a header longer than its file": (0, _overwrite(12, b"\xff\xff\xff\x7f"), "cut short"),
    "a header that was changed": (0, _overwrite(20, b"\xee"), "checksum"),
    "a sealed segment cut short": (0, lambda disk, name: disk.truncate(name, 200), "cut short"),
    "a sealed segment with bytes after its end": (
        0, lambda disk, name: disk.write(name, disk.size(name), b"more"), "cut short"),
    "records of zeros in a sealed segment": (1, _overwrite(200, bytes(40)), "byte"),
    "a last segment with a bad header and records": (-1, _overwrite(20, b"\xee"), "checksum"),
}  # fmt: skip


@pytest.mark.parametrize("defect", BROKEN)
def test_a_broken_log_is_refused_by_name_and_left_as_it_is(defect: str) -> None:
    which, hurt, says = BROKEN[defect]
    disk = golden("v1")
    name = [name for name in disk.names() if name.endswith(".log")][which]
    hurt(disk, name)
    before = {name: disk.read(name, 0, 1 << 20) for name in disk.names()}
    with pytest.raises(DamageError, match=says) as caught:
        OpLog.open(disk, SMALL, 0)
    assert caught.value.file == name
    assert name in str(caught.value)
    assert {name: disk.read(name, 0, 1 << 20) for name in disk.names()} == before


def test_a_segment_under_another_segments_name_is_refused() -> None:
    disk = golden("v1")
    names = [name for name in disk.names() if name.endswith(".log")]
    disk.write("00000100000000ff.log", 0, disk.read(names[-1], 0, 1 << 20))
    with pytest.raises(DamageError, match="belongs to"):
        OpLog.open(disk, SMALL, 0)


def test_a_snapshot_without_a_log_is_no_new_log() -> None:
    disk = golden("v1")
    for name in disk.names():
        if not name.endswith(".snapshot"):
            disk.remove(name)
    with pytest.raises(DamageError, match="without a log"):
        OpLog.open(disk, SMALL, 0)


def test_a_copy_of_the_log_inside_a_message_is_not_taken_for_records() -> None:
    """A torn record whose payload holds whole records of this very log is still only torn."""
    disk = a_disk()
    log = a_log(disk, "a", settings=LogSettings())
    fill(log, {0: 3})
    name = disk.names()[0]
    log.append(pack(0, 4), disk.read(name, 0, disk.size(name)))
    log.sync(0)
    disk.truncate(name, disk.size(name) - 1)
    again = OpLog.open(disk, LogSettings(), 0)
    assert again.vector == (3,)
    assert again.report.cut_bytes > 0


def test_a_record_of_a_kind_from_the_future_is_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = a_disk()
    log = a_log(disk, "a")
    monkeypatch.setattr("thence.oplog.record.NOTE", 0xE9)
    log.note(1, b"from the future")
    log.sync(0)
    monkeypatch.undo()
    with pytest.raises(DamageError, match="unknown kind"):
        OpLog.open(disk, SMALL, 0)


def test_real_files_are_written_and_read_alike(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    log = OpLog.open(files, SMALL, 0)
    log.boot(1, b"machine", 0)
    log.member("a")
    log.sync(0)
    fill(log, {0: 40})
    log.mark_stable(log.vector)
    log.sync(0)
    log.snapshot(log.tail, log.vector, b"state", 0)
    log.collect(0)
    fill(log, {0: 5})
    told_before = told(log)
    files.close()
    files = DiskFiles(tmp_path)
    assert told(OpLog.open(files, SMALL, 0)) == told_before
    files.close()
