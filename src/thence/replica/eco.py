"""A durable replica over a tree whose log may forget, because states stand in for what is gone.

What `spread/eco_sync_tree.py` needs of a node (`core.states.States`), over the operation log. The application
takes every message as soon as it is written down, and its state after all of them is kept in the log's
snapshots, tagged with the clock of what went into it: now and then (every half `ttl_us`), and whenever a
peer's state was merged into it. The log forgets what is older than `ttl_us` and stands in a snapshot.

Invariants. A state that came from a peer counts when the merged one is in a snapshot, durable; until then
nothing has changed, neither here nor in the application. Whatever the node had stays: own messages that were
sent while a state was under way are in the log, and go to whoever lacks them. Messages that a state stands in
for are not delivered any more.
"""

from typing import Final

from thence.core.dots import newest_of
from thence.core.errors import StorageError
from thence.core.machine import Wake
from thence.core.message import Message
from thence.core.states import Keeper
from thence.core.storage import UnwrittenError
from thence.oplog.log import Collected, OpLog
from thence.oplog.policy import Sync
from thence.replica.durable import INBOX_MAX
from thence.replica.history import understood
from thence.replica.overlay import Overlay
from thence.replica.replica import Delivered
from thence.replica.tree import StepHistory, TreeReplica
from thence.trace.recorder import INSTALL, Recorder


class LogStates:
    """The states of a node as its spread sees them; the replica comes after the spread."""

    __slots__ = ("replica",)

    def __init__(self) -> None:
        self.replica: EcoReplica | None = None

    def newest(self) -> tuple[tuple[int, ...], bytes] | None:
        assert self.replica is not None
        return self.replica.newest_state()

    def install(self, clock: tuple[int, ...], state: bytes, now: int) -> None:
        assert self.replica is not None
        self.replica.install(clock, state, now)


class EcoReplica(TreeReplica):
    __slots__ = ("_keeper", "_owed", "_snapshot_at", "_snapshot_every_us", "installs")

    def __init__(
        self,
        me: int,
        size: int,
        overlay: Overlay,
        recorder: Recorder,
        log: OpLog,
        history: StepHistory,
        states: LogStates,
        keeper: Keeper,
        ttl_us: int,
        now: int,
        inbox_max: int = INBOX_MAX,
    ) -> None:
        self._keeper: Final = keeper
        self._snapshot_every_us: Final = ttl_us // 2
        self._snapshot_at = now + ttl_us // 2
        self._owed: list[Sync | Wake] = []
        self.installs = 0
        super().__init__(me, size, overlay, recorder, log, history, log.taken, inbox_max)
        states.replica = self
        self._restore()

    def _restore(self) -> None:
        """What the application had, from the newest snapshot and what it took since."""
        snapshot = self._log.load()
        after = self._log.head
        if snapshot is not None:
            self._keeper.adopt(snapshot.data)
            after = snapshot.covers
        for stored in self._log.since(after):
            if stored.position <= self.taken or self._own(stored.dot):
                self._keeper.apply(understood(self._codec, stored))

    def _recall_state(self, clock: tuple[int, ...], kept: list[int]) -> None:
        kept[:] = map(max, kept, _wide(clock, self._size))
        self._jump(clock)

    def _jump(self, clock: tuple[int, ...]) -> None:
        """The client has seen everything up to there."""
        for tagger in (self._tagger, self._frontier):
            known = tuple(map(max, tagger.context(), _wide(clock, self._size)))
            tagger.resume(known[self._me], known)

    # The application

    def take(self, now: int) -> Delivered:
        delivered = super().take(now)
        self._keeper.apply(delivered.message)
        return delivered

    def _sent(self, message: Message, now: int) -> Delivered:
        delivered = super()._sent(message, now)
        self._keeper.apply(message)
        return delivered

    # States

    def newest_state(self) -> tuple[tuple[int, ...], bytes] | None:
        snapshot = self._log.load()
        if snapshot is None:
            return None
        place = {name: index for index, name in enumerate(self._log.names)}
        clock = [0] * self._size
        for name, seq in snapshot.clock:
            clock[place[name]] = seq
        return tuple(clock), snapshot.data

    def install(self, clock: tuple[int, ...], state: bytes, now: int) -> None:
        """In the middle of a step. What came before it in the step is written down first."""
        try:
            self._settle_down(now)
            merged = self._keeper.merged(state)
            had = _wide(self._log.vector, self._size)
            self._log.snapshot(self._log.tail, tuple(map(max, had, clock)), merged, now)
        except StorageError as error:
            raise UnwrittenError(f"a peer's state cannot be kept: {error}") from error
        self._keeper.adopt(merged)
        self._kept(now)
        self._jump(clock)
        self._segment = -1  # what the log's segments are understood by has changed
        self.installs += 1
        frontier = newest_of(clock)
        self._recorder.record_deps(INSTALL, 0, frontier, now)

    def _settle_down(self, now: int) -> None:
        """Everything is committed, and the application has taken it. (Before it is synced, if the policy says
        `always`: the snapshot that follows syncs it, and nothing of this step has left by then.)"""
        self._owed += super().commit(now)
        while self.inbox:
            self.take(now)
        self._owed += super().commit(now)
        while self._noting:  # a segment has begun: its note must be in it before anything else is
            self._owed += super().commit(now)

    def _kept(self, now: int) -> None:
        self.taken = max(self.taken, self._log.taken)
        self._marked = self._log.taken
        self._snapshot_at = now + self._snapshot_every_us

    def collect(self, now: int) -> Collected:
        """A snapshot, if it is time; and what it stands in for may go."""
        if now >= self._snapshot_at and not self.regaining:
            self._settle_down(now)
            self._log.snapshot(self._log.tail, self._log.vector, self._keeper.encode(), now)
            self._kept(now)
        return super().collect(now)

    def commit(self, now: int) -> list[Sync | Wake]:
        owed, self._owed = self._owed, []
        return [*owed, *super().commit(now)]


def _wide(clock: tuple[int, ...], size: int) -> tuple[int, ...]:
    return tuple(clock) + (0,) * (size - len(clock))
