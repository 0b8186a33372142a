"""The fake disk with real files beside it: every call goes to both, and both must say the same.

What fails, fills up or crashes is the fake one's to decide; the real files are then brought to what it has.
So whatever is written for the fake disk runs over the operating system's files as well.
"""

import shutil
import tempfile
import weakref
from pathlib import Path
from random import Random

from thence.core.storage import DiskError
from thence.runtime.files import DiskFiles
from thence.sim.disk import Disk


def _dispose(real: DiskFiles, folder: str) -> None:
    real.close()
    shutil.rmtree(folder, ignore_errors=True)  # perhaps with the folder around it


class TwinDisk(Disk):
    def __init__(self, random: Random, capacity: int | None = None, *, root: Path) -> None:
        super().__init__(random, capacity)
        self._root = root
        folder = tempfile.mkdtemp(dir=root)
        # Few descriptors, so that they are closed and opened again all the time.
        self.real = DiskFiles(Path(folder), descriptors=3)
        self.dispose = weakref.finalize(self, _dispose, self.real, folder)

    def names(self) -> list[str]:
        names = self.real.names()
        assert names == super().names(), f"changed: {names}"
        return names

    def size(self, name: str) -> int:
        size = super().size(name)
        assert self.real.size(name) == size, f"changed: the size of {name}"
        return size

    def read(self, name: str, offset: int, count: int) -> bytes:
        data = super().read(name, offset, count)
        assert self.real.read(name, offset, count) == data, f"changed: {name}"
        return data

    def write(self, name: str, offset: int, data: bytes | bytearray) -> None:
        try:
            super().write(name, offset, data)
        except DiskError:
            self._follow(name)
            raise
        self.real.write(name, offset, data)

    def truncate(self, name: str, size: int) -> None:
        super().truncate(name, size)
        self.real.truncate(name, size)

    def sync(self, name: str) -> None:
        super().sync(name)
        self.real.sync(name)

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self.real.rename(old, new)

    def remove(self, name: str) -> None:
        super().remove(name)
        self.real.remove(name)

    def sync_folder(self) -> None:
        super().sync_folder()
        self.real.sync_folder()

    def flip(self, name: str, offset: int, bit: int) -> None:
        super().flip(name, offset, bit)
        self._follow(name)

    def copy(self, random: Random) -> "TwinDisk":
        other = TwinDisk(random, self.capacity, root=self._root)
        for name in self.names():
            other.write(name, 0, self.read(name, 0, self.size(name)))
            other.sync(name)
        other.sync_folder()
        return other

    def crash(self, holes: bool = False) -> None:
        super().crash(holes)
        for name in self.real.names():
            self.real.remove(name)
        for name in super().names():
            self._follow(name)

    def _follow(self, name: str) -> None:
        """Make the real file what the fake one has become."""
        content = bytes(self._file(name).current)
        self.real.write(name, 0, content)
        self.real.truncate(name, len(content))
