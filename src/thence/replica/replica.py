"""One node of the middleware: routes between client, order, spread and trace, decides nothing itself.

The client's half and the middleware's half may run apart, so there is a queue in either direction
(section 4.2.1 of the tagged causal broadcast document): `submit` tags a message, delivers it here and
puts it into the outbox, `flush` takes the outbox to order and spread; `receive` puts what became
deliverable into the inbox, `take` delivers the next of it to the client. What counts as sent and
delivered, in the tags and in the trace, is what the client saw: the calls of `submit` and `take`.
A driver that wants no queues calls `broadcast`, and takes everything after each `receive`.

With `stability`, a witness beside the client finds out what has become causally stable. It looks after a
batch of messages and at every wake-up, and leaves what it found in `stable`, for the client to take when
it likes: nothing waits for that.
"""

from collections import deque
from collections.abc import Sequence

from thence.core.machine import (
    NEVER,
    NO_PEER,
    Batch,
    Effect,
    Forward,
    OrderEffect,
    Packet,
    Phantom,
    SpreadEffect,
    Transmit,
    Wake,
)
from thence.core.message import Message
from thence.core.tag import Tag
from thence.order.engine import Engine
from thence.order.phantom_timer import PhantomSchedule
from thence.order.tags import SWEEP_MAX
from thence.spread.spread import Spread
from thence.trace.recorder import DELIVER, DOUBT, DUPLICATE, HOLD, RESTART, SEND, STABLE, START, Recorder


class ClientDelivery:
    """What the client gets: a message and its tag (none without stability)."""

    __slots__ = ("message", "tag")

    def __init__(self, message: Message, tag: Tag | None) -> None:
        self.message = message
        self.tag = tag


