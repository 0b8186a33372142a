"""Files as the log sees them, and the two ways in which they let it down.

The log decides what is written where. The files are those of the operating system in a live node and of
a disk in memory in the simulator, and the log cannot tell which. The
interface is as narrow as a log can live with: one flat folder, writes at a given offset, and *two* kinds
of sync, since the contents of a file and the fact that it exists become durable separately.

What an implementation promises:

* A call that returns has taken effect for every later call of the same process.
* What `sync` was called on survives a crash, up to what had been written by then, if the folder knows the
  file; that it does (or no longer does) survives once `sync_folder` was called.
* A call that fails raises `DiskError`. A failed write may have left any prefix of its bytes behind.
"""

from typing import Final, Protocol

from thence.core.errors import StorageError


class DiskError(StorageError):
    """An operation on a file failed; the operating system tells whether that is definite."""

    def __init__(self, what: str, *, file: str, definite: bool = False, full: bool = False) -> None:
        super().__init__(f"{file}: {what}")
        self.what: Final = what
        self.file: Final = file
        self.definite = definite
        self.full: Final = full


def said(error: Exception) -> str:
    """What went wrong, for an error that names the file itself."""
    return error.what if isinstance(error, DiskError) else str(error)


class DamageError(StorageError):
    """A file holds something that was never written there. Names the place and what is lost by it."""

    def __init__(self, what: str, *, file: str, offset: int, affected: str) -> None:
        super().__init__(f"{file}, byte {offset}: {what}; affected: {affected}")
        self.file: Final = file
        self.offset: Final = offset
        self.affected: Final = affected


class UnwrittenError(StorageError):
    """Something had to be written down in the middle of a step and could not be: the step never was."""


class ForgottenError(StorageError):
    """A peer has messages of this node that its log lacks: it must not go on as if they had never been."""


class ReadableFiles(Protocol):
    """One folder of files, to look at. Names hold no separators."""

    def names(self) -> list[str]:
        """All files, sorted."""
        ...

    def size(self, name: str) -> int: ...

    def read(self, name: str, offset: int, count: int) -> bytes:
        """Up to `count` bytes; fewer only where the file ends."""
        ...


class Files(ReadableFiles, Protocol):
    """The same, to change as well."""

    def write(self, name: str, offset: int, data: bytes | bytearray) -> None:
        """All of `data` at `offset`, which is at most the file's size. Creates the file if need be."""
        ...

    def truncate(self, name: str, size: int) -> None: ...

    def sync(self, name: str) -> None: ...

    def rename(self, old: str, new: str) -> None:
        """`new` is replaced if it exists."""
        ...

    def remove(self, name: str) -> None: ...

    def sync_folder(self) -> None: ...
