"""A node of an edge tree (`contract.Machine`): the rules of `spread.edge` over a log, for a program.

Delivering is the program's taking, in the order of acceptance. A group's state is asked for, replaced or
given up only after the program has taken all that came before. docs/protocols/edge.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

from thence.core.edge import Count, EdgePacket
from thence.core.edge_codec import decode, encode
from thence.core.errors import StorageError, ThenceError, UsageError
from thence.core.machine import Wake
from thence.core.runs import in_runs
from thence.oplog.log import OpLog
from thence.oplog.policy import DiskSync
from thence.replica.contract import Output, Untagged, must_fit
from thence.replica.edge_inbox import EdgeInbox
from thence.replica.edge_journal import EdgeCame, EdgeFacts, EdgeJournal, Logged, apply_facts, must_be_name
from thence.replica.edge_parts import (
    EdgeDiary,
    EdgeProgram,
    LinkWishes,
    ProgramStates,
    missed_by,
    unaddressed,
)
from thence.replica.edge_replay import EdgeReplay, life_of
from thence.replica.edge_states import PAYLOAD_MAX, EdgeStatesMaking
from thence.replica.events import Repeated
from thence.replica.group.lifecycle.checkpoints import Checkpoints
from thence.replica.life_tag import Sent
from thence.replica.positions import LIFE_BITS, PART_MAX, place_of
from thence.spread import edge
from thence.spread.edge_book import IN, EdgeBook, EdgeEntry, EdgeSettings, InstalledGroup, from_above
from thence.spread.edge_interest import take_state
from thence.spread.edge_tree import EdgeChild, EdgeTree
from thence.trace.recorder import DELIVER, LEAVE, SEND, SUBSCRIBE, SYNCED, UNSUBSCRIBE


class EdgeMachine(Untagged):
    __slots__ = (
        "_began", "_checkpoints", "_diary", "_greet_until", "_inbox", "_journal", "_leaving", "_life",
        "_links", "_log", "_missed", "_ordinal", "_parts", "_position", "_program",
        "_replaying", "_replays", "_states", "_taken", "_told", "book", "tree",
    )  # fmt: skip

    no_tags = "messages of an edge tree have no tags"
    no_counts = "on an edge tree a node has some groups only: there is no count of all that it has"

    def __init__(
        self,
        me: str,
        log: OpLog,
        program: EdgeProgram,
        diary: EdgeDiary,
        settings: EdgeSettings,
        now: int,
        *,
        root: str,
        contacts: tuple[str, ...] = (),
    ) -> None:
        """`me`: an identity. `root`: that of the root, which may be this one; empty: the log knows it, or a
        parent will tell."""
        self._log: Final = log
        self._program: Final = program
        self._states: Final = ProgramStates(program)
        self._diary: Final = diary
        self._journal: Final = EdgeJournal(log)
        self._checkpoints: Final = Checkpoints()
        self._inbox: Final = EdgeInbox(self._journal, settings.inbox_max, self._is_for_program)
        self._position = self._ordinal = self._parts = 0
        """Of the last record; the last message or state among all that the log ever had; and what a program
        was told of at the place of one."""
        self._taken, self._told = log.taken, 0
        """Up to where the program was told: the record, and its ordinal."""
        self._life: Final = life_of(me)
        self._replays = 0
        self._links: Final = LinkWishes()
        self._replaying = True
        self._began = now
        self._missed: dict[str, tuple[dict[str, int], dict[str, int]]] = {}
        """What a state stands in for that is about to be installed."""
        self.book: Final = EdgeBook(me, me == root, self, root)
        self._read(now)
        self.tree: Final = EdgeTree(self.book, settings, contacts, now)
        self._replaying = False
        edge.start(self.tree, now)
        waits = settings.greet_us > 0 and self.book.number > 0 and not self.book.root
        self._greet_until = now + settings.greet_us if waits else 0
        self._leaving = False

    def _read(self, now: int) -> None:
        """Come back from the log, telling the trace again what it says."""
        book = self.book
        states, after, self._ordinal = self._journal.read(book)
        self._told = self._ordinal
        for group, state in states.items():
            self._program.install(group, state)
        for entry in book.entries:
            entry.at = min(entry.at, now)
        for position, record in self._journal.records(after):
            self._position = position
            self._ordinal += not isinstance(record, EdgeFacts)
            if position <= self._taken:
                self._told = self._ordinal
            if isinstance(record, Logged):
                book.note(record.entry, now)
                self._deliver(record.entry, position)
            elif isinstance(record, EdgeCame):
                self._take_all()
                self._parts = 0
                self._has_told(position, self._ordinal)
                take_state(book, record, record.full, record.joins)
                book.append(from_above(), now)
            else:
                self._read_facts(record)

    def _read_facts(self, facts: EdgeFacts) -> None:
        book = self.book
        gone = {group for group in book.groups if book.is_in(group)} - {*facts.inside}
        if gone:
            self._take_all()
        new = [group for group in facts.inside if not book.is_in(group)]
        apply_facts(book, facts)
        for group in sorted(gone):
            self.left(group)
        for group in new:  # of the root, alone: others get a state
            self.joined(group)

    @property
    def _now(self) -> int:
        return self._began if self._replaying else self.tree.now

    # What the tree asks (`EdgeHost`)

    def accepted(self, entry: EdgeEntry) -> None:
        self._ordinal += 1
        self._position = self._journal.message(entry, self.book.groups.get(entry.group))
        self._deliver(entry, self._position)

    def _deliver(self, entry: EdgeEntry, position: int) -> None:
        own, group = entry.origin == self.book.me, entry.group
        if own:
            for number in entry.numbers:
                self._diary.row(SEND, (entry.origin, number), None, entry.at, channel=group)
        if not self.book.is_in(group):
            return
        at_once = position <= self._log.taken if self._replaying else own and not self._inbox.waiting
        if at_once or (own and not self._program.reads(group)):
            self._tell(entry, self._ordinal, entry.at)
            if own and not self._inbox.waiting:
                self._has_told(position, self._ordinal)
        else:
            self._inbox.put(position, self._ordinal, entry, self._replaying)

    def _is_for_program(self, record: Logged) -> bool:
        entry = record.entry
        return record.member and (entry.origin != self.book.me or self._program.reads(entry.group))

    def _has_told(self, position: int, ordinal: int) -> None:
        self._taken, self._told = max(self._taken, position), max(self._told, ordinal)

    def _tell(self, entry: EdgeEntry, ordinal: int, now: int) -> None:
        own = entry.origin == self.book.me
        if not own:
            size = len(entry.payload)
            for number in entry.numbers:
                self._diary.row(DELIVER, (entry.origin, number), None, now, size=size)
                size = 0  # of all of them, with the first
        self._program.apply(entry, self._place(ordinal), own)

    def _place(self, ordinal: int, part: int = 0) -> int:
        return place_of(self._life, ordinal, part)

    def changed(self) -> None:
        if not self._replaying:
            self._position = self._journal.facts(self.book)

    def begin_from(self, states: Mapping[str, bytes]) -> None:
        self._take_all()
        self._states.begin(states, [group for group in states if self.book.is_in(group)])

    def installed(self, state: InstalledGroup, full: bool, joins: str) -> None:
        self._take_all()
        self._parts = 0
        self._missed = missed_by(self.book, state) if full else {}
        self._ordinal += 1
        self._position = self._journal.came(state, full, joins)
        self._has_told(self._position, self._ordinal)

    def synced(self, giver: str, took_us: int, state: InstalledGroup) -> None:
        size = sum(map(len, state.states))
        self._diary.row(SYNCED, (giver, took_us), None, self._now, size=size)

    def install(
        self, group: str, state: bytes, covers: Sequence[Count], again: Sequence[EdgeEntry], joins: bool
    ) -> None:
        """What came while the node joined is part of the state that it begins with."""
        now = self._now
        deps = [(origin, number) for origin, _, number in covers]
        if joins:
            deps += [(entry.origin, entry.number) for entry in again]
        self._diary.row(SUBSCRIBE, None, tuple(deps), now, channel=group, key=self._position)
        self._states.install(group, state)
        if not joins and (missed := self._missed.pop(group, None)):
            self._parts += 1
            self._program.missed(group, *missed, self._place(self._ordinal, self._parts))
        if not joins and self._program.reads(group):
            return  # it was told of these
        for entry in again:
            own = entry.origin == self.book.me
            self._program.apply(entry, self._place(self._ordinal), own, self._parts + 1)
            self._parts += entry.span

    def joined(self, group: str) -> None:
        self._diary.row(SUBSCRIBE, None, (), self._now, channel=group)
        self._program.install(group, b"")

    def left(self, group: str) -> None:
        self._take_all()
        now = self._now
        self._diary.row(UNSUBSCRIBE, None, None, now, channel=group, key=self.book.request)
        self._program.forget(group)

    def make_states(self, groups: Sequence[str]) -> EdgeStatesMaking:
        self._take_all()
        return EdgeStatesMaking(groups, [self._program.state_chunks(group) for group in groups])

    def _take_all(self) -> None:
        self.take(self._inbox.waiting, self._now)

    # What happens to it

    @property
    def log(self) -> OpLog | None:
        return self._log

    @property
    def wake_at(self) -> int:
        at = edge.wake_at(self.tree)
        return min(at, self._greet_until) if self.in_debt else at

    @property
    def waiting(self) -> int:
        return self._inbox.waiting

    @property
    def in_debt(self) -> bool:
        """Others may have messages of this node that a disk which was put back has forgotten."""
        if self._greet_until and (self.tree.parent is not None or self.tree.now >= self._greet_until):
            self._greet_until = 0
        return self._greet_until > 0

    @property
    def waits_for(self) -> tuple[str, ...]:
        return ("a first parent",) if self._greet_until else ()

    @property
    def refuses(self) -> ThenceError | None:
        if self.book.gone or self._leaving:
            return UsageError(f"this node {'has left' if self.book.gone else 'leaves'} the tree")
        if self.tree.behind:
            return StorageError(f"{self.tree.behind}: its data folder is an old copy, or a peer lies")
        return None

    def encode(self, packet: EdgePacket) -> bytes:
        return encode(packet)

    def decode(self, data: bytes) -> EdgePacket:
        return decode(data)

    def link_up(self, peer: str, now: int) -> None:
        edge.link_up(self.tree, peer, now)

    def link_down(self, peer: str, now: int) -> None:
        edge.link_down(self.tree, peer, now)

    def receive(self, peer: str, packet: EdgePacket, now: int) -> None:
        edge.receive(self.tree, peer, packet, now)

    def broadcast(self, payloads: Sequence[bytes], now: int) -> Sequence[Sent]:
        """To the group whose name stands before each payload (`addressed`). Those to one group in a row are
        a run; a message to another group between two of them comes between them everywhere."""
        must_fit(payloads, PAYLOAD_MAX)
        most, sent = min(PAYLOAD_MAX, self.tree.settings.packet_bytes), list[Sent]()
        for group, pairs in groupby([unaddressed(payload) for payload in payloads], itemgetter(0)):
            for run in in_runs([payload for _, payload in pairs], most):
                entry = edge.publish(self.tree, group, run, now)
                sent += [((entry.origin, number), None) for number in entry.numbers]
        return sent

    def take(self, limit: int, now: int) -> int:
        taken = 0
        while taken < limit and (one := self._inbox.next()) is not None:
            self._tell(one.entry, one.ordinal, now)
            self._has_told(one.position, one.ordinal)
            taken += one.entry.span
        return taken

    def wake(self, now: int) -> None:
        edge.wake(self.tree, now)

    def join_group(self, group: str, now: int) -> None:
        self.tree.now = now
        edge.join(self.tree, must_be_name(group, "a group"))

    def leave_group(self, group: str, now: int) -> None:
        self.tree.now = now
        edge.leave(self.tree, group)

    def rehome(self, under: str, now: int) -> None:
        self.tree.now = now
        edge.rehome(self.tree, under)

    def holds_back(self, child: EdgeChild) -> int:
        """How many messages for a child the gate keeps for now."""
        return edge.held_back(self.tree, child)

    def here(self, place: str, now: int) -> None:
        """Where this process is reached from now on."""
        self.tree.now, self.tree.place = now, place

    def meet(self, name: str, place: str, now: int) -> None:
        """The process that this node was told to be below."""
        edge.meet(self.tree, name, place, now)

    def part(self) -> None:
        """Leave the tree for good as soon as nothing is lost by that; nothing is sent any more."""
        if self.book.root:
            raise UsageError("the root stays: a tree is rooted there")
        self._leaving = True

    def leave_tree(self, now: int) -> bool:
        self.tree.now = now
        return edge.leave_tree(self.tree)

    # A step's end

    def commit(self, now: int) -> Sequence[DiskSync | Wake]:
        self.tree.now = now
        edge.settle(self.tree)
        if self._leaving and not self.book.gone and edge.leave_tree(self.tree):
            self._diary.row(LEAVE, None, None, now)
        self._log.mark_taken(self._taken)
        effects = self._log.commit(now)
        self._inbox.committed()
        return effects

    def output(self) -> Output:
        posts, self.tree.outbox = self.tree.outbox, []
        links = self._links.changed(self.tree.wanted, self.book.places)
        return posts, links, self._program.output()

    def drop(self) -> None:
        self._journal.forget_uncommitted()
        self._program.drop()

    def untidy(self, now: int) -> bool:  # noqa: ARG002
        return self._checkpoints.wanted(self._log) and not (self._inbox.waiting or self._replays)

    def tidy(self, now: int) -> None:
        """Write everything down, so that the log may begin here."""
        states = self._states.of([group for group, since in self.book.groups.items() if since == IN])
        self._journal.keep(self.book, states, self._ordinal, now, self.tree.settings.history_bytes)
        self._checkpoints.made(self._log)

    # What a program asks

    @property
    def me(self) -> str:
        return self.book.me

    @property
    def members(self) -> tuple[str, ...]:
        return (self.book.me,)

    @property
    def position(self) -> int:
        return self._place(self._told, PART_MAX)

    @property
    def sent(self) -> int:
        return self.tree.book.number

    def replay(self, after: int, now: int, own: bool = False) -> Iterator[Repeated | None]:
        """What a program without a state was told of after a position, as far as the log has it."""
        del now
        if after > self.position and after >> LIFE_BITS == self._life:
            raise UsageError(f"position {after} is ahead of this log, which ends at {self.position}")
        return self._in_replay(EdgeReplay(self._journal, self._program, self.book, after, own))

    def _in_replay(self, replay: EdgeReplay) -> Iterator[Repeated | None]:
        self._replays += 1
        try:
            yield from replay.events(self._taken, self._told)
        finally:
            self._replays -= 1
