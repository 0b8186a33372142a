"""A joiner's side of a join: bound to one contact, pieces in any order, never of two states."""

from thence.core.groups import NOBODY_YET, Extent, Offer, Piece, Running
from thence.members.attempt import Attempt

RUNNING = Running("z", "", "z~3", 3)


def bound() -> Attempt:
    attempt = Attempt("z~3", "a", 0, 100)
    assert attempt.offered(Offer("a~2", "z~3"))
    return attempt


def piece(offset: int, data: bytes, transfer: int = 1, total: int = 6, contact: str = "a~2") -> Piece:
    return Piece(contact, "z~3", transfer, offset, total, data)


def test_the_first_offer_binds() -> None:
    attempt = bound()
    assert not attempt.offered(Offer("b", "z~3"))
    assert attempt.request(NOBODY_YET, RUNNING).contact == "a~2"


def test_an_offer_to_an_earlier_attempt_is_not_taken() -> None:
    assert not Attempt("z~3", "a", 0, 100).offered(Offer("a", "z~2"))


def test_pieces_come_in_any_order_and_count_once() -> None:
    attempt = bound()
    assert attempt.came(piece(0, b"ab"))
    assert attempt.came(piece(4, b"ef"))
    assert (attempt.complete, attempt.waiting) == (False, True)
    assert not attempt.came(piece(4, b"ef"))
    assert attempt.came(piece(2, b"cd"))
    assert attempt.buffer == b"abcdef"
    assert (attempt.complete, attempt.waiting) == (True, False)


def test_a_request_says_how_far_it_has_come() -> None:
    attempt = bound()
    attempt.came(piece(0, b"ab", transfer=7))
    request = attempt.request(NOBODY_YET, RUNNING)
    assert (request.transfer, request.have) == (7, 2)


def test_pieces_of_two_states_are_not_mixed() -> None:
    attempt = bound()
    attempt.came(piece(0, b"ab"))
    assert not attempt.came(piece(2, b"xy", transfer=2))
    assert attempt.came(piece(0, b"uvwxyz", transfer=2))
    assert attempt.complete
    assert attempt.buffer == b"uvwxyz"


def test_pieces_from_another_process_do_not_count() -> None:
    assert not bound().came(piece(0, b"ab", contact="a"))


def test_every_request_to_the_contact_says_how_far_the_program_has_come() -> None:
    """A contact that has restarted makes the state anew, from whichever request comes next."""
    extent = Extent({"a": 3}, (), ())
    attempt = Attempt("z", "a", 0, 10)
    assert attempt.request(NOBODY_YET, RUNNING, "", extent).extent is None
    assert attempt.offered(Offer("a", "z"))
    assert attempt.request(NOBODY_YET, RUNNING, "", extent).extent == extent
    assert attempt.came(Piece("a", "z", 7, 0, 9, b"state"))
    assert attempt.request(NOBODY_YET, RUNNING, "", extent).extent == extent
