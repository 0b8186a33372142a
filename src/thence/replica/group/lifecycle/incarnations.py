"""The incarnations of a process on its disk: numbers, logs, checkpoints, and what a restart finds.

A number is reserved before it is used, whatever becomes of the attempt. A log belongs to one incarnation:
it begins with the state that the incarnation was installed with, in a snapshot, without which it is
nothing; so the step from one incarnation to the next is the moment when the new one's snapshot is durable.
Later snapshots of the member's own state take its place (`checkpoints`).
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from thence.core.dots import pack
from thence.core.groups import NamedMessage, Post, incarnation, number_of
from thence.core.message import Message
from thence.core.runs import span_of_payload
from thence.members.attempt import Attempt
from thence.members.operations import Operations
from thence.members.spans import Spans
from thence.oplog.log import OpLog
from thence.order.tags import TagSpill
from thence.replica.group.channel.links import Wires
from thence.replica.group.ledger.backlog import KILOBYTE_BITS
from thence.replica.group.ledger.ledger import CODEC, Ledger
from thence.replica.group.ledger.state import MemberState
from thence.replica.group.ledger.state_codec import decoding, encoding
from thence.replica.group.lifecycle.checkpoints import Checkpoints, Written, before, needless
from thence.replica.group.member.member import Member
from thence.replica.group.member.tag_book import TagBook
from thence.replica.group.settings import GroupSettings
from thence.replica.group.surroundings import Application, Diary, Shelf
from thence.replica.history import understood
from thence.trace.recorder import CRASH, EVICT, INSTALL, RESTART, START, SYNCED

COMMIT_EVERY = 256
"""Messages of a state that are written to a new log at a time."""

SKIP = 1 << 20
"""Numbers among which one goes on that has forgotten some of its own: it meets one of a hundred of those
again once in ten thousand times."""


class NewIncarnation(NamedTuple):
    """A life that is about to begin."""

    log: OpLog
    ledger: Ledger
    operations: Operations
    book: TagBook


class Incarnations:
    __slots__ = (
        "_application", "_attics", "_diaries", "_floor", "_needless", "_next_needless", "_posts", "_process",
        "_settings", "_shelf", "_start", "_wires", "checkpoints", "log", "written",
    )  # fmt: skip

    def __init__(
        self,
        process: str,
        shelf: Shelf,
        application: Application,
        diaries: Callable[[str], Diary],
        settings: GroupSettings,
        posts: list[Post],
        wires: Wires,
        floor: int,
        attics: Callable[[], TagSpill] | None,
        start: int,
    ) -> None:
        self._process = process
        self._shelf = shelf
        self._application = application
        self._diaries = diaries
        self._settings = settings
        self._posts = posts
        self._wires = wires
        self._floor = floor
        self._attics = attics
        self._start = start
        self.log: OpLog | None = None
        """Of the incarnation that runs."""
        self.checkpoints = Checkpoints()
        self._needless: list[int] = []
        """Of the states that the log keeps, and of the one that is being written: up to where a restart from
        it does not read the log."""
        self._next_needless = 0
        self.written = 0
        """Bytes of the state that this incarnation began with."""

    @property
    def highest(self) -> int:
        return self._shelf.highest

    def reserve(self, fresh: bool) -> tuple[str, int]:
        """Reserve the next number. `fresh`, if there is no incarnation to replace: also returns the first
        number since which all attempts came to nothing, for the JOIN to close them."""
        number = max(self._shelf.highest, self._floor) + 1
        since = (self._shelf.since or number) if fresh else 0
        self._shelf.reserve(number, since)
        return incarnation(self._process, number), since

    def first(self) -> tuple[str, int]:
        """The incarnation that a closed group knows this process by from the start. Nothing was sent
        under this number: where its log is gone, that is found out as after any return to an earlier
        state."""
        self._shelf.reserve(max(1, self._shelf.highest), 1)
        return self._process, 1

    def skip(self, number: int, afar: bool = False) -> None:
        """Numbers up to this one were used by this process, though its disk does not know. `afar`: perhaps
        higher ones too, which no member here knows of. Then it goes on some way above, at a place that the
        number of its start draws."""
        if afar:
            number = max(number, self._shelf.highest) + self._start % SKIP
        if number > self._shelf.highest:
            self._shelf.reserve(number)

    def beginning(self, me: str, state: MemberState, now: int) -> Generator[int, None, NewIncarnation]:
        """The log of a life that is to begin with this state, and what it counts and keeps by then. Yields
        what each message or operation has cost, in bytes. Until the life begins (`begin`) it is nothing, and
        a restart drops it."""
        log = self._shelf.open(number_of(me), now)
        known = (*state.table, me, *state.names())
        index, unstable = {name: log.member(name) for name in known}, list[Message]()
        for named in state.log:  # others may lack it: it must be where it can be read again
            message = _indexed(named, index, log)
            unstable.append(message)
            log.append(message.dot, CODEC.encode(message))
            if len(unstable) % COMMIT_EVERY == 0:
                log.commit_only()
            yield len(named.payload)
        log.commit_only()  # durable with what refers to the state: without that there is no such incarnation
        return (yield from self._resuming(me, log, state, unstable))

    def writing(self, begun: NewIncarnation, state: MemberState) -> Generator[int, None, bytes]:
        """The state as it will stand at the beginning of the log, which has its messages. Yields what each
        operation has cost, in bytes."""
        if self._start:  # its timeline begins here, whenever it sends its first message
            begun.ledger.timelines.began(begun.ledger.me, 0, self._start)
            state.starts = dict(begun.ledger.timelines.starts)
        return (yield from _writing(state))

    def given_up(self, me: str) -> None:
        """A life that was to begin does not."""
        self._shelf.drop(number_of(me))

    def begin(self, begun: NewIncarnation, state: MemberState, written: bytes, now: int) -> Member:
        """From here on it is this life; durable when it returns. `written`: the state."""
        self._write_down(begun.log, state, written, now)
        return self._begin(begun, state, now)

    def synced(self, attempt: Attempt, now: int) -> None:
        """For metrics: its state has come, and was installed."""
        self._diaries(attempt.joiner).row(
            SYNCED, (attempt.bound, now - attempt.began), None, now, size=self.written
        )

    def _resuming(
        self, me: str, log: OpLog, state: MemberState, unstable: Iterable[Message]
    ) -> Generator[int, None, NewIncarnation]:
        attic = self._attics() if self._attics else None
        settings = self._settings
        ledger = Ledger(me, log, state, Spans(state.past), attic, settings.tags_max, settings.order)
        operations = Operations(state.retained)
        book = TagBook(ledger, operations)
        yield from ledger.resume(state, book.noted(unstable))
        for place in state.carried:
            operations.remember(ledger.timelines.exactly(place))
            yield 0
        return NewIncarnation(log, ledger, operations, book)

    def _write_down(self, log: OpLog, state: MemberState, written: bytes, now: int) -> None:
        log.snapshot(log.tail, _clock(log, state), written, now)
        self.written = len(written)
        self._needless = [needless(log, state)]

    def writing_down(self, member: Member, leaves: bool) -> Generator[int, None, Written]:
        """What the member is when the first step of this is taken, so that a restart need not go back
        further. Yields what each item has cost, in bytes."""
        log = self.log
        assert log is not None
        log.commit_only()  # what refers to it is synced after that
        state, sources = member.written()
        state.orphans = list(member.operations.orphans)
        state.leaves, state.goes_on = leaves, True
        carrying = member.carrying
        state.since, state.tail_lost = carrying.since, carrying.tail_lost
        state.must_announce = carrying.must_announce
        state.strangers, state.settled_before = set(carrying.strangers), carrying.settled_before
        if self._application.reads:
            state.extent, state.former = member.reading.before, (*member.reading.former, member.reading.begun)
        self._next_needless = needless(log, state)
        upto, clock = log.tail, _clock(log, state)
        encoded = yield from encoding(replace(state, log=[], table=[]), program=sources.application)
        return Written(upto, clock, encoded.parts)

    def written_down(self, member: Member, now: int) -> None:
        """That counts: the log may forget what all have."""
        log = self.log
        assert log is not None
        self._needless = [*self._needless[-1:], self._next_needless]
        oldest = next(log.missing(member.ledger.retain_from), None)  # operations that may have to be carried
        limit = min([*self._needless, *([oldest.position - 1] if oldest else [])])
        log.collect(now, limit, self._settings.history_bytes)
        member.committed()
        member.reading.written_down()

    def recover(self, now: int, forgetful: bool) -> Generator[int, None, tuple[Member, MemberState] | None]:
        """Restart: the newest incarnation whose state had come in whole, and that state. Yields what each
        message or operation has cost, in bytes."""
        found = None
        for number in reversed(self._shelf.kept()):
            log = self._shelf.open(number, now)
            snapshot = log.load()
            if snapshot is None or found is not None:
                self._shelf.drop(number)  # came to nothing, or was replaced
                continue
            state = yield from decoding(snapshot.data)
            self._application.install(state.application)
            unstable = before(snapshot.covers, log, state)
            self._needless = [needless(log, state)]
            seen: list[int] = []
            me = incarnation(self._process, number)
            begun = yield from self._resuming(me, log, state, _noted(unstable, seen))
            member = self._begin(begun, state, now)
            diary = self._diaries(member.me)
            if diary.ended:  # and an earlier start may have sent more than it was told of
                member.mute()
            for stored in log.since(snapshot.covers):
                message = understood(CODEC, stored)
                member.replay(message, now)
                seen.append(stored.dot)
                yield max(len(stored.data), (message.span - 1) << KILOBYTE_BITS)  # each operation is applied
            member.recovered(seen, log.stable, log.notes, now)
            if not forgetful and diary.is_ahead(member.ledger.count):
                member.mute()  # its trace has gone on already, with other messages
            elif not (diary.ended or member.view.leaving):
                diary.row(RESTART, None, member.ledger.frontier(), now)
            found = member, state
        return found

    def retire(self, member: Member, now: int, down: bool, replaced: bool = False) -> None:
        """A life is over. `down`: as after a crash, for all that others can tell. `replaced`: by another."""
        if down:
            self._diaries(member.me).row(CRASH, None, None, now)
        number = number_of(member.me)
        in_vain = not replaced and number < self._shelf.highest  # it had tried to return
        self._shelf.ended(number, number + 1 if in_vain else 0)

    def _begin(self, begun: NewIncarnation, state: MemberState, now: int) -> Member:
        log, ledger, operations, book = begun
        diary = self._diaries(ledger.me)
        self.log = log
        operations.orphans.extend(state.orphans)
        member = Member(
            ledger.me, log, state, ledger, operations, book, self._application, diary, self._settings,
            self._posts, self._wires, now, self._start,
        )  # fmt: skip
        if state.goes_on:
            return member
        if not state.counts:
            diary.row(START, None, None, now)
            return member
        diary.row(INSTALL, None, state.context, now)
        for name, final in state.gone.items():
            if final.evicted:
                diary.row(EVICT, (name, final.last), None, now)
        return member


def _writing(state: MemberState) -> Generator[int, None, bytes]:
    return b"".join((yield from encoding(replace(state, log=[], table=[]))).parts)


def _clock(log: OpLog, state: MemberState) -> list[int]:
    """Counts; of those that are past the log's."""
    named = zip(log.names, log.vector, strict=True)
    return [max(state.counts.get(name, 0), count) for name, count in named]


def _indexed(named: NamedMessage, index: dict[str, int], log: OpLog) -> Message:
    for name, _ in named.context:
        if name not in index:
            index[name] = log.member(name)
    context = tuple(sorted([pack(index[name], seq) for name, seq in named.context]))
    dot = pack(index[named.origin], named.seq)
    return Message(dot, context, named.payload, (), span_of_payload(named.payload))


def _noted(messages: Iterable[Message], seen: list[int]) -> Iterator[Message]:
    for message in messages:
        seen.append(message.dot)
        yield message
