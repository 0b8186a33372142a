"""Vectors of a group whose members come and go: what they name of members that are past."""

from thence.core.dots import pack
from thence.core.message import Message
from thence.order.vector import SeenTagger

ME, LEAVER, OTHER = 0, 1, 2


def taken() -> SeenTagger:
    """It has sent a message, and got one of a leaver since."""
    tagger = SeenTagger(ME, 3)
    tagger.tag(b"")
    tagger.took(Message(pack(LEAVER, 4), (pack(ME, 1),), b""))
    return tagger


def test_a_member_that_is_past_is_named_by_the_next_message_and_by_none_after_it() -> None:
    tagger = taken()
    tagger.settled(LEAVER)
    assert tagger.tag(b"").context == (pack(ME, 1), pack(LEAVER, 4))
    assert tagger.tag(b"").context == (pack(ME, 2),)


def test_nor_is_it_named_after_a_message_that_follows_from_its_last() -> None:
    tagger = taken()
    tagger.settled(LEAVER)
    tagger.took(Message(pack(OTHER, 1), (pack(LEAVER, 3),), b""))
    assert pack(LEAVER, 4) in tagger.context(), "it follows from another message of it"
    tagger.took(Message(pack(OTHER, 2), (pack(LEAVER, 4),), b""))
    assert tagger.context() == (pack(ME, 1), pack(OTHER, 2))


def test_one_that_has_sent_nothing_leaves_nothing_behind() -> None:
    tagger = taken()
    tagger.settled(OTHER)
    assert tagger.tag(b"").context == (pack(ME, 1), pack(LEAVER, 4))
    tagger.took(Message(pack(OTHER, 1), (), b""))
    assert pack(OTHER, 1) in tagger.tag(b"").context
