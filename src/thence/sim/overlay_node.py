"""One node of a simulated overlay: membership, spread, order, log and application in one place.

Routes between them and decides nothing. A step is: an input, what the machines make of it, what must not be
forgotten into the log, rows into the trace; only then does anything leave. Since the log forgets nothing, a
node that comes back from a crash is made anew from its log and from the peers that it knew.
"""

from typing import NamedTuple, Protocol

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, newest_of, pack
from thence.core.errors import InvariantError
from thence.core.machine import Packet, SpreadEffect, Transmit, Wake
from thence.core.message import Message
from thence.core.overlay import MEMBERS_PACKETS, StatePiece, Sync
from thence.members.hyparview import HyParView
from thence.members.views import Close, Connect, MembersEffect, NeighbourDown, NeighbourUp
from thence.order.engine import Engine
from thence.sim.overlay_app import FakeApplication
from thence.sim.overlay_history import MemoryHistory
from thence.spread.spread import Spread
from thence.spread.streams import Streams
from thence.trace.recorder import (
    DELIVER,
    DUPLICATE,
    EAGER,
    HOLD,
    LAZY,
    LEAVE,
    RESTART,
    SEND,
    START,
    SYNC,
    UNLINK,
    Recorder,
)


class MembersWake(NamedTuple):
    """Wake the membership, not the spread."""

    at: int


NodeEffect = Transmit | Wake | MembersWake | Connect | Close


class MessageObserver(Protocol):
    """Is told what happens to messages, for measurements."""

    def sent(self, dot: int, now: int) -> None: ...

    def delivered(self, node: int, dot: int, now: int) -> None: ...

    def duplicate(self, now: int) -> None: ...


