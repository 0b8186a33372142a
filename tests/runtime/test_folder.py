"""Data folders: one process at a time, no files of another program, one id for good."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.disks import payload
from support.mounts import remount, small_disk

from thence.core.dots import pack
from thence.core.errors import UsageError
from thence.core.storage import DamageError, DiskError
from thence.oplog.log import OpLog
from thence.oplog.settings import LogSettings
from thence.runtime.folder import BOOT_APART, DataFolder, decode_identity, encode_identity, machine_id

GOLDEN = Path(__file__).parent / "golden"

HOLD = """
import sys
from pathlib import Path
from thence.runtime.folder import DataFolder
with DataFolder(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """One that holds the folder until it is told to end."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


# One process at a time


def test_a_folder_in_use_is_refused_with_the_process_that_uses_it(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    with another_process(folder) as process:
        with pytest.raises(UsageError, match=f"{folder} is in use by process {process.pid}$"):
            DataFolder(folder)
        process.communicate()
    DataFolder(folder).close()


def test_a_killed_process_leaves_no_lock_behind(tmp_path: Path) -> None:
    with another_process(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert (tmp_path / "lock").read_text() == f"{process.pid}\n"
    with DataFolder(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_lock_tells_of_its_holder_alone(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("123456789012345\n")
    with DataFolder(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_removing_the_lock_file_does_not_let_a_second_process_in(tmp_path: Path) -> None:
    with another_process(tmp_path) as process:
        (tmp_path / "lock").unlink()
        with pytest.raises(UsageError, match="in use by another process"):
            DataFolder(tmp_path)
        process.communicate()


def test_a_process_does_not_share_a_folder_with_itself(tmp_path: Path) -> None:
    with DataFolder(tmp_path), pytest.raises(UsageError, match=f"in use by process {os.getpid()}"):
        DataFolder(tmp_path)


def test_a_folder_that_could_not_be_opened_is_not_held(tmp_path: Path) -> None:
    DataFolder(tmp_path).close()
    whole = (tmp_path / "identity").read_bytes()
    (tmp_path / "identity").write_bytes(b"")
    with pytest.raises(DamageError):
        DataFolder(tmp_path)
    (tmp_path / "identity").write_bytes(whole)
    DataFolder(tmp_path).close()


def test_a_closed_folder_is_free_and_closing_it_again_does_no_harm(tmp_path: Path) -> None:
    first = DataFolder(tmp_path)
    first.close()
    with DataFolder(tmp_path) as second:
        first.close()
        assert second.files.names() == []
        with pytest.raises(UsageError, match="in use"):
            DataFolder(tmp_path)


# Whose folder it is


def test_a_folder_is_made_with_those_around_it_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "cluster" / "a"
    with DataFolder(path) as folder:
        assert folder.created
    assert path.stat().st_mode & 0o777 == 0o700
    assert (path / "oplog").stat().st_mode & 0o777 == 0o700
    for name in ("identity", "lock"):
        assert (path / name).stat().st_mode & 0o077 == 0, name


def test_a_folder_of_other_peoples_files_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("ten years of work")
    with pytest.raises(UsageError, match=r"thesis\.txt"):
        DataFolder(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.txt"]


def test_a_cluster_folder_is_no_nodes_folder(tmp_path: Path) -> None:
    DataFolder(tmp_path / "a").close()
    (tmp_path / "cluster.toml").write_text("")
    with pytest.raises(UsageError, match="no data folder"):
        DataFolder(tmp_path)


def test_a_folder_with_its_supervisors_log_is_as_good_as_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("starting\n")
    with DataFolder(tmp_path) as folder:
        assert folder.created


def test_files_that_were_put_into_a_data_folder_later_do_not_matter(tmp_path: Path) -> None:
    DataFolder(tmp_path).close()
    (tmp_path / "notes.txt").write_text("remember the milk")
    DataFolder(tmp_path).close()


@pytest.mark.parametrize("inside", [".", "sub", "sub/sub"])
def test_a_folder_that_is_a_file_is_refused(inside: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file is a file"):
        DataFolder(tmp_path / "file" / inside)


def test_a_read_only_folder_is_refused_and_says_why(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        DataFolder(disk / "a").close()
        remount(disk, "ro")
        for name in ("a", "b"):
            with pytest.raises(UsageError, match="Read-only file system"):
                DataFolder(disk / name)


def test_a_full_disk_is_trouble_with_storage_and_passes(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        (disk / "a").mkdir()
        with pytest.raises(OSError, match="No space"):
            (disk / "ballast").write_bytes(bytes(100_000))
        with pytest.raises(DiskError, match="No space") as caught:
            DataFolder(disk / "a")
        assert caught.value.full
        (disk / "ballast").unlink()
        with DataFolder(disk / "a") as folder:
            assert folder.created


# The log's id


def test_an_id_is_made_once(tmp_path: Path) -> None:
    with DataFolder(tmp_path / "a") as folder:
        first = folder.log_id
        assert (folder.created, len(first)) == (True, 16)
    with DataFolder(tmp_path / "a") as folder:
        assert (folder.created, folder.log_id) == (False, first)
    with DataFolder(tmp_path / "b") as folder:
        assert folder.log_id != first


def test_a_crash_while_the_folder_was_made_leaves_one_that_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("1\n")
    (tmp_path / "oplog").mkdir()
    (tmp_path / "identity.temporary").write_bytes(
        encode_identity(bytes(16))[:9] + b"more than it would be" * 3
    )
    with DataFolder(tmp_path) as folder:
        first = folder.log_id
        assert folder.created
    assert sorted(os.listdir(tmp_path)) == ["identity", "lock", "oplog"]
    with DataFolder(tmp_path) as folder:
        assert folder.log_id == first


@pytest.mark.parametrize("version", ["v1"])
def test_an_identity_of_any_version_is_read(version: str) -> None:
    assert decode_identity((GOLDEN / version / "identity").read_bytes(), "identity") == bytes(range(16))


def test_what_is_written_today_is_what_the_newest_golden_file_is() -> None:
    """If the format changes on purpose: a new version, a new file, and the old one stays."""
    assert encode_identity(bytes(range(16))) == (GOLDEN / "v1" / "identity").read_bytes()


def test_every_flipped_bit_and_every_cut_is_found() -> None:
    whole = (GOLDEN / "v1" / "identity").read_bytes()
    for bit in range(len(whole) * 8):
        hurt = bytearray(whole)
        hurt[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamageError):
            decode_identity(bytes(hurt), "identity")
    for length in range(len(whole)):
        with pytest.raises(DamageError, match="cut short"):
            decode_identity(whole[:length], "identity")
    with pytest.raises(DamageError, match="left over"):
        decode_identity(whole + b"\0", "identity")


BROKEN: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "no bytes": (lambda path: (path / "identity").write_bytes(b""), "identity", "cut short"),
    "another file": (lambda path: (path / "identity").write_bytes(b"x" * 40), "identity", "no identity"),
    "another version": (
        lambda path: (path / "identity").write_bytes(b"thenceID\2\0" + bytes(22)), "identity", "version 2"),
    "too long": (lambda path: (path / "identity").write_bytes(
        encode_identity(bytes(16)) + bytes(500)), "identity", "left over"),
    "not there": (lambda path: (path / "identity").unlink(), "identity", "missing, though there is a log"),
    "no log": (lambda path: (path / "oplog").rename(path / "lost"), "oplog", "missing"),
}  # fmt: skip


@pytest.mark.parametrize("defect", BROKEN)
def test_damage_is_named_and_no_new_id_is_made(defect: str, tmp_path: Path) -> None:
    hurt, name, says = BROKEN[defect]
    with DataFolder(tmp_path) as folder:
        folder.open_log(LogSettings(), 0)
    hurt(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(DamageError, match=says) as caught:
        DataFolder(tmp_path)
    assert caught.value.file == str(tmp_path / name)
    (tmp_path / "lock").write_bytes(before[tmp_path / "lock"])
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


# What became of the machine


def test_the_machine_is_known_by_its_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BOOT_APART)
    source = tmp_path / "boot_id"
    source.write_text("e1fba37d-d3cc-4619-8a7e-75fe479d5c13\n")
    assert machine_id(source) == bytes.fromhex("e1fba37dd3cc46198a7e75fe479d5c13")
    source.write_text("nonsense")
    assert machine_id(source) == b""
    assert machine_id(tmp_path / "nowhere") == b""
    assert machine_id() == machine_id()


def test_tests_run_under_a_boot_of_their_own_and_no_power_cut_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = [sys.executable, "-c", "from thence.runtime.folder import machine_id as id; print(id().hex())"]
    told = subprocess.run(asks, capture_output=True, text=True, check=True).stdout
    assert told.strip() == machine_id().hex(), "the processes that a test starts are in the same boot"
    before, after = tmp_path / "before", tmp_path / "after"
    before.write_text("e1fba37d-d3cc-4619-8a7e-75fe479d5c13\n")
    after.write_text("e1fba37d-d3cc-4619-8a7e-75fe479d5c14\n")
    plain, own = bytes.fromhex(before.read_text().replace("-", "")), machine_id(before)
    nowhere = machine_id(tmp_path / "nowhere")
    monkeypatch.setenv(BOOT_APART, "another run of the tests")
    others = [machine_id(before), machine_id(after), machine_id(tmp_path / "nowhere")]
    assert len({plain, own, nowhere, *others, b""}) == 7


def test_power_was_lost_unless_the_log_is_from_this_boot(tmp_path: Path) -> None:
    with DataFolder(tmp_path, machine=b"now") as folder:
        assert folder.machine_id() == b"now"
        assert not folder.power_lost(b"now")
        assert folder.power_lost(b"before")
        assert folder.power_lost(b"")
    with DataFolder(tmp_path, machine=b"") as folder:
        assert folder.power_lost(b"")
        assert folder.power_lost(b"before")
    with DataFolder(tmp_path) as folder:
        assert folder.machine_id() == machine_id()


def torn(folder: DataFolder, settings: LogSettings) -> None:
    """A log with a bad record that whole ones follow, none of which says that it was ever synced."""
    log = folder.open_log(settings, 0)
    log.boot(1, folder.machine_id(), 0)
    log.member("a")
    log.sync(0)
    for seq in range(1, 9):
        log.append(pack(0, seq), payload(pack(0, seq), 30))
    log.commit(0)
    (name,) = [name for name in folder.files.names() if name.endswith(".log")]
    at = folder.files.read(name, 0, 1 << 20).index(payload(pack(0, 4), 30))
    folder.files.write(name, at, b"!")


def test_what_a_power_cut_tore_is_cut_off(tmp_path: Path) -> None:
    settings = LogSettings(sync="no")
    with DataFolder(tmp_path, machine=b"before the power cut") as folder:
        torn(folder, settings)
    with DataFolder(tmp_path, machine=b"after the power cut!") as folder:
        log = folder.open_log(settings, 0)
        assert log.vector == (3,)
        assert log.report.cut_bytes > 0
        assert folder.power_lost(log.machine)


def test_where_the_boot_is_not_known_power_may_have_been_cut(tmp_path: Path) -> None:
    with DataFolder(tmp_path, machine=b"") as folder:
        torn(folder, LogSettings(sync="no"))
        assert folder.open_log(LogSettings(sync="no"), 0).vector == (3,)


def test_the_same_in_a_machine_that_was_never_down_is_damage(tmp_path: Path) -> None:
    with DataFolder(tmp_path, machine=b"the same all along") as folder:
        torn(folder, LogSettings(sync="no"))
    with DataFolder(tmp_path, machine=b"the same all along") as folder:
        with pytest.raises(DamageError, match="checksum"):
            folder.open_log(LogSettings(sync="no"), 0)
        assert len(folder.files.names()) == 1


def test_a_boot_mark_behind_the_bad_record_proves_that_the_machine_was_not_down(tmp_path: Path) -> None:
    """What was whole when this boot of the machine opened the log was not torn by an earlier one."""
    settings = LogSettings(sync="no")
    with DataFolder(tmp_path, machine=b"before the power cut") as folder:
        log = folder.open_log(settings, 0)
        log.boot(1, folder.machine_id(), 0)
        log.append(pack(log.member("a"), 1), payload(1, 30))
        log.commit(0)
    with DataFolder(tmp_path, machine=b"after the power cut!") as folder:
        folder.open_log(settings, 0).boot(2, folder.machine_id(), 0)
        (name,) = folder.files.names()
        at = folder.files.read(name, 0, 1 << 20).index(payload(1, 30))
        folder.files.write(name, at, b"!")
        with pytest.raises(DamageError, match="checksum"):
            folder.open_log(settings, 0)


def test_a_log_lives_in_its_folder(tmp_path: Path) -> None:
    with DataFolder(tmp_path) as folder:
        log = folder.open_log(LogSettings(), 0)
        log.boot(1, folder.machine_id(), 0)
        log.append(pack(log.member("a"), 1), b"hello")
        log.close(0)
    with DataFolder(tmp_path) as folder:
        log = folder.open_log(LogSettings(), 0)
        assert isinstance(log, OpLog)
        assert [stored.data for stored in log.since(0)] == [b"hello"]
        assert not folder.power_lost(log.machine)
