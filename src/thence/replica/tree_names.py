"""Names before indices, over each link of a tree without tags.

Inside a node integers stand for members (incarnations, whose messages are counted) and for processes (which
views speak of), and each node hands them out as it learns of names. A packet is in the sender's integers, so
that it is encoded once for all links. What they stand for is told before they are used, once per link and
direction (`Naming`, `Places`), and the receiver puts its own in their place.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import PeerError
from thence.core.groups import number_of, process_of
from thence.core.machine import Packet
from thence.core.message import Message
from thence.core.overlay import (
    Disconnect,
    ForwardJoin,
    Graft,
    Naming,
    Places,
    Pull,
    Rumour,
    Shuffle,
    ShuffleReply,
    StatePiece,
    Sync,
)
from thence.oplog.log import OpLog

NAMES_AT_ONCE: Final = 4096
"""In one packet: far below what a frame carries."""

MEMBERS_MOST: Final = ORIGIN_MASK >> 1
"""Incarnations that a log counts."""

COUNTED: Final = (Message, Rumour, Sync, Graft, Pull, StatePiece)
"""Packets that name members."""


class Processes:
    """Those that this node has heard of, and where they are. Index 0 is the node itself."""

    __slots__ = ("_free", "_index", "_known")

    def __init__(self, me: str, address: str) -> None:
        self._index: Final[dict[str, int]] = {}
        self._known: Final[dict[int, tuple[str, str]]] = {}
        self._free: Final[list[int]] = []
        self.add(me, address)

    def add(self, name: str, address: str = "") -> int:
        """The index of a process, which is reached there from now on."""
        index = self._index.get(name)
        if index is None:
            index = self._index[name] = self._free.pop() if self._free else len(self._known)
        if address or index not in self._known:
            self._known[index] = name, address
        return index

    def index(self, name: str) -> int | None:
        return self._index.get(name)

    def name(self, index: int) -> str:
        return self._known[index][0]

    def address(self, index: int) -> str:
        return self._known[index][1]

    def keep(self, needed: Iterable[int]) -> None:
        """Forget the others: there is no end to the names that pass through a large group."""
        wanted = {0, *needed}
        for index in [index for index in self._known if index not in wanted]:
            del self._index[self._known.pop(index)[0]]
            self._free.append(index)

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, index: int) -> bool:
        return index in self._known

    @property
    def names(self) -> list[str]:
        return list(self._index)


class TreeMembers:
    """Incarnations that this node knows, by index: that of its log."""

    __slots__ = ("_index", "_log", "names")

    def __init__(self, log: OpLog) -> None:
        self._log: Final = log
        self.names: Final = list(log.names)
        """They grow."""
        self._index: Final = {known: index for index, known in enumerate(self.names)}

    def index(self, name: str) -> int:
        """Of an incarnation, which becomes known if it was not."""
        index = self._index.get(name)
        if index is None:
            if len(self.names) > MEMBERS_MOST:
                raise PeerError(f"more than {MEMBERS_MOST} incarnations")
            index = self._index[name] = self._log.member(name)
            self.names.append(name)
        return index

    def highest(self, process: str) -> int:
        """The highest number of an incarnation of a process; 0: none."""
        numbers = [_number(name) for name in self.names if process_of(name) == process]
        return max(numbers, default=0)


def _number(name: str) -> int:
    try:
        return number_of(name)
    except ValueError:
        return 0


class Tongue:
    """What the two ends of a link have told each other."""

    __slots__ = ("_entries", "_member", "_members", "_names", "_places", "_told", "_told_places")

    def __init__(self, member: Callable[[str], int], entries: int = 0) -> None:
        """`member`: the index of a name here, which becomes known if it was not. `entries`: of the clock that
        each message has; 0: none has."""
        self._member: Final = member
        self._entries: Final = entries
        self._told = 0
        self._told_places: set[int] = set()
        self._names: Final[list[str]] = []
        self._members: Final[dict[int, int]] = {}
        """Of the names that were used."""
        self._places: Final[dict[int, int]] = {}

    # Out

    def before(self, packet: Packet, names: Sequence[str], processes: Processes) -> Iterator[Packet]:
        """What the other end must know to understand a packet, and was not told."""
        if isinstance(packet, COUNTED):
            while self._told < len(names):
                some = tuple(names[self._told : self._told + NAMES_AT_ONCE])
                yield Naming(self._told, some)
                self._told += len(some)
        elif fresh := [node for node in _mentioned(packet) if node not in self._told_places]:
            yield self.introduce(fresh, processes)

    def introduce(self, nodes: Iterable[int], processes: Processes) -> Places:
        places = [(node, processes.name(node), processes.address(node)) for node in dict.fromkeys(nodes)]
        self._told_places.update([node for node, _, _ in places])
        return Places(tuple(places))

    def forget(self, processes: Processes) -> None:
        """Of processes that this node has forgotten itself."""
        self._told_places -= {node for node in self._told_places if node not in processes}

    # In

    def learn_names(self, packet: Naming) -> None:
        """They become known here when something is counted of them."""
        if packet.first != len(self._names):
            raise PeerError(f"names from {packet.first} on, after {len(self._names)}")
        self._names.extend(map(checked_name, packet.names))

    def learn_place(self, theirs: int, mine: int) -> None:
        self._places[theirs] = mine

    def understood(self, packet: Packet, names: Sequence[str]) -> Packet:
        """A packet in this node's integers; `names`: of the members that it knows, by then."""
        try:
            return self._understood(packet, names)
        except LookupError:
            raise PeerError(f"a {type(packet).__name__} with an index that has no name") from None

    def _understood(self, packet: Packet, names: Sequence[str]) -> Packet:
        places = self._places
        match packet:
            case Message():
                return self._message(packet)
            case Rumour():
                if len(packet.low) != self._entries:
                    raise PeerError(f"a rumour with {len(packet.low)} entries, not {self._entries}")
                return packet._replace(dot=self._dot(packet.dot))
            case Sync():
                return packet._replace(messages=tuple([self._message(one) for one in packet.messages]))
            case Graft() | StatePiece() | Pull():
                counts = [(self._mine(index), count) for index, count in enumerate(packet.clock) if count]
                clock = [0] * len(names)
                for member, count in counts:
                    clock[member] = count
                return packet._replace(clock=tuple(clock))
            case ForwardJoin():
                return packet._replace(node=places[packet.node])
            case Disconnect():
                return packet._replace(instead=places[packet.instead])
            case Shuffle():
                nodes = tuple([places[node] for node in packet.nodes])
                return packet._replace(origin=places[packet.origin], nodes=nodes)
            case ShuffleReply():
                return ShuffleReply(tuple([places[node] for node in packet.nodes]))
        return packet

    def _mine(self, index: int) -> int:
        mine = self._members.get(index)
        if mine is None:
            mine = self._members[index] = self._member(self._names[index])
        return mine

    def _dot(self, dot: int) -> int:
        return dot >> ORIGIN_BITS << ORIGIN_BITS | self._mine(dot & ORIGIN_MASK)

    def _message(self, message: Message) -> Message:
        if len(message.context) != self._entries or message.dest:
            raise PeerError(f"a message with {len(message.context)} entries in its tag, not {self._entries}")
        dot, mine = message.dot, self._dot(message.dot)
        if mine == dot:
            return message
        return Message(mine, message.context, message.payload, (), message.span)


def checked_name(name: str) -> str:
    if not name or any(ch.isspace() for ch in name):
        raise PeerError(f"a name that is none: {name!r}")
    return name


def _mentioned(packet: Packet) -> tuple[int, ...]:
    match packet:
        case ForwardJoin():
            return (packet.node,)
        case Disconnect():
            return (packet.instead,)
        case Shuffle():
            return (packet.origin, *packet.nodes)
        case ShuffleReply():
            return packet.nodes
    return ()
