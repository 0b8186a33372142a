"""The key space agrees with its declarative specification on random histories."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.store_world import reap_beside_a_statement, reap_beside_set_over_set, run, set_over_set


@pytest.mark.parametrize("seed", range(60))
def test_random_histories_agree_with_the_specification(seed: int) -> None:
    run(seed, 3 + seed % 3, 40, remove_wins=bool(seed & 1), expiry=seed % 3 != 0)


@pytest.mark.parametrize("seed", range(20))
def test_updates_of_one_string_agree_with_the_specification(seed: int) -> None:
    run(seed, 3, 60, remove_wins=False, expiry=False, focus=True)


@pytest.mark.parametrize("seed", range(30))
def test_increments_agree_with_the_specification(seed: int) -> None:
    run(seed, 3, 60, remove_wins=False, expiry=False, counts=True)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(2, 5), st.integers(1, 25), st.booleans())
def test_any_history_agrees_with_the_specification(
    seed: int, replicas: int, steps: int, remove_wins: bool
) -> None:
    run(seed, replicas, steps, remove_wins)


@pytest.mark.parametrize("early", [False, True])
def test_a_reap_goes_by_the_deadline_that_it_saw(early: bool) -> None:
    reap_beside_a_statement(early)


@pytest.mark.parametrize("early", [False, True])
def test_a_set_over_a_set_beside_a_third(early: bool) -> None:
    set_over_set(early)


def test_a_reap_goes_by_a_set_that_was_replaced_since() -> None:
    reap_beside_set_over_set()
