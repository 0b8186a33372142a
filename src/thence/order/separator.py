"""Separator engine: addressed messages as chains of hops, ordered by extended causal histories.

An application's client holds the history (`SeparatorTagger`), its middleware what was delivered and what
waits (`SeparatorOrderer`). A gateway (`GatewayOrderer`) has no client: it delivers and
forwards in one step. Of a separator's members the one with the lowest rank that lives forwards. The others
see what comes into the separator, because hops address all of them, and what goes out of it, because it
addresses them as well (the echo). A member takes over when it has delivered everything that the dead one sent
to it (the flush).

Invariant. `todo` holds the logical messages that this member has delivered and of which it has neither seen
nor sent the echo, in the order of delivery.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, STEP
from thence.core.errors import PeerError, UsageError
from thence.core.machine import Forward, OrderEffect
from thence.core.message import Message
from thence.order.deliveries import Deliveries
from thence.order.engine import SEPARATOR, Engine
from thence.order.history import CausalHistory, KeptHistory, Noted, Rules
from thence.order.hops import Hop, read, write
from thence.order.topology import NOWHERE, Topology, flat

NO_LOG: Final = "order separator keeps no log: a node cannot be built from one"


class KeptOrder(NamedTuple):
    """All of an orderer, to be written down. Nothing of it is ready to be released."""

    delivered: int
    newest: dict[int, int]
    held: list[Message]
    history: KeptHistory | None = None
    """Of a gateway, as what follows."""
    todo: tuple[tuple[int, Message], ...] = ()
    gone: frozenset[int] = frozenset()
    dying: tuple[tuple[int, int], ...] = ()


class SeparatorState(NamedTuple):
    """What a member of a separator gives to one that joins it."""

    history: list[Noted]
    todo: dict[int, tuple[int, Message]]


class SeparatorTagger:
    """The client's half: what it has seen that others may have to wait for."""

    __slots__ = ("_dot", "_me", "_topology", "history")

    def __init__(self, me: int, topology: Topology, rules: Rules) -> None:
        if not 0 <= me < len(topology):
            raise ValueError(f"member {me} of {len(topology)}")
        self._me: Final = me
        self._topology: Final = topology
        self._dot = me
        self.history: Final = CausalHistory(me, rules)

    def tag(self, payload: bytes, dest: tuple[int, ...] = (), span: int = 1) -> Message:
        """`span`: so many operations, which are one message."""
        topology, me = self._topology, self._me
        if topology.is_gateway(me):
            raise UsageError(f"{topology.names[me]} is a gateway: it has no client")
        topology.check(dest)
        [zone] = topology.zones_of(me)
        self._dot += span * STEP
        hop, stamp = self.history.send(topology.address(zone, dest, NOWHERE, me))
        return Message(self._dot, write(topology, zone, NOWHERE, hop, stamp), payload, dest, span)

    def took(self, message: Message) -> None:
        hop = read(self._topology, message)
        self.history.deliver(hop.dot, hop.address, hop.stamp)

    def admit(self, member: int) -> None:
        _admit(self._topology, self._me, member)

    def recall(self, message: Message) -> None:  # noqa: ARG002
        raise UsageError(NO_LOG)

    def resume(self, own: int, context: tuple[int, ...]) -> None:  # noqa: ARG002
        raise UsageError(NO_LOG)

    @property
    def sent(self) -> int:
        """The counter of the last operation."""
        return self._dot >> ORIGIN_BITS

    def restore(self, sent: int, history: KeptHistory) -> None:
        self._dot = self._me + sent * STEP
        self.history.restore(history)

    def context(self) -> tuple[int, ...]:
        """Nothing: what a client has seen is not told by counters."""
        return ()

    def frontier(self) -> tuple[int, ...]:
        raise UsageError(NO_LOG)


def _admit(topology: Topology, me: int, member: int) -> None:
    """A member in the zone of `me`, if it is not known."""
    if member == len(topology):
        topology.admit(f"n{member}", topology.zones_of(me)[0])
    elif member > len(topology):
        raise UsageError(f"member {member} comes before member {len(topology)}")


