"""The machine of an edge tree at its edges: disks that were put back, its log, what a program may ask."""

from collections.abc import Callable

import pytest
from support.edges import Grove
from support.schedules_edge import LINE

from thence.core.edge import (
    EdgeBeat,
    EdgeDown,
    EdgeItem,
    EdgeNames,
    EdgePacket,
    EdgePiece,
    EdgeRun,
    EdgeUp,
    EdgeWant,
)
from thence.core.edge_codec import pieces_of
from thence.core.errors import PeerError, UsageError
from thence.core.runs import run_payload
from thence.replica.edge_parts import addressed, unaddressed
from thence.replica.edge_states import PAYLOAD_MAX
from thence.spread.edge_tree import EdgeStream, in_packets

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
    with pytest.raises(UsageError, match="ahead of this log"):
        c.replay(c.position + 1, now)
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


def test_states_that_no_log_holds_cost_the_link_and_not_the_node() -> None:
    """Those of all groups of an answer together."""
    grove = Grove(LINE, 1, {**MEMBERS, "h": ["c"]})
    r = grove.node("r")
    large = bytes(PAYLOAD_MAX // 2 + 1)
    grove.world.processes["r"].application.state_chunks = lambda group: iter((large,))  # type: ignore[method-assign]  # noqa: ARG005
    [child, *_] = [child for child in r.tree.children.values() if child.peer == "a"]
    want = EdgeUp(child.session, child.got + 1, (EdgeWant(99, ("g", "h"), False),))
    r.receive("a", want, grove.world.now)
    for _ in range(3):
        r.commit(grove.world.now)
    with pytest.raises(PeerError, match="a log holds up to"):
        r.receive("a", EdgeUp(child.session, child.got + 1, (EdgeBeat(0),)), grove.world.now)


def test_what_is_larger_than_a_packet_travels_in_pieces() -> None:
    """States and messages; other bodies of the step come before and after."""
    grove = Grove(LINE, 1, {"g": ["x"]}, packet_bytes=100)
    pieces: list[EdgePiece] = []

    def watch(sender: str, receiver: str, packet: EdgePacket) -> None:
        if isinstance(packet, EdgeUp | EdgeDown):
            found = [body for body in packet.bodies if isinstance(body, EdgePiece)]
            assert not found or len(packet.bodies) == 1
            assert all(len(piece.data) <= 100 for piece in found)
            pieces.extend(found if (sender, receiver) == ("b", "c") else [])

    grove.watch = watch
    for size in (10, 250, 1000, 10):
        grove.world.send("x", "g", payload=bytes(size))
    grove.settle()
    grove.world.join("c", "g")
    grove.settle()
    grove.world.send("r", "g", payload=bytes(range(200)))
    grove.settle()
    assert len(pieces) > 2
    grove.finish()
    assert len(grove.got("c", "g")) == 5


@pytest.mark.parametrize(
    ("pieces", "why"),
    [
        ([EdgePiece(5, b"12345"), EdgePiece(1, b"12345")], "does not fit"),
        ([EdgePiece(0, b"")], "does not fit"),
        ([EdgePiece(1 << 30, b"1")], "no log could hold"),
        ([EdgePiece(2, b"1"), EdgePiece(0, b"\xff\xff")], "kind"),
        ([next(pieces_of(EdgePiece(0, b"a piece of a piece"), 1000))], "make no body"),
        ([EdgePiece(0, b"".join(piece.data for piece in pieces_of(EdgeBeat(1), 9)) + b"1")], "make no body"),
    ],
)
def test_pieces_that_make_no_sense_cost_the_link(pieces: list[EdgePiece], why: str) -> None:
    grove = Grove(LINE, 1, MEMBERS)
    b = grove.node("b")
    [child] = b.tree.children.values()
    up = EdgeUp(child.session, child.got + 1, tuple(pieces))
    with pytest.raises(PeerError, match=why):
        b.receive("c", up, grove.world.now)


def test_what_a_turn_sends_to_a_group_is_one_entry() -> None:
    """To two groups in turn it is not: a member of both is told in the order of the program."""
    grove = Grove(LINE, 1, {"g": ["c", "x"], "h": ["x"]}, keep_us=60_000_000)
    passed: list[EdgeRun | EdgeItem] = []

    def watch(sender: str, receiver: str, packet: EdgePacket) -> None:
        if (sender, receiver) == ("c", "b") and isinstance(packet, EdgeUp):
            passed.extend([body for body in packet.bodies if isinstance(body, EdgeRun | EdgeItem)])

    grove.watch = watch
    grove.send("c", "g", "g", "g", "h", "g", "g")
    grove.run(500)
    assert [(type(body), body.number, body.back) for body in passed] == [
        (EdgeRun, 3, 3), (EdgeItem, 4, 4), (EdgeRun, 6, 3)
    ]  # fmt: skip
    sent = [entry for entry in grove.node("c").book.entries if entry.origin == "c"]
    assert [(entry.group, entry.span) for entry in sent] == [("g", 3), ("h", 1), ("g", 2)]
    assert grove.got("x", "g") == grove.got("c", "g") == [("c", number) for number in (1, 2, 3, 5, 6)]
    grove.crash("x")
    grove.send("c", "g", "g")
    grove.run(300)
    grove.finish()
    assert grove.got("x", "g")[-3:] == [("c", 6), ("c", 7), ("c", 8)]
    delivered = [event for event in grove.world.events() if event.kind == "deliver" and event.node == "x"]
    assert [event.seq for event in delivered] == list(range(1, 9))


@pytest.mark.parametrize(
    ("payload", "back"),
    [(run_payload([b"one"]), 9), (b"\x06\x92", 9), (b"", 9), (run_payload([b""] * 3), 2)],
    ids=["one alone", "cut", "nothing", "longer than its numbers"],
)
def test_a_run_that_is_none_costs_its_sender_the_link(payload: bytes, back: int) -> None:
    grove = Grove(LINE, 1, MEMBERS)
    b = grove.node("b")
    [child] = b.tree.children.values()
    run = EdgeRun(len(child.heard_names), len(child.heard_names) + 1, 9, back, payload)
    with pytest.raises(PeerError):
        b.receive("c", EdgeUp(child.session, child.got + 1, (EdgeNames(("c", "new")), run)), grove.world.now)
    assert ("c", "new") not in b.book.have


def test_so_many_bytes_are_under_way_over_a_session() -> None:
    """In either direction; a message that is larger alone goes when nothing else is under way."""
    grove = Grove(LINE, 1, MEMBERS, window_bytes=250)
    streams: list[tuple[str, str, Callable[[], EdgeStream]]] = [
        ("b", "c", lambda: grove.node("c").tree.parent),
        ("x", "r", lambda: grove.node(grove.chain("x")[0]).tree.children["x"]),
    ]
    for receiver, sender, stream in streams:
        above = grove.chain("x")[0] if receiver == "x" else receiver
        grove.hold_session((above, "c") if receiver == "b" else ("x", above))
        for size in (100, 100, 100, 100, 1000, 1):
            grove.world.send(sender, "g", payload=bytes(size))
            grove.run(30)
        assert (list(stream().flight), stream().flight_bytes) == ([100, 100, 100], 300)
        grove.release()
        grove.settle()
        assert not stream().flight
    grove.finish()
    assert len(grove.got("x", "g")) == len(grove.got("c", "g")) == 12


def test_packets_are_cut_at_a_number_of_bytes_and_of_bodies() -> None:
    items = [EdgeItem(0, 1, number, 1, bytes(100)) for number in range(1, 2500)]
    assert [len(some) for some in in_packets(list(items), 1 << 20)] == [1024, 1024, 451]
    assert [len(some) for some in in_packets(list(items[:25]), 1000)] == [10, 10, 5]
    runs = [EdgeRun(0, 1, 100, 100, run_payload([b""] * 100)) for _ in range(30)]
    assert [len(some) for some in in_packets(list(runs), 1 << 20)] == [10, 10, 10]
    large = EdgeItem(0, 1, 1, 1, bytes(5000))
    assert [len(some) for some in in_packets([items[0], large, items[1]], 1000)] == [1, 1, 1]
    assert [*in_packets([], 1000)] == [()]
