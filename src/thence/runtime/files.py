"""The log's files on the operating system's disk.

Whatever the operating system refuses becomes a `DiskError` that says whether the thing asked for certainly
did not happen, and nothing that it reports is ever forgotten:

* A sync that failed once fails from then on. A kernel that could not write a page back says so once, marks
  the page clean and calls the next sync a success.
* A descriptor through which something was written and not yet synced is the last to be closed for want of
  room: an error of writing back is remembered with the open file.
* A file that was removed behind our back takes nothing more and is not called synced, though its
  descriptor still works.
* Where no descriptor is left, files are synced and opened all the same: some are held for that.

Syncing: `fdatasync` waits for the bytes and for what is needed to find them again, a size that has grown
and new blocks included, and leaves out times, for which `fsync` may have to write the journal once more.
That is all that appending needs. No standard says that a size that has *shrunk* is needed to find bytes, and
a tail that was cut off must not come back. So the first sync of a file in this process, and the first after
each truncation, is an `fsync`; neither happens often.

One thread owns the files. `sync` alone may be called from another one, at any time: it works on a descriptor
of its own, so that the owner may write, rename, remove and close meanwhile.
"""

import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Final

from thence.core.errors import UsageError
from thence.core.storage import DiskError
from thence.runtime.descriptors import NONE_LEFT, Spares
from thence.runtime.oserrors import failed

DESCRIPTORS: Final = 64
"""Kept open at most. A log reads from as many segments as there are peers that catch up, and a process may
by default open 1024 files, most of which are for connections."""

LOOK_EVERY: Final = 64
"""Writes between two looks whether the file is still there: a look costs half as much as a write. Every sync
looks as well, so nothing is called durable that is not."""

REMOVED: Final = "the file was removed"

fdatasync: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)


class _File:
    """What is known of a file that was opened here at least once."""

    __slots__ = ("changes", "cuts", "descriptor", "size", "synced", "synced_cuts", "trouble", "writable")

    def __init__(self) -> None:
        self.descriptor = -1
        self.writable = False
        # Numbers, and not flags, since more changes may come while a sync is under way. The owner counts
        # up, syncs follow.
        self.changes = 0
        self.size = 0
        """As far as was written here, since the last look."""
        self.synced = 0
        self.cuts = 1
        """Truncations, and one for what an earlier process may have done."""
        self.synced_cuts = 0
        """How many of them an `fsync` has covered."""
        self.trouble: OSError | None = None
        """Why it can never be called synced again."""

    @property
    def unsynced(self) -> bool:
        return self.changes != self.synced