class OverlayNode:
    __slots__ = (
        "_engine", "_orderer", "_out", "_recorder", "_shown", "_tagger", "_witness", "history", "keeper",
        "me", "members", "spread",
    )  # fmt: skip

    def __init__(
        self,
        me: int,
        size: int,
        engine: Engine,
        members: HyParView,
        spread: Spread,
        history: MemoryHistory,
        recorder: Recorder,
        witness: MessageObserver,
        keeper: FakeApplication | None = None,
        shows_links: bool = False,
    ) -> None:
        """With a `keeper`, there is an application whose states stand in for what the log forgets. With
        `shows_links`, the trace tells what becomes of links, for people to look at."""
        self._shown: dict[int, int] | None = {} if shows_links else None
        self.me = me
        self.members = members
        self.spread = spread
        self.history = history
        self.keeper = keeper
        self._engine = engine
        self._tagger = engine.tagger(me, size)
        self._orderer = engine.orderer(me, size)
        self._recorder = recorder
        self._witness = witness
        self._out: list[NodeEffect] = []

    @property
    def known(self) -> tuple[int, ...]:
        """All nodes worth asking after a restart."""
        return self.members.known

    @property
    def live(self) -> tuple[int, ...]:
        """Neighbours that it streams to."""
        return self.spread.live if isinstance(self.spread, Streams) else ()

    # What happens to it

    def start(self, now: int) -> list[NodeEffect]:
        """New, or back with the log of an earlier life."""
        vector = self.history.vector
        if any(vector):
            frontier = newest_of(vector)
            self._recorder.record_deps(RESTART, 0, frontier, now)
            self._recall(vector)
        else:
            self._recorder.record(START, 0, now)
        self._membership(self.members.start(now), now)
        return self._take(now)

    def _recall(self, vector: tuple[int, ...]) -> None:
        if self.keeper is not None:
            self.keeper.restart()
        if self._engine.witness is None:
            self._tagger.resume(vector[self.me], ())
            return
        for message in self.history.missing([0] * len(vector)):
            self._tagger.recall(message)
            self._orderer.sent(message, 0)

    def leave(self, now: int) -> list[NodeEffect]:
        self._membership(self.members.leave(now), now)
        self._recorder.record(LEAVE, 0, now)
        return self._take(now)

    def linked(self, peer: int, now: int) -> list[NodeEffect]:
        self._membership(self.members.up(peer, now), now)
        return self._take(now)

    def unlinked(self, peer: int, now: int) -> list[NodeEffect]:
        self._membership(self.members.down(peer, now), now)
        return self._take(now)

    def packet(self, peer: int, packet: Packet, now: int) -> list[NodeEffect]:
        if isinstance(packet, MEMBERS_PACKETS):
            self._membership(self.members.receive(peer, packet, now), now)
        elif peer in self.members.neighbours:  # else it was dropped while this was under way
            held = self.history.vector if isinstance(packet, StatePiece) else None
            fresh = self._spreading(self.spread.receive(peer, packet, now), peer, now)
            known = (
                1 if isinstance(packet, Message) else len(packet.messages) if isinstance(packet, Sync) else 0
            )
            for _ in range(known - fresh):
                self._witness.duplicate(now)
            if known > fresh and isinstance(packet, Message):
                self._recorder.record(DUPLICATE, packet.dot, now)
            if held is not None:
                self._stood_in(held, now)
        return self._take(now)

    def _stood_in(self, held: tuple[int, ...], now: int) -> None:
        """What a state stands in for is here as well, from now on."""
        for origin, (before, after) in enumerate(zip(held, self.history.vector, strict=True)):
            for seq in range(before + 1, after + 1):
                self._witness.delivered(self.me, pack(origin, seq), now)

    def wake_members(self, now: int) -> list[NodeEffect]:
        self._membership(self.members.wake(now), now)
        return self._take(now)

    def wake_spread(self, now: int) -> list[NodeEffect]:
        self._spreading(self.spread.wake(now), self.me, now)
        return self._take(now)

    def send(self, payload: bytes, now: int) -> list[NodeEffect]:
        message = self._tagger.tag(payload)
        deps = self._engine.predecessors(message)
        if deps is None:
            self._recorder.record(SEND, message.dot, now)
        else:
            self._recorder.record_deps(SEND, message.dot, deps, now)
        message = self._orderer.stamp(message)
        self._orderer.sent(message, now)
        self._keep(message, now)
        self._witness.sent(message.dot, now)
        self._spreading(self.spread.broadcast(message, now), self.me, now)
        return self._take(now)

    # Routes

    def _membership(self, effects: list[MembersEffect], now: int) -> None:
        for effect in effects:
            if isinstance(effect, NeighbourUp):
                self._spreading(self.spread.up(effect.peer, now), self.me, now)
            elif isinstance(effect, NeighbourDown):
                self._spreading(self.spread.down(effect.peer, now), self.me, now)
            elif isinstance(effect, Wake):
                self._out.append(MembersWake(effect.at))
            else:
                self._out.append(effect)

    def _spreading(self, effects: list[SpreadEffect], via: int, now: int) -> int:
        """Deliver what is new; how much was it?"""
        fresh = 0
        for effect in effects:
            if isinstance(effect, Message):
                fresh += 1
                released = self._orderer.receive(effect, via, now)
                if not released:
                    self._recorder.record(HOLD, effect.dot, now)
                for message in released:
                    assert isinstance(message, Message)
                    self._deliver(message, now)
            elif isinstance(effect, Transmit | Wake):
                self._out.append(effect)
            else:
                raise InvariantError(f"a stream has no use for {type(effect).__name__}")
        return fresh

    def _keep(self, message: Message, now: int) -> None:
        self.history.append(message, now)
        if self.keeper is not None:
            self.keeper.delivered(message, now)

    def _deliver(self, message: Message, now: int) -> None:
        self._keep(message, now)
        self._tagger.took(message)
        self._recorder.record(DELIVER, message.dot, now)
        self._witness.delivered(self.me, message.dot, now)

    def _take(self, now: int) -> list[NodeEffect]:
        """What leaves, after everything that it follows from was written down."""
        self.history.commit(now)
        if self._shown is not None and isinstance(self.spread, Streams):
            self._show(self._shown, self.spread, now)
        out, self._out = self._out, []
        return out

    def _show(self, shown: dict[int, int], spread: Streams, now: int) -> None:
        """Rows for links that have changed."""
        there = {peer: EAGER if live else SYNC if branch else LAZY for peer, branch, live in spread.states()}
        for peer, kind in there.items():
            if shown.get(peer) != kind:
                self._recorder.record(kind, pack(peer, 1), now)
        for peer in shown:
            if peer not in there:
                self._recorder.record(UNLINK, pack(peer, 1), now)
        shown.clear()
        shown.update(there)

    def has(self, dot: int) -> bool:
        return self.history.vector[dot & ORIGIN_MASK] >= dot >> ORIGIN_BITS
