"""What an incarnation has delivered: names and counters, order and window, and what members may still lack.

Engines count members by index and messages by dot; packets and states of a changing group have names. Here
one becomes the other. Indices are the log's: handed out once, when a name is first heard of. A joiner takes
over those of its contact, so that most members of a group have the same ones for the same names, and what one
has encoded the others need not encode again.

Invariant: every message that was delivered and is not stable is in the log, whether it was delivered by this
incarnation or came with the state that it began with; so nothing but its tag is kept in memory. `uncommitted`
holds what the log was given and has not written yet.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from thence.core.codec import Codec
from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.errors import InvariantError
from thence.core.groups import ALL, NamedMessage, Place, told_apart
from thence.core.message import Message
from thence.core.runs import span_of_payload
from thence.members.spans import Spans
from thence.members.timelines import Timelines
from thence.oplog.log import OpLog
from thence.oplog.record import Stored
from thence.order.graph import GraphOrderer, GraphTagger
from thence.order.roster import Roster
from thence.order.tags import TAGS_MAX, TagSpill
from thence.order.vector import SeenTagger
from thence.replica.group.ledger.state import MemberState
from thence.replica.group.settings import Order
from thence.replica.history import understood

CODEC = Codec(ORIGIN_MASK + 1, stamps_are_dots=True, span=span_of_payload)
"""The form of messages in the log: indices are the log's own."""

TAGGERS: Final[dict[Order, type[GraphTagger] | type[SeenTagger]]] = {
    "graph": GraphTagger,
    "vector": SeenTagger,
}
"""What messages name of what their sender has seen: its newest, or one of each member."""

HOLES_MAX = 64
"""Names in a table that are not used any more: to have the same indices everywhere is worth some bytes, not
many."""

SWEEP_EVERY = 64
"""Messages after which to look for what has become stable, if nothing else is a reason before: looking costs
about as much as delivering one."""