class Replica:
    __slots__ = (
        "_batch", "_herald", "_orderer", "_peers", "_predecessors", "_recorder", "_spread", "_tagger",
        "_unswept", "_witness", "inbox", "outbox", "stable",
    )  # fmt: skip

    def __init__(
        self,
        me: int,
        size: int,
        engine: Engine,
        spread: Spread,
        recorder: Recorder,
        stability: bool = True,
    ) -> None:
        self._tagger = engine.tagger(me, size)
        self._orderer = engine.orderer(me, size)
        self._predecessors = engine.predecessors
        self._witness = engine.witness(me, size) if stability and engine.witness else None
        self._herald = PhantomSchedule()
        self._peers = tuple([peer for peer in range(size) if peer != me])
        self._batch = max(1, size // 2)
        self._unswept = 0
        self._spread = spread
        self._recorder = recorder
        self.inbox: deque[Message] = deque()
        self.outbox: deque[Message] = deque()
        self.stable: deque[Tag] = deque()

    @property
    def waiting(self) -> int:
        """Messages received whose causes were not."""
        return self._orderer.waiting

    @property
    def unstable(self) -> int:
        """Messages seen that are not known to be stable."""
        return 0 if self._witness is None else len(self._witness)

    @property
    def drained(self) -> bool:
        """Nothing is held, queued, unstable, kept for others or owed to them."""
        if self.inbox or self.outbox or self._orderer.waiting or not self._spread.drained:
            return False
        return self._witness is None or (self._witness.drained and self._herald.resting)

    def start(self, now: int) -> None:
        self._recorder.record(START, 0, now)

    def restart(self, now: int) -> list[Effect]:
        """Back from a crash with everything that was known; outstanding wake-ups are not."""
        self._recorder.record_deps(RESTART, 0, self._tagger.frontier(), now)
        return self.resume(now)

    def resume(self, now: int) -> list[Effect]:
        """Outstanding wake-ups were lost: ask for what is needed."""
        effects: list[Effect] = []
        self._route(self._spread.resume(now), NO_PEER, effects, now)
        if self._witness is not None:
            effects.append(Wake(self._herald.resume(now)))
        return effects

    def submit(self, payload: bytes, now: int) -> ClientDelivery:
        """The client sends: tagged and delivered here and now, queued for the others."""
        message = self._tagger.tag(payload)
        self._write_down(message)
        return self._sent(message, now)

    def _write_down(self, message: Message) -> None:
        """The client is about to send this; a node that must not forget it sees to that."""

    def _record_sent(self, message: Message, now: int) -> None:
        deps = self._predecessors(message)
        if deps is None:
            self._recorder.record(SEND, message.dot, now)
        else:
            self._recorder.record_deps(SEND, message.dot, deps, now)

    def _sent(self, message: Message, now: int) -> ClientDelivery:
        self._record_sent(message, now)
        self.outbox.append(message)
        return ClientDelivery(message, self._saw(message, True, now))

    def flush(self, now: int) -> list[Effect]:
        """The middleware takes up what the client has queued."""
        effects: list[Effect] = []
        while self.outbox:
            message = self._orderer.stamp(self.outbox.popleft())
            self._release(self._orderer.sent(message, now), effects, now)
            self._route(self._spread.broadcast(message, now), NO_PEER, effects, now)
            self._expect(effects, now)
        return effects

    def broadcast(self, payload: bytes, now: int) -> list[Effect]:
        """`submit` and `flush` in one."""
        self.submit(payload, now)
        return self.flush(now)

    def receive(self, peer: int, packet: Packet, now: int) -> list[Effect]:
        """A packet arrives from `peer`."""
        effects: list[Effect] = []
        if type(packet) is Phantom:
            self._heard(peer, packet, effects, now)
            return effects
        # Before the spread takes note of it: what is refused must be able to come again as it should be.
        if isinstance(packet, Message):
            self._check(packet)
        elif isinstance(packet, Batch):
            for message in packet.messages:
                self._check(message)
        fresh = self._route(self._spread.receive(peer, packet, now), peer, effects, now)
        if not fresh and type(packet) is Message:
            self._recorder.record(DUPLICATE, packet.dot, now)
        return effects

    def _check(self, message: Message) -> None:
        self._orderer.check(message)

    def up(self, peer: int, now: int) -> list[Effect]:
        """A link to `peer` is there."""
        effects: list[Effect] = []
        self._route(self._spread.up(peer, now), NO_PEER, effects, now)
        return effects

    def down(self, peer: int, now: int) -> list[Effect]:
        """The link to `peer` broke."""
        effects: list[Effect] = []
        self._route(self._spread.down(peer, now), NO_PEER, effects, now)
        return effects

    def wake(self, now: int) -> list[Effect]:
        """Time has come for something that was put off."""
        effects: list[Effect] = []
        self._route(self._spread.wake(now), NO_PEER, effects, now)
        if self._witness is not None:
            self._sweep(now)
            idle = self._witness.drained and not self.inbox
            tell, ask, again = self._herald.wake(now, idle)
            if tell and self._peers:
                effects.append(Transmit(self._peers, Phantom(self._tagger.context(), asks=False)))
            if ask and (behind := self._witness.behind()):
                effects.append(Transmit(tuple(behind), Phantom(self._tagger.context(), asks=True)))
            if again != NEVER:
                effects.append(Wake(again))
        return effects

    def take(self, now: int) -> ClientDelivery:
        """Deliver the next message of the inbox to the client."""
        message = self.inbox.popleft()
        self._tagger.took(message)
        self._recorder.record(DELIVER, message.dot, now)
        return ClientDelivery(message, self._saw(message, False, now))

    def reached(self, dot: int) -> int:
        """At how many members a message of this client's past is known to have been delivered."""
        return 1 if self._witness is None else self._witness.reached(dot)

    def _saw(self, message: Message, own: bool, now: int) -> Tag | None:
        if self._witness is None:
            return None
        tag = self._witness.see(message)
        self._herald.saw(own, now)
        self._unswept += 1
        if self._unswept >= self._batch:
            self._sweep(now)
        return tag

    def _heard(self, peer: int, phantom: Phantom, effects: list[Effect], now: int) -> None:
        if self._witness is None:
            return
        self._witness.heard(peer, phantom.context)
        if phantom.asks:
            effects.append(Transmit((peer,), Phantom(self._tagger.context(), asks=False)))
        self._unswept += 1
        if self._unswept >= self._batch:
            self._sweep(now)

    def _sweep(self, now: int) -> Sequence[Tag]:
        assert self._witness is not None
        found = self._witness.sweep()
        self._unswept = 1 if len(found) >= SWEEP_MAX else 0  # there may be more
        for tag in found:
            self._recorder.record(STABLE, tag.dot, now)
        if found:
            self.stable.extend(found)
            self._herald.progress(now)
        return found

    def _expect(self, effects: list[Effect], now: int) -> None:
        """Something was sent or released: the client will have something to tell."""
        if self._witness is not None and self._herald.resting:
            effects.append(Wake(self._herald.rouse(now)))

    def _route(self, asked: list[SpreadEffect], via: int, effects: list[Effect], now: int) -> bool:
        """Hand new messages to the order, everything else to the driver; was there a new message?"""
        fresh = False
        for effect in asked:
            if isinstance(effect, Message):
                fresh = True
                released = self._orderer.receive(effect, via, now)
                if released:
                    self._release(released, effects, now)
                    self._expect(effects, now)
                else:
                    self._recorder.record(HOLD, effect.dot, now)
            else:
                effects.append(effect)
        return fresh

    def _release(self, released: list[OrderEffect], effects: list[Effect], now: int) -> None:
        for effect in released:
            if isinstance(effect, Message):
                self.inbox.append(effect)
            elif isinstance(effect, Forward):
                effects.append(Transmit(effect.peers, effect.message))
            else:
                self._recorder.record(DOUBT, effect.dot, now)
