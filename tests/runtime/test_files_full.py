"""Disks that are full or read-only: the log refuses, says so exactly, and goes on when it can."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.disks import SMALL, payload
from support.mounts import remount, small_disk

from thence.core.dots import pack
from thence.core.storage import DiskError
from thence.oplog.log import OpLog
from thence.oplog.settings import LogSettings
from thence.runtime.files import DiskFiles


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "1m") as disk:
        yield disk


def started(files: DiskFiles, settings: LogSettings) -> OpLog:
    log = OpLog.open(files, settings, 0)
    log.boot(log.incarnation + 1, b"machine", 0)
    log.member("a")
    log.sync(0)
    return log


def fill_up(log: OpLog) -> DiskError:
    """Commit messages until one is refused."""
    while True:
        seq = log.vector[0] + 1
        for each in range(seq, seq + 8):
            log.append(pack(0, each), payload(pack(0, each), 100))
        try:
            log.sync(0)
        except DiskError as error:
            return error


@pytest.mark.parametrize("segment_bytes", [1 << 30, 10_000], ids=["one segment", "many segments"])
def test_a_full_disk_is_refused_definitely_read_on_and_written_to_when_there_is_room(
    segment_bytes: int, disk: Path
) -> None:
    (disk / "ballast").write_bytes(bytes(500_000))
    (disk / "log").mkdir()
    settings = replace(SMALL, segment_bytes=segment_bytes)
    with DiskFiles(disk / "log") as files:
        log = started(files, settings)
        error = fill_up(log)
        assert (error.full, error.definite) == (True, True), str(error)
        count = log.vector[0]
        assert count > 1_000
        assert [stored.dot for stored in log.since(0)] == [pack(0, seq + 1) for seq in range(count)]
        log.append(pack(0, count + 1), payload(pack(0, count + 1), 5_000))
        with pytest.raises(DiskError) as caught:
            log.commit(0)
        assert (caught.value.full, caught.value.definite) == (True, True)
        (disk / "ballast").unlink()
        log.append(pack(0, count + 1), payload(pack(0, count + 1), 5_000))
        log.sync(0)
    with DiskFiles(disk / "log") as files:
        again = OpLog.open(files, settings, 0)
        assert again.vector == (count + 1,)
        assert again.report.cut_bytes == 0
        assert [stored.data for stored in again.since(0)][-1] == payload(pack(0, count + 1), 5_000)


def test_no_snapshot_on_a_full_disk_and_the_one_before_counts_on(disk: Path) -> None:
    with DiskFiles(disk) as files:
        log = started(files, SMALL)
        log.snapshot(log.tail, log.vector, b"small", 0)
        with pytest.raises(DiskError) as caught:
            log.snapshot(log.tail, log.vector, bytes(2 << 20), 0)
        assert caught.value.definite
        assert not [name for name in files.names() if name.endswith(".temporary")], "it fills the disk"
        loaded = log.load()
        assert loaded is not None
        assert loaded.data == b"small"
        log.append(pack(0, 1), b"goes on")
        log.sync(0)


def test_a_log_on_a_disk_that_became_read_only_is_read(disk: Path) -> None:
    with DiskFiles(disk) as files:
        log = started(files, SMALL)
        for seq in range(1, 20):
            log.append(pack(0, seq), payload(pack(0, seq)))
            log.sync(0)
    remount(disk, "ro")
    with DiskFiles(disk) as files:
        log = OpLog.open(files, SMALL, 0)
        assert len(list(log.since(0))) == 19
        with pytest.raises(DiskError, match="Read-only") as caught:
            log.boot(2, b"machine", 0)
        assert not caught.value.full
        with pytest.raises(DiskError, match="Read-only") as caught:
            files.write("new", 0, b"x")
        assert caught.value.definite


@pytest.mark.skipif(os.geteuid() == 0, reason="to root no folder is forbidden")
def test_a_folder_that_may_not_be_written_is_read(tmp_path: Path) -> None:
    with DiskFiles(tmp_path) as files:
        files.write("f", 0, b"abc")
    tmp_path.chmod(0o500)
    (tmp_path / "f").chmod(0o400)
    try:
        with DiskFiles(tmp_path) as files:
            assert files.read("f", 0, 3) == b"abc"
            for name in ("f", "g"):
                with pytest.raises(DiskError, match="Permission denied") as caught:
                    files.write(name, 0, b"x")
                assert caught.value.definite
    finally:
        tmp_path.chmod(0o700)
