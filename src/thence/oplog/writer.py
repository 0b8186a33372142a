"""Writing: records gather in a buffer, a commit puts them into the file in one write.

What the records say counts from the commit on, not before, so that a commit that fails can be forgotten:
the file is cut back to where it was, what was gathered is dropped, and the log goes on as if nothing had
been asked of it. Only two things end writing for good (until the log is opened again): a sync that failed,
since it is unknown what a disk kept after it said no (unless it was not even tried); and a half-made segment
file that cannot be removed.

| state | appends | leaves it by |
| --- | --- | --- |
| unbooted | refused | `boot` |
| ready | gathered | a failed write whose remains could not be cut off: torn |
| torn | refused until the remains could be cut off, which every append tries first | that: ready |
| broken | refused | opening the log again |
"""

from zlib import crc32

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import StorageError, UsageError
from thence.core.storage import DiskError, Files, said
from thence.oplog.policy import DiskSync
from thence.oplog.record import BOOT_BITS, DOT_BYTES, MAX_BODY, Boot, Mark, Synced, put_mark, put_message
from thence.oplog.segment import INDEX, Segment, encode_header, file_name, new_segment
from thence.oplog.settings import LogSettings
from thence.oplog.state import ReplayedState


def enter(segment: Segment, state: ReplayedState, position: int, offset: int, what: Mark | int) -> None:
    """Count a record that stands in the segment: a mark, or a message by its dot."""
    index = segment.index
    before = segment.last
    if type(what) is int:
        state.deliver(position, what)
        index.message(position, what, offset, before)
        segment.last = position
        return
    index.passed(position, offset)
    if isinstance(what, Synced):
        segment.marked = what.offset
    elif jumps := state.apply(position, what):  # type: ignore[arg-type]
        index.jumped(jumps)
    segment.last = position


