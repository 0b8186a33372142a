"""What a process of a changing group keeps across its incarnations, and when it may have forgotten some."""

from pathlib import Path

import pytest

from thence.core.errors import UsageError
from thence.core.storage import DamageError, DiskError
from thence.oplog.policy import Policy
from thence.oplog.settings import LogSettings
from thence.runtime.files import DiskFiles
from thence.runtime.folder import DataFolder
from thence.runtime.incarnations import FILE, IncarnationStore, is_shelf, read_written


def shelf(folder: DataFolder, sync: Policy = "everysec", name: str = "a") -> IncarnationStore:
    return IncarnationStore(folder, name, "town", LogSettings(sync=sync))


def test_numbers_boots_and_contacts_are_kept(tmp_path: Path) -> None:
    with DataFolder(tmp_path / "a", b"machine") as folder:
        first = shelf(folder)
        assert first.fresh
        assert first.boot() == 1
        first.reserve(1)
        first.reserve(7)
        first.keep_contacts({"b": "h:1"})
        first.close(in_order=False)
    assert is_shelf(tmp_path / "a")
    with DataFolder(tmp_path / "a", b"machine") as folder:
        again = shelf(folder)
        assert not again.fresh
        assert (again.highest, again.boot(), again.contacts) == (7, 2, {"b": "h:1"})
        again.left(unclean=True)
        again.close(in_order=True)
    written = read_written(tmp_path / "a")
    assert written is not None
    assert (written.left, written.contacts) == ("in disorder", {})


@pytest.mark.parametrize(
    ("sync", "in_order", "machine", "forgetful"),
    [
        ("everysec", False, b"again", True),
        ("no", False, b"again", True),
        ("always", False, b"again", False),
        ("everysec", True, b"again", False),
        ("everysec", False, b"machine", False),
    ],
)
def test_only_a_machine_that_went_down_unsynced_forgets(
    tmp_path: Path, sync: Policy, in_order: bool, machine: bytes, forgetful: bool
) -> None:
    with DataFolder(tmp_path / "a", b"machine") as folder:
        before = shelf(folder, sync)
        before.boot()
        before.reserve(1)
        before.close(in_order)
    with DataFolder(tmp_path / "a", machine) as folder:
        after = shelf(folder)
        assert after.forgetful == forgetful
        after.close(in_order=False)


def test_that_something_may_be_forgotten_outlives_further_crashes_until_it_does_not_matter(
    tmp_path: Path,
) -> None:
    with DataFolder(tmp_path / "a", b"machine") as folder:
        first = shelf(folder)
        first.boot()
        first.reserve(1)
        first.close(in_order=False)
    for in_order in (False, True):
        with DataFolder(tmp_path / "a", b"again") as folder:
            crashing = shelf(folder, "always")
            assert crashing.forgetful
            crashing.boot()
            crashing.close(in_order)  # stopped in order, but before it had found a member
    with DataFolder(tmp_path / "a", b"again") as folder:
        last = shelf(folder)
        assert last.forgetful, "that it was stopped in order brings nothing back"
        last.boot()
        last.remembered()
        last.close(in_order=False)
    with DataFolder(tmp_path / "a", b"again") as folder:
        settled = shelf(folder)
        assert not settled.forgetful
        settled.close(in_order=False)


def test_the_first_contacts_are_on_disk_at_once_and_others_when_there_is_time(tmp_path: Path) -> None:
    """Without any it would go on alone after a power cut; with old ones it asks those."""
    with DataFolder(tmp_path / "a", b"machine") as folder:
        kept = shelf(folder)
        kept.boot()
        kept.reserve(1)

        def on_disk() -> dict[str, str]:
            written = read_written(tmp_path / "a")
            assert written is not None
            return written.contacts

        kept.keep_contacts({"b": "h:1"})
        assert on_disk() == {"b": "h:1"}
        kept.keep_contacts({"b": "h:1", "c": "h:2"})
        assert on_disk() == {"b": "h:1"}
        assert kept.contacts == {"b": "h:1", "c": "h:2"}
        kept.catch_up()
        assert on_disk() == {"b": "h:1", "c": "h:2"}
        kept.close(in_order=False)


