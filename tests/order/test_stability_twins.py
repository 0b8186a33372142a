"""Differential: witnesses against the printed algorithms, in step. Both are swept after every step, and
must announce the same messages at the same moments."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.conformance_witness import WITNESS_CHECKS, with_small_window
from support.literal_witnesses import literal_matrix, literal_walk
from support.witnesses import ACTS, Model, step

from thence.order.engine import Engine
from thence.order.engines import ENGINES

SIZES = st.integers(1, 5)
PICKS = st.integers(0, 2**16)
NOT_THEIRS = {"garbage", "memory", "wide memory", "attic", "wide attic", "away"}
QUIET = settings(derandomize=True, deadline=None, max_examples=120)


def schedules(*acts: str) -> st.SearchStrategy[list[tuple[str, int]]]:
    return st.lists(st.tuples(st.sampled_from(acts), PICKS), min_size=10, max_size=80)


MESSAGES_ALONE = schedules("send", "take", "take", "take")
EVERYTHING = schedules(*ACTS, "take", "take", "take", "send", "hear")


def moments(kind: Engine, size: int, steps: list[tuple[str, int]]) -> list[frozenset[int]]:
    """What each member announces after each step."""
    model = Model(kind, size, Random(0))
    announced = []
    for act, pick in steps:
        step(model, act, pick)
        announced += [frozenset(model.sweep(me)) for me in range(size)]
    return announced


@QUIET
@given(size=SIZES, steps=MESSAGES_ALONE)
def test_window_and_matrix_move_in_step_with_the_printed_algorithms(
    size: int, steps: list[tuple[str, int]]
) -> None:
    """Algorithm 9's bits, algorithm 7's matrix, our bits and ours: one definition, four ways."""
    expected = moments(literal_walk(), size, steps)
    kinds = [literal_matrix(), *ENGINES.values(), with_small_window(ENGINES["graph"], 3)]
    for kind in kinds:
        if kind.witness is not None:
            assert moments(kind, size, steps) == expected, kind.name


@QUIET
@given(size=SIZES, steps=EVERYTHING)
def test_window_moves_in_step_with_the_printed_algorithm_and_its_phantoms(
    size: int, steps: list[tuple[str, int]]
) -> None:
    expected = moments(literal_walk(), size, steps)
    for kind in (ENGINES["graph"], with_small_window(ENGINES["graph"], 3)):
        assert moments(kind, size, steps) == expected, kind.name


@pytest.mark.parametrize("check", sorted(WITNESS_CHECKS.keys() - NOT_THEIRS))
def test_the_printed_walk_conforms_when_mended(check: str) -> None:
    """It keeps whole pasts for its tags, so that its memory proves nothing, and believes all it hears."""
    WITNESS_CHECKS[check](literal_walk())
