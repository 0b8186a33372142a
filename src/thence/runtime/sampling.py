"""What a node says of itself now and then, in its trace: `metric` rows, and the faults that were asked for.

They are in a file of their own (`NAME~metrics-N.jsonl`, N counting the starts): no step waits for them, no
recovery reads them, and they may be torn or absent. Their positions are in the upper half of a boot's, so
that they never meet those of the steps. A sample costs one status; a disk that takes none costs the samples.
"""

import asyncio
import re
from collections.abc import Callable
from json import dumps
from pathlib import Path
from typing import Final

from thence.core.groups import MARK
from thence.core.storage import DiskError
from thence.runtime.instruments import resident_bytes
from thence.runtime.logs import NodeLog
from thence.runtime.pacing import Clock
from thence.runtime.status import Status
from thence.runtime.tracing import LiveTrace, file_stem
from thence.trace.lines import POSITION_BITS, head_of

METRICS: Final[dict[str, Callable[[Status], int]]] = {
    "memory_bytes": lambda _: resident_bytes(),
    "disk_bytes": lambda status: status.log.bytes,
    "unstable_messages": lambda status: status.unstable,
    "held_messages": lambda status: status.held,
    "lag_messages": lambda status: max((member.lag for member in status.members), default=0),
    "sent_bytes_total": lambda status: sum(member.sent_bytes for member in status.members),
    "received_bytes_total": lambda status: sum(member.received_bytes for member in status.members),
    "log_syncs_total": lambda status: status.log.syncs,
}
"""Names that end with `_total` count since the start; the others are levels."""
TRACED: Final = ("delivered_bytes_total", "state_bytes_total")
"""What the trace counts: of messages that its program got, and of states that came."""


class Sampling:
    def __init__(
        self,
        folder: Path,
        name: str,
        every_us: int,
        clock: Clock,
        read: Callable[[], Status],
        log: NodeLog,
        run: str = "",
        traced: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        """`traced`: the values of `TRACED`."""
        member = f"{name}{MARK}metrics"
        number = _next(folder, member)
        self._file: Final = LiveTrace(folder, member, number)
        self._head: Final = head_of(name, run)
        self._next = number << POSITION_BITS | 1 << POSITION_BITS - 1
        self._every_s: Final = every_us / 1e6
        self._clock: Final = clock
        self._read: Final = read
        self._says: Final = log
        self._traced: Final = traced
        self._failed = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self.sample()
        self._timer = asyncio.get_running_loop().call_later(self._every_s, self.start)

    def sample(self) -> None:
        now, status = self._clock(), self._read()
        told: list[tuple[str, str, int | None]] = [
            ("metric", name, read(status)) for name, read in METRICS.items()
        ]
        told += [("metric", name, value) for name, value in zip(TRACED, self._traced(), strict=True)]
        self._write(told, now)

    def fault(self, what: str, peers: list[str]) -> None:
        """A cut, or a heal, of the links to these peers."""
        if what in FAULTS:
            self._write([(FAULTS[what], peer, None) for peer in peers], self._clock())

    def close(self) -> None:
        """With a last sample."""
        if self._timer is not None:
            self._timer.cancel()
        self.sample()
        try:
            self._file.close()
        except DiskError as error:
            self._lost(error)

    def _write(self, rows: list[tuple[str, str, int | None]], now: int) -> None:
        lines = []
        for kind, about, value in rows:
            told = "" if value is None else f',"seq":{value}'
            lines.append(
                f'{self._head}{self._next},"kind":"{kind}","origin":{dumps(about)}{told},"at_us":{now}}}\n'
            )
            self._next += 1
        if self._failed:
            return
        try:
            self._file.write("".join(lines).encode("ascii"))
        except DiskError as error:
            self._lost(error)

    def _lost(self, error: DiskError) -> None:
        """Samples are not worth a node: from here on there are none."""
        self._failed = True
        self._says.warn("no more samples in the trace", why=str(error))


FAULTS: Final = {"cut": "cut", "mend": "heal"}


def _next(folder: Path, member: str) -> int:
    """After all starts that wrote samples into this folder."""
    own = re.compile(re.escape(file_stem(member)) + r"-([0-9]+)\.jsonl")
    try:
        found = [int(match[1]) for path in folder.iterdir() if (match := own.fullmatch(path.name))]
    except OSError:
        found = []
    return 1 + max(found, default=0)
