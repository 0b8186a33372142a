"""The operation log of one node.

Everything that a node delivered, in the order in which it did, together with the marks that say how far
others and the application have come (SYNC Tree and ECO SYNC Tree, §4.1.4 and §4.2.1; what differs from
them and why is in docs/protocols/oplog.md). It survives crashes: what was committed survives that of the
process, what was synced that of the machine.

    log = OpLog.open(files, Settings(), now)       # recovery; log.report says what it found
    log.boot(incarnation, machine_id, now)         # durable; positions from here on are new
    log.append(dot, encoded)                       # any number of these
    effects = log.commit(now)                      # one write; what to sync, when to wake
    ... for each Sync: files.sync(sync.file), then log.synced(sync, now) or log.sync_failed(sync, error, now)

Invariants: the log found after a crash is a prefix of what was committed and holds all that was synced; no
position is used twice; an error says whether what was asked for may turn up all the same.
"""

from contextlib import suppress
from typing import NamedTuple

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, Group
from thence.core.errors import StorageError, UsageError
from thence.core.machine import Wake
from thence.core.storage import DamageError, DiskError, Files, said
from thence.oplog.collection import removable
from thence.oplog.policy import Sync, SyncPolicy
from thence.oplog.reading import Vector
from thence.oplog.record import Member, Note, SnapshotRef, Stable, Taken
from thence.oplog.recovery import Recovered, recover
from thence.oplog.segment import INDEX, SNAPSHOT, file_name, position_of
from thence.oplog.settings import Settings
from thence.oplog.snapshots import Snapshot, encode_snapshot, read_snapshot, write_snapshot
from thence.oplog.state import covers
from thence.oplog.view import View
from thence.oplog.writer import Writer


class Collected(NamedTuple):
    segments: int
    bytes: int


