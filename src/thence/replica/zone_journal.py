"""What happened to a process of a topology, in its log; and how it comes back from there.

Everything is a message record of one member (`HAPPENED`), counted from 1 on, and read in order: an own
message, an item of a neighbour, a word, what the program took, what was closed, and what was passed on then.
Whatever was sent in consequence is not there: it follows (`zone_core`). A snapshot of the log is the whole
core with the state of the program, so that what is before it may go.

    data = kind (1 byte) fields as msgpack
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from thence.core.codec import Codec
from thence.core.dots import pack
from thence.core.message import Message
from thence.oplog.log import OpLog
from thence.oplog.record import Stored
from thence.replica.zone_core import KeptCore

HAPPENED: Final = "happened"

END, FILE = 1, 2
"""Keys of notes: why this process may not go on; the digest of its topology."""


class Own(NamedTuple):
    dest: tuple[int, ...]
    payload: bytes
    at: int


class OwnRun(NamedTuple):
    """Several operations as one message."""

    dest: tuple[int, ...]
    payloads: tuple[bytes, ...]
    at: int


class Came(NamedTuple):
    peer: int
    item: bytes


class ZoneHeard(NamedTuple):
    peer: int
    hops: tuple[int, ...]


class Took(NamedTuple):
    messages: int
    at: int


class Closes(NamedTuple):
    who: int


class Tells(NamedTuple):
    passes: tuple[tuple[int, bytes], ...]


Happened = Own | Came | ZoneHeard | Took | Closes | Tells | OwnRun

KINDS: Final[tuple[type[Any], ...]] = (Own, Came, ZoneHeard, Took, Closes, Tells, OwnRun)
"""New ones go to the end."""
KIND_OF: Final = {kind: bytes((at,)) for at, kind in enumerate(KINDS)}


class ZoneKept(NamedTuple):
    core: KeptCore
    state: bytes
    """The program's."""


class ZoneJournal:
    """The log of one process."""

    __slots__ = ("_count", "_decoders", "_encoder", "_kept", "_log", "_member")

    def __init__(self, log: OpLog, codec: Codec) -> None:
        self._log: Final = log
        self._member: Final = log.member(HAPPENED)
        self._count = log.vector[self._member] if log.vector else 0
        self._encoder: Final = msgspec.msgpack.Encoder(enc_hook=codec.encode)
        self._decoders: Final = [msgspec.msgpack.Decoder(kind) for kind in KINDS]

        def message(kind: type[Message], data: bytes) -> Any:  # noqa: ARG001
            return codec.decode(data)

        self._kept: Final = msgspec.msgpack.Decoder(ZoneKept, dec_hook=message)

    def note(self, what: Happened) -> int:
        """Its position."""
        self._count += 1
        data = KIND_OF[type(what)] + self._encoder.encode(what)
        return self._log.append(pack(self._member, self._count), data)

    def ends(self, why: str) -> None:
        self._log.note(END, why.encode())

    def belongs(self, topology: bytes) -> bool:
        """Was this log begun with this topology? An empty one is, from now on."""
        known = self._log.notes.get(FILE)
        if known is None:
            self._log.note(FILE, topology)
        return known is None or known == topology

    @property
    def ended(self) -> str:
        return self._log.notes.get(END, b"").decode()

    def keep(self, core: KeptCore, state: bytes, now: int) -> None:
        """Write all of it down, and let go of what is before. Everything is committed."""
        log = self._log
        log.mark_taken(log.tail)
        log.mark_stable(log.vector)
        log.sync(now)
        log.snapshot(log.tail, log.vector, self._encoder.encode(ZoneKept(core, state)), now)
        log.collect(now)

    def read(self) -> tuple[ZoneKept | None, int]:
        """What was written down last, and the position that the log is to be read from."""
        snapshot = self._log.load()
        if snapshot is None:
            return None, self._log.head
        return self._kept.decode(snapshot.data), snapshot.covers

    def happened(self, after: int) -> Iterator[tuple[int, Happened]]:
        """What was written after that, with positions."""
        for position, record in self._log.records(after):
            if isinstance(record, Stored):
                yield position, self._decoders[record.data[0]].decode(memoryview(record.data)[1:])