def test_one_that_never_was_a_member_is_written_down_once_before_its_first_attempt(tmp_path: Path) -> None:
    """Each time costs two syncs, and a joiner waits for them: nothing follows from a boot, or from where
    others are, before there is a number."""
    with DataFolder(tmp_path / "a", b"machine") as folder:
        fresh = shelf(folder)
        assert fresh.boot() == 1
        fresh.keep_contacts({"b": "h:1"})
        assert not is_shelf(tmp_path / "a")
        fresh.reserve(1)
        written = read_written(tmp_path / "a")
        assert written is not None
        assert (written.boots, written.highest, written.contacts) == (1, 1, {"b": "h:1"})
        fresh.close(in_order=False)


def test_one_that_has_left_is_closed_in_order_by_that(tmp_path: Path) -> None:
    with DataFolder(tmp_path / "a", b"machine") as folder:
        gone = shelf(folder)
        gone.boot()
        gone.reserve(1)
        gone.left(unclean=False)
        before = (tmp_path / "a" / FILE).stat().st_ino
        gone.close(in_order=True)
        assert (tmp_path / "a" / FILE).stat().st_ino == before, "it was written again for nothing"
    with DataFolder(tmp_path / "a", b"again") as folder:
        after = shelf(folder)
        assert not after.forgetful
        after.close(in_order=False)


def test_a_log_that_was_dropped_is_gone_and_what_a_crash_left_of_one_as_well(tmp_path: Path) -> None:
    with DataFolder(tmp_path / "a", b"machine") as folder:
        first = shelf(folder)
        first.boot()
        for number in (1, 2):
            log = first.open(number, 0)
            log.member("a")
            log.sync(0)
        assert first.kept() == [1, 2]
        first.drop(1)
        assert first.kept() == [2]
        (tmp_path / "a" / "oplog" / "dropped-9").mkdir()
        first.close(in_order=True)
    with DataFolder(tmp_path / "a", b"machine") as folder:
        again = shelf(folder)
        again.boot()
        assert again.kept() == [2]
        assert again.open(2, 0).names == ("a",)
        assert [path.name for path in (tmp_path / "a" / "oplog").iterdir()] == ["2"]
        again.close(in_order=True)


def test_a_file_that_is_damaged_or_anothers_is_refused(tmp_path: Path) -> None:
    with DataFolder(tmp_path / "a", b"machine") as folder:
        first = shelf(folder)
        first.boot()
        first.close(in_order=True)
        with pytest.raises(UsageError, match="belongs to a, not to b"):
            shelf(folder, name="b")
        file = tmp_path / "a" / FILE
        file.write_bytes(file.read_bytes().replace(b'"a"', b'"b"'))
        with pytest.raises(DamageError, match="the checksum does not match"):
            shelf(folder)


def test_attempts_that_came_to_nothing_are_known_after_a_restart(tmp_path: Path) -> None:
    with DataFolder(tmp_path / "a", b"machine") as folder:
        first = shelf(folder)
        first.boot()
        first.reserve(1, since=1)
        first.reserve(2, since=1)
        first.close(in_order=False)
    with DataFolder(tmp_path / "a", b"machine") as folder:
        again = shelf(folder)
        again.boot()
        assert (again.highest, again.since) == (2, 1)
        again.reserve(3, since=1)
        again.ended(3, 0)
        again.close(in_order=False)
    with DataFolder(tmp_path / "a", b"machine") as folder:
        assert shelf(folder).since == 0, "3 was a member"


def test_where_a_log_is_damaged_it_is_unknown_which_attempts_failed(tmp_path: Path) -> None:
    with DataFolder(tmp_path / "a", b"machine") as folder:
        first = shelf(folder)
        first.boot()
        first.reserve(1, since=1)
        first.forget()
        assert first.since == 0
        first.close(in_order=False)


def test_a_former_member_is_on_disk_as_that_before_its_log_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if that could not be written the first time."""
    write = DiskFiles.write

    def full(files: DiskFiles, name: str, offset: int, data: bytes | bytearray) -> None:
        raise DiskError("no space", file=name, definite=True, full=True)

    with DataFolder(tmp_path / "a", b"machine") as folder:
        kept = shelf(folder)
        kept.boot()
        kept.reserve(1, since=1)
        kept.open(1, 0)
        monkeypatch.setattr(DiskFiles, "write", full)
        with pytest.raises(DiskError):
            kept.ended(1, 0)
        assert kept.kept() == [1]
        monkeypatch.setattr(DiskFiles, "write", write)
        kept.ended(1, 0)
        assert kept.kept() == []
        written = read_written(tmp_path / "a")
        assert written is not None
        assert written.since == 0
        kept.close(in_order=True)