class SeparatorOrderer:
    """The middleware's half: holds hops back until what precedes them here was released."""

    __slots__ = ("_deliveries", "_me", "_topology", "delivered")

    def __init__(self, me: int, topology: Topology, rules: Rules) -> None:
        self._me: Final = me
        self._topology: Final = topology
        self._deliveries: Final = Deliveries[tuple[Hop, Message]](
            me, rules.fifo, [me, *topology.neighbours(me)]
        )
        self.delivered = 0
        """How many hops."""

    @property
    def waiting(self) -> int:
        return len(self._deliveries)

    def words(self) -> int:
        return self._deliveries.words()

    def stamp(self, message: Message) -> Message:
        return message

    def resume(self, counters: tuple[int, ...]) -> None:  # noqa: ARG002
        raise UsageError(NO_LOG)

    def admit(self, member: int) -> None:
        _admit(self._topology, self._me, member)
        self._deliveries.newest.setdefault(member, 0)

    def check(self, message: Message) -> None:
        self._checked(message)

    def _checked(self, message: Message) -> Hop:
        hop, me = read(self._topology, message), self._me
        if me not in hop.address:
            raise PeerError(f"{message} does not come this way")
        own = self._deliveries.newest[me]
        for noted in hop.stamp:
            if noted.hop & ORIGIN_MASK == me and noted.hop >> ORIGIN_BITS > own:
                raise PeerError(f"{message} follows from what was never sent here")
        return hop

    def sent(self, message: Message, now: int) -> list[OrderEffect]:  # noqa: ARG002
        """R4: a process has delivered its own hops. None of its neighbours' hops waits for them here."""
        self._deliveries.mark(read(self._topology, message).dot)
        return []

    def receive(self, message: Message, via: int, now: int) -> list[OrderEffect]:  # noqa: ARG002
        hop = self._checked(message)
        if hop.sender != via:
            raise PeerError(f"a hop of {self._topology.names[hop.sender]} comes from process {via}")
        effects: list[OrderEffect] = []
        if self._deliveries.offer(hop.dot, hop.stamp, (hop, message)):
            while (ready := self._deliveries.pop()) is not None:
                self.delivered += 1
                self._release(*ready, effects)
        return effects

    def _release(self, hop: Hop, message: Message, effects: list[OrderEffect]) -> None:  # noqa: ARG002
        effects.append(message)

    def word(self) -> tuple[int, ...]:
        """R11: what was delivered here."""
        return self._deliveries.word()

    def last(self, sender: int) -> int:
        """The counter of the last hop of a sender that came, delivered or not."""
        return self._deliveries.last(sender)

    def kept(self) -> KeptOrder:
        held = [message for _, message in self._deliveries.held()]
        return KeptOrder(self.delivered, dict(self._deliveries.newest), held)

    def restore(self, kept: KeptOrder) -> None:
        self.delivered = kept.delivered
        self._deliveries.newest.update(kept.newest)
        for message in kept.held:
            hop = read(self._topology, message)
            self._deliveries.offer(hop.dot, hop.stamp, (hop, message))

    def lost(self, process: int, last: int) -> list[OrderEffect]:  # noqa: ARG002
        """`process` is dead, and `last` is the counter of its last hop to this one."""
        return []


