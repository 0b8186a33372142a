"""A node of an edge tree (`contract.Machine`): the rules of `spread.edge` over a log, for a program.

Delivering is the program's taking, in the order of acceptance. A group's state is asked for, replaced or
given up only after the program has taken all that came before. docs/protocols/edge.md.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from thence.core.edge import Count, EdgePacket
from thence.core.edge_codec import decode, encode
from thence.core.errors import PeerError, StorageError, ThenceError, UsageError
from thence.core.groups import Place
from thence.core.machine import Wake
from thence.oplog.log import OpLog
from thence.oplog.policy import Sync
from thence.oplog.record import MAX_BODY
from thence.replica.contract import Output, must_fit
from thence.replica.edge_journal import EdgeCame, EdgeFacts, EdgeJournal, apply_facts, must_be_name
from thence.replica.events import Repeated
from thence.replica.group_checkpoints import Checkpoints
from thence.replica.life_tag import LifeTag, Sent
from thence.spread import edge
from thence.spread.edge_book import IN, EdgeBook, EdgeEntry, EdgeSettings, Installed
from thence.spread.edge_interest import take_state
from thence.spread.edge_tree import EdgeChild, EdgeTree
from thence.trace.recorder import DELIVER, LEAVE, SEND, SUBSCRIBE, UNSUBSCRIBE

__all__ = ["Addressed", "EdgeDiary", "EdgeEntry", "EdgeMachine", "EdgeProgram", "EdgeSettings", "addressed"]

HEAD_BYTES: Final = 32 << 10
"""What a frame and a record must have room for beside a payload."""


class EdgeDiary(Protocol):
    """Rows of the node's trace. `key` tells rows of a channel apart that say the same."""

    def row(
        self,
        kind: int,
        about: Place | None,
        deps: tuple[Place, ...] | None,
        now: int,
        *,
        channel: str = "",
        key: int = 0,
    ) -> None: ...


class EdgeProgram(Protocol):
    """What a program does with messages and states of its groups."""

    def apply(self, entry: EdgeEntry, position: int, own: bool) -> None:
        """A message of a group that the node is a member of; `own`: the program has sent it."""
        ...

    def state(self, group: str) -> bytes: ...

    def install(self, group: str, state: bytes) -> None: ...

    def missed(self, group: str, first: Mapping[str, int], last: Mapping[str, int], position: int) -> None:
        """A state stands in for messages that the program has not had: by origin, from one to another."""
        ...

    def forget(self, group: str) -> None: ...

    def output(self) -> Sequence[Any]:
        """Events of the step."""
        ...

    def drop(self) -> None: ...


