"""A durable replica over a tree: what differs from one over a mesh.

Everything that `DurableReplica` promises holds. Besides:

* A synchronisation reads from the log what is committed and, behind it, what this very step has appended: a
  stream that begins in the middle of a step must not leave that out.
* Stability over a few neighbours: words about what clients have seen go from branch to branch
  (`replica/tellings.py`) in the place of phantoms to everybody.
* What a node that may have forgotten messages of its own gets back, it gets from everybody in turn
  (`Overlay`). One that has forgotten and does not know it, or is told so by a peer that lies, cuts that link
  and must not count on until the peer says otherwise: `ForgottenError`.
* For people who look at a tree: a row of the trace for every link that turns lazy, synchronising, eager, or
  goes.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from thence.core.codec import Codec
from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.errors import PeerError
from thence.core.machine import NEVER, Ack, Batch, Effect, Packet, Phantom, Relay, Transmit, Wake
from thence.core.message import Message
from thence.core.overlay import Graft, Sync, Tellings
from thence.core.storage import ForgottenError
from thence.oplog.log import OpLog
from thence.order.engine import Engine
from thence.replica.durable import INBOX_MAX, DurableReplica
from thence.replica.history import LogHistory
from thence.replica.overlay import Overlay
from thence.replica.replica import FINDING, NOBODY, FindingStable
from thence.replica.tellings import Words
from thence.trace.recorder import EAGER, LAZY, SYNC, UNLINK, Recorder

MOST_FORGOTTEN: Final = 1 << 32
"""Messages that a node can have sent since the backup that it was restored from. A peer that claims to have
more of them lies, and must neither stop the node nor let it wait."""


class StepHistory(LogHistory):
    """The log, and what was appended to it since its last commit."""

    __slots__ = ("gathered",)

    def __init__(self, log: OpLog, codec: Codec) -> None:
        super().__init__(log, codec)
        self.gathered: Sequence[Message] = ()

    def missing(self, vector: Sequence[int]) -> Iterator[Message]:
        known = len(vector)
        yield from super().missing(vector)
        for message in self.gathered:
            origin = message.dot & ORIGIN_MASK
            if origin >= known or message.dot >> ORIGIN_BITS > vector[origin]:
                yield message


class TreeReplica(DurableReplica):
    __slots__ = ("_overlay", "_shown", "_streaming", "_wake_at", "_words")

    def __init__(
        self,
        me: int,
        size: int,
        engine: Engine,
        overlay: Overlay,
        recorder: Recorder,
        log: OpLog,
        history: StepHistory,
        taken: int,
        now: int,
        stability: bool = True,
        inbox_max: int = INBOX_MAX,
        finding: FindingStable = FINDING,
    ) -> None:
        """`history`: what the overlay's streams read."""
        super().__init__(me, size, engine, overlay, recorder, log, taken, now, stability, inbox_max, finding)
        history.gathered = self._gathered
        self._overlay = overlay
        self._words = Words(me, log.tail)
        self._streaming: dict[int, None] = {}
        self._shown: dict[int, int] = {}
        self._wake_at = NEVER  # for words that are being gathered

    # Steps

    def resume(self, now: int) -> list[Effect]:
        effects = super().resume(now)
        self._wake_at = NEVER
        if self._witness is not None:  # what the client had seen and not told when it went down
            self._words.say(self._tagger.context(), now)
        return self._after(effects, now)

    def receive(self, peer: int, packet: Packet, now: int) -> list[Effect]:
        if type(packet) is Message:
            if packet.dot & ORIGIN_MASK == self._me:
                self._refuse_to_count_twice(peer, packet.dot >> ORIGIN_BITS)
            return super().receive(peer, packet, now)
        if isinstance(packet, Tellings):
            return self._after(self._told(peer, packet, now), now)
        if isinstance(packet, Phantom | Batch | Ack | Relay):
            raise PeerError(f"a tree has no use for a {type(packet).__name__}")
        if isinstance(packet, Graft):
            self._refuse_to_count_twice(peer, packet.clock[self._me])
        if isinstance(packet, Sync):
            for message in packet.messages:
                if message.dot & ORIGIN_MASK == self._me:
                    self._refuse_to_count_twice(peer, message.dot >> ORIGIN_BITS)
                self._check(message)
        return self._after(super().receive(peer, packet, now), now)

    def up(self, peer: int, now: int) -> list[Effect]:
        return self._after(super().up(peer, now), now)

    def down(self, peer: int, now: int) -> list[Effect]:
        return self._after(super().down(peer, now), now)

    def wake(self, now: int) -> list[Effect]:
        effects: list[Effect] = []
        for effect in super().wake(now):
            if not isinstance(effect, Transmit) or not isinstance(effect.packet, Phantom):
                effects.append(effect)
            elif not effect.packet.asks:  # words need not be asked for
                self._words.say(effect.packet.context, now)
        return self._after(effects, now)

    def _refuse_to_count_twice(self, peer: int, seq: int) -> None:
        sent = self._overlay.streams.clock[self._me]
        if seq > sent + MOST_FORGOTTEN:
            raise PeerError(f"member {peer} claims to have message {seq} of a node that sent {sent}")
        if seq > sent and not self.regaining:
            raise ForgottenError(f"member {peer} has message {seq} of this node, which has sent {sent}")

    def regain(self) -> None:
        super().regain()
        self._overlay.regain()

    def regained(self) -> bool:
        if not super().regained():
            return False
        self._overlay.regained()
        if self._witness is not None:
            for member, context in self._words.items():
                self._witness.heard(member, context)
        return True

    def hold(self, peer: int) -> None:
        """Too much waits to be sent to a peer: for a while it is sent nothing but what it asks for."""
        self._overlay.hold(peer)

    def release(self, peer: int, now: int) -> list[Effect]:
        """There is room again."""
        effects: list[Effect] = []
        self._route(self._overlay.release(peer, now), NOBODY, effects, now)
        return self._after(effects, now)

    # Words

    def _told(self, peer: int, tellings: Tellings, now: int) -> list[Effect]:
        if self._witness is None or peer not in self._overlay.members.neighbours:
            return []
        for member, context in self._words.hear(peer, tellings, now):
            if not self.regaining:  # they may speak of what this node does not know that it has sent
                self._witness.heard(member, context)
                self._unswept += 1
        if self._unswept >= self._batch:
            self._sweep(now)
        return []

    def _after(self, effects: list[Effect], now: int) -> list[Effect]:
        """A step is over: words for whom they are due, and rows for links that have changed."""
        streams, words = self._overlay.streams, self._words
        live = streams.live
        effects += [Transmit((peer,), tellings) for peer, tellings in words.take(live, now)]
        fresh = tuple([peer for peer in live if peer not in self._streaming])
        if fresh and self._witness is not None:
            effects.append(Transmit(fresh, words.everything()))
        self._streaming = dict.fromkeys(live)
        if words.due != self._wake_at:
            self._wake_at = words.due
            if words.due != NEVER:
                effects.append(Wake(words.due))
        self._show(now)
        return effects

    def _show(self, now: int) -> None:
        there = {
            peer: EAGER if live else SYNC if branch else LAZY
            for peer, branch, live in self._overlay.streams.states()
        }
        if there == self._shown:
            return
        for peer, kind in there.items():
            if self._shown.get(peer) != kind:
                self._recorder.record(kind, pack(peer, 1), now)
        for peer in self._shown:
            if peer not in there:
                self._recorder.record(UNLINK, pack(peer, 1), now)
        self._shown = there