class GatewayOrderer(SeparatorOrderer):
    """A member of a separator: it forwards what goes through, or watches another member do so."""

    __slots__ = ("_dying", "_gone", "_number", "history", "todo")

    def __init__(self, me: int, topology: Topology, rules: Rules) -> None:
        super().__init__(me, topology, rules)
        self._number: Final = topology.separator_of(me)
        self.history: Final = CausalHistory(me, rules, topology.cuts(me))
        self.todo: dict[int, tuple[int, Message]] = {}
        """By dot: the zone that it goes to, and the message."""
        self._gone: set[int] = set()
        self._dying: dict[int, int] = {}
        """Dead members whose last hop to this one was not delivered yet."""

    def words(self) -> int:
        return super().words() + self.history.words() + 2 * len(self.todo)

    # A member joins (section 4.4, iii)

    def adopt(self) -> SeparatorState:
        """In one step this member uses the separator with the joiner in it, and shares what it knows."""
        self.history.use(self._topology.cuts(self._me))
        return SeparatorState(self.history.snapshot(), dict(self.todo))

    def begin(self, shared: Sequence[SeparatorState]) -> None:
        """All members have adopted this one. What one of them has not to forward was forwarded before, or
        will be by that one; of what was, no echo comes here."""
        for each in shared:
            self.history.merge(each.history)
        first, *others = [each.todo for each in shared]
        self.todo = {dot: what for dot, what in first.items() if all(dot in other for other in others)}

    def kept(self) -> KeptOrder:
        return super().kept()._replace(
            history=self.history.kept(), todo=tuple(self.todo.values()), gone=frozenset(self._gone),
            dying=tuple(self._dying.items()),
        )  # fmt: skip

    def restore(self, kept: KeptOrder) -> None:
        super().restore(kept)
        assert kept.history is not None
        self.history.restore(kept.history)
        self.todo = {message.dot: (far, message) for far, message in kept.todo}
        self._gone, self._dying = set(kept.gone), dict(kept.dying)

    def sent(self, message: Message, now: int) -> list[OrderEffect]:  # noqa: ARG002
        raise UsageError(f"{self._topology.names[self._me]} is a gateway: it has no client")

    def _release(self, hop: Hop, message: Message, effects: list[OrderEffect]) -> None:
        number = self._number
        self.history.deliver(hop.dot, hop.address, hop.stamp)
        if hop.came == number:
            self.todo.pop(message.dot, None)
        else:  # it came here because some of its destinations lie behind
            self.todo[message.dot] = self._topology.separators[number].far(hop.zone), message
        self._flushed()
        self._work(effects)

    def _flushed(self) -> None:
        newest = self._deliveries.newest
        done = [dead for dead, last in self._dying.items() if newest.get(dead, 0) >= last]
        for dead in done:
            del self._dying[dead]
            self._gone.add(dead)

    @property
    def active(self) -> bool:
        """No member of lower rank lives."""
        members = self._topology.separators[self._number].members
        return self._gone.issuperset(members[: members.index(self._me)])

    def _work(self, effects: list[OrderEffect]) -> None:
        if not self.todo or not self.active:
            return
        topology, number, me = self._topology, self._number, self._me
        for far, message in self.todo.values():
            address = topology.address(far, message.dest, number, me)
            hop, stamp = self.history.send(address)
            self._deliveries.mark(hop)
            context = write(topology, far, number, hop, stamp)
            forwarded = Message(message.dot, context, message.payload, message.dest, message.span)
            effects.append(Forward(tuple(sorted(address)), forwarded))
        self.todo.clear()

    def lost(self, process: int, last: int) -> list[OrderEffect]:
        self.history.lose(process)
        effects: list[OrderEffect] = []
        if process in self._topology.separators[self._number].members:
            self._dying[process] = last
            self._flushed()
            self._work(effects)
        return effects


def predecessors(message: Message) -> None:
    """A stamp names hops, not messages, and only those that a process may wait for."""


def separator(rules: Rules, topology: Callable[[int, int], Topology] = lambda me, size: flat(size)) -> Engine:  # noqa: ARG005
    """The engine over a topology, which is made for each half unless it is shared."""

    def orderer(me: int, size: int) -> SeparatorOrderer:
        zones = topology(me, size)
        kind = GatewayOrderer if zones.is_gateway(me) else SeparatorOrderer
        return kind(me, zones, rules)

    return Engine(
        SEPARATOR,
        lambda me, size: SeparatorTagger(me, topology(me, size), rules),
        orderer,
        predecessors,
        prompt=False,
        stamps_are_dots=False,
        hops=True,
    )
