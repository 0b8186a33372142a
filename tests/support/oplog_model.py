"""A log on a fake disk, and a list beside it that says what must be in it.

The model knows messages and promises, nothing of files: what was committed, what the log called durable,
which positions were handed out, what may or may not turn up because an error left it open. After every
step the log must read as the list does; after every crash it must hold a prefix of the list with
everything durable in it.
"""

from random import Random
from typing import Any

from thence.core.dots import ORIGIN_MASK, pack, seq_of
from thence.core.storage import DiskError
from thence.oplog.settings import LogSettings
from thence.oplog.snapshots import read_snapshot
from thence.sim.disk import Disk, Operation

SETTINGS = LogSettings(sync="always", segment_bytes=300, segment_age_us=10_000, spacing=3)

Entry = tuple[int, int, bytes]
"""Position, dot, data."""


class Model:
    def __init__(self, log_class: Any, seed: int, settings: LogSettings = SETTINGS) -> None:
        self.log_class = log_class
        self.settings = settings
        self.random = Random(seed)
        self.disk = Disk(Random(seed + 1))
        self.now = 0
        self.entries: list[Entry] = []
        """Committed messages that the log must hold."""
        self.collected: list[Entry] = []
        """What may come back in a crash because its removal was not durable."""
        self.gathered: list[Entry] = []
        self.maybe: list[Entry] = []
        """After an error that was not definite."""
        self.vector: list[int] = []
        self.installed: dict[int, int] = {}
        """Origin -> counter below which an installed state stands in."""
        self.handed = 0
        self.durable = 0
        self.snapshots: list[tuple[int, int, bytes]] = []
        self.draft: tuple[int, int, bytes] | None = None
        """A snapshot that is being written a little at a time, and does not count yet."""
        self.draft_sync: Any = None
        """A part of it is to be synced."""
        self.unsure = False
        """A snapshot failed, and the error left open whether it counts."""
        self.names: list[str] = []
        self.promised: tuple[int, tuple[int, ...], int, dict[int, bytes]] = (0, (), 0, {})
        """Taken, stable, members, notes: as of the last moment when everything was durable."""
        self.open()
        for name in ("a", "b", "c"):
            self.member(name)
        self.log.sync(self.now)
        self.durable = self.handed = self.log.durable
        self.promise()

    # Steps

    def open(self, power_lost: bool = False) -> None:
        self.disk.capacity = None
        self.disk.heal()
        self.log = self.log_class.open(self.disk, self.settings, self.now, power_lost=power_lost)
        found = [(stored.position, stored.dot, stored.data) for stored in self.log.since(self.log.head)]
        before = [e for e in self.collected + self.entries + self.maybe if e[0] > self.log.head]
        assert found == before[: len(found)], f"changed: {found} was {before}"
        for entry in before[len(found) :]:
            assert entry[0] > self.durable, f"lost: {entry}, durable up to {self.durable}"
        self._check_promises()
        self.entries = found
        self.collected = []
        self.names = list(self.log.names)
        counts = self._refers
        if draft := self.draft:  # it counts if the log says so, and then it is whole
            self.draft = self.draft_sync = None
            if counts:
                self.snapshots = [*self.snapshots[-1:], draft]
        for kept in self.log._writer.state.snapshots:
            read_snapshot(self.disk, kept.position)
        if self.unsure:
            self.unsure = False
            self.snapshots = [(kept.position, kept.covers, b"") for kept in self.log._writer.state.snapshots]
            self.installed = self.log._floor()
        self.vector = self._vector()
        self.gathered, self.maybe = [], []
        boot = self.log.boot(self.log.incarnation + 1, b"machine", self.now)
        assert boot > self.handed, f"reused: boot at {boot} after {self.handed}"
        self.handed = boot
        self.durable = self.log.durable
        assert self.durable == self.log.tail, "durable: not after a boot"
        self.promise()
        self.check()

    def _check_promises(self) -> None:
        taken, stable, members, notes = self.promised
        log = self.log
        assert log.taken >= taken, f"forgot: taken {log.taken} after {taken}"
        assert log.taken >= log.head, f"forgot: {log.head} was taken, or it would not have been collected"
        assert all(a >= b for a, b in zip(log.stable, stable, strict=False)), "forgot: stable"
        assert len(log.names) >= members, "forgot: a member"
        assert list(log.names) == [*self.names, *log.names[len(self.names) :]][: len(log.names)], (
            "names: changed"
        )
        for key, data in notes.items():
            assert log.notes[key] >= data, f"forgot: note {key}"

    def _vector(self) -> list[int]:
        """What the log's vector must be, worked out from what is in it."""
        vector = [self.installed.get(origin, 0) for origin in range(len(self.names))]
        base = self.log._segments[0].start
        for origin, seq in enumerate(base):
            vector[origin] = max(vector[origin], seq)
        for _, dot, _ in self.entries:
            vector[dot & ORIGIN_MASK] = max(vector[dot & ORIGIN_MASK], seq_of(dot))
        return vector

    def member(self, name: str) -> None:
        index = self.log.member(name)
        assert index == len(self.names), f"names: {name} became {index}"
        self.names.append(name)
        self.vector.append(0)

    def append(self, origin: int, length: int) -> None:
        origin %= len(self.names)
        dot = pack(origin, self.vector[origin] + 1)
        data = self.random.randbytes(length)
        try:
            position = self.log.append(dot, data)
        except DiskError as error:
            self._refused(error)
            return
        last = self.gathered[-1][0] if self.gathered else self.log.tail
        assert position > last, f"reused: {position} after {last}"
        self.gathered.append((position, dot, data))
        self.vector[origin] += 1

    @staticmethod
    def _refused(error: DiskError) -> None:
        assert error.definite, "definite: nothing was gathered, and the error leaves it open"

    def commit(self) -> bool:
        gathered, self.gathered = self.gathered, []
        tail = self.log.tail
        try:
            effects = self.log.commit(self.now)
        except DiskError as error:
            self._uncommitted(gathered, error.definite, tail)
            return False
        if self.log.tail != tail:
            self.maybe = []  # what was left of them had to be cut off first
        if gathered:
            self.entries += gathered
            self.handed = max(self.handed, gathered[-1][0])
        ok = self.carry_out(effects)
        if ok and self.settings.sync == "always" and self.log.tail != tail:
            assert self.log.durable == self.log.tail, "durable: not after a commit under always"
        self.durable = max(self.durable, self.log.durable)
        if self.log.durable == self.log.tail:
            self.promise()
        return ok

    def _uncommitted(self, gathered: list[Entry], definite: bool, tail: int) -> None:
        if self.log.tail != tail:  # written, but then a sync failed
            assert not definite, "definite: it is in the log"
            self.maybe = []
            self.entries += gathered
            self.handed = max([self.handed, *(entry[0] for entry in gathered)])
            return
        if not definite:
            self.maybe = gathered
            self.handed = max([self.handed, *(entry[0] for entry in gathered)])
        self.names = list(self.log.names)
        self.vector = list(self.log.vector)

    def carry_out(self, effects: list[Any]) -> bool:
        for effect in effects:
            if hasattr(effect, "file"):
                try:
                    effect.carry_out(self.disk)
                except DiskError as error:
                    self.log.sync_failed(effect, error, self.now)
                    return False
                self.carry_out(self.log.synced(effect, self.now))
        return True

    def tick(self, us: int) -> None:
        self.now += us
        self.carry_out(self.log.wake(self.now))
        self.durable = max(self.durable, self.log.durable)

    def promise(self) -> None:
        log = self.log
        self.promised = (log.taken, log.stable, len(log.names), dict(log.notes))

    def mark(self, what: str) -> None:
        log = self.log
        try:
            if what == "stable":
                log.mark_stable(
                    tuple([self.random.randint(s, v) for s, v in zip(log.stable, log.vector, strict=True)])
                )
            elif what == "taken":
                log.mark_taken(self.random.randint(log.taken, log.tail))
            elif what == "all":
                log.mark_stable(log.vector)
                log.mark_taken(log.tail)
            else:
                log.note(self.random.randint(0, 3), b"%09d" % self.now)
                self.now += 1
        except DiskError as error:
            self._refused(error)
        self.commit()

    def crash(self, holes: bool = False) -> None:
        self.disk.crash(holes)
        self.open(power_lost=holes)

    def kill(self) -> None:
        self.open()

    def snapshot(self, install: bool) -> None:
        self.commit()
        log = self.log
        clock = list(log.vector)
        data = self.random.randbytes(20)
        if install:
            clock = [seq + self.random.randint(0, 3) for seq in clock]
        before = self._given_up()
        try:
            position = log.snapshot(log.tail, clock, data, self.now)
        except DiskError as error:
            self.draft = before
            if not error.definite:
                self.unsure = True
                self.handed = max(self.handed, log.tail)
                self.crash() if self.random.random() < 0.5 else self.kill()
            return
        self.maybe = []
        self.snapshots = self.snapshots if before is None else [*self.snapshots, before]
        self.snapshots = [*self.snapshots[-1:], (position, log._writer.state.snapshots[-1].covers, data)]
        if install:
            for origin, seq in enumerate(clock):
                if seq > self.vector[origin]:
                    self.installed[origin] = seq
            self.vector = clock
        self.handed = max(self.handed, log.tail)
        self.durable = log.durable
        assert self.durable == log.tail, "durable: not after a snapshot"
        self.promise()

    def _given_up(self) -> tuple[int, int, bytes] | None:
        """The snapshot that was being written, if it counts as soon as something later is durable."""
        draft = self.draft if self._refers else None
        self.draft = self.draft_sync = None
        return draft

    @property
    def _refers(self) -> bool:
        """Does the log refer to the snapshot that is being written?"""
        kept = self.log._writer.state.snapshots
        return (
            self.draft is not None and bool(kept) and (kept[-1].position, kept[-1].covers) == self.draft[:2]
        )

    def begin_draft(self) -> None:
        self.commit()
        log, data = self.log, self.random.randbytes(self.random.choice((20, 300)))
        if self._refers:
            return  # it is about to count
        self.draft = self.draft_sync = None
        cut = self.random.randint(0, len(data))
        try:
            log.draft(log.tail, log.vector, [data[:cut], data[cut:]])
        except DiskError as error:
            self._refused(error)
            return
        self.draft, self.draft_sync = (log._draft.file, log._draft.covers, data), None
        self.commit()

    def go_on_with_draft(self) -> None:
        """A part is written, or synced, or the log refers to it, or the one before the last goes."""
        log = self.log
        if self.draft is None:
            return
        self.commit()
        tail = log.tail
        try:
            if self.draft_sync is not None:
                sync, self.draft_sync = self.draft_sync, None
                try:
                    sync.carry_out(self.disk)
                except DiskError as error:
                    log.sync_failed(sync, error, self.now)
                    raise AssertionError("snapshot: a sync of it failed and nobody was told") from error
                effects = log.synced(sync, self.now)
                self.handed = max(self.handed, log.tail)
                if log.tail != tail:
                    self.maybe = []
                self.carry_out(effects)
            elif log.drafting:
                self.draft_sync = log.write_draft(self.random.choice((1, 1000)), 1)
        except DiskError:
            if log._draft is None and log.tail == tail:  # it was given up
                self.draft = None
            return
        self.durable = max(self.durable, log.durable)
        self._settle_draft()

    def _settle_draft(self) -> None:
        if self.draft is not None and self.log.drafted:
            self.snapshots = [*self.snapshots[-1:], self.draft]
            self.draft = self.draft_sync = None
            self.log.settle_draft()

    def collect(self) -> None:
        self.commit()
        log = self.log
        stable, taken = log.stable, log.taken
        durably = True
        try:
            log.collect(self.now)
        except DiskError:
            durably = False
        self.durable = max(self.durable, log.durable)
        standing = min([covers for _, covers, _ in self.snapshots], default=None)
        gone = [entry for entry in self.entries if entry[0] <= log.head]
        for position, dot, _ in gone:
            unneeded = seq_of(dot) <= stable[dot & ORIGIN_MASK] and position <= taken
            limits = self.settings.keep_bytes is not None or self.settings.keep_us is not None
            assert unneeded or (limits and standing is not None), f"needed: {position} was collected"
            assert standing is None or position <= standing, f"needed: {position}, for a snapshot"
        self.entries = [entry for entry in self.entries if entry[0] > log.head]
        self.collected = [] if durably and gone else self.collected + gone

    # What must be true at any time

    def check(self) -> None:
        log = self.log
        committed = list(self.vector)
        for _, dot, _ in reversed(self.gathered):
            committed[dot & ORIGIN_MASK] = min(committed[dot & ORIGIN_MASK], seq_of(dot) - 1)
        assert list(log.vector) == committed, f"vector: {log.vector}, not {committed}"
        assert log.durable <= log.tail, "durable: more than there is"
        self._check_reading()
        self._check_missing()
        if self.snapshots and self.snapshots[-1][2] and not self._refers:
            loaded = log.load()
            assert loaded is not None, "snapshot: forgotten"
            assert (loaded.position, loaded.covers, loaded.data) == self.snapshots[-1], "snapshot: another"

    def _check_reading(self) -> None:
        log = self.log
        entries = self.entries
        after = log.head
        if entries and self.random.random() < 0.8:
            after = max(after, self.random.choice(entries)[0] - self.random.randint(0, 1))
        found = [(stored.position, stored.dot, stored.data) for stored in log.since(after)]
        expected = [entry for entry in entries if entry[0] > after]
        assert found == expected, f"since: {found}, not {expected}"

    def _check_missing(self) -> None:
        log = self.log
        vector = [self.random.randint(max(0, seq - 8), seq + 1) for seq in log.vector]
        vector = vector[: self.random.choice((len(vector), len(vector), len(vector) - 1))]
        lacking = [
            entry
            for entry in self.entries
            if (entry[1] & ORIGIN_MASK) >= len(vector) or seq_of(entry[1]) > vector[entry[1] & ORIGIN_MASK]
        ]
        held = {entry[1] for entry in self.entries}
        has = dict(enumerate(vector))
        whole = all(
            pack(origin, seq) in held
            for origin, last in enumerate(log.vector)
            for seq in range(has.get(origin, 0) + 1, last + 1)
        )
        if log.reaches(vector):
            assert whole, f"reach: the log claims to reach back to {vector}"
            found = [(stored.position, stored.dot, stored.data) for stored in log.missing(vector)]
            assert found == lacking, f"missing: {found}, not {lacking}"
        else:
            first = self.log._segments[0].start
            short = [o for o, seq in enumerate(first) if has.get(o, 0) < seq]
            short += [o for o, seq in self.installed.items() if has.get(o, 0) < seq]
            assert short, f"reach: the log denies reaching back to {vector}"


