"""Sets of keys: numbered in lexicographic order, drawn without agreement."""

from collections import Counter
from itertools import combinations
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.core.errors import UsageError
from thence.order.keys import Keys, drawn, numbered, unrank


def rank(chosen: tuple[int, ...], entries: int) -> int:
    """The other way: how many sets come before this one."""
    before, low = 0, 0
    for place, entry in enumerate(chosen):
        left = len(chosen) - 1 - place
        before += sum(comb(entries - 1 - other, left) for other in range(low, entry))
        low = entry + 1
    return before


@pytest.mark.parametrize("entries", range(1, 10))
def test_sets_are_numbered_in_lexicographic_order(entries: int) -> None:
    for keys in range(1, entries + 1):
        sets = [unrank(number, entries, keys) for number in range(comb(entries, keys))]
        assert sets == list(combinations(range(entries), keys))


@st.composite
def numbers(draw: st.DrawFn) -> tuple[int, int, int]:
    entries = draw(st.integers(1, 400))
    keys = draw(st.integers(1, entries))
    return draw(st.integers(0, comb(entries, keys) - 1)), entries, keys


@given(numbers())
def test_each_number_stands_for_one_set(case: tuple[int, int, int]) -> None:
    number, entries, keys = case
    chosen = unrank(number, entries, keys)
    assert len(chosen) == keys
    assert list(chosen) == sorted(set(chosen))
    assert 0 <= chosen[0] <= chosen[-1] < entries
    assert rank(chosen, entries) == number


@pytest.mark.parametrize(("entries", "keys"), [(5_000, 2_500), (100_000, 3), (3_000, 3_000), (100_000, 1)])
def test_the_first_and_the_last_set_of_large_clocks(entries: int, keys: int) -> None:
    assert unrank(0, entries, keys) == tuple(range(keys))
    assert unrank(comb(entries, keys) - 1, entries, keys) == tuple(range(entries - keys, entries))


@pytest.mark.parametrize("number", [-1, 6])
def test_a_number_that_no_set_has_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match=f"set {number} of 6"):
        unrank(number, 4, 2)


def test_every_node_draws_the_same_keys_for_a_member() -> None:
    here, there = Keys(100, 4), Keys(100, 4)
    forwards = [here[member] for member in range(50)]
    backwards = [there[member] for member in reversed(range(50))]
    assert forwards == backwards[::-1]
    assert len(set(forwards)) > 45
    other = drawn(100, 4, seed=1)
    assert [other(member) for member in range(50)] != [drawn(100, 4)(member) for member in range(50)]


def test_drawn_keys_use_all_entries_evenly() -> None:
    """2,000 members with 4 of 100 entries: 80 on average for each, and the deviation is about 9."""
    keys = Keys(100, 4)
    used = Counter(entry for member in range(2_000) for entry in keys[member])
    assert len(used) == 100
    assert 80 - 45 < min(used.values()) <= max(used.values()) < 80 + 45


def test_numbered_keys_differ_while_there_are_sets_enough() -> None:
    keys = Keys(5, 2, numbered(5, 2))
    assert sorted(keys[member] for member in range(10)) == list(combinations(range(5), 2))
    assert keys[10] == keys[0]


@pytest.mark.parametrize(
    ("entries", "keys", "says"),
    [
        (0, 1, "--entries must be at least 1, not 0"),
        (4, 5, "--keys must be between 1 and the 4 entries, not 5"),
        (4, 0, "--keys must be between 1 and the 4 entries, not 0"),
    ],
)
def test_a_clock_that_cannot_be_is_refused(entries: int, keys: int, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Keys(entries, keys)
