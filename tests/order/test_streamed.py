"""Unit: no order of its own, for spreads that keep causal order; what a restart needs of it."""

import pytest

from thence.core.dots import pack
from thence.core.message import Message
from thence.order.streamed import STREAMED


def test_messages_carry_their_dot_and_nothing_else() -> None:
    tagger = STREAMED.tagger(1, 3)
    tagger.took(Message(pack(0, 5), (), b""))
    first, second = tagger.tag(b"x"), tagger.tag(b"y")
    assert (first.dot, second.dot) == (pack(1, 1), pack(1, 2))
    assert first.context == second.context == ()
    assert STREAMED.predecessors(first) is None


def test_what_the_client_has_seen_is_a_counter_per_member() -> None:
    tagger = STREAMED.tagger(1, 3)
    tagger.tag(b"x")
    tagger.took(Message(pack(2, 7), (), b""))
    assert tagger.context() == (0, 1, 7)
    assert tagger.frontier() == (pack(1, 1), pack(2, 7)), "nobody's message 0 is no message"


def test_a_restart_goes_on_where_it_was() -> None:
    before = STREAMED.tagger(1, 3)
    before.tag(b"x")
    before.took(Message(pack(2, 7), (), b""))
    after = STREAMED.tagger(1, 3)
    after.resume(1, before.context())
    assert after.frontier() == before.frontier()
    assert after.tag(b"y").dot == pack(1, 2)
    again = STREAMED.tagger(1, 3)
    for message in (Message(pack(1, 1), (), b"x"), Message(pack(2, 7), (), b"")):
        again.recall(message)
    assert again.context() == before.context()


def test_a_broadcast_that_could_not_be_written_is_taken_back() -> None:
    tagger = STREAMED.tagger(0, 2)
    before = tagger.context()
    tagger.tag(b"x")
    tagger.resume(0, before)
    assert tagger.tag(b"y").dot == pack(0, 1)


def test_members_are_admitted_in_order() -> None:
    tagger = STREAMED.tagger(0, 1)
    tagger.admit(1)
    tagger.took(Message(pack(1, 1), (), b""))
    assert tagger.context() == (0, 1)
    with pytest.raises(ValueError, match="in order"):
        tagger.admit(5)
