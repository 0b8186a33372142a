"""The operation log of one node.

Everything that a node delivered, in the order in which it did, together with the marks that say how far
others and the application have come (SYNC Tree and ECO SYNC Tree, §4.1.4 and §4.2.1; what differs from
them and why is in docs/protocols/oplog.md). It survives crashes: what was committed survives that of the
process, what was synced that of the machine.

    log = OpLog.open(files, Settings(), now)       # recovery; log.report says what it found
    log.boot(incarnation, machine_id, now)         # durable; positions from here on are new
    log.append(dot, encoded)                       # any number of these
    effects = log.commit(now)                      # one write; what to sync, when to wake
    ... for each sync: sync.carry_out(files), then log.synced(sync, now) or log.sync_failed(sync, error, now)

Invariants: the log found after a crash is a prefix of what was committed and holds all that was synced; no
position is used twice; an error says whether what was asked for may turn up all the same.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from thence.core.dots import ORIGIN_MASK, Group
from thence.core.errors import StorageError, UsageError
from thence.core.machine import Wake
from thence.core.storage import DamageError, DiskError, Files, said
from thence.oplog.collection import removable
from thence.oplog.policy import DiskSync, SyncPolicy
from thence.oplog.reading import Vector
from thence.oplog.record import MemberRecord, Note, SnapshotRef, StableRecord, Taken
from thence.oplog.recovery import Recovered, recover
from thence.oplog.segment import INDEX, SNAPSHOT, file_name, position_of
from thence.oplog.settings import LogSettings
from thence.oplog.snapshots import Draft, Snapshot, read_snapshot
from thence.oplog.state import covers
from thence.oplog.view import CommittedView
from thence.oplog.writer import Writer

SLICE_BYTES: Final = 4 << 20
"""Of a snapshot that are synced at a time: syncs of the log wait behind that."""


class Collected(NamedTuple):
    segments: int
    bytes: int


class OpLog(CommittedView):
    """A log that is open."""

    __slots__ = ("_draft", "_drafts", "_group", "_more", "_must", "_policy", "_settings", "report")

    def __init__(self, files: Files, settings: LogSettings, recovered: Recovered) -> None:
        super().__init__(
            files, recovered.segments, Writer(files, settings, recovered.segments, recovered.state)
        )
        self._settings = settings
        self._policy = SyncPolicy(settings.sync, settings.sync_interval_us)
        self._group = Group(recovered.state.names)
        self._must = False
        """What was gathered since the last commit has to be synced, whatever the policy."""
        self._more = False
        """More was committed than the policy was told of: what it waits for is for that as well."""
        self._draft: Draft | None = None
        """The snapshot that is being written."""
        self._drafts = 0
        self.report = recovered.report

    @classmethod
    def open(cls, files: Files, settings: LogSettings, now: int, power_lost: bool = False) -> "OpLog":
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
        self._writer.mark(MemberRecord(index, name))
        return index

    def append(self, dot: int, data: bytes) -> int:
        """A message that was delivered here. Returns its position, which is its own once committed."""
        if dot & ORIGIN_MASK >= len(self._group.names):
            raise UsageError(f"a message of member {dot & ORIGIN_MASK}, who has no name")
        position = self._writer.message(dot, data)
        if not position:
            raise UsageError(f"{self._group.show(dot)} is in the log already, or something after it is")
        return position

    def mark_stable(self, frontier: Vector) -> int | None:
        """Everything up to these counters has become stable."""
        stable = self._writer.state.stable
        changed = []
        for origin, seq in enumerate(frontier):
            if seq > (stable[origin] if origin < len(stable) else 0):
                if seq > self._writer.counter(origin):
                    raise UsageError(f"message {seq} of member {origin} is stable before it was delivered")
                changed.append((origin, seq))
        return self._writer.mark(StableRecord(tuple(changed))) if changed else None

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
        return (policy.insisted if policy.lets_go else position) <= self._writer.durable

    def commit(self, now: int) -> list[DiskSync | Wake]:
        """Write what was gathered since the last commit. What must be synced before anything that follows
        from it leaves the node is for the policy to say and for the driver to do."""
        writer, settings = self._writer, self._settings
        try:
            if not writer.commit():
                return []
            active = self._segments[-1]
            if active.size >= settings.segment_bytes or now - active.created_us >= settings.segment_age_us:
                self._rotate(now)
        finally:
            if len(self._group.names) != len(writer.state.names):
                self._forget_uncommitted_names()
        must, self._must = self._must, False
        if writer.durable >= active.last:
            return []
        if self._policy.gathers and not must:
            self._more = True
            return []
        self._more = False
        return self._policy.committed(writer.target, now, must)

    def _tell_policy(self, now: int) -> None:
        if self._more:
            self._more = False
            self._policy.committed(self._writer.target, now)

    def commit_only(self) -> None:
        """The same without asking the policy: the caller syncs before anything follows from it, by `sync` or
        with a `snapshot`."""
        try:
            self._writer.commit()
        finally:
            if len(self._group.names) != len(self._writer.state.names):
                self._forget_uncommitted_names()

    def wake(self, now: int) -> list[DiskSync | Wake]:
        self._tell_policy(now)
        return self._policy.wake(now)

    def synced(self, sync: DiskSync, now: int) -> list[DiskSync | Wake]:
        """The driver has done as asked."""
        if sync.position < 0:
            return self._draft_synced(sync, now)
        self._writer.synced(sync)
        self._tell_policy(now)
        return self._policy.done(sync, now)

    def sync_failed(self, sync: DiskSync, error: StorageError, now: int) -> list[DiskSync | Wake]:
        """It could not. What the disk kept is unknown: nothing more is written. Unless the segment
        was sealed, and so synced, in the meantime. Of a snapshot that is being written: that one is given up,
        and `DiskError` says so."""
        if sync.position < 0:
            if self._draft is not None and self._draft.waits == sync:
                raise self._given_up(self._draft, error)
            return []
        if sync.position <= self._writer.durable:
            self._tell_policy(now)
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
        self._more = False
        self._policy.settled()

    def _settle(self, now: int) -> None:
        self._must = self._more = False
        self._policy.settled()
        if self._due_for_rotation(now):
            self._rotate(now)

    def _forget_uncommitted_names(self) -> None:
        self._group = Group(self._writer.state.names)

    # Snapshots

    def snapshot(self, upto: int, clock: Vector, data: bytes, now: int) -> int:
        """Keep the application's state after everything up to `upto`, with the clock of what went into it.
        A state that came from a peer, merged with the own, covers the whole log and may be ahead of it.
        Durable when it returns; after a definite error the snapshots from before count on. Returns the
        position that its file bears."""
        if self._writer.gathering:
            raise UsageError("commit before taking a snapshot")
        try:
            self.draft(upto, clock, [data])
            return self.finish_draft(now)
        except DiskError as error:
            if error.definite:
                self._writer.drop()
            raise

    def draft(self, upto: int, clock: Vector, parts: Sequence[bytes]) -> None:
        """The same, a little at a time: `write_draft` while it is `drafting`. It counts when it is `drafted`;
        the ones from before are needed until it is `settled_draft`."""
        writer = self._writer
        self._check_snapshot(upto, clock)
        self.drop_draft()
        self._drafts += 1
        names, clock = writer.state.names, tuple(clock)
        self._draft = Draft(self.files, writer.begin(), self._drafts, upto, clock, names, parts)

    @property
    def drafting(self) -> bool:
        """Is there something to be written of a snapshot, and nothing of it to be synced before?"""
        draft = self._draft
        return draft is not None and draft.waits is None and not draft.ref

    @property
    def drafted(self) -> bool:
        """Does the snapshot count that was written a little at a time?"""
        draft = self._draft
        return draft is not None and 0 < draft.ref <= self._writer.durable

    def write_draft(self, most: int, slice_bytes: int = SLICE_BYTES) -> DiskSync | None:
        """About so many bytes more. What is to be synced before the next, if that is so much by now."""
        draft = self._draft
        assert draft is not None
        try:
            draft.write(most)
        except StorageError as error:
            raise self._given_up(draft, error) from error
        return draft.sync() if draft.whole or draft.at - draft.synced >= slice_bytes else None

    def _given_up(self, draft: Draft, error: StorageError) -> DiskError:
        self.drop_draft()
        return DiskError(said(error), file=draft.name, definite=True)

    def _draft_synced(self, sync: DiskSync, now: int) -> list[DiskSync | Wake]:
        draft = self._draft
        if draft is None or draft.waits != sync:
            return []  # it was given up meanwhile
        draft.waits, draft.synced = None, draft.at
        if not draft.whole:
            return []
        self._refer(draft)
        try:
            effects = self.commit(now)
        except StorageError:
            self._forget_unreferred(draft)
            raise
        if self._writer.target not in effects:
            effects.append(self._writer.target)  # the policy may have time; this has none
        return effects

    def _refer(self, draft: Draft) -> None:
        position = self._writer.begin()
        name = 0 if position == draft.file else draft.file
        draft.ref = self._writer.mark(SnapshotRef(draft.covers, draft.clock, name))

    def _forget_unreferred(self, draft: Draft) -> None:
        """The record could not be written. Its file stays: it may turn up all the same."""
        if self.tail < draft.ref:
            self._draft = None

    def finish_draft(self, now: int) -> int:
        """All that is left of it, at once."""
        draft = self._draft
        assert draft is not None
        try:
            if not draft.whole:
                draft.write(sys.maxsize)
            if not draft.ref:
                draft.sync().carry_out(self.files)
        except StorageError as error:
            raise self._given_up(draft, error) from error
        if not draft.ref:
            self._refer(draft)
        try:
            self.sync(now)
        except StorageError:
            self._forget_unreferred(draft)
            raise
        self.settle_draft()
        return draft.file

    def settle_draft(self) -> None:
        """It counts: older ones than the one before it go."""
        self._draft = None
        self._remove_snapshots()

    def drop_draft(self) -> None:
        """Give up what does not count yet."""
        draft, self._draft = self._draft, None
        if draft is not None and not draft.ref:
            draft.give_up()

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
        self.drop_draft()
        self.sync(now)
