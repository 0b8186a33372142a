"""A hop as its message carries it: the context of an addressed message, in numbers of zones.

    context = zone, came, sender, counter, then for each noted hop: zone, sender, counter, residual, told

`came` is one above the separator that the hop came through, 0 for none. Senders are places in their zone;
residuals and `told` (R6.1, else 0) are bit maps over it. The address follows from the rest and does not
travel. All addressees of a hop are in its zone. A gateway's hop is noted in the zone that holds its residual.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.errors import PeerError
from thence.core.message import Message
from thence.order.history import Noted, Processes
from thence.order.topology import Topology, Zone

HEAD: Final = 4
EACH: Final = 5
COUNTER: Final = 3
"""Where a context has the hop's counter."""


class Hop(NamedTuple):
    """What a context says."""

    zone: int
    came: int
    dot: int
    """The hop's sender and its counter."""
    address: Processes
    stamp: list[Noted]

    @property
    def sender(self) -> int:
        return self.dot & ORIGIN_MASK


def entries(context: tuple[int, ...]) -> int:
    """How many hops a stamp names."""
    return (len(context) - HEAD) // EACH


def write(topology: Topology, zone: int, came: int, hop: int, stamp: Iterable[Noted]) -> tuple[int, ...]:
    rows = []
    for noted in stamp:
        sender = noted.hop & ORIGIN_MASK
        frame, number = _frame(topology, sender, noted.residual)
        counter = noted.hop >> ORIGIN_BITS
        rows.append(
            (number, frame.index[sender], counter, frame.mask(noted.residual), frame.mask(noted.told))
        )
    rows.sort()
    place = topology.zones[zone].index[hop & ORIGIN_MASK]
    return zone, came + 1, place, hop >> ORIGIN_BITS, *[number for row in rows for number in row]


def _frame(topology: Topology, sender: int, residual: Processes) -> tuple[Zone, int]:
    zones = topology.zones_of(sender)
    if len(zones) == 2 and not all(process in topology.zones[zones[0]].index for process in residual):
        return topology.zones[zones[1]], zones[1]
    return topology.zones[zones[0]], zones[0]


def read(topology: Topology, message: Message) -> Hop:
    """`PeerError` if no correct process writes this. It is read once under each topology."""
    if message.hop is not None:
        state, known = message.hop
        if state is topology.state and isinstance(known, Hop):
            return known
    hop = _read(topology, message)
    message.hop = topology.state, hop
    return hop


def _read(topology: Topology, message: Message) -> Hop:
    context = message.context
    if len(context) < HEAD or (len(context) - HEAD) % EACH:
        raise PeerError(f"a hop with a context of {len(context)} numbers")
    zone, came, place, counter = context[:HEAD]
    came -= 1
    sender = _sender(topology, zone, place)
    if not -1 <= came < len(topology.separators):
        raise PeerError(f"a hop through separator {came} of {len(topology.separators)}")
    if (came >= 0) is not topology.is_gateway(sender) or (
        came >= 0 and sender not in topology.separators[came].members
    ):
        raise PeerError(f"a hop of {topology.names[sender]} through a separator that it is not in")
    stamp = []
    for at in range(HEAD, len(context), EACH):
        number, index, count, residual, told = context[at : at + EACH]
        noted = pack(_sender(topology, number, index), count)
        frame = topology.zones[number]
        if (residual | told) >> len(frame.members):
            raise PeerError(f"a residual beyond the members of zone {frame.name}")
        stamp.append(Noted(noted, frame.unmask(residual), frame.unmask(told)))
    try:
        topology.check(message.dest)
    except Exception as error:
        raise PeerError(f"a hop to nowhere: {error}") from error
    address = topology.address(zone, message.dest, came, sender, counter)
    return Hop(zone, came, pack(sender, counter), address, stamp)


def _sender(topology: Topology, zone: int, place: int) -> int:
    if not 0 <= zone < len(topology.zones) or not 0 <= place < len(topology.zones[zone].members):
        raise PeerError(f"a hop of member {place} of zone {zone}, which is not there")
    return topology.zones[zone].members[place]