class OpLog(View):
    """A log that is open."""

    __slots__ = ("_group", "_must", "_policy", "_settings", "report")

    def __init__(self, files: Files, settings: Settings, recovered: Recovered) -> None:
        super().__init__(
            files, recovered.segments, Writer(files, settings, recovered.segments, recovered.state)
        )
        self._settings = settings
        self._policy = SyncPolicy(settings.sync, settings.sync_interval_us)
        self._group = Group(recovered.state.names)
        self._must = False
        """What was gathered since the last commit has to be synced, whatever the policy."""
        self.report = recovered.report

    @classmethod
    def open(cls, files: Files, settings: Settings, now: int, power_lost: bool = False) -> "OpLog":
        """What is in the folder, checked; a new log if there is none. `power_lost`: the machine may have
        gone down since the log was last written, so its end may be torn in more than one place."""
        return cls(files, settings, recover(files, settings, power_lost, now))

    # Writing

    def boot(self, incarnation: int, machine: bytes, now: int) -> int:
        """Begin to write: as this incarnation, on a machine that has not gone down since it was given
        this name. Synced when it returns."""
        position = self._writer.boot(incarnation, machine)
        self._settle(now)
        return position

    def member(self, name: str) -> int:
        """The index that stands for a member, given out for good when it is committed."""
        with suppress(UsageError):
            return self._group.index(name)
        self._writer.begin()
        index = self._group.add(name)
        self._writer.mark(Member(index, name))
        return index

    def append(self, dot: int, data: bytes) -> int:
        """A message that was delivered here. Returns its position, which is its own once committed."""
        origin, seq, writer = dot & ORIGIN_MASK, dot >> ORIGIN_BITS, self._writer
        if origin >= len(self._group.names):
            raise UsageError(f"a message of member {origin}, who has no name")
        if seq <= writer.counter(origin):
            raise UsageError(f"{self._group.show(dot)} is in the log already, or something after it is")
        return writer.message(dot, data)

    def mark_stable(self, frontier: Vector) -> int | None:
        """Everything up to these counters has become stable."""
        stable = self._writer.state.stable
        changed = []
        for origin, seq in enumerate(frontier):
            if seq > (stable[origin] if origin < len(stable) else 0):
                if seq > self._writer.counter(origin):
                    raise UsageError(f"message {seq} of member {origin} is stable before it was delivered")
                changed.append((origin, seq))
        return self._writer.mark(Stable(tuple(changed))) if changed else None

    def mark_taken(self, upto: int) -> int | None:
        """The application will not ask again for what is at or below this position."""
        if upto > self._writer.gathered:
            raise UsageError(f"position {upto} was taken before it was committed")
        return self._writer.mark(Taken(upto)) if upto > self.taken else None

    def note(self, key: int, data: bytes) -> int:
        """Remember something of the node's own; the newest of its key is in `notes` from then on."""
        return self._writer.mark(Note(key, data))

    def insist(self) -> None:
        """What was gathered since the last commit must not be forgotten once it has left the node, whatever
        the policy says."""
        self._must = True

    def may_leave(self, position: int) -> bool:
        """Is so much durable that what follows from the records up to here may leave the node?"""
        policy = self._policy
        return (policy.lets_go and not policy.insisted) or policy.required(position) <= self._writer.durable

    def commit(self, now: int) -> list[Sync | Wake]:
        """Write what was gathered since the last commit. What must be synced before anything that follows
        from it leaves the node is for the policy to say and for the driver to do."""
        try:
            if not self._writer.commit():
                return []
            target = self._writer.target
            if self._due_for_rotation(now):
                self._rotate(now)
        finally:
            if len(self._group.names) != len(self._writer.state.names):
                self._forget_uncommitted_names()
        must, self._must = self._must, False
        if self._writer.durable >= target.position:
            return []
        return self._policy.committed(target, now, must)

    def commit_only(self) -> None:
        """The same without asking the policy: the caller syncs before anything follows from it, by `sync` or
        with a `snapshot`."""
        try:
            self._writer.commit()
        finally:
            if len(self._group.names) != len(self._writer.state.names):
                self._forget_uncommitted_names()

    def wake(self, now: int) -> list[Sync | Wake]:
        return self._policy.wake(now)

    def synced(self, sync: Sync, now: int) -> list[Sync | Wake]:
        """The driver has done as asked."""
        self._writer.synced(sync)
        return self._policy.done(sync, now)

    def sync_failed(self, sync: Sync, error: StorageError, now: int) -> list[Sync | Wake]:
        """It could not. What the disk kept is anybody's guess: nothing more is written. Unless the segment
        was sealed, and so synced, in the meantime."""
        if sync.position <= self._writer.durable:
            return self._policy.done(sync, now)
        self._writer.broke(error)
        return []

    def sync(self, now: int) -> None:
        """Commit and sync at once."""
        self.commit_only()
        self._writer.sync()
        self._settle(now)

    def _due_for_rotation(self, now: int) -> bool:
        active, settings = self._segments[-1], self._settings
        if active.size < settings.segment_bytes and now - active.created_us < settings.segment_age_us:
            return False
        return active.size > active.body_at

    def _rotate(self, now: int) -> None:
        self._writer.rotate(now)
        self._policy.settled()

    def _settle(self, now: int) -> None:
        self._must = False
        self._policy.settled()
        if self._due_for_rotation(now):
            self._rotate(now)

    def _forget_uncommitted_names(self) -> None:
        self._group = Group(self._writer.state.names)

    # Snapshots

    def snapshot(self, upto: int, clock: Vector, data: bytes, now: int) -> int:
        """Keep the application's state after everything up to `upto`, with the clock of what went into it.
        A state that came from a peer, merged with the own, covers the whole log and may be ahead of it.
        Durable when it returns; after a definite error the snapshots from before count on."""
        writer = self._writer
        if writer.gathering:
            raise UsageError("commit before taking a snapshot")
        self._check_snapshot(upto, clock)
        position = writer.begin()
        named = tuple(zip(writer.state.names, clock, strict=False))
        try:
            write_snapshot(self.files, position, encode_snapshot(upto, named, data))
        except StorageError as error:
            writer.drop()
            raise DiskError(said(error), file=file_name(position, SNAPSHOT), definite=True) from error
        writer.mark(SnapshotRef(upto, tuple(clock)))
        self.sync(now)
        self._remove_snapshots()
        return position

    def _check_snapshot(self, upto: int, clock: Vector) -> None:
        if len(clock) > len(self._writer.state.names):
            raise UsageError("a clock with members that were not committed")
        if not self.head <= upto <= self.tail:
            raise UsageError(f"a snapshot up to {upto} of a log from {self.head} to {self.tail}")
        if upto < self.tail and not covers(self.vector, clock):
            raise UsageError("a state that is ahead of the log must cover the whole log")
        starts = [segment.start for segment in self._segments if segment.first <= upto + 1]
        start = starts[-1] if starts else self._segments[0].start
        if not covers(clock, self.vector if upto == self.tail else start):
            raise UsageError("the clock lacks messages that the snapshot is said to cover")

    @property
    def has_snapshot(self) -> bool:
        """Was a state written down? It may be damaged: `load` tells."""
        return bool(self._writer.state.snapshots)

    def load(self) -> Snapshot | None:
        """The newest state that is whole, to be continued with `since(covers)`; None: there is none, and
        what the log holds is all there is."""
        trouble: DamageError | None = None
        for kept in reversed(self._writer.state.snapshots):
            try:
                return read_snapshot(self.files, kept.position)
            except DamageError as error:
                trouble = trouble or error
                if kept.installed:
                    break
        if trouble is not None and (any(self._segments[0].start) or self._floor()):
            raise trouble
        return None

    def _remove_snapshots(self) -> None:
        kept = {file_name(kept.position, SNAPSHOT) for kept in self._writer.state.snapshots}
        with suppress(StorageError):  # then they go the next time
            for name in self.files.names():
                if position_of(name, SNAPSHOT) is not None and name not in kept:
                    self.files.remove(name)

    # Collection

    def collect(self, now: int, limit: int | None = None, least: int = 0) -> Collected:
        """Remove segments that may go, none of them beyond position `limit`, nor so many that fewer than
        `least` bytes are left."""
        if not self._writer.gathering and self._due_for_rotation(now):
            self._rotate(now)
        count = removable(self._segments, self._writer.state, self._settings, now, limit, least)
        if count:
            # The marks that allow it must not be forgotten after what they allowed was done.
            self._writer.sync()
        freed = 0
        for _ in range(count):
            segment = self._segments[0]
            self.files.remove(segment.name)
            segment.gone = True
            freed += segment.size
            del self._segments[0]
            # One at a time, each made durable: a gap between segments could not be told from a loss.
            with suppress(StorageError):  # an index without its segment goes at the next opening
                self.files.remove(file_name(segment.first, INDEX))
            self.files.sync_folder()
        return Collected(count, freed)

    def close(self, now: int) -> None:
        """Commit and sync what there is."""
        self.sync(now)
