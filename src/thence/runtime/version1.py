"""What data folders of version 1 say: one log per node of a closed group, with notes about the group in it.

Read at an upgrade alone. That such a node may have forgotten something outlived its crashes in a file.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from thence.core.errors import StorageError, UsageError
from thence.core.storage import DamageError
from thence.core.varint import Reader
from thence.oplog.log import OpLog
from thence.runtime.address import Address
from thence.runtime.folder import DataFolder

FRONTIER: Final = 1
ROSTER: Final = 3
POLICY: Final = 6
CLOSED: Final = 7
"""Keys of notes."""

MARK: Final = "recovering"


class Listed(msgspec.Struct):
    """A member. What else was known of it does not matter any more."""

    name: str
    address: str


class NotedGroup(msgspec.Struct):
    """Members, by their indices."""

    cluster: str
    me: str
    members: list[Listed]

    @property
    def names(self) -> list[str]:
        return [member.name for member in self.members]


def recall(log: OpLog, cluster: str, me: str, members: Sequence[tuple[str, Address]]) -> NotedGroup:
    """The group that the log knows; it must be the one that the settings name. Addresses may have changed."""
    note = log.notes.get(ROSTER)
    try:
        roster = msgspec.json.decode(note or b"", type=NotedGroup)
    except msgspec.MsgspecError as error:
        raise DamageError(
            f"the note about the group cannot be read: {error}",
            file="log", offset=0, affected="who is in the group",
        ) from error  # fmt: skip
    if roster.me != me:
        raise UsageError(f"this data folder belongs to {roster.me}, not to {me}")
    if roster.cluster != cluster:
        raise UsageError(f"this data folder belongs to the cluster {roster.cluster!r}, not to {cluster!r}")
    if members:
        if [name for name, _ in sorted(members)] != roster.names:
            known = ", ".join(roster.names)
            raise UsageError(f"this data folder knows a group of {known}: members must be the same")
        for member, (_, address) in zip(roster.members, sorted(members), strict=True):
            member.address = str(address)
    return roster


def noted_frontier(note: bytes) -> tuple[int, int, tuple[int, ...]]:
    """Up to which position, how many own messages there were, and the context that follows from all of it."""
    reader = Reader(note, 0, len(note))
    position, own = reader.take(), reader.take()
    return position, own, tuple([reader.take() for _ in range(reader.take())])


def may_have_forgotten(folder: DataFolder, log: OpLog) -> bool:
    """May the log lack messages that its node has sent?"""
    if (folder.path / MARK).exists():
        return True
    if log.incarnation == 0 or not folder.power_lost(log.machine):
        return False
    return not was_closed(log) and log.notes.get(POLICY) != b"always"


def was_closed(log: OpLog) -> bool:
    """In order: is its last record the mark that says so?"""
    return int.from_bytes(log.notes.get(CLOSED, b""), "little") == log.tail


def mark_forgetful(folder: Path, why: str) -> None:
    """A repair has cut the log."""
    try:
        descriptor = os.open(folder / MARK, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(descriptor, f"{why}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StorageError(f"cannot note in {folder} that its log was cut: {error.strerror}") from error


def unmark(folder: Path) -> None:
    with suppress(FileNotFoundError):
        (folder / MARK).unlink()
