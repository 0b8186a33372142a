"""A replica over a tree whose log may forget, because states of the program stand in for what is gone.

What `spread/eco_sync_tree.py` needs of a node (`core.states.States`), over the operation log. The program
takes every message as soon as it is written down, and its state after all of them is kept in the log's
snapshots, tagged with the clock of what went into it: now and then (every half `ttl_us`), and whenever a
peer's state was merged into it. The log forgets what is older than `ttl_us` and stands in a snapshot.

Invariants. A state that came from a peer counts when the merged one is in a snapshot, durable. Until then
nothing has changed here; the program may have merged it, and begins anew from what the log has if the
snapshot cannot be written (the machine is built anew). Whatever the node had stays: operations that the
state lacks are in the program, since it *merges*, and in the log, and go to peers that lack them. Messages
that a state stands in for are not delivered any more.
"""

from collections.abc import Callable
from typing import Final

from thence.core.errors import StorageError
from thence.core.machine import Wake
from thence.core.storage import UnwrittenError
from thence.oplog.log import Collected, OpLog
from thence.oplog.policy import DiskSync
from thence.replica.group.surroundings import Diary, Merging
from thence.replica.overlay import Overlay
from thence.replica.tree import TreeReplica
from thence.replica.tree_history import StepHistory, wide
from thence.replica.tree_inbox import INBOX_MAX
from thence.trace.recorder import INSTALL


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
    __slots__ = ("_owed", "_snapshot_at", "_snapshot_every_us", "installs")

    def __init__(
        self,
        me: int,
        names: list[str],
        overlay: Overlay,
        diary: Diary,
        log: OpLog,
        history: StepHistory,
        application: Merging,
        called: Callable[[int], str],
        states: LogStates,
        ttl_us: int,
        now: int,
        inbox_max: int = INBOX_MAX,
    ) -> None:
        self._snapshot_every_us: Final = ttl_us // 2
        self._snapshot_at = now + ttl_us // 2
        self._owed: list[DiskSync | Wake] = []
        self.installs = 0
        super().__init__(me, names, overlay, diary, log, history, application, called, inbox_max)
        states.replica = self

    @property
    def forgets(self) -> bool:
        return True

    def newest_state(self) -> tuple[tuple[int, ...], bytes] | None:
        snapshot = self._log.load()
        if snapshot is None:
            return None
        place = {name: index for index, name in enumerate(self._names)}
        clock = [0] * len(self._names)
        for name, seq in snapshot.clock:
            clock[place[name]] = seq
        return tuple(clock), snapshot.data

    def install(self, clock: tuple[int, ...], state: bytes, now: int) -> None:
        """In the middle of a step. What came before it in the step is written down first."""
        try:
            self._settle_down(now)
            self._application.merge(state)
            size = len(self._names)
            both = tuple(map(max, wide(self._log.vector, size), wide(clock, size)))
            self._log.snapshot(self._log.tail, both, self._application.state(), now)
        except StorageError as error:
            raise UnwrittenError(f"a peer's state cannot be kept: {error}") from error
        self._kept(now)
        self._seen[:] = map(max, self._seen, wide(clock, size))
        self.installs += 1
        # As the log will tell it again.
        self._diary.row(INSTALL, None, self._places(both), now, size=len(state))

    def _settle_down(self, now: int) -> None:
        """Everything is committed, and the application has taken it. (Before it is synced, if the policy says
        `always`: the snapshot that follows syncs it, and nothing of this step has left by then.)"""
        self._owed += super().commit(now)
        while self.inbox:
            self.take(now)
        self._owed += super().commit(now)

    def _kept(self, now: int) -> None:
        self.taken = max(self.taken, self._log.taken)
        self._marked = self._log.taken
        self._snapshot_at = now + self._snapshot_every_us

    def collect(self, now: int) -> Collected:
        """A snapshot, if it is time; and what it stands in for may go."""
        if now >= self._snapshot_at:
            self._settle_down(now)
            self._log.snapshot(self._log.tail, self._log.vector, self._application.state(), now)
            self._kept(now)
        return super().collect(now)

    def commit(self, now: int) -> list[DiskSync | Wake]:
        owed, self._owed = self._owed, []
        return [*owed, *super().commit(now)]
