"""A node's log in a simulated overlay on a disk that forgets what was not synced: the real log and bytes.

Committed and synced with every step, before anything of it leaves the node: so whatever another node or the
trace has seen of this one is there after a crash of the process or of the machine, and the node comes back as
the same member.
"""

from collections.abc import Iterator, Sequence
from random import Random

from thence.core.codec import Codec
from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.message import Message
from thence.oplog.policy import DiskSync
from thence.oplog.settings import LogSettings
from thence.replica.history import LogHistory
from thence.sim.disk import Disk
from thence.sim.overlay_history import MemoryHistory
from thence.sim.shelf import opened

SETTINGS = LogSettings(sync="always", segment_bytes=1 << 14)
"""Small segments, so that short runs have several."""


class DiskHistory(MemoryHistory):
    """In the place of a log in memory; what it says comes from the disk."""

    __slots__ = ("_codec", "_disk", "_log", "_names", "_random", "_read")

    def __init__(self, size: int, codec: Codec, name: str, seed: int) -> None:
        super().__init__(size)
        self._codec = codec
        self._names = [f"n{node}" for node in range(size)]
        self._disk = Disk(Random(f"{seed}/disk/{name}"))
        self._random = Random(f"{seed}/disk")
        self._open(0)

    def _open(self, now: int) -> None:
        log = opened(self._disk, SETTINGS, 1, now)
        for name in self._names:
            log.member(name)
        log.sync(now)
        self._log = log
        self._read = LogHistory(log, self._codec)
        self._vector = [*log.vector] + [0] * (len(self._names) - len(log.vector))

    def append(self, message: Message, now: int) -> None:  # noqa: ARG002
        self._vector[message.dot & ORIGIN_MASK] = message.dot >> ORIGIN_BITS
        self._log.append(message.dot, self._codec.encode(message))

    def commit(self, now: int) -> None:
        for effect in self._log.commit(now):
            if isinstance(effect, DiskSync):
                self._disk.sync(effect.file)
                self._log.synced(effect, now)

    def crash(self, now: int) -> None:
        """The process dies, or the whole machine, which forgets what was not synced."""
        if self._random.random() < 0.5:
            self._disk.crash(holes=True)
        self._open(now)

    def reaches(self, vector: Sequence[int]) -> bool:
        return self._read.reaches(vector)

    def missing(self, vector: Sequence[int]) -> Iterator[Message]:
        return self._read.missing(vector)