class EdgeMachine:
    __slots__ = (
        "_began", "_checkpoints", "_diary", "_greet_until", "_inbox", "_journal", "_leaving", "_links",
        "_log", "_missed", "_payload_max", "_position", "_program", "_replaying", "_taken", "book", "tree",
    )  # fmt: skip

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
        frame_bytes: int = MAX_BODY,
    ) -> None:
        """`me`: an identity. `root`: that of the root, which may be this one; empty: the log knows it, or a
        parent will tell."""
        self._log: Final = log
        self._program: Final = program
        self._diary: Final = diary
        self._journal: Final = EdgeJournal(log)
        self._checkpoints: Final = Checkpoints()
        self._payload_max: Final = min(frame_bytes, MAX_BODY) - HEAD_BYTES
        self._inbox: deque[tuple[int, EdgeEntry]] = deque()
        self._position = 0
        self._taken = log.taken
        self._links: dict[str, str] = {}
        self._replaying = True
        self._began = now
        self._missed: dict[str, tuple[dict[str, int], dict[str, int]]] = {}
        """By group, what a state stands in for that is about to be installed: from, to."""
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
        states, after = self._journal.read(book)
        for group, state in states.items():
            self._program.install(group, state)
        for entry in book.entries:
            entry.at = min(entry.at, now)
        for position, record in self._journal.records(after):
            self._position = position
            if isinstance(record, EdgeEntry):
                book.note(record, now)
                self._deliver(record, position)
            elif isinstance(record, EdgeCame):
                self._take_all()
                take_state(book, record, record.full, record.joins)
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
        self._position = self._journal.message(entry)
        self._deliver(entry, self._position)

    def _deliver(self, entry: EdgeEntry, position: int) -> None:
        own = entry.origin == self.book.me
        if own:
            about = entry.origin, entry.number
            self._diary.row(SEND, about, None, entry.at, channel=entry.group)
        if not self.book.is_in(entry.group):
            return
        if own:
            self._program.apply(entry, position, True)
        elif self._replaying and position > self._log.taken:
            self._inbox.append((position, entry))
        elif self._replaying:
            self._tell(entry, position, entry.at)
        else:
            self._inbox.append((position, entry))

    def _tell(self, entry: EdgeEntry, position: int, now: int) -> None:
        self._diary.row(DELIVER, (entry.origin, entry.number), None, now)
        self._program.apply(entry, position, False)

    def changed(self) -> None:
        if not self._replaying:
            self._position = self._journal.facts(self.book)

    def installed(self, state: Installed, full: bool, joins: str) -> None:
        self._take_all()
        self._missed.clear()
        for origin, group, number in state.covers if full else ():
            had = self.book.have.get((origin, group), 0)
            if self.book.is_in(group) and number > had:
                first, last = self._missed.setdefault(group, ({}, {}))
                first[origin], last[origin] = had + 1, number
        self._position = self._journal.came(state, full, joins)

    def install(
        self, group: str, state: bytes, covers: Sequence[Count], again: Sequence[EdgeEntry], joins: bool
    ) -> None:
        """What came while the node joined is part of the state that it begins with."""
        now = self._now
        deps = [(origin, number) for origin, _, number in covers]
        if joins:
            deps += [(entry.origin, entry.number) for entry in again]
        self._diary.row(SUBSCRIBE, None, tuple(deps), now, channel=group, key=self._position)
        self._program.install(group, state)
        if not joins and (missed := self._missed.pop(group, None)):
            self._program.missed(group, *missed, self._position)
        for entry in again:
            self._program.apply(entry, self._position, entry.origin == self.book.me)

    def joined(self, group: str) -> None:
        self._diary.row(SUBSCRIBE, None, (), self._now, channel=group)
        self._program.install(group, b"")

    def left(self, group: str) -> None:
        self._take_all()
        now = self._now
        self._diary.row(UNSUBSCRIBE, None, None, now, channel=group, key=self.book.request)
        self._program.forget(group)

    def state_of(self, group: str) -> bytes:
        self._take_all()
        state = self._program.state(group)
        if len(state) > self._payload_max:
            most = self._payload_max
            raise PeerError(f"the state of {group!r} has {len(state)} bytes: links carry up to {most}")
        return state

    def _take_all(self) -> None:
        now = self._now
        self.take(len(self._inbox), now)

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
        return len(self._inbox)

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
            return UsageError(
                "this node leaves the tree" if not self.book.gone else "this node has left the tree"
            )
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
        """To the group whose name stands before each payload (`addressed`)."""
        must_fit(payloads, self._payload_max)
        split = [unaddressed(payload) for payload in payloads]
        entries = [edge.publish(self.tree, group, payload, now) for group, payload in split]
        return [((entry.origin, entry.number), None) for entry in entries]

    def take(self, limit: int, now: int) -> int:
        taken = 0
        while taken < limit and self._inbox:
            position, entry = self._inbox.popleft()
            self._tell(entry, position, now)
            self._taken = max(self._taken, position)
            taken += 1
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

    def commit(self, now: int) -> Sequence[Sync | Wake]:
        self.tree.now = now
        edge.settle(self.tree)
        if self._leaving and not self.book.gone and edge.leave_tree(self.tree):
            self._diary.row(LEAVE, None, None, now)
        self._log.mark_taken(self._taken)
        return self._log.commit(now)

    def output(self) -> Output:
        posts, self.tree.outbox = self.tree.outbox, []
        places, links = self.book.places, None
        wanted = {name: places.get(name, "") for name in sorted(self.tree.wanted)}
        if wanted != self._links:
            links = dict[str, str | None](dict.fromkeys(sorted(self._links.keys() - wanted.keys())))
            links |= {name: at for name, at in wanted.items() if self._links.get(name) != at}
            self._links = wanted
        return Output(posts, links, self._program.output())

    def drop(self) -> None:
        self._journal.forget_uncommitted()
        self._program.drop()

    def untidy(self, now: int) -> bool:  # noqa: ARG002
        return self._checkpoints.wanted(self._log) and not self._inbox

    def tidy(self, now: int) -> None:
        """Write everything down, so that the log may begin here."""
        states = {
            group: self._program.state(group) for group, since in self.book.groups.items() if since == IN
        }
        self._journal.keep(self.book, states, now)
        self._checkpoints.made(self._log)

    def accepted_ever(self) -> Iterator[tuple[str, str, int]]:
        """Origin, group and number of each message that the log holds."""
        for _, record in self._journal.records(self._log.head):
            if isinstance(record, EdgeEntry):
                yield record.origin, record.group, record.number

    # What a program asks

    @property
    def me(self) -> str:
        return self.book.me

    @property
    def members(self) -> tuple[str, ...]:
        return (self.book.me,)

    @property
    def position(self) -> int:
        return self._taken

    def tag(self, place: Place) -> LifeTag:
        raise UsageError(f"on an edge tree {place[0]}:{place[1]} has no tag")

    @property
    def sent(self) -> int:
        return self.tree.book.number

    def delivered(self) -> dict[str, int]:
        raise UsageError("on an edge tree a node has some groups only: there is no count of all that it has")

    def has_delivered(self, place: Place) -> bool:
        del place
        raise UsageError("on an edge tree a node has some groups only: there is no count of all that it has")

    def has_reached(self, tag: LifeTag, at: int | None) -> bool:
        del tag, at
        raise UsageError("on an edge tree messages have no tags, and nothing is told as stable")

    def replay(self, after: int, now: int, own: bool = False) -> Iterator[Repeated | None]:
        del after, now, own
        raise UsageError("an edge tree keeps no positions: a program goes on with what it has not taken")


class Addressed(bytes):
    """A payload for `broadcast`, with the group that it is for. Not any bytes: those would be taken apart."""

    __slots__ = ()


def addressed(group: str, payload: bytes) -> Addressed:
    name = must_be_name(group, "a group").encode()
    return Addressed(bytes((len(name),)) + name + payload)


def unaddressed(data: bytes) -> tuple[str, bytes]:
    if not isinstance(data, Addressed):
        raise UsageError("on an edge tree a message goes to a group: multicast(payload, group=…)")
    length = data[0]
    return bytes(data[1 : 1 + length]).decode(), bytes(data[1 + length :])
