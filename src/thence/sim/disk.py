"""A disk in memory that forgets what it may forget.

It keeps every promise of `core.storage.Files` and not one more. What was written and not synced is, after
a crash, there in any prefix, perhaps with garbage in the last block; with `holes`, blocks of it may be
missing in the middle as well, as on a disk that writes in an order of its own. Files that were created,
renamed or removed since the folder was last synced may or may not have been, in the order in which it was
done. What was synced is there. Writes and syncs fail on demand, the disk fills up, bits flip.

Chance comes from the `Random` that it is given: a seed repeats every loss.
"""

from random import Random
from typing import Literal

from thence.core.storage import DiskError

BLOCK_BYTES = 512

Operation = Literal["write", "truncate", "sync", "rename", "remove", "sync_folder"]


class _DiskFile:
    """Contents as the process sees them, as the platter has them, and what lies between: a write is
    (offset, bytes), a truncation (size, None)."""

    __slots__ = ("current", "pending", "synced")

    def __init__(self) -> None:
        self.current = bytearray()
        self.synced = b""
        self.pending: list[tuple[int, bytes | None]] = []


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
    else:
        content[offset : offset + len(data)] = data


class Interrupted(BaseException):  # no error that a caller could handle
    """The process is gone in the middle of a write."""


class Disk:
    """One folder, as `Files`."""

    __slots__ = (
        "_durable",
        "_failing",
        "_files",
        "_folder_pending",
        "_random",
        "bytes_read",
        "capacity",
        "interrupts",
        "syncs",
        "writes",
    )

    def __init__(self, random: Random, capacity: int | None = None) -> None:
        self._random = random
        self.capacity = capacity
        """Bytes that fit on it; None: no limit. May be changed at any time."""
        self._files: dict[str, _DiskFile] = {}
        self._durable: dict[str, _DiskFile] = {}
        self._folder_pending: list[tuple[str, _DiskFile | None]] = []
        """Names since the last `sync_folder`, and the file that each has stood for from then on."""
        self._failing: dict[Operation, int] = {}
        self.interrupts = False
        """The process goes down in the middle of its next write."""
        self.bytes_read = 0
        self.writes = 0
        self.syncs = 0

    # What the log calls

    def names(self) -> list[str]:
        return sorted(self._files)

    def size(self, name: str) -> int:
        return len(self._file(name).current)

    def read(self, name: str, offset: int, count: int) -> bytes:
        data = bytes(self._file(name).current[offset : offset + count])
        self.bytes_read += len(data)
        return data

    def write(self, name: str, offset: int, data: bytes | bytearray) -> None:
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = _DiskFile()
            self._folder_pending.append((name, file))
        if offset > len(file.current):
            raise DiskError(f"a write at {offset}, beyond the end", file=name, definite=True)
        self.writes += 1
        fits = len(data)
        full = False
        if self.capacity is not None:
            used = sum([len(other.current) for other in self._files.values()])
            room = self.capacity - used + len(file.current) - offset
            full = room < fits
            fits = max(0, min(fits, room))
        failed = self._fails("write")
        if failed or self.interrupts:
            fits = self._random.randint(0, fits)
        if fits:
            kept = bytes(data[:fits])
            _apply(file.current, offset, kept)
            file.pending.append((offset, kept))
        if self.interrupts:
            raise Interrupted
        if full or failed:
            raise DiskError("no space left" if full else "a write failed", file=name, full=full)

    def truncate(self, name: str, size: int) -> None:
        file = self._file(name)
        self._may_fail("truncate", name)
        _apply(file.current, size, None)
        file.pending.append((size, None))

    def sync(self, name: str) -> None:
        file = self._file(name)
        self.syncs += 1
        self._may_fail("sync", name)
        file.synced = bytes(file.current)
        file.pending.clear()

    def rename(self, old: str, new: str) -> None:
        file = self._file(old)
        self._may_fail("rename", old)
        del self._files[old]
        self._files[new] = file
        self._folder_pending += [(new, file), (old, None)]

    def remove(self, name: str) -> None:
        self._file(name)
        self._may_fail("remove", name)
        del self._files[name]
        self._folder_pending.append((name, None))

    def sync_folder(self) -> None:
        self._may_fail("sync_folder", "folder")
        self._durable = dict(self._files)
        self._folder_pending.clear()

    def _file(self, name: str) -> _DiskFile:
        try:
            return self._files[name]
        except KeyError:
            raise DiskError("no such file", file=name, definite=True) from None

    # What the world does

    def fail(self, operation: Operation, after: int = 0) -> None:
        """The next call of this kind fails, or the one after so many of them."""
        self._failing[operation] = after

    def heal(self) -> None:
        """Whatever was to fail does not."""
        self._failing.clear()

    def flip(self, name: str, offset: int, bit: int) -> None:
        """A bit changes on the platter, unnoticed."""
        file = self._file(name)
        file.current[offset] ^= 1 << bit
        if offset < len(file.synced):
            file.synced = (
                bytes(file.synced[:offset]) + file.current[offset : offset + 1] + (file.synced[offset + 1 :])
            )

    def copy(self, random: Random) -> "Disk":
        """Another disk with what a process sees of this one, all of it synced."""
        other = Disk(random, self.capacity)
        for name in self.names():
            other.write(name, 0, bytes(self._files[name].current))
            other.sync(name)
        other.sync_folder()
        return other

    def crash(self, holes: bool = False) -> None:
        """The machine goes down and comes up again: what is left is what a process finds then."""
        random = self._random
        for name, file in self._folder_pending[: random.randint(0, len(self._folder_pending))]:
            if file is None:
                self._durable.pop(name, None)
            else:
                self._durable[name] = file
        self._folder_pending.clear()
        self._files = dict(sorted(self._durable.items()))
        for file in dict.fromkeys(self._files.values()):
            self._lose(file, holes)
        self._failing.clear()

    def _lose(self, file: _DiskFile, holes: bool) -> None:
        random = self._random
        content = bytearray(file.synced)
        count = random.randint(0, len(file.pending))
        unsynced = len(content)
        for offset, data in file.pending[:count]:
            unsynced = min(unsynced, offset)
            _apply(content, offset, data)
        if count < len(file.pending):
            offset, data = file.pending[count]
            if data is not None and offset <= len(content):
                part = data[: random.randint(0, len(data))]
                unsynced = min(unsynced, offset) if part else unsynced
                _apply(content, offset, part)
        if random.random() < 0.5:
            self._scramble(content, max(unsynced, (len(content) - 1) // BLOCK_BYTES * BLOCK_BYTES))
        if holes:
            for start in range(unsynced // BLOCK_BYTES * BLOCK_BYTES, len(content), BLOCK_BYTES):
                if random.random() < 0.3:
                    end = min(start + BLOCK_BYTES, len(content))
                    begin = max(start, unsynced)
                    content[begin:end] = bytes(end - begin)
        file.current = content
        file.synced = bytes(content)
        file.pending.clear()

    def _scramble(self, content: bytearray, start: int) -> None:
        for at in range(max(start, 0), len(content)):
            content[at] = self._random.randrange(256)

    def _fails(self, operation: Operation) -> bool:
        left = self._failing.get(operation)
        if left is None:
            return False
        if left:
            self._failing[operation] = left - 1
            return False
        del self._failing[operation]
        return True

    def _may_fail(self, operation: Operation, name: str) -> None:
        if self._fails(operation):
            raise DiskError(f"{operation} failed", file=name)
