"""Plans of trials with changing groups: drawn from a seed, of every kind, and over at the end."""

from itertools import pairwise

import pytest

from thence.lab.chaos.changes import (
    FOR_S,
    LEAST,
    OF_LINKS,
    Change,
    draw_changes,
    draw_changing_setup,
)
from thence.lab.chaos.plan import CALM_S

NAMES = ("a", "b", "c", "d", "e", "f", "g")
FOUNDERS = 4
SEEDS = range(50)


def draw(seed: int, seconds: float = 40) -> list[Change]:
    return draw_changes(seed, NAMES, FOUNDERS, seconds)


def test_a_seed_gives_the_same_changes_and_settings_again() -> None:
    assert draw(7) == draw(7)
    assert draw_changing_setup(7, NAMES) == draw_changing_setup(7, NAMES)
    assert draw(7) != draw(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_changes_are_over_before_the_end(seed: int) -> None:
    for change in draw(seed):
        assert 0 < change.at_s <= change.evict_s <= change.until_s <= 40 - CALM_S


def test_a_few_rounds_have_seen_every_kind_of_change() -> None:
    seen = [{change.kind for change in draw(seed)} for seed in SEEDS]
    assert all(len(kinds) > len(FOR_S) / 2 for kinds in seen)
    for start in range(len(SEEDS) - 3):
        assert set().union(*seen[start : start + 3]) == set(FOR_S)


@pytest.mark.parametrize("seed", SEEDS)
def test_who_joins_was_outside_and_whatever_else_happens_to_one_happens_inside(seed: int) -> None:
    inside = set(NAMES[:FOUNDERS])
    dead: set[str] = set()
    for change in draw(seed):
        if change.kind in OF_LINKS:
            continue
        assert not dead & {*change.nodes, *change.by}
        if change.kind == "join":
            assert not inside & set(change.nodes)
            inside |= set(change.nodes)
        else:
            assert set(change.nodes) <= inside
        assert set(change.by) <= inside
        if change.kind in ("leave", "kill for good"):
            inside -= set(change.nodes)
        if change.kind == "kill for good":
            dead |= set(change.nodes)
        assert len(inside) >= LEAST


@pytest.mark.parametrize("seed", SEEDS)
def test_a_process_is_in_one_change_of_its_own_at_a_time(seed: int) -> None:
    for name in NAMES:
        mine = [c for c in draw(seed) if c.kind not in OF_LINKS and name in c.nodes]
        assert all(before.until_s < after.at_s for before, after in pairwise(mine))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_partition_parts_all_and_a_member_of_each_side_evicts_the_other(seed: int) -> None:
    for change in draw(seed):
        if change.kind in ("isolate", "split", "split and evict"):
            inside, outside = set(change.nodes), set(NAMES) - set(change.nodes)
            pairs = {frozenset((a, b)) for a in inside for b in outside}
            assert {frozenset(link) for link in change.links} == pairs
        if change.kind == "split and evict":
            one, other = change.by
            assert one in change.nodes
            assert other not in change.nodes


def test_every_kind_of_change_is_told_in_words() -> None:
    told = {change.kind: str(change) for seed in range(3) for change in draw(seed)}
    assert set(told) == set(FOR_S)
    assert "evicted by" in told["kill for good"]
    assert told["evict"].endswith("though it lives")
    assert "300 ms more" in " ".join(str(change) for seed in SEEDS for change in draw(seed))
