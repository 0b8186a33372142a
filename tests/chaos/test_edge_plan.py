"""Plans of trials with edge trees: what is drawn can happen, and the same seed draws the same."""

from thence.lab.chaos.edge import ancestors, draw_edge_plan, draw_tree, unwhole
from thence.lab.chaos.plan import EDGE_KINDS, FOR_S
from thence.runtime.status import EdgeStatusReport

SEEDS = range(40)


def test_trees_have_one_root_and_the_same_seed_draws_the_same() -> None:
    for seed in SEEDS:
        plan = draw_tree(seed, 12)
        assert plan == draw_tree(seed, 12)
        assert [name for name, parent in plan.parents.items() if not parent] == ["root"]
        assert all(list(plan.parents.values()).count(name) <= 3 for name in plan.names)
        assert plan.groups["root"] == ()


def test_every_kind_of_trouble_comes_and_none_takes_the_disk_of_the_root() -> None:
    seen = set()
    for seed in SEEDS:
        plan = draw_tree(seed, 12)
        for act in draw_edge_plan(seed, plan, 40.0):
            seen.add(act.kind)
            assert act.nodes or act.links
            assert str(act)
            if act.kind in EDGE_KINDS:
                assert "root" not in act.nodes
            if act.kind == "kill chain":
                assert 1 <= len(act.nodes) <= (plan.delta or 0)
                below = [name for name in plan.names[1:] if set(act.nodes) <= set(ancestors(plan, name))]
                assert below, "a chain above no node"
            if act.kind.endswith(" group"):
                assert act.point.startswith("g")
    assert seen == {*FOR_S, *EDGE_KINDS}


def test_a_chain_is_whole_if_it_is_as_long_as_it_can_be() -> None:
    def report(chain: list[str], rank: int) -> EdgeStatusReport:
        return EdgeStatusReport(
            identity="x", rank=rank, root="r", parent=chain[0] if chain else "", chain=chain
        )

    assert unwhole(report(["a", "b"], 5), 1) == ""
    assert unwhole(report(["a", "b"], 5), 2) != ""
    assert unwhole(report(["a", "r"], 2), 3) == ""
    assert unwhole(report([], 2), 1) == "it has no parent"
