"""Whether a node may have forgotten something, and how it remembers that it may.

A process that dies loses nothing that was committed. A machine that goes down loses what was not synced, and
a log that was damaged is cut before the damage. Then there may be messages of this node that others have and
that its log lacks; until they are back a node over a tree must not send (`replica/overlay.py`). Two notes in
the log tell a power cut from an ordinary end: the policy under which it was written, and a mark that it was
closed in order.

That a node is recovering must survive the next crash: a file says so, until it is over.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from thence.core.errors import StorageError
from thence.oplog.log import OpLog
from thence.runtime.folder import DataFolder

POLICY_NOTE: Final = 6
CLOSED_NOTE: Final = 7
MARK: Final = "recovering"
BOOTS: Final = "boots"


def may_have_forgotten(folder: DataFolder, log: OpLog) -> bool:
    """To be asked before the log is booted."""
    if (folder.path / MARK).exists():
        return True
    if log.incarnation == 0 or not folder.power_lost(log.machine):
        return False
    return not was_closed(log) and log.notes.get(POLICY_NOTE) != b"always"


def was_closed(log: OpLog) -> bool:
    """In order: is its last record the mark that says so?"""
    return int.from_bytes(log.notes.get(CLOSED_NOTE, b""), "little") == log.tail


def begin(folder: Path, why: str) -> None:
    """From now on the node is recovering, whatever happens to it."""
    try:
        descriptor = os.open(folder / MARK, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(descriptor, f"{why}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StorageError(
            f"cannot note in {folder} that the node is recovering: {error.strerror}"
        ) from error


def end(folder: Path) -> None:
    with suppress(FileNotFoundError):
        (folder / MARK).unlink()


def note_boot(folder: Path, boot: int) -> None:
    """For a repair, which may find a log that does not remember its last boots. No more than a help: it may
    be missing."""
    with suppress(OSError):
        (folder / BOOTS).write_text(f"{boot}\n")


def boots(folder: Path) -> int:
    try:
        return int((folder / BOOTS).read_text())
    except (OSError, ValueError):
        return 0


def note_policy(log: OpLog, policy: str) -> None:
    if log.notes.get(POLICY_NOTE) != policy.encode():
        log.note(POLICY_NOTE, policy.encode())


def note_closed(log: OpLog) -> None:
    """The last record of a log that is closed in order; nothing may be gathered."""
    # The log puts a mark of its own before the first record of a commit: where this one comes to stand is
    # known only after another.
    before = log.note(CLOSED_NOTE, b"")
    log.note(CLOSED_NOTE, (before + 1).to_bytes(8, "little"))
