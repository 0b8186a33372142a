"""One node of the middleware: routes between client, order, spread and trace, decides nothing itself.

The client's half and the middleware's half may run apart, so there is a queue in either direction
(section 4.2.1 of the tagged causal broadcast document): `submit` tags a message, delivers it here and
puts it into the outbox, `flush` takes the outbox to order and spread; `receive` puts what became
deliverable into the inbox, `take` delivers the next of it to the client. What counts as sent and
delivered, in the tags and in the trace, is what the client saw: the calls of `submit` and `take`.
A driver that wants no queues calls `broadcast`, and takes everything after each `receive`.
"""

from collections import deque

from thence.core.machine import Effect, Forward, OrderEffect, Packet, SpreadEffect, Transmit
from thence.core.message import Message
from thence.order.engine import Engine
from thence.spread.spread import Spread
from thence.trace.recorder import DELIVER, DOUBT, DUPLICATE, HOLD, START, Recorder

NOBODY = -1
"""Stands for the neighbour that a message came through where it came through none."""


class Replica:
    __slots__ = ("_orderer", "_predecessors", "_recorder", "_spread", "_tagger", "inbox", "outbox")

    def __init__(self, me: int, size: int, engine: Engine, spread: Spread, recorder: Recorder) -> None:
        self._tagger = engine.tagger(me, size)
        self._orderer = engine.orderer(me, size)
        self._predecessors = engine.predecessors
        self._spread = spread
        self._recorder = recorder
        self.inbox: deque[Message] = deque()
        self.outbox: deque[Message] = deque()

    @property
    def waiting(self) -> int:
        """Messages received whose causes were not."""
        return self._orderer.waiting

    @property
    def drained(self) -> bool:
        """Nothing is held, queued, kept for others or owed to them."""
        return not (self.inbox or self.outbox or self._orderer.waiting) and self._spread.drained

    def start(self, now: int) -> None:
        self._recorder.record(START, 0, now)

    def submit(self, payload: bytes, now: int) -> Message:
        """The client sends: tagged and delivered here and now, queued for the others."""
        message = self._tagger.tag(payload)
        self._recorder.record_send(message.dot, self._predecessors(message), now)
        self.outbox.append(message)
        return message

    def flush(self, now: int) -> list[Effect]:
        """The middleware takes up what the client has queued."""
        effects: list[Effect] = []
        while self.outbox:
            message = self.outbox.popleft()
            self._release(self._orderer.sent(message, now), effects, now)
            self._route(self._spread.broadcast(message, now), NOBODY, effects, now)
        return effects

    def broadcast(self, payload: bytes, now: int) -> list[Effect]:
        """`submit` and `flush` in one."""
        self.submit(payload, now)
        return self.flush(now)

    def receive(self, peer: int, packet: Packet, now: int) -> list[Effect]:
        """A packet arrives from `peer`."""
        effects: list[Effect] = []
        fresh = self._route(self._spread.receive(peer, packet, now), peer, effects, now)
        if not fresh and type(packet) is Message:
            self._recorder.record(DUPLICATE, packet.dot, now)
        return effects

    def wake(self, now: int) -> list[Effect]:
        """Time has come for something that was put off."""
        effects: list[Effect] = []
        self._route(self._spread.wake(now), NOBODY, effects, now)
        return effects

    def take(self, now: int) -> Message:
        """Deliver the next message of the inbox to the client."""
        message = self.inbox.popleft()
        self._tagger.took(message)
        self._recorder.record(DELIVER, message.dot, now)
        return message

    def _route(self, asked: list[SpreadEffect], via: int, effects: list[Effect], now: int) -> bool:
        """Hand new messages to the order, everything else to the driver; was there a new message?"""
        fresh = False
        for effect in asked:
            if isinstance(effect, Message):
                fresh = True
                released = self._orderer.receive(effect, via, now)
                if released:
                    self._release(released, effects, now)
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
