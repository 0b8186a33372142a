"""ECO SYNC Tree: a SYNC Tree whose logs may forget, because states stand in for what is gone.

Section 3.4 of the ECO SYNC Tree document. A neighbour whose graft shows that it lacks what the log no longer
holds gets the newest state with its clock, in pieces, and then what the log holds beyond that; so does one
that is new, as soon as there is a state: nothing would take it longer than a group's past message by message.
What is collected when is not decided here: any part of the log may go that the newest state covers.
Departures from the document, among them that states are merged and never replace anything, are in
docs/protocols/eco-sync-tree.md.

Invariants. After the pieces of a state everything that follows in the stream is in the log; so a stream never
has a gap. A node that takes over a state has a gap in the streams that it sends itself, and starts each of
them anew (`Resync`) before it sends anything else over it. A state counts when it is whole, and only then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from thence.core.errors import InvariantError, PeerError
from thence.core.history import History
from thence.core.machine import Packet, SpreadEffect, Transmit
from thence.core.overlay import Graft, More, Resync, StatePiece
from thence.core.states import States
from thence.spread.stream_link import Link
from thence.spread.sync_tree import SyncTree, TreeSettings


@dataclass(slots=True)
class _Leaving:
    """A state on its way to a neighbour: the next piece of so many."""

    version: int
    clock: tuple[int, ...]
    data: bytes
    place: int
    pieces: int


@dataclass(slots=True)
class _Coming:
    """The pieces of a state that came so far."""

    version: int
    clock: tuple[int, ...]
    parts: list[bytes]


class EcoSyncTree(SyncTree):
    __slots__ = ("_coming", "_leaving", "_states")

    def __init__(
        self, me: int, size: int, history: History, states: States, settings: TreeSettings | None = None
    ) -> None:
        super().__init__(me, size, history, settings)
        self._states = states
        self._leaving: dict[int, _Leaving] = {}
        self._coming: dict[int, _Coming] = {}

    def down(self, peer: int, now: int) -> list[SpreadEffect]:
        self._leaving.pop(peer, None)
        self._coming.pop(peer, None)
        return super().down(peer, now)

    def _handle(self, peer: int, link: Link, packet: Packet, effects: list[SpreadEffect], now: int) -> None:
        if isinstance(packet, StatePiece):
            self._piece_came(peer, link, packet, effects, now)
        else:
            super()._handle(peer, link, packet, effects, now)

    # States out

    def _beyond(self, peer: int) -> None:
        """A state stands in."""

    def _grafted(self, peer: int, link: Link, graft: Graft, effects: list[SpreadEffect], now: int) -> None:
        self._leaving.pop(peer, None)
        super()._grafted(peer, link, graft, effects, now)

    def _feed(self, peer: int, link: Link, effects: list[SpreadEffect]) -> None:
        assert link.clock is not None
        if peer not in self._leaving and not self._history.reaches(link.clock):
            self._begin_state(peer, link, self._states.newest())
        elif peer not in self._leaving and sum(link.clock) == max(link.clock, default=0):
            self._welcome(peer, link)
        leaving = self._leaving.get(peer)
        while leaving is not None:
            if link.credit <= 0:
                return
            size = self._streams.piece_bytes
            data = leaving.data[leaving.place * size : (leaving.place + 1) * size]
            piece = StatePiece(leaving.version, leaving.clock, leaving.place, leaving.pieces, data)
            effects.append(Transmit((peer,), piece))
            link.spend(1)
            leaving.place += 1
            if leaving.place == leaving.pieces:
                del self._leaving[peer]
                raise_to(link.clock, leaving.clock)
                leaving = None
        if link.credit > 0:
            super()._feed(peer, link, effects)

    def _welcome(self, peer: int, link: Link) -> None:
        """It has messages of one member at most: nothing, or what it sent itself (alg. 3.5, line 21). A state
        that adds nothing is not sent: the next would follow it."""
        newest = self._states.newest()
        if newest is None:
            return
        of_others = [count for count, had in zip_longest(newest[0], link.clock or (), fillvalue=0) if not had]
        if any(of_others):
            self._begin_state(peer, link, newest)

    def _begin_state(self, peer: int, link: Link, newest: tuple[tuple[int, ...], bytes] | None) -> None:
        if newest is None or not self._history.reaches(newest[0]):
            raise InvariantError("the log has forgotten what no state stands in for")
        clock, data = newest
        pieces = max(1, -(-len(data) // self._streams.piece_bytes))
        self._leaving[peer] = _Leaving(link.version, clock, data, 0, pieces)

    # States in

    def _piece_came(
        self, peer: int, link: Link, piece: StatePiece, effects: list[SpreadEffect], now: int
    ) -> None:
        effects.append(Transmit((peer,), More()))
        if piece.version != link.grafted:
            return  # of a graft that was overtaken
        coming = self._coming.get(peer)
        if piece.place == 0 or coming is None or coming.version != piece.version:
            coming = self._coming[peer] = _Coming(piece.version, piece.clock, [])
        if piece.place != len(coming.parts) or not same(piece.clock, coming.clock):
            raise PeerError(f"member {peer} sends piece {piece.place} of a state out of turn")
        if piece.clock[self._me] > self._clock[self._me]:
            raise PeerError(f"member {peer} has a state with more of this node than it has sent")
        coming.parts.append(piece.data)
        if peer == self._incoming:
            self._incoming_until = now + self._streams.sync_us
        if len(coming.parts) == piece.pieces:
            del self._coming[peer]
            link.heard = True
            self._install(peer, piece.clock, b"".join(coming.parts), effects, now)

    def _install(
        self, peer: int, clock: tuple[int, ...], state: bytes, effects: list[SpreadEffect], now: int
    ) -> None:
        if all(theirs <= ours for theirs, ours in zip(clock, self._clock, strict=False)):
            return  # all of it came another way meanwhile
        self._states.install(clock, state, now)
        raise_to(self._clock, clock)
        # What was in the state was not forwarded: the streams from here have a gap.
        for other, link in self._links.items():
            if other != peer and link.clock is not None:
                link.clock, link.live = None, False
                self._leaving.pop(other, None)
                effects.append(Transmit((other,), Resync()))
        self._relist()


def raise_to(clock: list[int], other: Sequence[int]) -> None:
    """The maximum of both; one may know of fewer members."""
    for member, count in enumerate(other):
        if count > clock[member]:
            clock[member] = count


def same(one: Sequence[int], other: Sequence[int]) -> bool:
    return all(mine == theirs for mine, theirs in zip_longest(one, other, fillvalue=0))
