"""A joiner takes no state that contradicts itself."""

from collections.abc import Generator, Iterator
from dataclasses import replace
from random import Random

import pytest
from support.schedules_groups import Play

from thence.core.errors import PeerError
from thence.core.groups import ALL, OPERATION, NamedMessage
from thence.members.spans import Spans
from thence.replica.group.ledger.backlog import Allowance
from thence.replica.group.ledger.state import MemberState, Sources, drained
from thence.replica.group.ledger.state_codec import (
    LARGE_PART_BYTES,
    PART_BYTES,
    Encoded,
    decode_state,
    encode_state,
    encoding,
)
from thence.replica.group.transfer.handover import Making, check_state
from thence.sim.air import Air


def good() -> MemberState:
    """What a hands to c, with three messages that are not stable yet."""
    play = Play("abc").together("ab")
    play.cuts("ab")
    play.send("a")
    play.send("a")
    node = play.processes["a"].node
    assert node is not None
    assert node.member is not None
    state = decode_state(encode_state(node.member.state()))
    assert len(state.log) >= 2
    return state


def test_the_state_of_a_member_is_good() -> None:
    check_state(good(), "b")


def test_starts_of_one_that_is_past_without_its_end_are_refused() -> None:
    state = replace(good(), past=(("z", 1, 1),), starts={"z": ((0, 7),)}, branches={"z": 3})
    check_state(state, "b")
    with pytest.raises(PeerError, match="messages of z end"):
        check_state(replace(state, branches={}), "b")


def test_a_joiner_that_was_not_let_in_is_refused() -> None:
    with pytest.raises(PeerError, match="no member"):
        check_state(good(), "z")


def test_a_state_holds_what_it_counts() -> None:
    state = good()
    lies = {
        "one less": replace(state, log=state.log[:-1]),
        "a gap": replace(state, log=state.log[1:]),
        "twice": replace(state, log=[*state.log, state.log[-1]]),
        "more than there is": replace(state, counts=state.counts | {"a": ALL}),
        "of a stranger": replace(state, counts=state.counts | {"q": 3}),
        "less stable": replace(state, stable={}),
    }
    for lie in lies.values():
        with pytest.raises(PeerError):
            check_state(lie, "b")


def test_contexts_name_what_came_before_and_each_origin_once() -> None:
    state = good()
    last = state.log[-1]
    twice = (*last.context, *last.context, ("a", last.seq - 1))
    for context in (twice, (("a", last.seq + 7),), (("q", 1),)):
        lie = NamedMessage(last.origin, last.seq, context, bytes((OPERATION,)))
        with pytest.raises(PeerError):
            check_state(replace(state, log=[*state.log[:-1], lie]), "b")
        with pytest.raises(PeerError):
            check_state(replace(state, context=context), "b")


@pytest.mark.parametrize("evicted", [False, True], ids=["unstable", "retained"])
def test_a_state_says_what_was_so_when_it_was_begun_however_long_it_is_in_the_making(evicted: bool) -> None:
    play = Play("abcd", air=Air(jitter_us=0, links=True, wire=False)).together("abc")
    play.crash("c")
    if evicted:
        play.evicts("a", "c")
    for _ in range(40):
        play.send("a")
        play.send("b")
        play.passes(0.01)
    node = play.processes["a"].node
    assert node is not None
    assert node.member is not None
    member = node.member
    made = [Making(encoding(*member._state(joins=True))) for _ in range(2)]
    made[0].go_on(Allowance(1 << 40))
    steps = 0
    while not made[1].whole:
        made[1].go_on(Allowance(7))
        steps += 1
        play.send("b")
        if steps == 3:
            play.join("d")
            play.boot("c")
        play.passes(0.05)
    assert steps > 80 // 7
    assert made[0].transfer == made[1].transfer
    assert made[0].read(0, 1 << 30) == made[1].read(0, 1 << 30)
    state = decode_state(made[0].read(0, 1 << 30))
    check_state(state, "b")
    assert len(state.retained if evicted else state.log) > 60


def test_a_programs_state_is_made_when_its_turn_comes_and_is_the_same_as_at_once() -> None:
    chunks, asked = [bytes([at]) * (at % 5 * 700) for at in range(100)], 0

    def given() -> Iterator[bytes]:
        nonlocal asked
        for chunk in chunks:
            asked += 1
            yield chunk

    made, before = Making(encoding(MemberState(), Sources(given(), *[iter(())] * 4))), 0
    while not made.whole:
        made.go_on(Allowance(10))
        assert asked - before <= 20, "each costs something, and a step may cost so much"
        before = asked
    data = made.read(0, 1 << 30)
    assert decode_state(data).application == b"".join(chunks)
    whole = encoding(MemberState(b"".join(chunks)), Sources(iter((b"".join(chunks),)), *[iter(())] * 4))
    assert b"".join(drained(whole).parts) == data


def test_a_large_state_is_held_in_large_parts_and_read_across_them() -> None:
    chunks = [Random(at).randbytes(300_000 - at) for at in range(9)]
    made = Making(encoding(MemberState(), Sources(iter(chunks), *[iter(())] * 4)))
    steps = 0
    while not made.whole:
        made.go_on(Allowance(10))
        steps += 1
    assert steps > 30
    sizes = [len(part) for part in made._parts if len(part) > 1000]
    assert all(LARGE_PART_BYTES <= size < LARGE_PART_BYTES + PART_BYTES for size in sizes[:-1])
    assert len(sizes) == 3
    data = b"".join(made.read(at, 70_000) for at in range(0, made.size, 70_000))
    assert decode_state(data).application == b"".join(chunks)


def test_what_was_carried_is_part_of_a_state_as_it_was_when_that_was_begun() -> None:
    play = Play("abc").together("ab")
    node = play.processes["a"].node
    assert node is not None
    assert node.member is not None
    member, places = node.member, [("z", seq) for seq in range(1, 41)]
    for place in reversed(places):
        member.operations.remember(place)
    made, steps = Making(encoding(*member._state(joins=True))), 0
    while not made.whole:
        made.go_on(Allowance(7))
        steps += 1
        member.operations.remember(("z", 100 + steps))
        if steps == 3:
            member.operations.forget(Spans([("z", 1, 1)]))
    assert steps > len(places) // 7, "however many there are, a step writes so many"
    state = decode_state(made.read(0, 1 << 30))
    assert list(state.carried) == places[::-1], "in the order in which they came, and none that came later"


def test_a_state_is_read_in_pieces_of_any_size() -> None:
    parts = [b"", b"abc", b"", bytes(range(200)), b"z", b""]

    def given() -> Generator[int, None, Encoded]:
        yield 0
        return Encoded(parts, 7)

    made, whole, steps = Making(given()), b"".join(parts), 0
    while not made.whole:
        made.go_on(Allowance(1))
        steps += 1
    assert steps == 2
    assert made.size == len(whole)
    for first in range(len(whole)):
        for size in (1, 3, 50, 1000):
            assert made.read(first, size) == whole[first : first + size]
