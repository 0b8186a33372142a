"""A durable replica over a tree.

Everything that `DurableReplica` promises holds. Besides:

* A synchronisation reads from the log what is committed and, behind it, what this very step has appended: a
  stream that begins in the middle of a step must not leave that out.
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
from thence.core.machine import Ack, Batch, Effect, Packet, Phantom
from thence.core.message import Message
from thence.core.overlay import Graft, Sync
from thence.core.storage import ForgottenError
from thence.oplog.log import OpLog
from thence.replica.durable import INBOX_MAX, DurableReplica
from thence.replica.history import LogHistory
from thence.replica.overlay import Overlay
from thence.replica.replica import NOBODY
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
    __slots__ = ("_overlay", "_shown")

    def __init__(
        self,
        me: int,
        size: int,
        overlay: Overlay,
        recorder: Recorder,
        log: OpLog,
        history: StepHistory,
        taken: int,
        inbox_max: int = INBOX_MAX,
    ) -> None:
        """`history`: what the overlay's streams read."""
        super().__init__(me, size, overlay, recorder, log, taken, inbox_max)
        history.gathered = self._gathered
        self._overlay = overlay
        self._shown: dict[int, int] = {}

    # Steps

    def resume(self, now: int) -> list[Effect]:
        return self._after(super().resume(now), now)

    def receive(self, peer: int, packet: Packet, now: int) -> list[Effect]:
        if type(packet) is Message:
            if packet.dot & ORIGIN_MASK == self._me:
                self._refuse_to_count_twice(peer, packet.dot >> ORIGIN_BITS)
            return super().receive(peer, packet, now)
        if isinstance(packet, Phantom | Batch | Ack):
            raise PeerError(f"a tree has no use for a {type(packet).__name__}")
        if isinstance(packet, Graft):
            self._refuse_to_count_twice(peer, packet.clock[self._me])
        if isinstance(packet, Sync):
            for message in packet.messages:
                if message.dot & ORIGIN_MASK == self._me:
                    self._refuse_to_count_twice(peer, message.dot >> ORIGIN_BITS)
        return self._after(super().receive(peer, packet, now), now)

    def up(self, peer: int, now: int) -> list[Effect]:
        return self._after(super().up(peer, now), now)

    def down(self, peer: int, now: int) -> list[Effect]:
        return self._after(super().down(peer, now), now)

    def wake(self, now: int) -> list[Effect]:
        return self._after(super().wake(now), now)

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
        return True

    def hold(self, peer: int) -> None:
        """Too much waits to be sent to a peer: for a while it is sent nothing but what it asks for."""
        self._overlay.hold(peer)

    def release(self, peer: int, now: int) -> list[Effect]:
        """There is room again."""
        effects: list[Effect] = []
        self._route(self._overlay.release(peer, now), NOBODY, effects, now)
        return self._after(effects, now)

    def _after(self, effects: list[Effect], now: int) -> list[Effect]:
        """A step is over: rows for links that have changed."""
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
