"""Plans of trials: drawn from a seed, of every kind, and over at the end."""

from itertools import pairwise

import pytest

from thence.lab.chaos.plan import CALM_S, FOR_S, OF_NODES, Act, draw_plan, draw_setup

NAMES = ("a", "b", "c", "d")
SEEDS = range(50)


def test_a_seed_gives_the_same_plan_and_settings_again() -> None:
    assert draw_plan(7, NAMES, 60) == draw_plan(7, NAMES, 60)
    assert draw_setup(7, 4) == draw_setup(7, 4)
    assert draw_plan(7, NAMES, 60) != draw_plan(8, NAMES, 60)


@pytest.mark.parametrize("seed", SEEDS)
def test_everything_is_over_before_the_end(seed: int) -> None:
    for act in draw_plan(seed, NAMES, 30):
        assert 0 < act.at_s <= act.until_s <= 30 - CALM_S
        assert all(act.at_s <= at <= act.until_s for at in act.starts_s)


@pytest.mark.parametrize("seed", SEEDS)
def test_half_a_minute_has_seen_every_kind_of_trouble(seed: int) -> None:
    assert {act.kind for act in draw_plan(seed, NAMES, 30)} == set(FOR_S)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_is_in_one_trouble_of_its_own_at_a_time(seed: int) -> None:
    acts = draw_plan(seed, NAMES, 60)
    for name in NAMES:
        mine = [act for act in acts if act.kind in OF_NODES and name in act.nodes]
        assert all(before.until_s < after.at_s for before, after in pairwise(mine))


def test_trouble_with_links_lies_over_other_trouble() -> None:
    def overlap(one: Act, other: Act) -> bool:
        return one.at_s < other.until_s and other.at_s < one.until_s

    acts = draw_plan(1, NAMES, 60)
    links = [act for act in acts if act.links]
    assert any(overlap(one, other) for one in links for other in acts if other.kind == "kill")
    assert any(overlap(one, other) for one in links for other in links if one is not other)


@pytest.mark.parametrize("seed", SEEDS)
def test_who_is_cut_off_is_cut_off_from_all_others(seed: int) -> None:
    for act in draw_plan(seed, NAMES, 60):
        if act.kind in ("isolate", "split"):
            inside, outside = set(act.nodes), set(NAMES) - set(act.nodes)
            assert {frozenset(link) for link in act.links} == {
                frozenset((a, b)) for a in inside for b in outside
            }


def test_three_seeds_in_a_row_have_all_sync_policies() -> None:
    assert {draw_setup(seed, 3).sync for seed in range(4, 7)} == {"always", "everysec", "no"}


def test_two_nodes_are_enough() -> None:
    kinds = {act.kind for act in draw_plan(1, ("a", "b"), 60)}
    assert kinds == set(FOR_S) - {"kill two", "split"}


def test_every_kind_is_told_in_words() -> None:
    told = {act.kind: str(act) for act in draw_plan(3, NAMES, 60)}
    assert set(told) == set(FOR_S)
    assert told["kill all"].startswith("kill -9 a, b, c, d, back after")
    assert "SIGSTOP" in told["pause"]
