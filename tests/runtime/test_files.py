"""Files on the operating system: what it refuses is told as it is, and no descriptor goes astray."""

import errno
import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from thence.core.errors import UsageError
from thence.core.storage import DiskError
from thence.runtime.descriptors import SPARES
from thence.runtime.files import LOOK_EVERY, DiskFiles


@pytest.fixture
def files(tmp_path: Path) -> Iterator[DiskFiles]:
    with DiskFiles(tmp_path, descriptors=4) as files:
        yield files


def descriptors(folder: Path) -> list[str]:
    """Files of the folder that this process has open, itself not counted."""
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:  # the one that listed them
            continue
    return sorted([link for link in links if link.startswith(f"{folder}/")])


# What every disk does


def test_what_was_written_is_read(files: DiskFiles) -> None:
    files.write("f", 0, b"hello")
    files.write("f", 5, bytearray(b" world"))
    files.write("f", 0, b"J")
    assert files.read("f", 0, 100) == b"Jello world"
    assert files.read("f", 6, 3) == b"wor"
    assert files.read("f", 11, 5) == b""
    assert files.size("f") == 11


def test_names_are_those_of_files_only(files: DiskFiles, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    files.write("b", 0, b"")
    files.write("a", 0, b"")
    assert files.names() == ["a", "b"]


def test_a_file_of_a_name_that_is_a_path_is_refused(files: DiskFiles) -> None:
    for name in ("../f", "a/b", "", ".", "..", "a\0"):
        with pytest.raises(UsageError):
            files.write(name, 0, b"x")
        with pytest.raises(UsageError):
            files.remove(name)


def test_a_file_that_is_not_there_is_no_empty_file(files: DiskFiles) -> None:
    calls: list[Callable[[], object]] = [
        lambda: files.read("f", 0, 1),
        lambda: files.size("f"),
        lambda: files.truncate("f", 0),
        lambda: files.rename("f", "g"),
        lambda: files.remove("f"),
    ]
    for call in calls:
        with pytest.raises(DiskError, match="No such file") as caught:
            call()
        assert caught.value.definite
    with pytest.raises(DiskError, match="No such file"):
        files.sync("f")
    assert files.names() == []


def test_no_hole_is_written(files: DiskFiles) -> None:
    files.write("f", 0, b"abc")
    with pytest.raises(DiskError, match="beyond the end") as caught:
        files.write("f", 4, b"x")
    assert caught.value.definite
    assert files.size("f") == 3


def test_a_truncation_cuts_and_never_grows(files: DiskFiles) -> None:
    files.write("f", 0, b"abcdef")
    files.truncate("f", 10)
    assert files.size("f") == 6
    files.truncate("f", 2)
    assert files.read("f", 0, 10) == b"ab"


def test_a_renamed_file_is_what_its_new_name_stands_for(files: DiskFiles, tmp_path: Path) -> None:
    files.write("old", 0, b"old")
    files.write("new", 0, b"replaced")
    assert files.read("new", 0, 3) == b"rep"
    files.rename("old", "new")
    assert files.names() == ["new"]
    assert descriptors(tmp_path) == [f"{tmp_path}/new"]
    assert files.read("new", 0, 100) == b"old"
    files.write("new", 3, b"er")
    files.write("old", 0, b"another")
    assert (files.read("new", 0, 100), files.read("old", 0, 100)) == (b"older", b"another")
    files.rename("new", "new")
    assert files.read("new", 0, 100) == b"older"


def test_a_file_made_anew_under_the_name_of_a_removed_one_is_another(files: DiskFiles) -> None:
    files.write("f", 0, b"before")
    files.remove("f")
    files.write("f", 0, b"after")
    assert files.read("f", 0, 100) == b"after"


# Writes that come short


def test_a_write_that_came_short_is_continued(files: DiskFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, bytes(data[:3]), at))
    files.write("f", 0, b"0123456789")
    files.write("f", 10, bytearray(b"abcdefgh"))
    assert files.read("f", 0, 100) == b"0123456789abcdefgh"


def test_a_read_that_came_short_is_continued(files: DiskFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write("f", 0, b"0123456789")
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, count, at: pread(fd, min(count, 3), at))
    assert files.read("f", 1, 8) == b"12345678"
    assert files.read("f", 1, 100) == b"123456789"


