"""The driver of a live node: what of it the kit for steps (`test_steps.py`) does not know."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest
from support.steps_changing import ChangingSubject
from support.steps_fixed import NAMES, FixedSubject
from support.steps_subject import asked, sent, sent_once
from support.steps_world import World

from thence.core.codec import Codec
from thence.core.errors import PeerError, StorageError
from thence.core.machine import Ack
from thence.order.engines import ENGINES

Subject = TypeVar("Subject", bound=World)

CODEC = Codec(len(NAMES), ENGINES["graph"].stamps_are_dots)


@contextmanager
def subject(node: Subject) -> Iterator[Subject]:
    """A node that ends in order."""
    try:
        yield node
        assert node.close() is True
        assert not node.unheard
    finally:
        node.end()


def claims(node: FixedSubject, peer: str, has: int) -> None:
    """A peer whose link has just come up says that it has so many of the messages of `a`."""
    node.driver.link_up(peer)
    kept = tuple(has if name == "a" else 0 for name in NAMES)
    node.driver.packets(peer, [CODEC.encode(Ack(kept, ()))], node.now)


def test_a_peer_with_more_than_was_sent_is_refused_and_so_are_broadcasts_until_it_says_otherwise() -> None:
    """The data folder may be an old copy, or the peer may lie: neither stops a node."""
    with subject(FixedSubject()) as node:
        node.unlink("b")
        with pytest.raises(PeerError, match="member 1 has 1 messages of this node, which had sent 0"):
            claims(node, "b", 1)
        node.driver.link_down("b")
        assert node.stops is None
        twice = asked(node, b"twice")
        assert isinstance(twice.error, StorageError)
        assert "is an old copy" in str(twice.error)
        node.says("c", b"goes on")
        node.talk()
        assert node.events == [b"goes on"]
        node.link("b")
        node.talk()
        assert asked(node, b"once").counters == [1]
        assert sent(node, "b") == sent(node, "c") == ["once"]


def test_one_that_claims_to_have_what_was_never_sent_is_refused_and_the_node_goes_on() -> None:
    """Whoever poses as a member must not stop a node with one packet."""
    with subject(FixedSubject()) as node:
        node.unlink("b")
        for has in ((1 << 32) + 1, (1 << 43) - 1):
            with pytest.raises(PeerError, match="claims to have"):
                claims(node, "b", has)
            node.driver.link_down("b")
        assert node.stops is None
        node.link("b")
        node.talk()
        assert asked(node, b"all the same").counters == [1]
        sent_once(node, b"all the same")


@pytest.mark.parametrize("kind", [FixedSubject, ChangingSubject])
def test_samples_of_latency_are_of_what_is_new(kind: Callable[..., World]) -> None:
    """Repeats after a broken link are never delivered: kept, they would crowd out all others."""
    with subject(kind(reads=False)) as node:
        observed: list[int] = []
        node.driver.on_delivery = observed.append
        node.says("b", b"theirs")
        [*packets] = node.on_wire("b")
        node.driver.packets("b", packets, node.now)
        for _ in range(3):
            node.now += 10
            node.driver.packets("b", packets, node.now)
        assert observed == []
        node.take()
        assert (node.events, observed) == ([b"theirs"], [30])
        node.driver.packets("b", packets, node.now)
        node.reads = True
        node.says("b", b"theirs, too")
        node.arrives("b")
        assert (node.events, observed) == ([b"theirs", b"theirs, too"], [30, 0])


@pytest.mark.parametrize("sync", ["no", "everysec"])
def test_whatever_the_policy_nobody_is_let_in_before_that_is_synced(sync: str) -> None:
    """Or the process could forget whom it has let in."""
    with subject(ChangingSubject(sync=sync, at_once=False)) as node:  # type: ignore[arg-type]
        node.insist()
        later = node.ask(b"later")
        node.turn()
        assert not [one for one in node.journal if one.startswith(("send", "answer"))]
        while node.syncs:
            node.finish_sync()
        assert "send d -" in node.journal, "the state of the group"
        assert later.counters is not None
