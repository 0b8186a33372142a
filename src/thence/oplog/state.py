"""What the records of a log add up to.

Whole segments are thrown away from the head of the log, so whatever their marks said must not live in
them alone. Each segment's header therefore carries the sum of everything before it, and the state at any
record is the header's plus the records in between. Reopening starts from the last header.

Members are indices, as everywhere inside a node. The names behind them are part of the state: a log that
is opened again hands its indices back as it got them.
"""

from typing import NamedTuple

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import PeerError
from thence.core.varint import Reader, put
from thence.oplog.record import Boot, Mark, MemberRecord, Note, SnapshotRef, StableRecord, Taken

SNAPSHOTS_KEPT = 2
"""The newest, and one to fall back on if that turns out to be damaged."""


class Kept(NamedTuple):
    """A snapshot that counts: `position` names its file."""

    position: int
    covers: int
    installed: bool
    """Came from a peer and brought messages that this log does not hold: nothing older can replace it."""


class ReplayedState:
    __slots__ = (
        "incarnation",
        "last_message",
        "machine",
        "names",
        "notes",
        "snapshots",
        "stable",
        "taken",
        "vector",
    )

    def __init__(self) -> None:
        self.names: list[str] = []
        self.vector: list[int] = []
        self.stable: list[int] = []
        self.last_message = 0
        """Position of the newest message."""
        self.taken = 0
        self.incarnation = 0
        self.machine = b""
        self.notes: dict[int, bytes] = {}
        self.snapshots: list[Kept] = []

    def deliver(self, position: int, dot: int) -> None:
        """A message was appended. Counters of an origin only grow; that they have no gaps is up to the
        order, which knows the addressees of messages."""
        origin, seq = dot & ORIGIN_MASK, dot >> ORIGIN_BITS
        if origin >= len(self.vector):
            raise ValueError(f"a message of member {origin}, who has no name")
        if seq <= self.vector[origin]:
            raise ValueError(f"message {self.names[origin]}:{seq} comes after {self.vector[origin]}")
        self.vector[origin] = seq
        self.last_message = position

    def apply(self, position: int, mark: Mark) -> dict[int, int]:
        """Count a mark. Returns where the vector jumped: origin -> counter that the log holds nothing
        below of."""
        if isinstance(mark, MemberRecord):
            if mark.number != len(self.names):
                raise ValueError(f"member {mark.number} after {len(self.names)} members")
            self.names.append(mark.name)
            self.vector.append(0)
            self.stable.append(0)
        elif isinstance(mark, StableRecord):
            for origin, seq in mark.changed:
                self._known(origin)
                self.stable[origin] = max(self.stable[origin], seq)
        elif isinstance(mark, Taken):
            self.taken = max(self.taken, mark.upto)
        elif isinstance(mark, Boot):
            self.incarnation, self.machine = mark.incarnation, mark.machine
        elif isinstance(mark, Note):
            self.notes[mark.key] = mark.data
        elif isinstance(mark, SnapshotRef):
            return self._refer(position, mark)
        return {}

    def _refer(self, position: int, ref: SnapshotRef) -> dict[int, int]:
        jumps = {}
        for origin, seq in enumerate(ref.clock):
            self._known(origin)
            if seq > self.vector[origin]:
                self.vector[origin] = jumps[origin] = seq
        self.taken = max(self.taken, ref.covers)
        self.snapshots.append(Kept(ref.file or position, ref.covers, bool(jumps)))
        del self.snapshots[:-SNAPSHOTS_KEPT]
        return jumps

    def _known(self, origin: int) -> None:
        if origin >= len(self.names):
            raise ValueError(f"a mark about member {origin}, who has no name")

    def encode(self) -> bytes:
        out = bytearray()
        put(out, len(self.names))
        for name, seq, stable in zip(self.names, self.vector, self.stable, strict=True):
            _put_bytes(out, name.encode())
            put(out, seq)
            put(out, stable)
        put(out, self.last_message)
        put(out, self.taken)
        put(out, self.incarnation)
        _put_bytes(out, self.machine)
        put(out, len(self.notes))
        for key in sorted(self.notes):
            put(out, key)
            _put_bytes(out, self.notes[key])
        put(out, len(self.snapshots))
        for kept in self.snapshots:
            put(out, kept.position)
            put(out, kept.covers)
            put(out, kept.installed)
        return bytes(out)

    @classmethod
    def decode(cls, data: bytes) -> "ReplayedState":
        try:
            return cls._take(Reader(data, 0, len(data)))
        except (PeerError, UnicodeDecodeError) as error:
            raise ValueError(f"a state that cannot be read ({error})") from error

    @classmethod
    def _take(cls, reader: Reader) -> "ReplayedState":
        state = cls()
        for _ in range(reader.take()):
            state.names.append(reader.take_bytes(reader.take()).decode())
            state.vector.append(reader.take())
            state.stable.append(reader.take())
        state.last_message = reader.take()
        state.taken = reader.take()
        state.incarnation = reader.take()
        state.machine = reader.take_bytes(reader.take())
        for _ in range(reader.take()):
            key = reader.take()
            state.notes[key] = reader.take_bytes(reader.take())
        for _ in range(reader.take()):
            state.snapshots.append(Kept(reader.take(), reader.take(), bool(reader.take())))
        if reader.at != reader.end:
            raise ValueError("a state with bytes left over")
        return state


def _put_bytes(out: bytearray, data: bytes) -> None:
    put(out, len(data))
    out += data


def covers(vector: "list[int] | tuple[int, ...]", other: "list[int] | tuple[int, ...]") -> bool:
    """Has a member that delivered `vector` everything in `other`? Entries that are not there are 0."""
    if len(other) > len(vector) and any(other[len(vector) :]):
        return False
    return all(map(int.__ge__, vector, other))
