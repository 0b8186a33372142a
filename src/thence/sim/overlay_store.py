"""What is left of a simulated node of a tree while it is down: its disk, its rows, its program.

And how its disk fails: a machine that goes down forgets what was not synced, and a disk may be full.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.groups import Place, incarnation
from thence.core.machine import NEVER
from thence.oplog.policy import Policy
from thence.oplog.settings import LogSettings
from thence.order.engines import PROBABILISTIC
from thence.replica.eco import EcoReplica
from thence.replica.group.surroundings import Closed, Diary
from thence.replica.live_tree import open_tree
from thence.replica.open_tree import OpenTree
from thence.replica.step_outputs import Rows
from thence.sim.disk import Disk
from thence.sim.overlay_program import NewestProgram, RegisterProgram
from thence.sim.overlay_settings import OverlaySettings
from thence.sim.shelf import opened
from thence.trace.recorder import DELIVER, INSTALL, SEND, Recorder

if TYPE_CHECKING:
    from thence.sim.overlay_durable import DurableOverlayRun

TOLD_AGAIN: Final = frozenset({SEND, DELIVER})
"""Of these the log tells after a restart what it holds."""

SYNCS_US: Final = (0, 0, 300, 3_000, 30_000, 300_000, 1_500_000)
"""How long a slow disk's syncs take."""

RUN_SIZES: Final = (1, 1, 2, 3, 20)
LARGE_BYTES: Final = (900, 2_500, 8_000)
"""Above most packets of storms, and windows."""

Row = tuple[int, int, tuple[int, ...] | None, int]
"""Kind, dot, context, time."""


class StepTrace:
    """`steps.Trace`, and the diary of a node's first incarnation. Rows of a step are written when it is
    released; while the log is told `again`, those that are there are passed over. Of members that came about
    when a disk forgot something there are none."""

    waiting = False
    writes = True
    ended = False

    def __init__(self, into: Recorder, names: Sequence[str]) -> None:
        self._into: Final = into
        self._index: Final = {name: index for index, name in enumerate(names)}
        self._fresh: list[Row] = []
        self._told: dict[tuple[int, int], int] = {}
        self._taken: dict[tuple[int, int], int] = {}
        """Of steps that are committed, and perhaps wait for a sync."""
        self._waiting = 0
        """Rows of these that do."""
        self.again = False
        self.state_bytes = 0
        """Of the states that came."""

    def is_ahead(self, count: Callable[[str], int]) -> bool:  # noqa: ARG002
        return False

    def has_row(self, kind: int, about: Place) -> bool:
        if about[0] not in self._index:
            return True
        told = self._told.get((kind, self._index[about[0]]), 0)
        return self.again and about[1] <= told

    def row(
        self,
        kind: int,
        about: Place | None,
        deps: tuple[Place, ...] | None,
        now: int,
        carries: tuple[Place, ...] = (),  # noqa: ARG002
        *,
        size: int = 0,
    ) -> None:
        index = self._index
        if about is not None and about[0] not in index:
            return
        dot = 0 if about is None else pack(index[about[0]], about[1])
        key = kind, dot & ORIGIN_MASK
        told = max(self._told.get(key, 0), self._taken.get(key, 0))
        if self.again and kind in TOLD_AGAIN and dot >> ORIGIN_BITS <= told:
            return
        if kind == INSTALL:
            self.state_bytes += size
        past = None if deps is None else [pack(index[name], seq) for name, seq in deps if name in index]
        self._fresh.append((kind, dot, None if past is None else tuple(sorted(past)), now))

    @property
    def gathered(self) -> int:
        """Rows that are not written yet."""
        return len(self._fresh) + self._waiting

    def take(self) -> Rows:
        fresh, self._fresh = self._fresh, []
        self._waiting += len(fresh)
        for kind, dot, _, _ in fresh:
            key = kind, dot & ORIGIN_MASK
            self._taken[key] = max(self._taken.get(key, 0), dot >> ORIGIN_BITS)
        return [(self, fresh)] if fresh else []

    def write(self, rows: list[Row]) -> None:
        self._waiting -= len(rows)
        for kind, dot, deps, now in rows:
            if deps is None:
                self._into.record(kind, dot, now)
            else:
                self._into.record_deps(kind, dot, deps, now)
            key = kind, dot & ORIGIN_MASK
            self._told[key] = max(self._told.get(key, 0), dot >> ORIGIN_BITS)

    def take_back(self) -> None:
        self._fresh.clear()

    def crashed(self) -> None:
        """What waited for a sync is gone, and is told again from the log."""
        self._fresh.clear()
        self._taken.clear()
        self._waiting = 0

    def write_waiting(self) -> None:
        """Nothing ever waits."""


