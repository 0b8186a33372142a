"""A replica that survives crashes: what it must not forget is in its log first.

Own messages are appended when the client submits them, others when the order releases them; the driver calls
`commit` after each step, before it carries out the step's effects and before the client takes anything. So
whatever another node or the application has seen of this one is in the log, and a message is acknowledged
only when it is. What is held for its causes is not in the log, and is not acknowledged: it comes again.

The application keeps the position of what it has taken together with its own state. After a restart it says
so, and gets everything after it, once. What it had not taken, it had not seen: its next message does not
follow from it.

Recovery needs nothing but the log. Any order of replaying that respects causality gives the same context,
the same pasts and the same rows, and the order of the log does. What others told by phantoms is forgotten,
and asked for again.
"""

from collections import deque
from collections.abc import Sequence

from thence.core.codec import Codec
from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import InvariantError
from thence.core.machine import Effect, OrderEffect
from thence.core.message import Message
from thence.core.tag import Tag
from thence.oplog.log import OpLog
from thence.oplog.policy import Sync
from thence.order.engine import Engine
from thence.replica.replica import NOBODY, Delivered, Replica
from thence.spread.spread import Spread
from thence.trace.recorder import Recorder


class DurableReplica(Replica):
    __slots__ = ("_codec", "_log", "_positions", "_stable", "syncs", "taken")

    def __init__(
        self,
        me: int,
        size: int,
        engine: Engine,
        spread: Spread,
        recorder: Recorder,
        log: OpLog,
        taken: int,
        now: int,
        stability: bool = True,
    ) -> None:
        """From what the log holds, for an application that has taken everything up to `taken`."""
        super().__init__(me, size, engine, spread, recorder, stability)
        self._codec = Codec(size, engine.stamps_are_dots)
        self._log = log
        self._positions: deque[int] = deque()
        self._stable = list(log.stable) + [0] * (size - len(log.stable))
        self.taken = taken
        self.syncs: list[Sync] = []
        """What the driver must sync before it carries out the effects of this step."""
        self._recover(me, size, now)

    def _recover(self, me: int, size: int, now: int) -> None:
        kept, own = [0] * size, []
        for stored in self._log.since(0):
            message = self._codec.decode(stored.data)
            if not isinstance(message, Message) or message.dot != stored.dot:
                raise InvariantError(f"the log holds something else than message {stored.dot:#x}")
            origin, seq = message.dot & ORIGIN_MASK, message.dot >> ORIGIN_BITS
            self._orderer.sent(message, now)
            kept[origin] = seq
            if origin == me and seq > self._stable[me]:
                own.append(message)
            if origin == me or stored.position <= self.taken:
                self._tagger.recall(message)
                if self._witness is not None:
                    self._witness.see(message)
            else:
                self.inbox.append(message)
                self._positions.append(stored.position)
        if self._witness is not None:
            self._witness.recall_stable(tuple(self._stable))
        self._spread.recall(tuple(kept), own, now)

    def submit(self, payload: bytes, now: int) -> Delivered:
        delivered = super().submit(payload, now)
        self._log.append(delivered.message.dot, self._codec.encode(delivered.message))
        return delivered

    def take(self, now: int) -> Delivered:
        self.taken = self._positions.popleft()
        return super().take(now)

    def commit(self, now: int) -> None:
        """Write down what must not be forgotten; `syncs` says what is to be synced."""
        self.syncs += [effect for effect in self._log.commit(now) if isinstance(effect, Sync)]

    def _release(self, released: list[OrderEffect], effects: list[Effect], now: int) -> None:
        for effect in released:
            if isinstance(effect, Message):
                self._positions.append(self._log.append(effect.dot, self._codec.encode(effect)))
                self._route(self._spread.keep(effect.dot, now), NOBODY, effects, now)
        super()._release(released, effects, now)

    def _sweep(self, now: int) -> Sequence[Tag]:
        found = super()._sweep(now)
        for tag in found:
            self._stable[tag.dot & ORIGIN_MASK] = tag.dot >> ORIGIN_BITS
        if found:
            self._log.mark_stable(self._stable)
        return found