class Writer:
    """The end of the log."""

    __slots__ = (
        "_ahead",
        "_booted",
        "_broken",
        "_buffer",
        "_files",
        "_next",
        "_pending",
        "_segments",
        "_settings",
        "_torn",
        "durable",
        "state",
        "writes",
        "written_bytes",
    )

    def __init__(
        self, files: Files, settings: LogSettings, segments: list[Segment], state: ReplayedState
    ) -> None:
        self._files = files
        self._settings = settings
        self._segments = segments
        self.state = state
        self.durable = 0
        """Everything up to this position is synced. What was found at opening is, once `boot` has run."""
        self._next = segments[-1].last + 1
        self._buffer = bytearray()
        self._pending: list[tuple[int, int, Mark | int]] = []
        self._ahead: dict[int, int] = {}
        """Counters of messages that were gathered, by origin."""
        self._booted = False
        self._torn = False
        self._broken: StorageError | None = None
        self.written_bytes = self.writes = 0

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    @property
    def broken(self) -> StorageError | None:
        return self._broken

    @property
    def gathering(self) -> bool:
        return bool(self._pending)

    @property
    def target(self) -> DiskSync:
        """What a sync now would have to make durable."""
        active = self._segments[-1]
        return DiskSync(active.name, active.size, active.last)

    def counter(self, origin: int) -> int:
        """The newest message of a member, gathered ones included."""
        vector = self.state.vector
        return self._ahead.get(origin) or (vector[origin] if origin < len(vector) else 0)

    @property
    def gathered(self) -> int:
        """The position of the last record, committed or not."""
        return self._next - 1

    def begin(self) -> int:
        """Get ready to gather; the position that the next record will have."""
        if not self._pending:
            if not self._booted:
                raise UsageError("a log takes records only after boot")
            if self._broken is not None or self._torn:
                self._check()
            active = self._segments[-1]
            if active.synced > active.marked:
                self._gather(Synced(active.synced))
        return self._next

    def _check(self) -> None:
        name = self.active.name
        if self._broken is not None:
            raise DiskError(f"nothing more is written since: {said(self._broken)}", file=name, definite=True)
        if self._torn and not self._mend():
            raise DiskError("the remains of a failed write cannot be cut off", file=name, definite=True)

    def message(self, dot: int, data: bytes) -> int:
        """Its position; 0: it, or something after it of the same member, is there."""
        origin, seq, vector = dot & ORIGIN_MASK, dot >> ORIGIN_BITS, self.state.vector
        if seq <= (self._ahead.get(origin) or (vector[origin] if origin < len(vector) else 0)):
            return 0
        position = self._next if self._pending else self.begin()
        if len(data) > MAX_BODY - DOT_BYTES:
            raise UsageError(f"a message of {len(data)} bytes; the longest is {MAX_BODY - DOT_BYTES}")
        active, buffer = self._segments[-1], self._buffer
        offset = active.size + len(buffer)
        put_message(buffer, offset, active.seed, dot, data)
        self._pending.append((position, offset, dot))
        self._ahead[origin] = seq
        self._next = position + 1
        return position

    def mark(self, mark: Mark) -> int:
        self.begin()
        return self._gather(mark)

    def _gather(self, mark: Mark) -> int:
        active = self._segments[-1]
        offset = active.size + len(self._buffer)
        put_mark(self._buffer, offset, active.seed, mark)
        position = self._next
        self._pending.append((position, offset, mark))
        self._next = position + 1
        return position

    def boot(self, incarnation: int, machine: bytes) -> int:
        """Start a stretch of positions that no earlier boot can have handed out, durably."""
        if self._booted:
            raise UsageError("booted already")
        self._check()
        self._booted = True
        self._next = ((self.active.last >> BOOT_BITS) + 1 << BOOT_BITS) + 1
        try:
            position = self._gather(Boot(self._next, incarnation, machine))
            self.commit()
            self.sync()
            # An earlier process may have died between making this segment and making that durable.
            self._files.sync_folder()
        except BaseException:
            self._booted = False
            raise
        return position

    def drop(self) -> None:
        """Forget what was gathered."""
        self._buffer.clear()
        self._pending.clear()
        self._ahead.clear()
        self._next = self._segments[-1].last + 1

    def commit(self) -> bool:
        """Write what was gathered. If that fails nothing of it counts, and the error says whether it is
        certain that none of it will be found in the file."""
        if not self._pending:
            return False
        active = self._segments[-1]
        try:
            self._files.write(active.name, active.size, self._buffer)
        except StorageError as error:
            self.drop()
            definite = self._mend()
            full = isinstance(error, DiskError) and error.full
            raise DiskError(said(error), file=active.name, definite=definite, full=full) from error
        state, size = self.state, len(self._buffer)
        for position, offset, what in self._pending:
            if type(what) is int:  # as `enter` would, of one that `message` has checked
                state.vector[what & ORIGIN_MASK] = what >> ORIGIN_BITS
                state.last_message = position
                active.index.message(position, what, offset, active.last)
                active.last = position
            else:
                enter(active, state, position, offset, what)
        active.crc = crc32(self._buffer, active.crc)
        active.size += size
        self.written_bytes += size
        self.writes += 1
        self._buffer.clear()  # as `drop` does; `_next` is the one after these already
        self._pending.clear()
        self._ahead.clear()
        return True

    def _mend(self) -> bool:
        """Cut off what a failed write left; synced, so that it does not come back either."""
        active = self.active
        try:
            self._files.truncate(active.name, active.size)
        except StorageError:
            self._torn = True
            return False
        self._torn = False
        try:
            self.sync()
        except StorageError:
            return False
        return True

    def sync(self) -> None:
        """Make everything committed durable, here and now."""
        active = self.active
        try:
            self._files.sync(active.name)
        except StorageError as error:
            if untried(error):
                raise
            raise self.broke(error) from error
        self.synced(self.target)

    def synced(self, sync: DiskSync) -> None:
        active = self.active
        if sync.file == active.name:
            active.synced = max(active.synced, sync.size)
        self.durable = max(self.durable, sync.position)

    def broke(self, error: StorageError) -> DiskError:
        """Nothing more is written from here on."""
        self._broken = error
        return DiskError(said(error), file=self.active.name, definite=False)

    def rotate(self, now: int) -> bool:
        """Seal the active segment and begin another. False if that cannot be now: then the active segment
        grows on."""
        if self._torn and not self._mend():
            return False  # the remains of a failed write would be sealed in
        old = self.active
        try:
            self.sync()
        except StorageError as error:
            if untried(error):
                return False
            raise
        header = encode_header(old.last + 1, now, self.state)
        new = new_segment(header, old.last + 1, now, self.state, self._settings.spacing)
        try:
            self._files.write(new.name, 0, header)
        except StorageError:
            self._sweep(new.name)
            return False
        try:
            self._files.sync(new.name)
            self._files.sync_folder()
        except StorageError as error:
            raise self.broke(error) from error
        self._segments.append(new)
        seal(self._files, old)
        return True

    def _sweep(self, name: str) -> None:
        """A half-made segment must not turn up again beside a log that went on without it."""
        try:
            if name in self._files.names():
                self._files.remove(name)
                self._files.sync_folder()
        except StorageError as error:
            raise self.broke(error) from error


def untried(error: Exception) -> bool:
    """Whether a sync that failed did so before anything was done: what the disk holds is as certain as it
    was, and the next one may succeed."""
    return isinstance(error, DiskError) and error.definite


def seal(files: Files, segment: Segment) -> None:
    """Write a segment's index file. That it may fail is no trouble: it can be made again."""
    encoded = segment.index.encode(segment.seed, segment.crc, segment.size, segment.last)
    try:
        files.write(file_name(segment.first, INDEX), 0, encoded)
    except StorageError:
        return
