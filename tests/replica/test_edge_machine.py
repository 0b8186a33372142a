"""The machine of an edge tree at its edges: disks that were put back, its log, what a program may ask."""

import pytest
from support.edges import Grove
from support.schedules_edge import LINE

from thence.core.edge import EdgeItem, EdgeNames, EdgeUp
from thence.core.errors import PeerError, UsageError
from thence.replica.edge import addressed, unaddressed

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
        unaddressed(b"\x09short")
    assert unaddressed(addressed("g", b"payload")) == ("g", b"payload")
