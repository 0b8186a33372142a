"""What is left of a node of a simulated tree while it is down: disk, rows, the state of its application."""

from collections import deque
from random import Random

from thence.core.machine import Wake
from thence.core.message import Message
from thence.oplog.log import OpLog
from thence.oplog.policy import Policy, Sync
from thence.oplog.settings import Settings as LogSettings
from thence.sim.disk import Disk
from thence.sim.overlay_app import Registers
from thence.sim.overlay_settings import OverlaySettings
from thence.sim.step_rows import StepRows
from thence.trace.recorder import INSTALL, SEND


class RegisterKeeper:
    """`Registers` as a node's application."""

    __slots__ = ("app",)

    def __init__(self, size: int) -> None:
        self.app = Registers(size)

    def apply(self, message: Message) -> None:
        self.app.apply(message)

    def encode(self) -> bytes:
        return self.app.encode()

    def merged(self, state: bytes) -> bytes:
        both = Registers(len(self.app.registers))
        both.registers[:] = self.app.registers
        both.merge(state)
        return both.encode()

    def adopt(self, state: bytes) -> None:
        self.app = Registers(len(self.app.registers))
        self.app.merge(state)


class Rows(StepRows):
    __slots__ = ()

    @property
    def waiting(self) -> int:
        return len(self._rows)

    def lose(self) -> None:
        """The node is gone, and its application with it, which is on the same disk: what that had taken and
        was not marked it has not seen. Whatever was sent or installed took the marks before it along."""
        kinds = [row[0] for row in self._rows]
        written = max([place for place, kind in enumerate(kinds) if kind in (SEND, INSTALL)], default=-1)
        del self._rows[written + 1 :]
        self.settle()


class Store:
    """What is left of a node while it is down: its disk, its trace, and what its application has taken."""

    def __init__(
        self,
        node: int,
        names: list[str],
        rows: Rows,
        settings: OverlaySettings,
        eco: bool,
        policy: Policy = "always",
    ) -> None:
        self.node = node
        self.rows = rows
        self.random = Random(f"{settings.seed}/store/{node}")
        self.taken = 0
        self.boots = 0
        self.eco = eco
        self.forgetful = False
        """It may have forgotten what it sent: what is after this counter."""
        self.fell_to = 0
        self.given_back = 0
        """Own messages that others had and this node had not."""
        ttl_us = max(4, round(settings.ttl_ms * 1000))
        self.ttl_us = ttl_us
        self.collect_every_us = ttl_us // 4 if eco else 1 << 60
        self.collects = eco or policy == "always"
        """Where machines forget what was stable, somebody must still have it."""
        self._names = names
        self._disk = Disk(Random(f"{settings.seed}/disk/{node}"))
        self._full_at = 1 << 62
        self.was_full = False
        if self.random.random() < 0.3:
            self._full_at = self.random.randrange(settings.sending_us, settings.until_us + 1)
        small = self.random.choice((300, 2000, 1 << 14))
        if eco:
            self._settings = LogSettings(
                sync=policy, segment_bytes=small, keep_us=ttl_us, segment_age_us=ttl_us // 4
            )
        else:
            self._settings = LogSettings(sync=policy, segment_bytes=small)

    @property
    def vector(self) -> tuple[int, ...]:
        return self.log.vector

    def open(self, now: int) -> OpLog:
        if self.boots:
            self.rows.lose() if self.eco else self.rows.forget()
            if self.random.random() < (0.5 if self._settings.sync == "always" else 0.9):
                self._disk.crash(holes=True)
                self.forgetful = self.forgetful or self._settings.sync != "always"
        self.boots += 1
        self.heal()
        self.log = OpLog.open(self._disk, self._settings, now, power_lost=True)
        self.log.boot(1, b"simulated", now)
        for name in self._names:
            self.log.member(name)
        self.log.sync(now)
        if self.eco or self.forgetful:
            self.taken = min(self.taken, self.log.taken) if not self.eco else self.log.taken
        self.fell_to = self.log.vector[self.node]
        if self.boots > 1 and not self.forgetful:
            self.rows.complete(self.log, now)
        return self.log

    def sync(self, effects: list[Sync | Wake], now: int) -> None:
        """What is asked for, and what is asked for when that is done."""
        asked = deque(effects)
        while asked:
            effect = asked.popleft()
            if isinstance(effect, Sync):
                self._disk.sync(effect.file)
                asked += self.log.synced(effect, now)

    def fill(self, now: int) -> None:
        """Its hour has come: almost nothing fits any more."""
        if now >= self._full_at:
            self._full_at = 1 << 62
            self.was_full = True
            room = sum(map(self._disk.size, self._disk.names()))
            self._disk.capacity = room + self.random.randrange(200)

    def heal(self) -> None:
        self._disk.capacity = None

    @property
    def size_bytes(self) -> int:
        return sum(map(self._disk.size, self._disk.names()))
