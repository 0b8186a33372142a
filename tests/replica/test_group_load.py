"""Much to do at once: a step does a bounded part of it, counted in messages and bytes, never in time."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.schedules_groups import Play
from support.schedules_load import LOAD, Framed

from thence.core.errors import UsageError
from thence.core.group_words import MAX_NAME
from thence.core.groups import (
    NOBODY_YET,
    Flow,
    GroupPacket,
    JoinRequest,
    Offer,
    Piece,
    Running,
)
from thence.replica.group.ledger.backlog import Allowance
from thence.replica.group.process.node import GroupNode
from thence.replica.group.settings import GroupSettings
from thence.sim.air import Air


@pytest.mark.parametrize("schedule", LOAD.values(), ids=LOAD)
def test_no_step_does_more_than_its_share(schedule: Callable[[], str]) -> None:
    assert schedule() == ""


def test_a_large_message_counts_for_as_many_as_it_has_kilobytes() -> None:
    few = GroupSettings(step_max=32, window=4)
    play = Play("ab", few, 0, Air(jitter_us=0, links=True, wire=False)).together("ab")
    play.crash("b")
    play.passes(1)
    for _ in range(20):
        play.send("a", bytes(20_000))
        play.passes(0.01)
    sizes: list[int] = []

    def watch(_: str, receiver: str, packet: GroupPacket) -> GroupPacket:
        if receiver == "b" and isinstance(packet, Flow):
            sizes.append(sum(map(len, packet.bodies)))
        return packet

    play.filter = watch
    play.boot("b")
    assert play.run(play.now + 30_000_000, lambda: not play.unsettled())
    assert sum(sizes) >= 20 * 20_000
    assert max(sizes) <= 32 * 1024 + 20_500


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1 << 16, 1 << 18),
    st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1)), max_size=12),
    st.lists(st.integers(1, MAX_NAME), max_size=60),
)
def test_every_packet_fits_a_frame(frame: int, sent: list[tuple[str, float]], lengths: list[int]) -> None:
    play = Framed("abc", frame, frame // 2).together("ab")
    play.hears_of("b", [f"n{number:x}".ljust(length, "x") for number, length in enumerate(lengths)])
    for name, share in sent:
        play.send(name, bytes(int(share * play.payload_max)))
        if name == "c":
            play.join("c")
        play.passes(0.05)
    play.crash("a")
    play.boot("a")
    assert play.ends_well() == ""


def test_a_payload_that_no_record_holds_is_refused_and_in_no_log() -> None:
    play = Framed("ab", 1 << 16, 1 << 15).together("ab")
    node = play.processes["a"].node
    assert node is not None
    assert node.member is not None
    before, most = node.member.ledger.sent, play.payload_max
    with pytest.raises(UsageError, match=rf"a payload of {most + 1} bytes: an operation has up to {most}$"):
        node.broadcast([bytes(most + 1)], play.now)
    assert node.member.ledger.sent == before
    play.send("a", bytes(most))
    assert node.member.ledger.sent == before + 1
    assert play.ends_well() == ""


def test_a_context_that_is_too_wide_is_followed_by_an_empty_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thence.replica.group.member.member.CONTEXT_MAX", 1)
    play = Framed("abc", 1 << 16, 1 << 15).together("abc")
    contexts: list[int] = []
    for name in "bc":  # at the same time: a's next message follows from both
        play.send(name)
    play.passes(1)
    member = play.processes["a"].node.member  # type: ignore[union-attr]
    assert member is not None
    assert len(member.ledger.frontier()) == 2
    sent = member.ledger.sent
    play.send("a", bytes(100))
    contexts.append(member.ledger.sent - sent)
    for name in "bc":
        play.send(name)
    play.passes(1)
    sent = member.ledger.sent
    play.send("a", bytes(play.payload_max))
    assert [*contexts, member.ledger.sent - sent] == [1, 2]
    assert play.ends_well() == ""


def test_a_joiner_whose_name_would_not_fit_is_not_let_in() -> None:
    play = Framed("abc", 1 << 16, 1 << 15).together("ab")
    for name in "ab":
        play.hears_of(name, [f"{number:0>{MAX_NAME}}" for number in range(60)])
    play.join("c")
    play.passes(20)
    assert play.me("c") == ""
    assert play.problem == ""


def test_a_restart_reads_a_bounded_part_of_the_log_in_each_step() -> None:
    play = Play("ab", air=Air(jitter_us=0, links=True, wire=False)).together("ab")
    for _ in range(100):
        play.send("a")
        play.passes(0.001)
    process = play.processes["a"]
    assert process.node is not None
    assert process.node.member is not None
    before = process.node.member.ledger.vector()
    play.crash("a")
    process.application.order.clear()
    process.application.applied.clear()
    process.application.replays = set()
    node = GroupNode(
        "a", process.shelf, process.application, play.diary, ("a", "b"), play.settings, play.now,
        recovers=False,
    )  # fmt: skip
    work, told, steps = node.recovering(play.now, forgetful=False), [0], 0
    while Allowance(16).spend_on(work) is None:
        told.append(len(process.application.applied))
        steps += 1
    assert max(after - before for before, after in pairwise(told)) == 16
    assert steps >= 100 // 16
    assert node.member is not None
    assert node.member.ledger.vector() == before


def asked(play: Play, joiner: str, have: int = 0, transfer: int = 0) -> list[Piece]:
    """What a contact sends to a joiner that asks it."""
    node = play.processes["a"].node
    assert node is not None
    running = Running(joiner, "", joiner, 1)
    node.receive(joiner, JoinRequest(joiner, "a", NOBODY_YET, running, transfer, have, "somewhere"), play.now)
    node.commit(play.now)
    pieces = [packet for to, packet in node.posts if to == joiner and isinstance(packet, Piece)]
    node.posts.clear()
    return pieces


def test_a_joiner_that_is_slow_is_not_sent_the_same_again_while_its_link_lasts() -> None:
    few = GroupSettings(piece_bytes=100, pieces=4)
    play = Play("ab", few, 0, Air(jitter_us=0, links=True, wire=False)).together("ab")
    play.processes["a"].application.padding = bytes(2000)
    node = play.processes["a"].node
    assert node is not None
    node.link_up("z", play.now)
    first = asked(play, "z")
    assert [piece.offset for piece in first] == [0, 100, 200, 300]
    assert asked(play, "z") == []
    transfer = first[0].transfer
    assert [piece.offset for piece in asked(play, "z", 200, transfer)] == [400, 500]
    assert asked(play, "z", 200, transfer) == []
    node.link_down("z", play.now)
    node.link_up("z", play.now)
    assert [piece.offset for piece in asked(play, "z", 200, transfer)] == [200, 300, 400, 500]


def test_who_is_let_in_together_shares_a_state_and_the_others_are_told_to_wait() -> None:
    few = GroupSettings(joins_max=2, piece_bytes=100)
    play = Play("ab", few, 0, Air(jitter_us=0, links=True, wire=False)).together("ab")
    play.processes["a"].application.padding = bytes(2000)
    node = play.processes["a"].node
    assert node is not None
    assert node.member is not None
    gate = node.member._gate
    assert asked(play, "w")
    one = gate.held_bytes
    assert asked(play, "x"), "there is room for two; x needs a state that knows it"
    assert 2 * one <= gate.held_bytes <= 2 * one + 200
    for joiner in "yz":
        node.receive(
            joiner, JoinRequest(joiner, "a", NOBODY_YET, Running(joiner, "", joiner, 1), 0, 0), play.now
        )
        assert [packet for _, packet in node.posts] == [Offer("a", joiner)]
        node.posts.clear()
    for joiner in "wx":
        gate.arrived(joiner, node.member.ledger.sent)
    assert gate.held_bytes == 0
    node.receive("z", JoinRequest("z", "a", NOBODY_YET, Running("z", "", "z", 1), 0, 0), play.now)
    node.commit(play.now)
    served = {to for to, packet in node.posts if isinstance(packet, Piece)}
    assert served == {"y", "z"}
    assert len({packet.transfer for _, packet in node.posts if isinstance(packet, Piece)}) == 1
    assert one <= gate.held_bytes <= one + 400
