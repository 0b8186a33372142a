"""Where a live node keeps the tags of messages that wait for a member that is away: a file of its own.

It is scratch: everything in it follows from the log, a restart makes it anew, and it is removed when nothing
is left in it. So it is never synced, and its journal, which a full disk makes necessary, is in memory. Reads
and writes are small and mostly meet the page cache.
"""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from thence.core.storage import DiskError
from thence.runtime.oserrors import failed

if TYPE_CHECKING:
    import sqlite3

FILE: Final = "tags.scratch"

SCRATCH: Final = "scratch"
"""In the data folder: what a restart makes anew."""

CACHE_KIB: Final = 2048
"""What the database may keep in memory."""

SETUP: Final = f"""
PRAGMA journal_mode = MEMORY;
PRAGMA synchronous = OFF;
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -{CACHE_KIB};
CREATE TABLE tags (place INTEGER PRIMARY KEY, dot INTEGER NOT NULL UNIQUE, data BLOB NOT NULL);
"""


class FileTagSpill:
    """An `order.tags.TagSpill` in a data folder."""

    __slots__ = ("_database", "_path", "_rows")

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._database: sqlite3.Connection | None = None  # imported where there is one: few nodes need it
        self._rows = 0
        self._remove()

    def put(self, rows: Sequence[tuple[int, int, bytes]]) -> None:
        import sqlite3

        try:
            if self._database is None:
                self._database = self._made()
            database = self._database
            database.execute("BEGIN")
            try:
                database.executemany("INSERT INTO tags VALUES (?, ?, ?)", rows)
                database.execute("COMMIT")
            except sqlite3.Error:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise self._failed("cannot be written", error, full=True) from error
        self._rows += len(rows)

    def of(self, dot: int) -> tuple[int, bytes] | None:
        found = self._select("SELECT place, data FROM tags WHERE dot = ?", (dot,))
        return found[0] if found else None

    def run(self, first: int, count: int) -> list[tuple[int, bytes]]:
        asked = "SELECT dot, data FROM tags WHERE place >= ? ORDER BY place LIMIT ?"
        return self._select(asked, (first, count))

    def forget(self, below: int) -> None:
        if self._database is None:
            return
        import sqlite3

        try:
            self._rows -= self._database.execute("DELETE FROM tags WHERE place < ?", (below,)).rowcount
        except sqlite3.Error as error:
            raise self._failed("cannot be written", error) from error
        if not self._rows:
            self.close()

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
        self._rows = 0
        self._remove()

    def _made(self) -> "sqlite3.Connection":
        import sqlite3

        self._remove()
        database = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            database.executescript(SETUP)
        except sqlite3.Error:
            database.close()
            raise
        return database

    def _select(self, asked: str, values: tuple[int, ...]) -> list[tuple[int, bytes]]:
        if self._database is None:
            return []
        import sqlite3

        try:
            return self._database.execute(asked, values).fetchall()
        except sqlite3.Error as error:
            raise self._failed("cannot be read", error) from error

    def _failed(self, what: str, error: "sqlite3.Error", full: bool = False) -> DiskError:
        return DiskError(f"old tags {what}: {error}", file=FILE, definite=full, full=full)

    def _remove(self) -> None:
        with suppress(FileNotFoundError):
            self._path.unlink()


class TagSpills:
    """Of the incarnations of a process, a folder each: the one before may still have its own."""

    __slots__ = ("_folder", "_made")

    def __init__(self, data: Path) -> None:
        self._folder: Final = data / SCRATCH
        self._made: Final[list[FileTagSpill]] = []

    def __call__(self) -> FileTagSpill:
        folder = self._folder / str(len(self._made))
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise failed(error, str(folder)) from error
        self._made.append(FileTagSpill(folder))
        return self._made[-1]

    def close(self) -> None:
        for attic in self._made:
            attic.close()
        shutil.rmtree(self._folder, ignore_errors=True)
