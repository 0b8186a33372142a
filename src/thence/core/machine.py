"""The contract of every protocol in thence: a machine without a world.

A machine takes inputs (a local call, a packet from a peer, a wake-up) together with `now`, changes
its own state, and returns a list of effects for its driver to carry out. It never reads a clock,
draws a random number that it was not given, touches a socket or a file, or walks an unordered
collection. So the same machine runs in the simulator, over TCP and in an experiment, and a run is
replayed exactly by its inputs.

Times are integers: microseconds since whatever the driver chose.
"""

from typing import Final, NamedTuple

from thence.core.message import Message
from thence.core.overlay import OverlayPacket

NEVER: Final = 1 << 62
"""A time that does not come."""

NO_PEER: Final = -1
"""Stands for the neighbour that a message came through where it came through none."""


class Ack:
    """What a member has received: per origin a counter below which nothing is missing, and the dots
    above it that came early."""

    __slots__ = ("early", "received")

    def __init__(self, received: tuple[int, ...], early: tuple[int, ...]) -> None:
        self.received: Final = received
        self.early: Final = early


class Phantom:
    """What a member's client has seen, as the context that its next message would carry: stability
    information without a message. `asks` for the receiver's own in return."""

    __slots__ = ("asks", "context")

    def __init__(self, context: tuple[int, ...], asks: bool) -> None:
        self.context: Final = context
        self.asks: Final = asks


class Batch:
    """Several messages for the same receiver, in the order in which they would have gone alone."""

    __slots__ = ("messages",)

    def __init__(self, messages: tuple[Message, ...]) -> None:
        self.messages: Final = messages


Packet = Message | Ack | Phantom | Batch | OverlayPacket
"""What one node hands to another."""


class Transmit:
    """Send `packet` to each of `peers`."""

    __slots__ = ("packet", "peers")

    def __init__(self, peers: tuple[int, ...], packet: Packet) -> None:
        self.peers: Final = peers
        self.packet: Final = packet


class Wake:
    """Call the machine's `wake` at `at` or a little later. Waking too often does no harm."""

    __slots__ = ("at",)

    def __init__(self, at: int) -> None:
        self.at: Final = at


class Connect(NamedTuple):
    """Open a link to `peer`. If there is one already, or the other end opens one, that one does."""

    peer: int


class Close(NamedTuple):
    """The link to `peer` is not needed; what was sent on it still arrives."""

    peer: int


class Forward:
    """An ordering engine's request to pass `message` on to `peers`, hop by hop."""

    __slots__ = ("message", "peers")

    def __init__(self, peers: tuple[int, ...], message: Message) -> None:
        self.peers: Final = peers
        self.message: Final = message


class Doubt:
    """An ordering engine that may err says that `dot` was perhaps delivered too early; or, if the engine does
    not remember what it delivered, that `dot` came perhaps too late."""

    __slots__ = ("dot",)

    def __init__(self, dot: int) -> None:
        self.dot: Final = dot


OrderEffect = Message | Forward | Doubt
"""What an ordering engine asks for. A message stands for its own delivery: the common effect needs
no wrapper."""

SpreadEffect = Message | Transmit | Wake
"""What a spread asks for. A message is new here and goes to the ordering engine."""

Effect = Transmit | Wake
"""What a whole node asks of its driver."""

LinkEffect = Connect | Close
"""What a node that chooses its own neighbours asks for besides."""
