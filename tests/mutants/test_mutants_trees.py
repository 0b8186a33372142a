"""The tests of trees and views tested: every planted bug is found by the check named beside it."""

import pytest
from support.conformance_overlay import ECO_CHECKS, KEEPER_CHECKS, VIEW_CHECKS, tree_storms
from support.conformance_streams import STREAM_CHECKS, TREE_CHECKS
from support.mutants import Kit, Mutant, mutate, verdict_on
from support.mutants_trees import ECO, KEEPER, STREAMS, TREE, VIEWS

KITS: dict[str, Kit] = {
    "thence.spread.streams": (lambda module: module.Streams, STREAM_CHECKS),
    "thence.spread.sync_tree": (lambda module: module.SyncTree, {**TREE_CHECKS, "storms": tree_storms}),
    "thence.spread.eco_sync_tree": (lambda module: module.EcoSyncTree, ECO_CHECKS),
    "thence.sim.overlay_app": (lambda module: module.FakeApplication, KEEPER_CHECKS),
    "thence.members.hyparview": (lambda module: module.HyParView, VIEW_CHECKS),
}

MUTANTS = STREAMS + TREE + ECO + KEEPER + VIEWS


@pytest.mark.parametrize(
    "mutant", MUTANTS, ids=lambda mutant: f"{mutant.module.split('.')[-1]}: {mutant.name}"
)
def test_planted_bug_is_found(mutant: Mutant) -> None:
    assert verdict_on(mutant, KITS) == mutant.finds


@pytest.mark.parametrize("module", KITS)
def test_the_module_without_a_bug_passes(module: str) -> None:
    take, checks = KITS[module]
    subject = take(mutate(module, ()))
    for check in checks.values():
        check(subject)
