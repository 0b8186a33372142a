"""The machine of an edge tree at its edges: disks that were put back, its log, what a program may ask."""

import pytest
from support.edges import Grove
from support.schedules_edge import LINE

from thence.core.edge import EdgeItem, EdgeNames, EdgeUp, EdgeWant
from thence.core.errors import PeerError, UsageError
from thence.oplog.record import MAX_BODY
from thence.replica.edge import addressed, unaddressed
from thence.spread.edge_tree import in_packets

MEMBERS = {"g": ["c", "x"]}


def test_a_disk_that_was_put_back_is_noticed() -> None:
    """Else numbers would be used twice: the node says why it refuses, and stays out of the tree."""
    grove = Grove(LINE, 1, MEMBERS)
    grove.send("c", "g")
    grove.run(300)
    process = grove.world.processes["c"]
    backup = process.shelf.copy()
    grove.send("c", "g")
    grove.run(300)
    grove.crash("c")
    process.shelf = backup
    grove.world.liars |= {"r", "a", "b"}
    grove.world.boot("c")
    grove.run(2000)
    assert grove.node("c").tree.parent is None
    assert "old copy" in str(grove.node("c").refuses)
    grove.send("c", "g")
    assert grove.got("x", "g") == [("c", 1), ("c", 2)]


def test_a_peer_cannot_speak_for_this_node() -> None:
    grove = Grove(LINE, 1, MEMBERS)
    b = grove.node("b")
    [child] = b.tree.children.values()
    item = EdgeItem(len(child.heard_names), len(child.heard_names) + 1, 7, 7, b"")
    lie = EdgeUp(child.session, child.got + 1, (EdgeNames(("b", "g")), item))
    with pytest.raises(PeerError):
        b.receive("c", lie, grove.world.now)
    assert b.book.number == 0


def test_the_log_is_written_down_and_read_again() -> None:
    grove = Grove(LINE, 1, {**MEMBERS, "h": ["c"]}, keep_us=60_000_000)
    for _ in range(5):
        grove.send("x", "g")
        grove.send("c", "h")
    grove.run(500)
    before = grove.node("c")
    grove.world.call("c", lambda node: node.tidy(grove.world.now))
    grove.send("c", "g")
    grove.run(300)
    grove.world.crash("c", power=False)
    grove.world.boot("c")
    after = grove.node("c")
    assert after is not before
    assert after.book.have == before.book.have
    assert after.book.chain == before.book.chain
    assert after.book.covered == before.book.covered
    assert [(e.origin, e.number) for e in after.book.entries if e.kind == 0] == [
        (e.origin, e.number) for e in before.book.entries if e.kind == 0
    ]
    grove.finish()
    assert len(grove.got("c", "g")) == 6
    assert len(grove.got("c", "h")) == 5


def test_what_a_program_may_not_ask() -> None:
    grove = Grove(LINE, 1, MEMBERS)
    c, now = grove.node("c"), grove.world.now
    with pytest.raises(UsageError):
        c.replay(0, now)
    with pytest.raises(UsageError):
        c.has_reached(None, None)
    with pytest.raises(UsageError):
        c.join_group("a b", now)
    with pytest.raises(UsageError):
        grove.node("r").leave_group("g", now)
    with pytest.raises(UsageError):
        unaddressed(b"\x01gpayload")
    assert unaddressed(addressed("g", b"payload")) == ("g", b"payload")


def test_one_that_comes_back_waits_for_a_parent_before_it_sends_more_and_not_for_ever() -> None:
    """Its disk may have been put back. Without a parent it goes on after a while, and wakes for nothing."""
    grove = Grove(LINE, 1, MEMBERS, greet_us=500_000)
    grove.send("c", "g")
    grove.run(300)
    grove.world.crash("c")
    grove.world.crash("b")
    grove.world.crash("a")
    grove.world.crash("r")
    grove.world.boot("c")
    grove.send("c", "g")
    assert grove.node("c").in_debt
    assert grove.node("c").book.number == 1
    grove.run(600)
    assert not grove.node("c").in_debt
    assert grove.node("c").book.number == 2
    assert grove.node("c").wake_at > grove.world.now
    grove.finish()


def test_a_state_that_no_link_carries_costs_the_link_and_not_the_node() -> None:
    grove = Grove(LINE, 1, MEMBERS)
    r = grove.node("r")
    large = bytes(MAX_BODY)
    grove.world.processes["r"].application.state = lambda group: large  # type: ignore[method-assign]  # noqa: ARG005
    [child, *_] = [child for child in r.tree.children.values() if child.peer == "a"]
    want = EdgeUp(child.session, child.got + 1, (EdgeWant(99, ("g",), False),))
    with pytest.raises(PeerError, match="links carry up to"):
        r.receive("a", want, grove.world.now)


def test_packets_are_cut_at_a_number_of_bytes_and_of_bodies() -> None:
    items = [EdgeItem(0, 1, number, 1, bytes(100)) for number in range(1, 2500)]
    assert [len(some) for some in in_packets(list(items), 1 << 20)] == [1024, 1024, 451]
    assert [len(some) for some in in_packets(list(items[:25]), 1000)] == [10, 10, 5]
    large = EdgeItem(0, 1, 1, 1, bytes(5000))
    assert [len(some) for some in in_packets([items[0], large, items[1]], 1000)] == [1, 1, 1]
    assert [*in_packets([], 1000)] == [()]
