"""Histories of a small group in which one node lives on a disk and is killed, for tests of its trace.

The others are what is left of nodes when nothing goes wrong: a tagger, an orderer (which stands for the tree
that brings messages in causal order; the trace tells no contexts), rows. The subject takes
the steps of a live node: log, commit, trace, and only then do others see anything of it. So it can be killed
with any number of steps committed whose rows were not written, and whose messages nobody has.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from thence.core.codec import Codec
from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.message import Message
from thence.oplog.log import OpLog
from thence.oplog.record import BOOT_BITS
from thence.oplog.settings import Settings
from thence.order.engine import Engine
from thence.order.engines import ENGINES
from thence.runtime.tracing import LiveTrace, Row, complete, earlier_rows, missing_rows
from thence.sim.disk import Disk
from thence.trace.lines import Lines
from thence.trace.recorder import DELIVER, RESTART, SEND, START
from thence.trace.schema import Event

NAMES = ["a", 'b"ö', "c/d"]
"""Names that need care in JSON and in files among them."""

SIZE = len(NAMES)
SUBJECT = 0

Meddle = Callable[[list[Row]], Iterable[Row]]
"""What a broken completion would do to the rows that are missing."""


class Peer:
    """A node that nothing happens to."""

    def __init__(self, me: int, engine: Engine) -> None:
        self.me = me
        self.engine = engine
        self.tagger = engine.tagger(me, SIZE)
        self.orderer = engine.orderer(me, SIZE)
        self.inbox: deque[Message] = deque()
        self.seen = [0] * SIZE
        self.lines = Lines(NAMES[me], NAMES, 1)

    def receive(self, message: Message) -> None:
        for released in self.orderer.receive(message, message.dot & ORIGIN_MASK, 0):
            assert isinstance(released, Message)
            self.release(released)

    def release(self, message: Message) -> None:
        self.inbox.append(message)

    def take(self) -> None:
        message = self.inbox.popleft()
        self.tagger.took(message)
        self.saw(message)
        self.lines.record(DELIVER, message.dot, 0)

    def send(self) -> Message:
        message = self.tagger.tag(b"")
        self.orderer.sent(message, 0)
        self.saw(message)
        self.lines.record(SEND, message.dot, 0)
        return message

    def saw(self, message: Message) -> None:
        self.seen[message.dot & ORIGIN_MASK] = message.dot >> ORIGIN_BITS


class Subject(Peer):
    """The node that is killed. `told` mirrors its log: position -> message, or how much was taken."""

    def __init__(self, engine: Engine, disk: Disk, folder: Path, settings: Settings) -> None:
        super().__init__(SUBJECT, engine)
        self.codec = Codec(SIZE, engine.stamps_are_dots)
        self.disk = disk
        self.folder = folder
        self.positions: deque[int] = deque()
        self.taken = 0
        self.marked = 0
        self.log = OpLog.open(disk, settings, 0, power_lost=True)
        self.found = self.log.tail
        self.boot = self.log.boot(1, b"m", 0) >> BOOT_BITS
        for name in NAMES:
            self.log.member(name)
        self.log.sync(0)
        self.lines = Lines(NAMES[SUBJECT], NAMES, self.boot)

    def begin(self, told: dict[int, Message | int], meddle: Meddle) -> None:
        """Remember what the log does (and what it no longer has to), complete the trace, start it."""
        self.told = {position: what for position, what in told.items() if position <= self.found}
        self.taken = self.marked = self.log.taken
        for position, what in self.told.items():
            if not isinstance(what, Message):
                continue
            self.orderer.sent(what, 0)
            if what.dot & ORIGIN_MASK == SUBJECT or position <= self.taken:
                self.tagger.recall(what)
                self.saw(what)
            else:
                self.inbox.append(what)
                self.positions.append(position)
        earlier = earlier_rows(self.folder, NAMES[SUBJECT], self.boot)
        self.trace = LiveTrace(self.folder, NAMES[SUBJECT], self.boot)
        if earlier is not None:
            missing = missing_rows(self.log, SUBJECT, earlier)
            complete(self.trace, self.lines, iter(meddle(list(missing))), 0)
        if self.boot == 1:
            self.lines.record(START, 0, 0)
        else:
            self.lines.record_deps(RESTART, 0, self.tagger.frontier(), 0)
        self.trace.write(self.lines.take_bytes())

    def release(self, message: Message) -> None:
        super().release(message)
        self.positions.append(self._append(message))

    def take(self) -> None:
        self.taken = self.positions.popleft()
        super().take()

    def send(self) -> Message:
        self._mark()
        message = super().send()
        self._append(message)
        return message

    def _append(self, message: Message) -> int:
        position = self.log.append(message.dot, self.codec.encode(message))
        self.told[position] = message
        return position

    def _mark(self) -> None:
        if self.taken > self.marked:
            position = self.log.mark_taken(self.taken)
            assert position is not None
            self.told[position] = self.marked = self.taken

    @property
    def takeable(self) -> bool:
        """The client takes nothing that was not committed."""
        return bool(self.positions) and self.positions[0] <= self.log.tail

    def step_ends(self) -> None:
        self._mark()
        self.log.commit(0)
        self.trace.write(self.lines.take_bytes())


class Crash(NamedTuple):
    """What a killed subject leaves: a disk and the bytes of its newest trace file."""

    disk: Disk
    rows: bytes


class History:
    """A group and what it does, drawn from a seed."""

    def __init__(self, folder: Path, seed: int, settings: Settings) -> None:
        engine = ENGINES["graph"]
        self.random = Random(f"graph/{seed}")
        self.settings = settings
        self.folder = folder
        self.engine = engine
        self.others = [Peer(me, engine) for me in range(SIZE) if me != SUBJECT]
        self.messages: list[Message] = []
        """What the others have sent, and of the subject what it has let out."""
        self.subject = Subject(engine, Disk(Random(seed)), folder, settings)
        self.subject.begin({}, lambda rows: rows)

    def steps(self, count: int, heard: bool = True) -> Iterator[None]:
        """Things happen; the subject may be killed after each step. Not `heard`: nothing of it leaves."""
        while count:
            peer = self.random.choice(self.others)
            if self.random.random() < 0.5:
                self.messages.append(peer.send())
            for message in self.messages:
                peer.receive(message)
            while peer.inbox and self.random.random() < 0.7:
                peer.take()
            out = self._step()
            if heard:
                self.messages += out
                self.subject.log.collect(0)
            count -= 1
            yield

    def _step(self) -> list[Message]:
        subject, out = self.subject, list[Message]()
        for message in self.messages:
            if self.random.random() < 0.3:
                subject.receive(message)
        while subject.takeable and self.random.random() < 0.7:
            subject.take()
        while self.random.random() < 0.5:
            out.append(subject.send())
            if subject.takeable and self.random.random() < 0.5:
                subject.take()
        stable = [min(column) for column in zip(subject.seen, *[o.seen for o in self.others], strict=True)]
        subject.log.mark_stable([min(pair) for pair in zip(stable, subject.log.vector, strict=True)])
        subject.step_ends()
        return out

    def crash(self) -> Crash:
        return Crash(self.subject.disk.copy(Random(0)), self.subject.trace.path.read_bytes())

    def restarted(self, crash: Crash, rows: int, folder: Path, meddle: Meddle) -> "History":
        """A copy of this history in which the subject was killed so, `rows` bytes of its trace written."""
        other = object.__new__(History)
        other.random, other.settings, other.folder = deepcopy(self.random), self.settings, folder
        other.engine = self.engine
        other.others, other.messages = deepcopy(self.others), list(self.messages)
        folder.mkdir()
        for path in self.folder.iterdir():
            data = crash.rows[:rows] if path == self.subject.trace.path else path.read_bytes()
            (folder / path.name).write_bytes(data)
        other.subject = Subject(self.engine, crash.disk.copy(Random(0)), folder, self.settings)
        other.subject.begin(self.subject.told, meddle)
        return other

    def finish(self) -> list[Event]:
        """Everybody gets everything, says one more thing, and gets that: the whole trace."""
        peers: list[Peer] = [self.subject, *self.others]
        own = [what for what in self.subject.told.values() if isinstance(what, Message)]
        known = {message.dot: message for message in [*self.messages, *own]}
        for _ in range(2):
            for peer in peers:
                for message in sorted(known.values(), key=lambda message: message.dot):
                    peer.receive(message)
            self.subject.step_ends()
            for peer in peers:
                while peer.inbox:
                    peer.take()
            self.subject.step_ends()
            for message in [peer.send() for peer in peers]:
                known[message.dot] = message
        for peer in peers:
            for message in known.values():
                peer.receive(message)
            self.subject.step_ends()
            while peer.inbox:
                peer.take()
        self.subject.step_ends()
        return [*read(self.folder), *[row for peer in self.others for row in decode(peer.lines.take_bytes())]]


def decode(data: bytes) -> list[Event]:
    """The rows of a file; a last line without its newline is passed over."""
    whole = data[: data.rfind(b"\n") + 1]
    return msgspec.json.Decoder(Event).decode_lines(whole)


def read(folder: Path) -> list[Event]:
    return [row for path in sorted(folder.iterdir()) for row in decode(path.read_bytes())]
