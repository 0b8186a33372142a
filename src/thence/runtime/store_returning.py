"""Operations of a store that its group never had: their own process makes of each what destroys nothing.

From the moment in which the process returns until that has been done they are in a file, so that a process
which is killed in between does it after its next start.

    unsent = records of length and CRC-32 (4 bytes each, little endian), then the incarnation that had it, its
             origin, counter and payload (msgpack)

They are written before the next incarnation begins. Those of an incarnation that still runs are of a return
that came to nothing: that one has them. Whether something was made of one is in the store's own state
(`Space.returned`), which has every operation that was sent.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from msgspec import DecodeError, msgpack

from thence.core.groups import Place, number_of, process_of
from thence.replica.events import Orphaned
from thence.replica.group.surroundings import Orphan
from thence.replica.life_tag import Sent
from thence.runtime.logs import NodeLog
from thence.store.executor import Executor
from thence.store.replicated import again

FILE: Final = "unsent"
_HEAD: Final = Struct("<II")


class Unsent(NamedTuple):
    life: str
    """The incarnation that had applied it."""
    origin: str
    seq: int
    payload: bytes


class UnsentFile:
    __slots__ = ("_file", "_path")

    def __init__(self, folder: Path) -> None:
        self._path: Final = folder / FILE
        self._file = -1
        """Open from the first operation of a return to the last."""

    def add(self, one: Unsent) -> None:
        """`OSError`: it cannot be written."""
        if self._file < 0:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        data = msgpack.encode(one)
        os.write(self._file, _HEAD.pack(len(data), crc32(data)) + data)

    def sync(self) -> None:
        """All that was added is on the disk."""
        if self._file >= 0:
            file, self._file = self._file, -1
            try:
                os.fsync(file)
            finally:
                os.close(file)

    def read(self, me: str) -> list[Unsent]:
        """What former incarnations had, each once, in the order in which it was added. An end that a crash
        has torn was not synced, so that no incarnation followed."""
        try:
            data = self._path.read_bytes()
        except OSError:
            return []
        found: dict[tuple[str, int], Unsent] = {}
        at = 0
        while len(data) - at >= _HEAD.size:
            size, check = _HEAD.unpack_from(data, at)
            body = data[at + _HEAD.size : at + _HEAD.size + size]
            if len(body) < size or crc32(body) != check:
                break
            at += _HEAD.size + size
            with suppress(DecodeError):
                one = msgpack.decode(body, type=Unsent)
                if number_of(one.life) < number_of(me):
                    found[one.origin, one.seq] = one
        return list(found.values())

    def clear(self) -> None:
        """Something was made of all of them, unless others are being added."""
        if self._file < 0:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Returning:
    """From a return to the turn in which something is made of what the group never had."""

    def __init__(self, process: str, folder: Path, engine: Executor, says: NodeLog) -> None:
        self._process: Final = process
        self._file: Final = UnsentFile(folder)
        self._engine: Final = engine
        self._says: Final = says
        self.unsure = True
        """There may be some of which nothing has been made."""
        self._sends = False
        """Of all that there are something is made in the turn that is under way."""

    def decided(self, orphan: Orphan | None) -> None:
        """The process is about to return. None: now, and there are no more of them."""
        try:
            if orphan is None:
                self._file.sync()
            elif self._is_own(place := orphan.operation.dot):
                self._file.add(Unsent(orphan.life, *place, orphan.operation.payload))
        except OSError as error:
            self._says.error("operations that the group never had may come to nothing", why=str(error))

    def told(self, orphan: Orphaned) -> None:
        """It has returned."""
        kept, lost = again(orphan.payload)
        if not self._is_own((orphan.origin, orphan.seq)):
            lost = [*kept, *lost]
        if lost:
            self._engine.orphans.append((orphan.origin, orphan.seq, lost))
        self.unsure = True

    def act(self) -> None:
        """In a turn in which operations can be made."""
        if self.unsure:
            self.unsure, self._sends = False, True
            for one in self._file.read(self._engine.state.me):
                if kept := again(one.payload)[0]:
                    self._engine.send_again((one.origin, one.seq), kept)

    def acted(self, sent: "asyncio.Future[Sequence[Sent]] | None") -> None:
        """The turn is over. `sent`: when its operations are in the log."""
        if self._sends:
            self._sends = False
            if sent is None:
                self._file.clear()
            else:
                sent.add_done_callback(self._made)

    def _made(self, sent: "asyncio.Future[Sequence[Sent]]") -> None:
        if sent.cancelled() or sent.exception() is not None:
            self.unsure = True
        elif not self.unsure:
            self._file.clear()

    def close(self) -> None:
        self._file.close()

    def _is_own(self, place: Place) -> bool:
        return process_of(place[0]) == self._process
