"""A damaged log, made usable again: what comes before the damage stays, the rest comes back from the peers.

Nothing is thrown away: the log as it was found goes into a folder beside it. Then it is cut where it is
damaged, and the node comes back as another incarnation, which gets from the others what it lacks. A position
that an application has kept from after the cut is one that the log no longer knows.
"""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from thence.core.errors import StorageError, UsageError
from thence.core.storage import DamageError
from thence.oplog.log import OpLog
from thence.oplog.record import BOOT_BITS
from thence.oplog.segment import INDEX, LOG, position_of
from thence.oplog.settings import LogSettings
from thence.runtime.files import DiskFiles
from thence.runtime.folder import OPLOG, DataFolder
from thence.runtime.version1 import mark_forgetful

DAMAGED = "damaged"


@dataclass
class Repaired:
    """What was found and done."""

    damages: list[str] = field(default_factory=list)
    aside: Path | None = None
    """Where the log is as it was found."""
    tail: int = 0
    """Position up to which the log is whole."""


def repair(path: Path, settings: LogSettings, now: int, forgetful: bool) -> Repaired:
    """`forgetful`: the caller knows that the log lacks its end, though it looks whole (an old copy)."""
    if not path.is_dir():
        raise UsageError(f"there is no data folder {path}")
    with DataFolder(path) as folder:
        newest = _newest_boot(folder)
        log, result = mended(folder, folder.files, path / OPLOG, settings, now)
        if not result.damages and not forgetful:
            return result
        mark_forgetful(path, "; ".join(result.damages) or "asked to")
        # Positions must not be handed out twice, nor may peers take this for an old copy of itself.
        while log.boot(1, folder.machine_id(), now) >> BOOT_BITS < newest:
            log.close(now)
            log = folder.open_log(settings, now)
        log.close(now)
    return result


def mended(
    folder: DataFolder, files: DiskFiles, where: Path, settings: LogSettings, now: int
) -> tuple[OpLog, Repaired]:
    """The log in `files`, which are in `where`, cut off before whatever is damaged in it."""
    result = Repaired()
    while True:
        try:
            log = folder.open_log(settings, now, files)
            result.tail = log.tail
            return log, result
        except DamageError as damage:
            if result.aside is None:
                result.aside = set_aside(folder.path, where)
            again = str(damage) in result.damages
            if not again:
                result.damages.append(str(damage))
            _cut(files, damage, whole_file=again)


def _newest_boot(folder: DataFolder) -> int:
    positions = [position_of(name, LOG) for name in folder.files.names()]
    return max([position >> BOOT_BITS for position in positions if position is not None], default=0)


def set_aside(path: Path, log: Path) -> Path:
    """A copy of a log as it was found."""
    number = 1
    while (aside := path / f"{DAMAGED}-{number}").exists():
        number += 1
    try:
        shutil.copytree(log, aside)
    except OSError as error:
        raise StorageError(f"cannot keep a copy of the damaged log in {aside}: {error}") from error
    return aside


def _cut(files: DiskFiles, damage: DamageError, whole_file: bool) -> None:
    """Everything from the damage on goes; the whole file if that was not enough."""
    logs = sorted([name for name in files.names() if position_of(name, LOG) is not None])
    if damage.file not in logs:
        raise damage
    first = logs.index(damage.file)
    for name in reversed(logs[first + 1 :]):
        _remove(files, name)
    if whole_file:
        _remove(files, damage.file)
    elif damage.offset < files.size(damage.file):
        files.truncate(damage.file, damage.offset)
        files.sync(damage.file)
    files.sync_folder()


def _remove(files: DiskFiles, name: str) -> None:
    position = position_of(name, LOG)
    for other in files.names():
        if position_of(other, INDEX) == position or other == name:
            files.remove(other)
