"""Pasts that share their orders answer as whole sets would."""

from random import Random

import pytest

from thence.sim.groups_pasts import NOTHING, Checked, Past, Pasts, reduced

PLACES = [("a", number) for number in range(1, 30)]


def test_nothing_is_lacked_of_nothing() -> None:
    assert Checked().lacks(NOTHING, set()) == []


@pytest.mark.parametrize("seed", range(20))
def test_what_a_set_that_grows_lacks_is_told_as_by_sets(seed: int) -> None:
    random = Random(seed)
    orders = [random.sample(PLACES, len(PLACES)) for _ in range(3)]
    there: set[tuple[str, int]] = set()
    checked = Checked()
    for place in random.sample(PLACES, len(PLACES)):
        past = Past(random.choice(orders), random.randrange(len(PLACES) + 1))
        assert set(checked.lacks(past, there)) == set(past.order[: past.size]) - there
        there.add(place)


@pytest.mark.parametrize("seed", range(20))
def test_a_group_that_was_founded_again_has_no_more_than_was_kept(seed: int) -> None:
    random = Random(seed)
    orders = [random.sample(PLACES, 12) for _ in range(2)]
    pasts: Pasts = {place: Past(random.choice(orders), random.randrange(13)) for place in PLACES}
    kept = set(random.sample(PLACES, 15))
    left = reduced(pasts, kept)
    assert {place: set(order[:size]) for place, (order, size) in left.items()} == {
        place: set(order[:size]) & kept for place, (order, size) in pasts.items()
    }