def test_a_write_of_which_a_part_was_done_is_not_called_undone(
    files: DiskFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite

    def full_after_three(fd: int, data: bytes, at: int) -> int:
        if at >= 3:
            raise OSError(28, "No space left on device")
        return pwrite(fd, bytes(data[: 3 - at]), at)

    monkeypatch.setattr(os, "pwrite", full_after_three)
    with pytest.raises(DiskError) as caught:
        files.write("f", 0, b"0123456789")
    assert (caught.value.full, caught.value.definite) == (True, False)
    with pytest.raises(DiskError) as caught:
        files.write("f", 3, b"3456789")
    assert (caught.value.full, caught.value.definite) == (True, True)


# Descriptors


def test_no_more_descriptors_are_kept_than_allowed(files: DiskFiles, tmp_path: Path) -> None:
    for number in range(20):
        files.write(f"f{number}", 0, b"%d" % number)
        assert len(descriptors(tmp_path)) <= 4
    for number in range(20):
        files.write(f"f{number}", files.size(f"f{number}"), b"!")
        assert files.read(f"f{number}", 0, 10) == b"%d!" % number
    assert len(descriptors(tmp_path)) == 4


def test_what_was_used_last_is_kept_open(files: DiskFiles, tmp_path: Path) -> None:
    for name in "abcd":
        files.write(name, 0, b"x")
        files.sync(name)
    files.read("a", 0, 1)
    files.write("e", 0, b"x")
    assert descriptors(tmp_path) == [f"{tmp_path}/{name}" for name in "acde"]


def test_what_was_written_and_not_synced_is_closed_last(files: DiskFiles, tmp_path: Path) -> None:
    files.write("dirty", 0, b"x")
    for name in "pqrstuvw":
        files.write(name, 0, b"x")
        files.sync(name)
        assert f"{tmp_path}/dirty" in descriptors(tmp_path)


def test_files_that_are_never_synced_do_not_take_all_the_room(files: DiskFiles, tmp_path: Path) -> None:
    for number in range(8):
        files.write(f"dirty{number}", 0, b"x")
    for name in "abc":
        (tmp_path / name).write_bytes(b"x")
        files.read(name, 0, 1)
    found = [Path(link).name for link in descriptors(tmp_path)]
    assert [name for name in found if name in "abc"] == ["b", "c"]


def test_closed_files_leave_no_descriptor_and_take_nothing_more(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    files.write("f", 0, b"x")
    files.sync("f")
    files.close()
    files.close()
    assert descriptors(tmp_path) == []
    calls: list[Callable[[], object]] = [
        lambda: files.read("f", 0, 1),
        lambda: files.write("f", 0, b"y"),
        lambda: files.sync("f"),
        files.names,
        files.sync_folder,
    ]
    for call in calls:
        with pytest.raises(UsageError, match="closed"):
            call()


# Syncs


def test_a_sync_is_a_full_one_at_first_and_after_each_truncation(
    files: DiskFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda _: called.append("fsync"))
    monkeypatch.setattr("thence.runtime.files.fdatasync", lambda _: called.append("fdatasync"))
    files.write("f", 0, b"abc")
    files.sync("f")
    files.write("f", 3, b"def")
    files.sync("f")
    files.truncate("f", 1)
    files.sync("f")
    files.sync("f")
    assert called == ["fsync", "fdatasync", "fsync", "fdatasync"]


def test_a_truncation_during_a_sync_is_not_covered_by_it(
    files: DiskFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []

    def fsync(fd: int) -> None:
        called.append("fsync")
        if len(called) == 1:
            files.truncate("f", 1)

    monkeypatch.setattr(os, "fsync", fsync)
    files.write("f", 0, b"abc")
    files.sync("f")
    files.sync("f")
    assert called == ["fsync", "fsync"]


def test_a_sync_that_failed_once_fails_from_then_on(
    files: DiskFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a kernel does it that could not write a page back: it says so once."""

    def once(fd: int) -> None:
        monkeypatch.undo()
        raise OSError(5, "Input/output error")

    files.write("stuck", 0, b"abc")
    monkeypatch.setattr(os, "fsync", once)
    for _ in range(3):
        with pytest.raises(DiskError, match="Input/output") as caught:
            files.sync("stuck")
        assert not caught.value.definite
    for name in "pqrstuvw":  # closed and opened again meanwhile, and renamed
        files.write(name, 0, b"x")
        files.sync(name)
    files.rename("stuck", "renamed")
    with pytest.raises(DiskError):
        files.sync("renamed")
    assert files.read("renamed", 0, 3) == b"abc"
    files.remove("renamed")
    files.write("renamed", 0, b"another file")
    files.sync("renamed")


def test_a_sync_of_the_folder_that_failed_once_fails_from_then_on(
    files: DiskFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def once(fd: int) -> None:
        monkeypatch.undo()
        raise OSError(5, "Input/output error")

    files.sync_folder()
    monkeypatch.setattr(os, "fsync", once)
    for _ in range(2):
        with pytest.raises(DiskError):
            files.sync_folder()


@pytest.mark.parametrize("what", ["write", "rename", "remove", "evict", "close"])
def test_whatever_the_owner_does_during_a_sync_the_right_file_is_synced(
    what: str, files: DiskFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers of descriptors are used again at once: a sync must not meet another file under its."""
    files.write("f", 0, b"x")
    inode = (tmp_path / "f").stat().st_ino
    synced: list[int] = []

    def meanwhile(fd: int) -> None:
        monkeypatch.undo()
        if what == "write":
            files.write("f", 1, b"y")
        elif what == "rename":
            files.rename("f", "g")
        elif what == "remove":
            files.remove("f")
        elif what == "close":
            files.close()
        if what != "close":
            for name in "pqrstuvw":
                files.write(name, 0, b"x")
                files.sync(name)
        synced.append(os.fstat(fd).st_ino)
        os.fsync(fd)

    monkeypatch.setattr(os, "fsync", meanwhile)
    files.sync("f")
    assert synced == [inode]


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """As if visitors had taken all of them: none can be had until one is closed."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open(os.devnull, os.O_RDONLY)]
    highest = max(map(int, os.listdir("/proc/self/fd")))
    while taken[-1] < highest:  # the gaps
        taken.append(os.dup(taken[0]))
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + 1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for descriptor in taken:
            os.close(descriptor)


def test_without_a_descriptor_left_a_log_syncs_and_opens_what_it_must(tmp_path: Path) -> None:
    with DiskFiles(tmp_path) as files:
        files.write("f", 0, b"x")
        with no_descriptor_left():
            with pytest.raises(OSError, match="Too many open files"):
                os.dup(0)
            for _ in range(3 * SPARES):
                files.sync("f")
            files.write("g", 0, b"y")
            files.sync("g")
            assert files.read("f", 0, 1) + files.read("g", 0, 1) == b"xy"
        files.sync("f")
    assert descriptors(tmp_path) == []


def test_a_sync_for_which_there_is_no_descriptor_was_not_tried_and_the_next_one_succeeds(
    files: DiskFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write("f", 0, b"x")
    while files._spares.let_one_go():
        pass

    def none_left(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "dup", none_left)
    with pytest.raises(DiskError) as caught:
        files.sync("f")
    assert caught.value.definite
    monkeypatch.undo()
    files.sync("f")


def test_nothing_is_closed_while_a_sync_takes_its_copy(
    files: DiskFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A moment that threads hardly ever meet in, and the only one that they could."""
    held: list[bool] = []
    dup2 = os.dup2

    def watched(fd: int, to: int, inheritable: bool = True) -> int:
        held.append(files._lock.locked())
        return dup2(fd, to, inheritable)

    files.write("f", 0, b"x")
    monkeypatch.setattr(os, "dup2", watched)
    files.sync("f")
    assert held == [True, True], "taken and given back"


def test_what_is_written_during_a_sync_is_still_unsynced_after_it(
    files: DiskFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(fd: int) -> None:
        monkeypatch.undo()
        files.write("f", 1, b"y")

    files.write("f", 0, b"x")
    monkeypatch.setattr(os, "fsync", meanwhile)
    files.sync("f")
    for name in "pqrstuvw":
        files.write(name, 0, b"x")
        files.sync(name)
    assert f"{tmp_path}/f" in descriptors(tmp_path), "closed, though something in it is unsynced"


def test_another_thread_syncs_while_the_owner_goes_on(files: DiskFiles, tmp_path: Path) -> None:
    trouble: list[BaseException] = []
    done = threading.Event()

    def syncing() -> None:
        try:
            while not done.is_set():
                for number in range(6):
                    files.sync(f"f{number}")
        except BaseException as error:
            trouble.append(error)

    for number in range(6):
        files.write(f"f{number}", 0, b"")
    thread = threading.Thread(target=syncing)
    thread.start()
    for turn in range(300):
        for number in range(6):
            files.write(f"f{number}", turn, b"x")
    done.set()
    thread.join()
    assert trouble == []
    assert [files.size(f"f{number}") for number in range(6)] == [300] * 6
    assert len(descriptors(tmp_path)) <= 4


# Folders and files that others meddle with


def test_a_file_that_was_removed_takes_nothing_more(files: DiskFiles, tmp_path: Path) -> None:
    """Before the next sync is over, and before many writes are."""
    files.write("f", 0, b"abc")
    (tmp_path / "f").unlink()
    for _ in range(LOOK_EVERY - 1):
        files.write("f", 2, b"c")
    with pytest.raises(DiskError, match="removed") as caught:
        files.write("f", 2, b"c")
    assert caught.value.definite
    with pytest.raises(DiskError, match="removed") as caught:
        files.sync("f")
    assert not caught.value.definite
    with pytest.raises(DiskError, match="removed"):
        files.truncate("f", 0)
    assert files.read("f", 0, 10) == b"abc", "what can still be read is read"


def test_a_folder_may_be_moved_while_it_is_in_use(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    with DiskFiles(tmp_path / "here") as files:
        files.write("f", 0, b"abc")
        (tmp_path / "here").rename(tmp_path / "there")
        files.write("g", 0, b"def")
        files.sync_folder()
        assert files.names() == ["f", "g"]
    assert (tmp_path / "there" / "g").read_bytes() == b"def"


@pytest.mark.parametrize("what", ["a file", "nothing"])
def test_what_is_no_folder_is_refused_by_name(what: str, tmp_path: Path) -> None:
    place = tmp_path / "place"
    if what == "a file":
        place.write_text("not a folder")
    with pytest.raises(DiskError, match="place") as caught:
        DiskFiles(place)
    assert caught.value.definite


def test_no_other_user_may_read_the_files(files: DiskFiles, tmp_path: Path) -> None:
    files.write("f", 0, b"secret")
    assert (tmp_path / "f").stat().st_mode & 0o077 == 0