class Store:
    """Of one node."""

    def __init__(
        self,
        node: int,
        run: "DurableOverlayRun",
        columns: Recorder,
        settings: OverlaySettings,
        policy: Policy,
        slow: bool = False,
        runs: bool = False,
    ) -> None:
        self.node: Final = node
        self._run: Final = run
        self.random: Final = Random(f"{settings.seed}/store/{node}")
        self.disk: Final = Disk(Random(f"{settings.seed}/disk/{node}"))
        self.trace: Final = StepTrace(columns, run.names[: run.plan.size])
        self.program: Final = (
            NewestProgram() if settings.order == PROBABILISTIC else RegisterProgram(holds=run.kind.eco)
        )
        self.ttl_us: Final = max(4, round(settings.ttl_ms * 1000))
        self.collect_every_us: Final = self.ttl_us // 4 if run.kind.eco else 1 << 60
        self._slow: Final = Random(f"{settings.seed}/syncs/{node}") if slow else None
        self._runs: Final = Random(f"{settings.seed}/runs/{node}") if runs else None
        self._full_at = NEVER
        self.was_full = False
        self.fragments = 0
        """That it has sent."""
        if self.random.random() < 0.3:
            self._full_at = self.random.randrange(settings.sending_us, settings.until_us + 1)
        small = self.random.choice((300, 2000, 1 << 14))
        self.log_settings = LogSettings(sync=policy, segment_bytes=small)
        if run.kind.eco:
            self.log_settings = replace(
                self.log_settings, keep_us=self.ttl_us, segment_age_us=self.ttl_us // 4
            )
        self._policy: Final = policy
        self.boots = 0
        self.numbers = 0
        """Incarnations so far."""
        self.forgetful = False
        self._installs = 0
        """Of machines before the present one."""
        self.machine: OpenTree | None = None

    @property
    def name(self) -> str:
        return self._run.names[self.node]

    @property
    def installs(self) -> int:
        """States that stood in for messages."""
        replica = self.machine.replica if self.machine is not None else None
        return self._installs + (replica.installs if isinstance(replica, EcoReplica) else 0)

    @property
    def state_bytes(self) -> int:
        return self.trace.state_bytes

    @property
    def app(self) -> RegisterProgram:
        return self.program

    @property
    def vector(self) -> tuple[int, ...]:
        """By all names of the run: what the log has, not a machine whose last step could not be written."""
        log = self.machine.log if self.machine is not None else None
        counts = dict(zip(log.names, log.vector, strict=True)) if log is not None else {}
        return tuple([counts.get(name, 0) for name in self._run.names])

    @property
    def size_bytes(self) -> int:
        return sum(map(self.disk.size, self.disk.names()))

    def begin(self) -> bool:
        """The process starts, perhaps after a power cut; whether for the first time."""
        first = not self.boots
        self.boots += 1
        if not first and self.random.random() < (0.5 if self._policy == "always" else 0.9):
            self.disk.crash(holes=True)
            self.forgetful = self.forgetful or self._policy != "always"
        self.heal()
        self.trace.crashed()
        self.program.drop()
        return first

    def make(self, contacts: Sequence[str], now: int) -> OpenTree:
        log = opened(self.disk, self.log_settings, 1, now)
        self._installs = self.installs
        self.trace.again = self.program.again = True
        try:
            self.machine = open_tree(
                self.name, self.name, {name: name for name in contacts}, log,
                self._run.live_settings(self.node, self.ttl_us, now), self.program, self._diary,
                self._next_number, now, self.forgetful,
            )  # fmt: skip
        finally:
            self.trace.again = self.program.again = False
        log.sync(now)
        self.forgetful = False
        return self.machine

    def _diary(self, member: str) -> Diary:
        return self.trace if member == self.name else Closed()

    def _next_number(self) -> int:
        self.numbers += 1
        if self.numbers > 1:
            self._run.names.append(incarnation(self.name, self.numbers))
        return self.numbers

    def turn(self, payload: bytes) -> list[list[bytes]]:
        """What a program that is to send this asks for in one turn, call by call."""
        if (random := self._runs) is None:
            return [[payload]]
        calls = [[payload] * random.choice(RUN_SIZES) for _ in range(random.choice((1, 1, 2)))]
        if random.random() < 0.05:
            calls[0][-1] = random.randbytes(random.choice(LARGE_BYTES))
        return calls

    def sync_takes(self) -> int:
        """Of the disk, in microseconds."""
        return 0 if self._slow is None else self._slow.choice(SYNCS_US)

    def fill(self, now: int) -> None:
        """Its hour has come: almost nothing fits any more."""
        if now >= self._full_at:
            self._full_at = NEVER
            self.was_full = True
            self.disk.capacity = self.size_bytes + self.random.randrange(200)

    def heal(self) -> None:
        self.disk.capacity = None
