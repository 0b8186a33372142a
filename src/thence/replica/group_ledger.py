"""What an incarnation has delivered: names and counters, order and window, and what somebody may still lack.

Engines count members by index and messages by dot; everybody else in a changing group speaks of names. Here
one becomes the other. Indices are the log's: handed out once, when a name is first heard of, this
incarnation's own first.

Invariant: `kept` holds, in the order of delivery, exactly the messages that were delivered and not
announced as stable.
"""

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.errors import InvariantError
from thence.core.groups import Named, Place
from thence.core.message import Message
from thence.oplog.log import OpLog
from thence.order.graph import GraphOrderer, GraphTagger
from thence.order.roster import Roster
from thence.order.window import GraphTag
from thence.replica.group_state import GroupState


class Ledger:
    __slots__ = ("_index", "counts", "kept", "log", "names", "orderer", "tagger", "window")

    def __init__(self, me: str, log: OpLog, state: GroupState) -> None:
        self.log = log
        self.names = list(log.names)
        if not self.names or self.names[0] != me:
            raise InvariantError(f"the log of {me} belongs to somebody else")
        self._index = {name: index for index, name in enumerate(self.names)}
        size = len(self.names)
        self.kept: dict[int, Named] = {}
        self.counts = [state.counts.get(name, 0) for name in self.names]
        self.tagger = GraphTagger(0, size)
        self.tagger.resume(self.counts[0], self.dots(state.context))
        self.orderer = GraphOrderer(0, size)
        self.orderer.resume(tuple(self.counts))
        self.window = Roster(0, size)
        self.window.resume(tuple([state.stable.get(name, 0) for name in self.names]))
        for named in state.log:
            message = self.message(named)
            self.window.see(message)
            self.kept[message.dot] = named
        for index in range(1, size):
            self.window.drop(index)
        for member in sorted(state.view - {me}):
            self.window.enter(self.number(member))
            self.known(member, state.rows.get(member, {}))

    def number(self, name: str) -> int:
        """The index of an incarnation, which becomes known if it was not."""
        index = self._index.get(name)
        if index is None:
            index = self._index[name] = self.log.member(name)
            self.names.append(name)
            self.counts.append(0)
            self.orderer.admit(index)
            self.window.admit(index)
        return index

    def dots(self, places: tuple[Place, ...]) -> tuple[int, ...]:
        return tuple(sorted([pack(self.number(name), seq) for name, seq in places]))

    def place(self, dot: int) -> Place:
        return self.names[dot & ORIGIN_MASK], dot >> ORIGIN_BITS

    def message(self, named: Named) -> Message:
        return Message(pack(self.number(named.origin), named.seq), self.dots(named.context), named.payload)

    def named(self, message: Message) -> Named:
        context = tuple([self.place(dot) for dot in message.context])
        return Named(*self.place(message.dot), context, message.payload)

    def count(self, name: str) -> int:
        """How many messages of an incarnation were delivered here."""
        index = self._index.get(name)
        return 0 if index is None else self.counts[index]

    def stable(self, name: str) -> int:
        """How many of them are stable."""
        index = self._index.get(name)
        return 0 if index is None else self.window.stable_up_to(index)

    def vector(self) -> dict[str, int]:
        return {name: count for name, count in zip(self.names, self.counts, strict=True) if count}

    def frontier(self) -> tuple[Place, ...]:
        return tuple([self.place(dot) for dot in self.tagger.frontier()])

    def known(self, member: str, counts: dict[str, int]) -> None:
        """A member has delivered this much, and what it had sent by then was delivered here."""
        self.window.known(self.number(member), [counts.get(name, 0) for name in self.names])

    def row(self, member: str) -> dict[str, int]:
        row = self.window.row(self.number(member))
        return {name: count for name, count in zip(self.names, row, strict=True) if count}

    def delivered(self, message: Message, named: Named) -> GraphTag:
        self.counts[message.dot & ORIGIN_MASK] = named.seq
        self.kept[message.dot] = named
        return self.window.see(message)