STEPS = [
    "append",
    "append",
    "append",
    "append",
    "commit",
    "commit",
    "tick",
    "stable",
    "taken",
    "all",
    "note",
    "member",
    "crash",
    "kill",
    "snapshot",
    "install",
    "collect",
    "collect",
    "fail",
    "full",
    "free",
]

WITH_DRAFTS = [*STEPS, "draft", "draft", "write", "write", "write", "write", "write"]

FAILING: tuple[Operation, ...] = ("write", "write", "truncate", "sync", "rename", "remove", "sync_folder")


def storm(
    log_class: Any,
    seed: int,
    settings: LogSettings = SETTINGS,
    steps: int = 60,
    holes: bool = False,
    names: list[str] = STEPS,
) -> Model:
    """A model and a log through random steps; whatever goes wrong raises AssertionError."""
    model = Model(log_class, seed, settings)
    random = Random(seed + 2)
    for _ in range(steps):
        step(model, random.choice(names), random, holes)
        model.check()
    model.crash(holes)
    return model


def step(model: Model, name: str, random: Random, holes: bool = False) -> None:
    if name == "append":
        model.append(random.randrange(8), random.choice((0, 5, 30, 30, 150)))
    elif name == "commit":
        model.commit()
    elif name == "tick":
        model.tick(random.choice((10, 3_000)))
    elif name in ("stable", "taken", "all", "note"):
        model.commit()
        model.mark(name)
    elif name == "crash":
        model.crash(holes)
    elif name == "kill":
        model.kill()
    elif name in ("snapshot", "install"):
        model.snapshot(name == "install")
    elif name == "draft":
        model.begin_draft()
    elif name == "write":
        model.go_on_with_draft()
    elif name == "collect":
        model.collect()
    elif name == "fail":
        model.disk.fail(random.choice(FAILING), random.randint(0, 2))
    elif name == "full":
        used = sum([model.disk.size(file) for file in model.disk.names()])
        model.disk.capacity = used + random.randint(0, 200)
    elif name == "free":
        model.disk.capacity = None
    elif name == "member" and len(model.names) < 8:
        model.commit()
        try:
            model.member(f"m{len(model.names)}")
        except DiskError:
            return
        model.commit()
