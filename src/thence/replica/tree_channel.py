"""Links of a tree without tags: what its ends have told each other, and messages larger than a packet.

What is larger leaves in fragments and is joined before anything else looks at it, as in groups
(`group.channel`; docs/protocols/runs.md, "Large operations"). A packet with messages that is asked for
meanwhile waits behind it; beats, and all that is about links, go between. Whether the stream goes on is for
the machine to say: it holds it back until everything has left, and what comes meanwhile is read from the log.

Invariants. Packets with messages leave in the order in which they were asked for. Something waits only while
a large one is under way. Nothing of one that is not whole is anywhere but here: it ends with the link.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from thence.core.errors import PeerError
from thence.core.groups import Fragment, FragmentReceipt
from thence.core.machine import Ack, Batch, Packet, Phantom, Transmit
from thence.core.message import Message
from thence.core.overlay import Naming, Places, Rumour, Shared, StatePiece, Sync
from thence.oplog.record import MAX_BODY
from thence.replica.group.channel.directions import Assembling, Fragmenting
from thence.replica.overlay import Overlay
from thence.replica.tree_names import Processes, Tongue, TreeMembers, checked_name
from thence.replica.tree_order import TreeOrder

BULK: Final = (Message, Rumour, Sync, StatePiece)
"""Packets with messages, or in their stead."""

WHOLE_BYTES: Final = MAX_BODY + (64 << 10)
"""The largest packet: a message that a record holds, and what stands around it."""

LEAST: Final = 64
"""Bytes of a fragment: less than a packet's own would be a waste."""

CONTEXT_ENTRY: Final = 10
"""Bytes, at most."""


