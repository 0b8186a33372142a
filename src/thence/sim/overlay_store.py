"""What is left of a node of a simulated tree while it is down: disk, rows, the state of its application."""

from dataclasses import replace
from random import Random

from thence.core.machine import Effect
from thence.core.message import Message
from thence.oplog.policy import Policy
from thence.oplog.settings import Settings as LogSettings
from thence.sim.disk import Disk
from thence.sim.overlay_app import Registers
from thence.sim.overlay_settings import OverlaySettings
from thence.sim.step_node import Make, StepNode
from thence.trace.recorder import Recorder


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


class Store:
    """What is left of a node while it is down: its disk and its rows (`StepNode`); and how its disk fails."""

    def __init__(
        self,
        node: int,
        names: list[str],
        columns: Recorder,
        settings: OverlaySettings,
        eco: bool,
        make: Make,
        policy: Policy = "always",
    ) -> None:
        self.node = node
        self.random = Random(f"{settings.seed}/store/{node}")
        self.fell_to = 0
        self.given_back = 0
        """Own messages that others had and this node had not."""
        ttl_us = max(4, round(settings.ttl_ms * 1000))
        self.ttl_us = ttl_us
        self.collect_every_us = ttl_us // 4 if eco else 1 << 60
        self._disk = Disk(Random(f"{settings.seed}/disk/{node}"))
        self._full_at = 1 << 62
        self.was_full = False
        if self.random.random() < 0.3:
            self._full_at = self.random.randrange(settings.sending_us, settings.until_us + 1)
        small = self.random.choice((300, 2000, 1 << 14))
        log_settings = LogSettings(sync=policy, segment_bytes=small)
        if eco:
            log_settings = replace(log_settings, keep_us=ttl_us, segment_age_us=ttl_us // 4)
        self._policy = policy
        self.steps = StepNode(node, names, columns, make, self._disk, log_settings)
        self.steps.regained = self._regained

    def _regained(self, count: int) -> None:
        self.given_back += count - self.fell_to

    @property
    def vector(self) -> tuple[int, ...]:
        return self.steps.log.vector

    def boot(self, now: int) -> list[Effect]:
        """The process starts, perhaps after a power cut."""
        if self.steps.boots:
            self.steps.crash(self.random.random() < (0.5 if self._policy == "always" else 0.9))
        self.heal()
        effects = self.steps.boot(now)
        self.fell_to = self.vector[self.node]
        return effects

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