class Ledger:
    __slots__ = (
        "_index",
        "counts",
        "delivered",
        "had",
        "log",
        "me",
        "names",
        "orderer",
        "own_index",
        "past",
        "retain_from",
        "settled",
        "tagger",
        "timelines",
        "uncommitted",
        "unswept",
        "window",
    )  # fmt: skip

    def __init__(
        self,
        me: str,
        log: OpLog,
        state: MemberState,
        past: Spans,
        attic: TagSpill | None = None,
        tags_max: int = TAGS_MAX,
        order: Order = "graph",
    ) -> None:
        """As it is before `resume`."""
        self.log = log
        self.me = me
        self.names = list(log.names)
        self._index = {name: index for index, name in enumerate(self.names)}
        if me not in self._index:
            raise InvariantError(f"the log of {me} belongs to another process")
        self.own_index = self._index[me]
        size = len(self.names)
        self.uncommitted: list[tuple[int, bytes]] = []
        self.past = past
        self.timelines = Timelines(state.starts, state.branches)
        self.settled = {index for index, name in enumerate(self.names) if name in past}
        """Of these everything was delivered, and is stable: they are not spoken of."""
        self.counts = [state.counts.get(name, 0) for name in self.names]
        stable = [state.stable.get(name, 0) for name in self.names]
        for index in self.settled:
            self.counts[index] = stable[index] = log.vector[index]
        self.delivered = sum(self.counts)
        """Messages, of all members."""
        self.unswept = 1
        """What was delivered or heard since the last search for what is stable."""
        counted = zip(self.names, stable, strict=True)
        self.retain_from = [state.floor.get(name, count) for name, count in counted]
        """Operations above these counters may have to be carried one day."""
        self.had = [state.had.get(name, 0) for name in self.names]
        """What was stable when last no member was missed, here or where the state was made: all that are
        missed now had delivered that."""
        self.tagger = TAGGERS[order](self.own_index, size)
        seen = self.dots(state.context)
        if order == "vector":
            seen = tuple(
                [pack(at, seq) for at, seq in enumerate(self.counts) if seq and at not in self.settled]
            )
        self.tagger.resume(self.counts[self.own_index], seen)
        self.orderer = GraphOrderer(self.own_index, size)
        self.orderer.resume(self.delivered_counts())
        self.window = Roster(self.own_index, size)
        if attic is not None:
            self.window.stow_in(attic, tags_max)
        self.window.resume(tuple(stable))

    def resume(self, state: MemberState, unstable: Iterable[Message]) -> Iterator[int]:
        """Once, before anything else: these are the messages of the state that are not stable. Yields for
        each of them, since there may be many."""
        for message in unstable:
            self.window.see(message)
            yield 0
        for index in range(len(self.names)):
            self.window.drop(index)
        for member in sorted(state.view - {self.me}):
            self.window.enter(self.number(member))
            self.known(member, state.rows.get(member, {}))

    def number(self, name: str) -> int:
        """The index of an incarnation, which becomes known if it was not."""
        index = self._index.get(name)
        if index is None:
            index = self._index[name] = self.log.member(name)
            self.names.append(name)
            self.counts.append(0)
            self.retain_from.append(0)
            self.orderer.admit(index)
            self.window.admit(index)
            if name in self.past:
                self._silence(index)
        return index

    def _silence(self, index: int) -> None:
        """A message that follows from this one may come late: whatever it was, it was delivered."""
        self.settled.add(index)
        self.orderer.sent(Message(pack(index, ALL), (), b""), 0)

    def forget(self, name: str) -> None:
        """Everything of this incarnation was delivered and is stable: it is not spoken of any more."""
        index = self._index.get(name)
        if index is not None:
            self.timelines.ended(name, self.counts[index])
            self._silence(index)
            self.tagger.settled(index)

    def delivered_counts(self) -> tuple[int, ...]:
        """Up to where messages were delivered, per index."""
        return tuple([ALL if index in self.settled else count for index, count in enumerate(self.counts)])

    def knows(self, name: str) -> bool:
        return name in self._index

    def index(self, name: str) -> int:
        """-1: it is not known."""
        return self._index.get(name, -1)

    def dots(self, places: tuple[Place, ...]) -> tuple[int, ...]:
        return tuple(sorted([pack(self.number(name), seq) for name, seq in places]))

    def place(self, dot: int) -> Place:
        return self.names[dot & ORIGIN_MASK], dot >> ORIGIN_BITS

    def places(self, dots: tuple[int, ...]) -> tuple[Place, ...]:
        names = self.names
        return tuple([(names[dot & ORIGIN_MASK], dot >> ORIGIN_BITS) for dot in dots])

    def message(self, named: NamedMessage) -> Message:
        dot, context = pack(self.number(named.origin), named.seq), self.dots(named.context)
        return Message(dot, context, named.payload, (), span_of_payload(named.payload))

    def named(self, message: Message) -> NamedMessage:
        return NamedMessage(*self.place(message.dot), self.places(message.context), message.payload)

    def count(self, name: str) -> int:
        """How many messages of an incarnation were delivered here."""
        index = self._index.get(name)
        if index is None or index in self.settled:
            member, start = told_apart(name)
            if start:
                return self.timelines.reach(member, start, self.count(member))
            return ALL if name in self.past else 0
        return self.counts[index]

    @property
    def sent(self) -> int:
        """How many messages this incarnation has sent."""
        return self.counts[self.own_index]

    def stable(self, name: str) -> int:
        """How many of an incarnation's messages are stable."""
        index = self._index.get(name)
        return 0 if index is None else self.window.stable_up_to(index)

    def stables(self) -> list[int]:
        return [self.window.stable_up_to(index) for index in range(len(self.names))]

    def vector(self) -> dict[str, int]:
        named = zip(self.names, self.counts, strict=True)
        return {name: count for at, (name, count) in enumerate(named) if count and at not in self.settled}

    def all_are_here(self) -> None:
        """No member is missed: a side that returns one day, or is returned to, has what all members have."""
        self.retain_from = self.had = self.stables()

    def told_had(self) -> dict[str, int]:
        """By name; of those that are past, the last."""
        starts, past = self.timelines.starts, self.past
        named = [each for each in zip(self.names, self.had, strict=False) if each[1]]
        return {name: count for name, count in named if name in starts or name not in past}

    def frontier(self) -> tuple[Place, ...]:
        return self.places(self.tagger.frontier())

    def known(self, member: str, counts: dict[str, int]) -> bool:
        """A member has delivered this much, and what it had sent by then was delivered here. Returns whether
        all of it was delivered here: what was not can only count later."""
        dots, whole = [], True
        for name, count in counts.items():
            index = self._index.get(name)
            if index in self.settled:
                continue
            here = 0 if index is None else self.counts[index]
            whole = whole and (count <= here or count == ALL)
            if index is not None and (count := min(count, here)):
                dots.append(self.window.whole(pack(index, count)))
        self.window.known(self.number(member), tuple(dots))
        return whole

    def row(self, member: str) -> dict[str, int]:
        row = self.window.row(self.number(member))
        named = zip(self.names, row, strict=True)
        return {name: count for at, (name, count) in enumerate(named) if count and at not in self.settled}

    def spoken(self) -> list[str]:
        return [name for at, name in enumerate(self.names) if at not in self.settled]

    def table(self) -> list[str]:
        """Names by index, for a joiner to take over; unless most of them are past."""
        few = len(self.settled) <= HOLES_MAX + 2 * (len(self.names) - len(self.settled))
        return list(self.names) if few else self.spoken()

    # Messages

    def write(self, message: Message) -> bytes:
        """Into the log, as it will be sent to others."""
        data = message.wire or CODEC.encode_message(message)
        self.log.append(message.dot, data)
        self.uncommitted.append((message.dot, data))
        return data

    def written(self, had: list[int]) -> Iterator[tuple[int, bytes]]:
        """Dots and bytes of what was delivered above these counters, causes first, up to this moment: it may
        be read later. What the log does not hold any more must not be asked for."""
        stored, committed = self.log.missing(had), self.log.vector
        fresh = [
            (dot, data)
            for dot, data in self.uncommitted
            if dot >> ORIGIN_BITS
            > max(had[at := dot & ORIGIN_MASK], committed[at] if at < len(committed) else 0)
        ]
        return chain(((one.dot, one.data) for one in stored), fresh)

    def held(self) -> list[int]:
        """Above these counters the log holds everything."""
        base = self.log.base
        return [base[at] if at < len(base) else 0 for at in range(len(self.names))]

    def near(self, origin: str, after: int) -> Iterator[Stored]:
        """What the log holds from about the first message of an origin above a counter on, others' too. No
        member lacks what is stable."""
        index = self.index(origin)
        if not 0 <= index < len(self.log.names):
            return iter(())
        return self.log.near(index, max(after, self.window.stable_up_to(index)))

    def above(self, origins: dict[str, int]) -> list[int]:
        """The counters of a member that lacks only what these have sent above these counts. No member lacks
        what is stable."""
        had = list(self.counts)
        for name, count in origins.items():
            index = self._index.get(name)
            if index is not None:
                had[index] = max(count, self.window.stable_up_to(index))
        return had

    def read(self, dot: int, data: bytes) -> Message:
        return understood(CODEC, Stored(0, dot, data))