class TreeChannel:
    __slots__ = ("_encode", "_fragment_bytes", "_waiting", "_window_bytes", "assembling", "fragmenting",
                 "held", "tongue")  # fmt: skip

    def __init__(
        self, tongue: Tongue, encode: Callable[[Packet], bytes], packet_bytes: int, window_bytes: int
    ) -> None:
        self.tongue: Final = tongue
        self._encode: Final = encode
        self._window_bytes: Final = window_bytes
        self._fragment_bytes: Final = max(LEAST, min(packet_bytes, window_bytes // 4))
        self._waiting: deque[tuple[Packet, bool]] = deque()
        self.fragmenting: Final = Fragmenting()
        self.assembling: Final = Assembling(WHOLE_BYTES)
        self.held = False
        """The stream is held back until all of it has left."""

    # Out

    def add(self, packet: Packet, large: bool) -> list[Packet]:
        """What leaves now of it; it is large, or another one is under way."""
        if self.fragmenting.busy:
            self._waiting.append((packet, large))
            return []
        if not large:
            return [packet]
        self.fragmenting.begin(self._encode(packet))
        return self._due()

    def go_on(self) -> list[Packet]:
        """There is room: what leaves now."""
        out = self._due()
        while self._waiting and not self.fragmenting.busy:
            out += self.add(*self._waiting.popleft())
        return out

    def _due(self) -> list[Packet]:
        return list(self.fragmenting.due(0, self._fragment_bytes, self._window_bytes))

    # In

    def came(self, packet: Packet) -> bytes | None:
        """A packet that was cut, if this makes it whole. `PeerError`: it has no place here."""
        if isinstance(packet, Fragment):
            return self.assembling.add(packet)
        if self.assembling.busy and isinstance(packet, BULK):
            raise PeerError(f"a {type(packet).__name__} before the large one under way is whole")
        return None

    @property
    def receipt(self) -> FragmentReceipt:
        return FragmentReceipt(0, self.assembling.came)


def bytes_of(packet: Packet) -> int:
    """About how many it has, where that may be many."""
    if isinstance(packet, Message):
        return len(packet.payload) + CONTEXT_ENTRY * len(packet.context)
    if isinstance(packet, Rumour):
        return len(packet.payload) + len(packet.low)
    if isinstance(packet, StatePiece):
        return len(packet.data)
    return sum(map(bytes_of, packet.messages)) if isinstance(packet, Sync) else 0


class TreeChannels:
    """Those of a node, by the index of the process at the other end."""

    __slots__ = ("_channels", "_choked", "_flowing", "_members", "_order", "_overlay", "_packet_bytes",
                 "_processes", "_window_bytes")  # fmt: skip

    def __init__(
        self,
        members: TreeMembers,
        processes: Processes,
        order: TreeOrder,
        overlay: Overlay,
        packet_bytes: int,
        window_bytes: int,
    ) -> None:
        self._members: Final = members
        self._processes: Final = processes
        self._order: Final = order
        self._overlay: Final = overlay
        self._packet_bytes: Final = packet_bytes
        self._window_bytes: Final = window_bytes
        self._channels: Final[dict[int, TreeChannel]] = {}
        self._flowing: Final[dict[int, None]] = {}
        """Where more of a large packet may leave."""
        self._choked: Final[set[int]] = set()
        """Too much waits to be sent there, as the driver says."""

    def get(self, index: int) -> TreeChannel | None:
        return self._channels.get(index)

    def __iter__(self) -> Iterator[int]:
        return iter(self._channels)

    @property
    def busy(self) -> bool:
        """Is something large under way?"""
        return any(channel.fragmenting.busy for channel in self._channels.values())

    def up(self, index: int) -> list[Transmit]:
        """What is said first."""
        order, tongue = self._order, Tongue(self._members.index, self._order.entries)
        self._channels[index] = TreeChannel(
            tongue, order.codec.encode, self._packet_bytes, self._window_bytes
        )
        said = [Transmit((index,), tongue.introduce((0,), self._processes))]
        if order.entries:
            said.append(Transmit((index,), Shared(order.entries, order.keys)))
        return said

    def down(self, index: int | None) -> None:
        if index is not None:
            self._channels.pop(index, None)
            self._flowing.pop(index, None)
            self._choked.discard(index)

    def hold(self, index: int) -> None:
        """The driver says that too much waits to be sent there."""
        self._choked.add(index)
        self._overlay.hold(index)

    def may_go_on(self, index: int) -> bool:
        """And that there is room again: may the stream go on?"""
        self._choked.discard(index)
        channel = self._channels.get(index)
        return channel is None or not channel.held

    def acknowledged(self, index: int, receipt: FragmentReceipt) -> bool:
        """May the stream go on?"""
        channel = self._channels[index]
        channel.fragmenting.acknowledged(receipt.came)
        if channel.fragmenting.busy:
            self._flowing[index] = None
            return False
        was_held, channel.held = channel.held, False
        return was_held and index not in self._choked

    def agreed(self, peer: str, tongue: Tongue, packet: Packet) -> bool:
        """Is this about what the two ends have to agree on?"""
        if isinstance(packet, Naming):
            tongue.learn_names(packet)
        elif isinstance(packet, Places):
            self._learn(peer, tongue, packet)
        elif isinstance(packet, Shared):
            own = Shared(self._order.entries, self._order.keys)
            if packet != own:
                raise PeerError(f"{peer} orders by clocks of {_said(packet)}, this node of {_said(own)}")
        elif isinstance(packet, Ack | Batch | Phantom):
            raise PeerError(f"a tree has no use for a {type(packet).__name__}")
        else:
            return False
        return True

    def _learn(self, peer: str, tongue: Tongue, packet: Places) -> None:
        """What it says of itself it says first; of others, what it says counts where nothing is known."""
        processes = self._processes
        for theirs, name, address in packet.places:
            if (theirs == 0) is not (name == peer):
                raise PeerError(f"{peer} speaks as {name}")
            known = processes.add(checked_name(name))
            if theirs == 0 or not processes.address(known):
                processes.add(name, address if known else "")
            tongue.learn_place(theirs, known)

    def forget(self) -> None:
        """Processes that this node has forgotten."""
        for channel in self._channels.values():
            channel.tongue.forget(self._processes)

    def posts(self, effects: Iterable[Transmit]) -> list[tuple[str, Packet]]:
        """What leaves at the end of a step, in order."""
        processes, names, posts = self._processes, self._members.names, list[tuple[str, Packet]]()
        for peer in self._flowing:  # before anything that was asked for later
            posts += [(processes.name(peer), packet) for packet in self._channels[peer].go_on()]
        self._flowing.clear()
        for effect in effects:
            packet = effect.packet
            if isinstance(packet, Message):
                packet = self._order.short(packet)
            is_bulk = isinstance(packet, BULK)
            large = is_bulk and bytes_of(packet) > self._packet_bytes
            for peer in effect.peers:
                channel = self._channels.get(peer)
                if channel is not None:
                    to = processes.name(peer)
                    posts += [(to, first) for first in channel.tongue.before(packet, names, processes)]
                    if large or (is_bulk and channel.fragmenting.busy):
                        posts += [(to, one) for one in self._cut(peer, channel, packet, large)]
                    else:
                        posts.append((to, packet))
        return posts

    def _cut(self, peer: int, channel: TreeChannel, packet: Packet, large: bool) -> list[Packet]:
        """What leaves now. While more is to leave, what comes is for the log to keep."""
        out = channel.add(packet, large)
        if channel.fragmenting.busy:
            channel.held = True
            self._overlay.hold(peer)
        return out


def _said(clock: Shared) -> str:
    return f"{clock.entries} entries and {clock.keys} keys"
