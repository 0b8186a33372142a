"""Stories about the matrix; what it shares with every witness is in `test_witnesses.py`."""

from thence.core.dots import pack
from thence.core.message import Message
from thence.order.matrix import Matrix


def test_a_vector_that_is_shorter_than_the_group_has_seen_nothing_of_the_rest() -> None:
    """Its sender did not know of them yet, or it lies: that must not cost the receiver its life."""
    matrix = Matrix(0, 3)
    short = matrix.see(Message(pack(1, 1), (0, 1), b""))
    other = matrix.see(Message(pack(2, 1), (0, 1, 1), b""))
    own = matrix.see(Message(pack(0, 1), (1, 1, 1), b""))
    assert matrix.sweep() == [short]
    assert short.before(other)
    assert not other.before(short)
    assert not own.before(short)
    assert matrix.reached(own.dot) == 1


def test_what_follows_the_applications_vector_is_not_looked_at() -> None:
    """The second vector of a message that is tagged twice is the middleware's own."""
    matrix = Matrix(0, 2)
    mine = matrix.see(Message(pack(0, 1), (1, 0, 1, 0), b""))
    theirs = matrix.see(Message(pack(1, 1), (0, 1, 1, 1), b""))
    assert mine.concurrent(theirs)
    assert matrix.sweep() == [theirs]
    assert theirs.context == (0, 1, 1, 1)
