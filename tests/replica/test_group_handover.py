"""A joiner takes no state that contradicts itself."""

from dataclasses import replace

import pytest
from support.schedules_groups import Play

from thence.core.errors import PeerError
from thence.core.groups import ALL, OPERATION, Named
from thence.replica.group_handover import check_state
from thence.replica.group_state import GroupState, decode_state, encode_state


def good() -> GroupState:
    """What a hands to c, with three messages that are not stable yet."""
    play = Play("abc").together("ab")
    play.cuts("ab")
    play.send("a")
    play.send("a")
    node = play.processes["a"].node
    assert node is not None
    assert node.member is not None
    state = decode_state(encode_state(node.member.state(joins=True)))
    assert len(state.log) >= 2
    return state


def test_the_state_of_a_member_is_good() -> None:
    check_state(good(), "b")


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
        "of nobody": replace(state, counts=state.counts | {"q": 3}),
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
        lie = Named(last.origin, last.seq, context, bytes((OPERATION,)))
        with pytest.raises(PeerError):
            check_state(replace(state, log=[*state.log[:-1], lie]), "b")
        with pytest.raises(PeerError):
            check_state(replace(state, context=context), "b")
