"""Fault: a durable replica is killed at the worst moments and comes back from its log."""

import pytest
from support.conformance_durable import DURABLE_CHECKS

from thence.core.machine import Ack, Transmit
from thence.core.message import Message
from thence.order.engines import ENGINES
from thence.replica.durable import DurableReplica
from thence.spread.mesh import Mesh


@pytest.mark.parametrize("check", DURABLE_CHECKS)
def test_durable_replica_conforms(check: str) -> None:
    DURABLE_CHECKS[check](DurableReplica)


def test_what_came_early_is_trusted_only_while_it_is_fresh() -> None:
    """The receiver may have crashed since, and forgotten it: a sender that relied on it would never end."""
    sender = Mesh(0, 2)
    tagger = ENGINES["graph"].tagger(0, 2)
    one, two = tagger.tag(b""), tagger.tag(b"")
    sender.broadcast(one, 0)
    sender.broadcast(two, 0)
    sender.receive(1, Ack((0, 0), (two.dot,)), 10_000)
    repeated: list[int] = []
    now = 0
    while two.dot not in repeated:
        now += 50_000
        assert now < 60_000_000, "never repeated"
        packets = [effect.packet for effect in sender.wake(now) if isinstance(effect, Transmit)]
        repeated += [packet.dot for packet in packets if isinstance(packet, Message)]
    assert repeated[0] == one.dot, "what is known to be missing comes first"
