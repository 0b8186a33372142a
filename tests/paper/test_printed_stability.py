"""Algorithms 7, 9 and 11 of the tagged causal broadcast document as printed: what fails, and why.

Each story is played twice, with one mend left out and with all of them made. docs/ERRATA.md tells the
same in prose.
"""

import pytest
from support.conformance_witness import WITNESS_CHECKS
from support.literal import Pair
from support.literal_stability import ALL, BitWalk, Mend, StabilityMatrix
from support.literal_witnesses import literal_walk

A, B, C = range(3)
NOTHING: frozenset[Pair] = frozenset()

WALK_ERRATA = [
    (Mend.PHANTOMS_MAY_OVERTAKE, "overtaking", "rest|held"),
    (Mend.LOOKS_AT_ITSELF, "schedules", "held"),
]


def mended_or_not(mend: Mend) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("mends", "mended"), [(ALL, True), (ALL - {mend}, False)], ids=["mended", "as printed"]
    )


def announced(walk: BitWalk) -> list[Pair]:
    return [d for kind, d, _ in walk.to_client if kind == "stb"]


@pytest.mark.parametrize(
    ("mend", "check", "finds"), WALK_ERRATA, ids=[m[0].name.lower() for m in WALK_ERRATA]
)
def test_the_kit_refuses_the_printed_algorithm(mend: Mend, check: str, finds: str) -> None:
    with pytest.raises(AssertionError, match=f"^({finds}): "):
        WITNESS_CHECKS[check](literal_walk(mend))


@mended_or_not(Mend.CONTEXT_STAYS_WHOLE)
def test_the_context_shrinks_as_messages_become_stable(mends: frozenset[Mend], mended: bool) -> None:
    """E2 once more: algorithm 9 hands over the causes that are not stable. Two clients that get the same
    message are told different things about it, and neither can compare it with what is stable."""
    walk = BitWalk(A, 2, mends)
    walk.dequeue_msg((A, 1), NOTHING)
    walk.receive((B, 1), frozenset([(A, 1)]))
    assert announced(walk) == [(A, 1), (B, 1)]
    walk.receive((B, 2), frozenset([(B, 1)]))
    told = {d: context for kind, d, context in walk.to_client if kind == "dlv"}
    assert told[B, 2] == (frozenset([(B, 1)]) if mended else NOTHING)


def test_recursion_overflows_on_the_chain_that_a_partition_leaves() -> None:
    """E5 once more: a chain of messages of two members, which the third confirms all at once."""
    check = WITNESS_CHECKS["long chain"]
    with pytest.raises(RecursionError):
        check(literal_walk(Mend.NO_RECURSION))
    check(literal_walk())


def test_recursion_is_right_while_the_stack_lasts() -> None:
    for name in ("schedules", "every step", "passive"):
        WITNESS_CHECKS[name](literal_walk(Mend.NO_RECURSION))


@mended_or_not(Mend.PHANTOMS_MAY_OVERTAKE)
def test_a_phantom_that_overtakes_its_senders_message_is_dropped(
    mends: frozenset[Mend], mended: bool
) -> None:
    """E9a. B sends B1, takes A1, tells so and falls silent. If the phantom comes first, the test for
    the sender's next dot fails, and A1 is never stable at A."""
    walk = BitWalk(A, 2, mends)
    walk.dequeue_msg((A, 1), NOTHING)
    walk.checkstability((B, 2), frozenset([(A, 1), (B, 1)]))
    walk.receive((B, 1), NOTHING)
    walk.recheck()
    assert ((A, 1) in announced(walk)) is mended


@mended_or_not(Mend.PHANTOM_CAUSES_WAIT)
def test_what_a_phantom_names_too_early_is_passed_over(mends: frozenset[Mend], mended: bool) -> None:
    """E9b. B has seen A1, and C1, which follows it; C1 is all that its phantom names. At A, which has
    not got C1 yet, the walk has nowhere to start from."""
    walk = BitWalk(A, 3, mends)
    walk.dequeue_msg((A, 1), NOTHING)
    walk.checkstability((B, 1), frozenset([(C, 1)]))
    walk.receive((C, 1), frozenset([(A, 1)]))
    walk.recheck()
    assert announced(walk) == ([(A, 1), (C, 1)] if mended else [])


@mended_or_not(Mend.PHANTOM_CAUSES_MAY_BE_GONE)
def test_a_phantom_that_names_what_is_stable_and_gone(mends: frozenset[Mend], mended: bool) -> None:
    """E9c. Contexts of messages are filtered before the graph is asked, those of phantoms are not."""
    walk = BitWalk(A, 2, mends)
    walk.receive((B, 1), NOTHING)
    assert announced(walk) == [(B, 1)]
    walk.dequeue_stb((B, 1))
    if mended:
        walk.checkstability((B, 2), frozenset([(B, 1)]))
    else:
        with pytest.raises(KeyError):
            walk.checkstability((B, 2), frozenset([(B, 1)]))


@mended_or_not(Mend.PHANTOMS_TRAVEL)
def test_a_phantom_goes_nowhere(mends: frozenset[Mend], mended: bool) -> None:
    """E9d. The client's phantom is checked by its own middleware, which knows all that already; there
    is no broadcast, and no line that receives one."""
    walk = BitWalk(B, 2, mends)
    walk.receive((A, 1), NOTHING)
    told = ((B, 1), frozenset([(A, 1)]))
    assert walk.dequeue_phantom(*told) == ([told] if mended else [])


@mended_or_not(Mend.LOOKS_AT_ITSELF)
def test_in_a_group_of_two_nothing_of_the_other_becomes_stable(mends: frozenset[Mend], mended: bool) -> None:
    """S1. Sender and receiver are the whole group: the bits are clear from the start, and since the walk
    begins behind the message and stops where no bit changes, no line ever looks."""
    walk = BitWalk(A, 2, mends)
    for number in range(1, 6):
        walk.receive((B, number), frozenset([(B, number - 1)]) if number > 1 else NOTHING)
    assert announced(walk) == ([(B, number) for number in range(1, 6)] if mended else [])


@mended_or_not(Mend.OWN_ROW_GROWS_TOO)
def test_a_member_that_only_listens_finds_nothing_stable(mends: frozenset[Mend], mended: bool) -> None:
    """S2. Rows start equal, so that the first holds every minimum. At the first member that is its own
    row, which every delivery changes; but only the sender's row is looked for."""
    matrix = StabilityMatrix(A, 3, mends)
    matrix.updatestability(B, (0, 1, 0))
    matrix.updatestability(C, (0, 1, 1))
    matrix.updatestability(B, (0, 2, 1))
    assert list(matrix.to_client) == ([(B, 1), (C, 1)] if mended else [])


def test_every_mend_has_its_case() -> None:
    stories = {
        mark.args[1][1][0]
        for test in globals().values()
        for mark in getattr(test, "pytestmark", [])
        if mark.args[0] == ("mends", "mended")
    }
    assert {ALL - {mend} for mend in Mend if mend is not Mend.NO_RECURSION} == stories
