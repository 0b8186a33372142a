"""The replica: tags, trace and deliveries are what its client saw."""

import pytest
from support.conformance_phantoms import ALL_REPLICA_CHECKS
from support.conformance_replica import Rows

from thence.core.dots import pack
from thence.core.machine import Doubt, Forward, OrderEffect, Transmit
from thence.core.message import Message
from thence.order.engine import Engine
from thence.order.graph import GraphTagger, predecessors
from thence.order.unordered import PassingOrderer
from thence.replica.replica import Replica
from thence.spread.mesh import Mesh
from thence.trace.recorder import DELIVER, DOUBT, SEND


@pytest.mark.parametrize("check", ALL_REPLICA_CHECKS)
def test_replica_conforms(check: str) -> None:
    ALL_REPLICA_CHECKS[check](Replica)


class Doubter(PassingOrderer):
    """Forwards what it receives to the next member, and doubts it."""

    def receive(self, message: Message, via: int, now: int) -> list[OrderEffect]:
        return [Forward((2,), message), message, Doubt(message.dot)]


def test_what_an_engine_asks_for_beside_deliveries_is_carried_out() -> None:
    rows = Rows()
    engine = Engine("doubter", GraphTagger, Doubter, predecessors)
    replica = Replica(0, 3, engine, Mesh(0, 3), rows)
    message = Message(pack(1, 1), (), b"?")
    effects = replica.receive(1, message, 0)
    forwarded = [effect for effect in effects if isinstance(effect, Transmit)]
    assert [(effect.peers, effect.packet) for effect in forwarded] == [((2,), message)]
    assert list(replica.inbox) == [message]
    assert rows.rows == [(DOUBT, message.dot)]


def test_nothing_counts_as_delivered_until_the_client_takes_it() -> None:
    rows = Rows()
    replica = Replica(0, 2, Engine("passing", GraphTagger, PassingOrderer, predecessors), Mesh(0, 2), rows)
    first = Message(pack(1, 1), (), b"first")
    replica.receive(1, first, 0)
    assert rows.rows == []
    assert replica.submit(b"unaware", 1).message.context == ()
    assert replica.take(2).message is first
    assert replica.submit(b"aware", 3).message.context == (pack(0, 1), first.dot)
    assert [kind for kind, _ in rows.rows] == [SEND, DELIVER, SEND]