class DiskFiles:
    """`core.storage.Files` over a folder that exists."""

    __slots__ = ("_files", "_folder", "_limit", "_lock", "_open", "_spares", "_trouble", "_where")

    def __init__(self, folder: Path, descriptors: int = DESCRIPTORS) -> None:
        self._where = str(folder)
        self._limit = descriptors
        self._trouble: OSError | None = None
        """Why the folder can never be called synced again."""
        self._files: dict[str, _File] = {}
        self._open: dict[str, _File] = {}
        """Those that have a descriptor, the one that was used last at the end."""
        self._lock = Lock()
        """Held wherever a descriptor is closed, and where another thread takes its copy of one."""
        try:
            # By descriptor, so that the folder may be moved, and a sync of it reports its own errors.
            self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            self._spares = Spares(self._folder)
        except OSError as error:
            raise failed(error, self._where) from error

    def __enter__(self) -> "DiskFiles":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all descriptors; syncs nothing."""
        with self._lock:
            for name in list(self._open):
                self._close(name)
            self._spares.close()
            if self._folder >= 0:
                os.close(self._folder)
                self._folder = -1

    # Looking

    def names(self) -> list[str]:
        try:
            with os.scandir(self._root()) as entries:
                return sorted([entry.name for entry in entries if entry.is_file(follow_symlinks=False)])
        except OSError as error:
            raise failed(error, self._where) from error

    def size(self, name: str) -> int:
        try:
            return os.stat(_plain(name), dir_fd=self._root()).st_size
        except OSError as error:
            raise failed(error, name) from error

    def read(self, name: str, offset: int, count: int) -> bytes:
        descriptor = self._descriptor(name, os.O_RDONLY)
        try:
            data = os.pread(descriptor, count, offset)
            if len(data) == count:
                return data
            parts = [data]
            while data and (count := count - len(data)):
                offset += len(data)
                data = os.pread(descriptor, count, offset)
                parts.append(data)
        except OSError as error:
            raise failed(error, name) from error
        return b"".join(parts)

    # Changing

    def write(self, name: str, offset: int, data: bytes | bytearray) -> None:
        file = self._open.get(name)
        if file is not None and file.writable and len(self._open) <= self._limit // 2:
            descriptor = file.descriptor  # as `_descriptor` would say
        else:
            descriptor = self._descriptor(name, os.O_RDWR | os.O_CREAT)
            file = self._files[name]
        if file.changes % LOOK_EVERY == 0:
            file.size = self._linked(descriptor, name).st_size
        if offset > file.size:
            raise DiskError(f"a write at {offset}, beyond the end", file=name, definite=True)
        file.changes += 1
        done = 0
        try:
            done = os.pwrite(descriptor, data, offset)
            if done < len(data):
                # A disk that has just become full takes a part; the next attempt says why.
                with memoryview(data) as view:
                    while done < len(view):
                        more = os.pwrite(descriptor, view[done:], offset + done)
                        if not more:
                            raise DiskError("a short write", file=name)
                        done += more
        except OSError as error:
            raise failed(error, name, certain=done == 0) from error
        finally:
            if offset + done > file.size:
                file.size = offset + done

    def truncate(self, name: str, size: int) -> None:
        """Cut off what is beyond `size`."""
        descriptor = self._descriptor(name, os.O_RDWR)
        if self._linked(descriptor, name).st_size <= size:
            return
        file = self._files[name]
        file.changes += 1
        try:
            os.ftruncate(descriptor, size)
        except OSError as error:
            raise failed(error, name) from error
        else:
            file.size = size
        finally:
            file.cuts += 1  # and not before: a sync under way must not count it as covered

    def rename(self, old: str, new: str) -> None:
        root = self._root()
        try:
            os.rename(_plain(old), _plain(new), src_dir_fd=root, dst_dir_fd=root)
        except OSError as error:
            raise failed(error, old) from error
        with self._lock:
            if old == new:
                return
            self._close(new)
            self._files.pop(new, None)
            # What is known of it stays true under the new name.
            if file := self._files.pop(old, None):
                self._files[new] = file
                if self._open.pop(old, None):
                    self._open[new] = file

    def remove(self, name: str) -> None:
        try:
            os.unlink(_plain(name), dir_fd=self._root())
        except OSError as error:
            raise failed(error, name) from error
        with self._lock:
            self._close(name)
            self._files.pop(name, None)

    # Making durable

    def sync(self, name: str) -> None:
        with self._lock:
            descriptor, file = self._copy(name)
            changes, cuts = file.changes, file.cuts
            enough = file.synced_cuts == cuts
        try:
            if file.trouble is not None:
                raise failed(file.trouble, name, certain=False)
            if os.fstat(descriptor).st_nlink == 0:
                raise DiskError(REMOVED, file=name)
            (fdatasync if enough else os.fsync)(descriptor)
        except OSError as error:
            file.trouble = error
            raise failed(error, name, certain=False) from error
        finally:
            self._give_back(descriptor)
        with self._lock:
            file.synced = max(file.synced, changes)
            file.synced_cuts = max(file.synced_cuts, cuts)

    def sync_folder(self) -> None:
        root = self._root()
        try:
            if self._trouble is not None:
                raise failed(self._trouble, self._where, certain=False)
            os.fsync(root)
        except OSError as error:
            self._trouble = error
            raise failed(error, self._where, certain=False) from error

    # Descriptors

    def _root(self) -> int:
        if self._folder < 0:
            raise UsageError(f"the files in {self._where} were closed")
        return self._folder

    def _descriptor(self, name: str, flags: int) -> int:
        """The owner's descriptor of a file. Opened for reading only, unless it must be written to: a log
        whose disk has become read-only can still be read."""
        file = self._open.get(name)
        if file is not None and (file.writable or flags == os.O_RDONLY):
            if len(self._open) > self._limit // 2:  # below that, the order of use does not matter
                with self._lock:
                    self._open[name] = self._open.pop(name)
            return file.descriptor
        descriptor = self._opened(name, flags)
        with self._lock:
            self._close(name)
            while len(self._open) >= self._limit:
                self._close(self._least_needed())
            file = self._files.setdefault(name, _File())
            file.descriptor, file.writable = descriptor, flags != os.O_RDONLY
            self._open[name] = file
        return descriptor

    def _opened(self, name: str, flags: int) -> int:
        try:
            try:
                return os.open(_plain(name), flags, 0o600, dir_fd=self._root())
            except OSError as error:
                with self._lock:
                    if error.errno not in NONE_LEFT or not self._spares.let_one_go():
                        raise
                return os.open(_plain(name), flags, 0o600, dir_fd=self._root())
        except OSError as error:
            raise failed(error, name) from error

    def _give_back(self, descriptor: int) -> None:
        with self._lock:
            if self._folder < 0:
                os.close(descriptor)
            else:
                self._spares.give_back(descriptor)

    def _least_needed(self) -> str:
        """Used longest ago, among those without unsynced changes. Files that are never synced must not
        take all the room, though."""
        unsynced = [name for name, file in self._open.items() if file.unsynced]
        if len(unsynced) <= self._limit // 2:
            for name, file in self._open.items():
                if not file.unsynced:
                    return name
        return unsynced[0]

    def _copy(self, name: str) -> tuple[int, _File]:
        """A descriptor for a sync, to be given back. A copy where there is one: it shares what the kernel
        remembers of errors. One that was opened anew is told of those that were not reported yet. Without one
        nothing was tried, and another sync may succeed."""
        root = self._root()
        file = self._open.get(name)
        try:
            if file is not None:
                return self._spares.copy(file.descriptor), file
            self._spares.let_one_go()  # the sync gives it back
            return os.open(_plain(name), os.O_RDONLY, dir_fd=root), self._files.setdefault(name, _File())
        except OSError as error:
            raise failed(error, name, certain=error.errno in NONE_LEFT) from error

    def _linked(self, descriptor: int, name: str) -> os.stat_result:
        try:
            status = os.fstat(descriptor)
        except OSError as error:
            raise failed(error, name) from error
        if status.st_nlink == 0:
            raise DiskError(REMOVED, file=name, definite=True)
        return status

    def _close(self, name: str) -> None:
        """Under the lock."""
        file = self._open.pop(name, None)
        if file is None:
            return
        descriptor, file.descriptor = file.descriptor, -1
        try:
            os.close(descriptor)
        except OSError as error:  # closed it is; but some file systems write back only now
            file.trouble = error


def _plain(name: str) -> str:
    if "/" in name or "\0" in name or name in ("", ".", ".."):
        raise UsageError(f"{name!r} is no name of a file in a folder")
    return name
