"""The application of a simulated node: a register per member, its states, and when the log may forget.

Every member writes to a register of its own. A state holds, per member, the counter of its last write, a
checksum over all of its writes in order, and the last write itself. Two states merge member by member, the
one that is further ahead: what a merge by the application should be, and wrong as soon as one write was lost,
doubled or misplaced; the checksums tell.

`FakeApplication` takes snapshots and collects the log as section 3.4.3 of the ECO SYNC Tree document does:
messages that have been here for longer than the time to live go, if the newest snapshot covers them.
"""

from collections.abc import Sequence
from zlib import crc32

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, newest_of
from thence.core.errors import InvariantError
from thence.core.message import Message
from thence.core.varint import Reader, put
from thence.sim.overlay_history import MemoryHistory
from thence.trace.recorder import INSTALL, Recorder

Register = tuple[int, int, bytes]
"""Counter, checksum, last write."""

NOTHING: Register = (0, 0, b"")


class Registers:
    __slots__ = ("registers",)

    def __init__(self, size: int) -> None:
        self.registers: list[Register] = [NOTHING] * size

    @property
    def clock(self) -> tuple[int, ...]:
        return tuple([register[0] for register in self.registers])

    def apply(self, message: Message) -> None:
        origin, seq = message.dot & ORIGIN_MASK, message.dot >> ORIGIN_BITS
        before, checksum, _ = self.registers[origin]
        if seq != before + 1:
            raise InvariantError(f"write {seq} of member {origin} after {before}")
        self.registers[origin] = (seq, crc32(message.payload, checksum), message.payload)

    def encode(self) -> bytes:
        out = bytearray()
        for seq, checksum, payload in self.registers:
            put(out, seq)
            put(out, checksum)
            put(out, len(payload))
            out += payload
        return bytes(out)

    def merge(self, state: bytes) -> None:
        reader = Reader(state, 0, len(state))
        for origin, mine in enumerate(self.registers):
            seq, checksum = reader.take(), reader.take()
            payload = reader.take_bytes(reader.take())
            if seq == mine[0] and checksum != mine[1]:
                raise InvariantError(f"two histories of member {origin}")
            if seq > mine[0]:
                self.registers[origin] = (seq, checksum, payload)


class FakeApplication:
    """What survives a crash of its node: the newest snapshot, beside the log."""

    __slots__ = (
        "_collect_at", "_history", "_recorder", "_size", "_snapshot", "_snapshot_at", "_ttl_us", "app",
        "installs", "state_bytes",
    )  # fmt: skip

    def __init__(self, size: int, history: MemoryHistory, recorder: Recorder, ttl_us: int) -> None:
        self._size = size
        self._history = history
        self._recorder = recorder
        self._ttl_us = ttl_us
        self._snapshot: tuple[tuple[int, ...], bytes] | None = None
        self._snapshot_at = 0
        self._collect_at = 0
        self.app = Registers(size)
        self.installs = self.state_bytes = 0

    @property
    def size_bytes(self) -> int:
        """On disk."""
        return self._history.size_bytes + (len(self._snapshot[1]) if self._snapshot else 0)

    def restart(self) -> None:
        """From the snapshot and the log alone."""
        self.app = Registers(self._size)
        if self._snapshot is not None:
            self.app.merge(self._snapshot[1])
        for message in self._history.missing(self.app.clock):
            self.app.apply(message)

    def delivered(self, message: Message, now: int) -> None:
        self.app.apply(message)
        if now >= self._snapshot_at:
            self._snapshot_at = now + self._ttl_us // 2
            self._take_snapshot()
        if now >= self._collect_at and self._snapshot is not None:
            self._collect_at = now + self._ttl_us // 4
            self._history.collect(now - self._ttl_us, self._snapshot[0])

    def _take_snapshot(self) -> None:
        self._snapshot = (self.app.clock, self.app.encode())

    def newest(self) -> tuple[tuple[int, ...], bytes] | None:
        return self._snapshot

    def install(self, clock: Sequence[int], state: bytes, now: int) -> None:
        self.app.merge(state)
        self._history.install(clock)
        self._take_snapshot()
        self.installs += 1
        self.state_bytes += len(state)
        frontier = newest_of(clock)
        self._recorder.record_deps(INSTALL, 0, frontier, now)
