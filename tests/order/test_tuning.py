"""How large a clock must be: the document's formulas, and predictions that hold."""

import math
from math import expm1, sqrt
from random import Random

import pytest

from thence.core.errors import UsageError
from thence.order.tuning import OfferedLoad, best_keys, beyond, covered, covered_by

PAPER = OfferedLoad(1000, 0.2, 100.0, 20.0)
"""Section 5.4.3: a message every five seconds of each, 100 ms under way."""


def test_the_documents_load_and_its_keys() -> None:
    """5.4.2: twenty messages under way, a hundred entries, ln 2 · R / X ≈ 3.5; four keys in practice."""
    assert PAPER.under_way == pytest.approx(20)
    assert math.log(2) * 100 / PAPER.under_way == pytest.approx(3.47, abs=0.01)
    assert best_keys(100, 20) in (3, 4)


@pytest.mark.parametrize(
    ("entries", "under_way"), [(100, 20.0), (100, 5.0), (37, 3.0), (1000, 20.0), (10, 40.0)]
)
def test_no_other_number_of_keys_is_covered_less(entries: int, under_way: float) -> None:
    best = best_keys(entries, under_way)
    least = min(covered(entries, keys, under_way) for keys in range(1, entries + 1))
    assert covered(entries, best, under_way) == least


def test_at_the_optimum_half_of_the_entries_are_covered() -> None:
    keys = best_keys(2000, 20)
    assert keys == pytest.approx(math.log(2) * 100, abs=1)
    assert math.log2(covered(2000, keys, 20)) == pytest.approx(-keys, rel=0.02)


def test_a_clock_of_one_entry_is_covered_by_any_message() -> None:
    assert covered(1, 1, 3.0) == 1
    assert covered(1, 1, 0.0) == 0
    assert covered_by(1, 1, 9, 0.5) == pytest.approx(1 - 0.5**9)


def test_covering_members_are_counted_and_not_their_messages() -> None:
    assert covered_by(10, 10, 4, 1.0) == 1
    assert covered_by(10, 1, 1, 0.5) == pytest.approx(0.5 / 10)
    many, few = covered_by(100, 4, 100_000, 0.0002), covered_by(100, 4, 40, 0.5)
    assert many > few > covered(100, 4, 20) * 0.9


def test_few_keys_are_covered_as_by_members_that_are_drawn() -> None:
    """Inclusion and exclusion against members that draw sets of distinct entries, one after the other."""
    draw = Random(3)
    hits, runs = 0, 40_000
    for _ in range(runs):
        seen = {key for _ in range(12) if draw.random() < 0.4 for key in draw.sample(range(12), 3)}
        hits += seen >= {0, 1, 2}
    assert covered_by(12, 3, 12, 0.4) == pytest.approx(hits / runs, abs=4 * (hits / runs / runs) ** 0.5)
    assert covered_by(12, 3, 11, 0.4, 0.4) == pytest.approx(covered_by(12, 3, 12, 0.4))


def test_a_share_of_errors_agrees_with_draws_of_causes() -> None:
    """`clock` integrates; here causes are drawn, and a message errs if its last one is covered in time."""
    load = OfferedLoad(40, 2.0, 100.0, 30.0)
    draw, errors, runs = Random(4), 0.0, 20_000
    late = load.late()
    for _ in range(runs):
        there = draw.gauss(100.0, 30.0)
        missing = [each.late for each in late if each.late > there and draw.random() < each.causes]
        if missing:
            window, own = beyond(max(missing), sqrt(2) * 30.0), max(missing) + 100.0
            shares = [-expm1(-0.002 * time) for time in (window, own)]
            errors += covered_by(10, 2, 38, *shares)
    assert load.clock(10, 2).errors == pytest.approx(errors / runs, rel=0.08)


def test_the_smallest_clock_meets_its_target_and_none_smaller_does() -> None:
    clock = PAPER.smallest(1e-4)
    assert clock is not None
    assert clock.errors <= 1e-4 < PAPER.clock(clock.entries - 1).errors


def test_a_clock_that_is_far_too_large_is_not_recommended() -> None:
    assert OfferedLoad(1_000_000, 1000.0, 1000.0, 500.0).smallest(1e-9) is None


def test_equal_delays_miss_nothing() -> None:
    load = OfferedLoad(10, 1.0, 100.0, 0.0)
    assert load.missing == 0
    assert load.clock(3).errors == 0


def test_receivers_that_wait_together_miss_less() -> None:
    apart = OfferedLoad(1000, 0.2, 100.0, 28.0)
    together = OfferedLoad(1000, 0.2, 100.0, 28.0, 20.0)
    alone = OfferedLoad(1000, 0.2, 100.0, 28.0, 0.0)
    assert apart.missing > together.missing > alone.missing > 0
    assert apart.clock(100, 4).errors > together.clock(100, 4).errors


def test_errors_grow_with_the_load_and_shrink_with_the_clock() -> None:
    loads = [OfferedLoad(1000, rate, 100.0, 20.0).clock(100, 4).errors for rate in (0.1, 0.2, 0.4)]
    clocks = [PAPER.clock(entries).errors for entries in (50, 100, 200)]
    assert loads == sorted(loads)
    assert clocks == sorted(clocks, reverse=True)


@pytest.mark.parametrize(
    ("load", "entries", "says"),
    [
        (OfferedLoad(50, 0.2, 100.0, 20.0), 100, "a vector clock never errs"),
        (PAPER, 20, "below 29 entries"),
        (OfferedLoad(10, 0.1, 10.0, 2.0), 5, "less than one message"),
        (OfferedLoad(1000, 2.0, 10.0, 2.0), 14, "more members than sets"),
        (OfferedLoad(100, 20.0, 100.0, 20.0), 90, "errors follow from errors"),
    ],
)
def test_it_says_where_the_formula_does_not_hold(load: OfferedLoad, entries: int, says: str) -> None:
    assert says in " ".join(load.caveats(load.clock(entries)))


def test_the_documents_clock_has_nothing_against_it() -> None:
    assert PAPER.caveats(PAPER.clock(100, 4)) == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((0, 1.0, 1.0, 0.0), "--nodes must be above 0"),
        ((1, 1.0, 1.0, 0.0), "--nodes must be at least 2"),
        ((5, 0.0, 1.0, 0.0), "--rate must be above 0"),
        ((5, math.nan, 1.0, 0.0), "--rate must be above 0"),
        ((5, 1.0, -1.0, 0.0), "--delay-ms must be above 0"),
        ((5, 1.0, 1.0, -1.0), "--deviation-ms must not be negative"),
        ((5, 1.0, 9.0, 3.0, 4.0), "--skew-ms must be between 0 and the deviation, not 4.0"),
    ],
)
def test_a_load_that_cannot_be_is_refused(
    given: tuple[int, float, float, float, float | None], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        OfferedLoad(*given)


def test_a_clock_that_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="--keys must be between 1 and the 3 entries, not 4"):
        PAPER.clock(3, 4)
    with pytest.raises(UsageError, match="--entries must be between 1 and"):
        PAPER.clock(0)
    with pytest.raises(UsageError, match="--target is a share"):
        PAPER.smallest(0)
