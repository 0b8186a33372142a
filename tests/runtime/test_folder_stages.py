"""What a data folder knows: each way of the table, over real files, and what the next start finds."""

from pathlib import Path

import pytest
from support.taken import taken

from thence.core.errors import InvariantError
from thence.oplog.policy import Policy
from thence.oplog.settings import LogSettings
from thence.runtime.folder import DataFolder
from thence.runtime.folder_stages import FOLDER, FolderStage
from thence.runtime.incarnations import IncarnationStore


class Starts:
    """Of the process a, one after another, in one data folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder: DataFolder | None = None

    def next(self, *, machine_died: bool = False, sync: Policy = "everysec") -> IncarnationStore:
        self.end()
        self.folder = DataFolder(self.path, b"another" if machine_died else b"machine")
        return IncarnationStore(self.folder, "a", "town", LogSettings(sync=sync))

    def end(self) -> None:
        if self.folder is not None:
            self.folder.close()
            self.folder = None


def stage_of(store: IncarnationStore) -> FolderStage:
    return store.stage


def in_use(starts: Starts) -> IncarnationStore:
    """A folder that is in use for the first time."""
    found = starts.next()
    assert stage_of(found) is FolderStage.FRESH
    found.boot()
    found.reserve(1)
    assert stage_of(found) is FolderStage.IN_USE
    return found


def forgetful(starts: Starts) -> IncarnationStore:
    in_use(starts).close(in_order=False)
    found = starts.next(machine_died=True)
    found.boot()
    assert stage_of(found) is FolderStage.FORGETFUL
    return found


def test_all_ways_are_taken_and_the_next_start_finds_them(tmp_path: Path) -> None:
    with taken(FOLDER) as seen:
        starts = Starts(tmp_path / "a")
        in_use(starts).close(in_order=False)
        found = starts.next()
        assert stage_of(found) is FolderStage.INTERRUPTED
        found.close(in_order=True)
        found = starts.next(machine_died=True)
        assert stage_of(found) is FolderStage.CLOSED, "it was closed although no process had started"
        found.forget()
        found.forget()
        found.close(in_order=True)
        found = starts.next()
        assert stage_of(found) is FolderStage.FORGETFUL, "an operator said so"
        found.boot()
        found.remembered()
        found.remembered()
        found.close(in_order=True)
        found = starts.next()
        assert stage_of(found) is FolderStage.CLOSED
        found.boot()
        found.forget()
        found.close(in_order=False)
        assert stage_of(starts.next()) is FolderStage.FORGETFUL, "the log was found damaged"
        starts.end()

        starts = Starts(tmp_path / "b")
        in_use(starts).close(in_order=False)
        starts.next().forget()
        found = starts.next()
        found.boot()
        found.left(unclean=True)
        found.left(unclean=True)
        found.close(in_order=True)
        found = starts.next()
        assert (stage_of(found), found.has_left) == (FolderStage.LEFT_FORGETFUL, True)
        found.forget()
        found.boot()
        assert stage_of(found) is FolderStage.FORGETFUL
        starts.end()

        starts = Starts(tmp_path / "c")
        found = in_use(starts)
        found.left(unclean=False)
        found.left(unclean=False)
        found.close(in_order=True)
        found = starts.next(machine_died=True)
        assert (stage_of(found), found.has_left) == (FolderStage.LEFT, True)
        found.boot()
        found.left(unclean=False)
        found.forget()
        found.close(in_order=False)
        assert stage_of(starts.next()) is FolderStage.LEFT_FORGETFUL
        starts.end()

        starts = Starts(tmp_path / "d")
        found = forgetful(starts)
        found.close(in_order=True)
        found = starts.next(machine_died=True)
        assert stage_of(found) is FolderStage.FORGETFUL
        found.boot()
        found.remembered()
        assert stage_of(found) is FolderStage.IN_USE
        found.close(in_order=True)
        found = starts.next()
        assert stage_of(found) is FolderStage.CLOSED
        found.boot()
        starts.end()

        starts = Starts(tmp_path / "e")
        in_use(starts).close(in_order=False)
        starts.next().boot()
        starts.end()
    assert set(FOLDER.rows) <= seen


@pytest.mark.parametrize(
    ("sync", "machine_died", "stage"),
    [
        ("always", True, FolderStage.INTERRUPTED),
        ("everysec", True, FolderStage.FORGETFUL),
        ("everysec", False, FolderStage.INTERRUPTED),
    ],
)
def test_how_a_start_ended_follows_from_its_machine_and_its_policy(
    tmp_path: Path, sync: Policy, machine_died: bool, stage: FolderStage
) -> None:
    starts = Starts(tmp_path / "a")
    found = starts.next(sync=sync)
    found.boot()
    found.reserve(1)
    found.close(in_order=False)
    assert stage_of(starts.next(machine_died=machine_died, sync=sync)) is stage
    starts.end()


def test_a_start_is_counted_once(tmp_path: Path) -> None:
    starts = Starts(tmp_path / "a")
    found = in_use(starts)
    with pytest.raises(InvariantError, match="'a process starts' means nothing to one that is in use"):
        found.boot()
    starts.end()
