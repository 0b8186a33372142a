"""States on an edge tree are made and sent in turns: counted, and what happens meanwhile is not in them."""

from collections.abc import Iterator

import msgspec
import pytest
from support.edges import Grove
from support.schedules_edge import LINE

from thence.core.edge import EdgePiece, EdgeUp, EdgeWant
from thence.core.errors import PeerError, UsageError
from thence.replica.edge_parts import addressed
from thence.replica.edge_states import PAYLOAD_MAX, EdgeStatesMaking
from thence.spread.edge_book import MESSAGE, STATE
from thence.spread.edge_tree import EdgeTree

TURN = 128


def _grove() -> Grove:
    grove = Grove(LINE, 1, {"g": ["x"]}, packet_bytes=100, turn_bytes=TURN, keep_us=60_000_000)
    for _ in range(100):
        grove.send("x", "g")
    grove.settle()
    return grove


def test_no_turn_makes_or_sends_more_than_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    grove, made, sent = _grove(), list[int](), list[int]()
    go_on, flush = EdgeStatesMaking.go_on, EdgeTree.flush

    def makes(making: EdgeStatesMaking, most: int) -> int:
        made.append(go_on(making, most))
        return made[-1]

    def sends(tree: EdgeTree) -> None:
        before = len(tree.outbox)
        flush(tree)
        bodies = [body for _, packet in tree.outbox[before:] for body in getattr(packet, "bodies", ())]
        sent.append(sum(len(body.data) for body in bodies if isinstance(body, EdgePiece)))

    monkeypatch.setattr(EdgeStatesMaking, "go_on", makes)
    monkeypatch.setattr(EdgeTree, "flush", sends)
    grove.world.join("c", "g")
    grove.settle()
    assert grove.got("c", "g") == [("x", number) for number in range(1, 101)]
    size = len(msgspec.json.encode(grove.got("x", "g")))
    assert sum(made) == size
    assert max(made) <= TURN
    assert len([part for part in made if part]) >= size // TURN
    assert 0 < max(sent) <= TURN + 100
    assert len([part for part in sent if part]) >= 3 * (size // (TURN + 100))  # over three hops
    grove.finish()


def test_what_comes_while_a_state_is_made_is_sent_behind_it() -> None:
    grove = _grove()
    r, now = grove.node("r"), grove.world.now
    [child] = [child for child in r.tree.children.values() if child.peer == "a"]
    r.receive("a", EdgeUp(child.session, child.got + 1, (EdgeWant(99, ("g",), False),)), now)
    r.commit(now)
    [entry] = r.tree.makes
    turns = 1
    while r.tree.makes:
        assert r.wake_at == now  # the next turn goes on
        assert child.cursor < r.book.end
        r.broadcast([addressed("g", b"later")], now)
        r.commit(now)
        turns += 1
    size = sum(map(len, entry.states))
    assert turns >= size // TURN
    assert len(msgspec.json.decode(entry.states[0])) == 100
    kinds = [each.kind for each in r.book.entries]
    assert kinds[r.book.entries.index(entry) :] == [STATE, *[MESSAGE] * (turns - 1)]
    assert child.cursor == r.book.end


def test_states_for_no_joiner_are_not_made() -> None:
    grove = _grove()
    r, now = grove.node("r"), grove.world.now
    [child] = [child for child in r.tree.children.values() if child.peer == "a"]
    r.receive("a", EdgeUp(child.session, child.got + 1, (EdgeWant(99, ("g",), False),)), now)
    r.commit(now)
    [entry] = r.tree.makes
    r.link_down("a", now)
    r.commit(now)
    assert not r.tree.makes
    assert entry.making is None
    assert not r.tree.is_busy


def test_a_node_does_not_ask_to_move_behind_something_large() -> None:
    """The session would be over before the request has gone."""
    grove = _grove()
    x, parent = grove.node("x"), grove.node("x").tree.parent
    grove.world.send("x", "g", payload=bytes(10 * TURN))
    assert parent.rest
    with pytest.raises(UsageError, match="large"):
        x.rehome("b", grove.world.now)
    assert x.tree.parent is parent
    grove.settle()
    assert not parent.rest
    x.rehome("b", grove.world.now)
    assert x.tree.parent is None
    grove.finish()


def test_a_program_that_is_about_to_be_another_gives_what_it_was() -> None:
    """All that is left of a state is made at once then."""
    states: Iterator[bytes] = iter([b"1" * TURN, b"2" * TURN, b"3"])
    making = EdgeStatesMaking(("g", "h"), [states, iter([b"4"])])
    assert making.go_on(1) == TURN
    assert [making.over, making.go_on(1 << 40), making.over] == [False, TURN + 2, True]
    assert making.states() == (b"1" * TURN + b"2" * TURN + b"3", b"4")


def test_more_than_a_log_holds_is_refused_before_it_is_made() -> None:
    making = EdgeStatesMaking(("g",), [iter([bytes(PAYLOAD_MAX // 2 + 1)] * 9)])
    making.go_on(1)
    with pytest.raises(PeerError, match="a log holds up to"):
        making.go_on(1)
