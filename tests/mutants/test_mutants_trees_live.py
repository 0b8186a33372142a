"""The tests of trees on live nodes tested: every planted bug is found by the check named beside it."""

import pytest
from support.conformance_trees_live import (
    DURABLE_ECO_CHECKS,
    DURABLE_TREE_CHECKS,
    ECO_NODE_CHECKS,
    OPEN_TREE_CHECKS,
    OVERLAY_CHECKS,
    TONGUE_CHECKS,
    TREE_NODE_CHECKS,
)
from support.mutants import Kit, Mutant, mutate, verdict_on
from support.mutants_trees_live import DURABLE, ECO_NODE, OPEN_TREE, OVERLAY, TONGUE, TREE_NODE

from thence.sim import overlay

KITS: dict[str, Kit] = {
    "thence.replica.overlay": (lambda module: module.Overlay, OVERLAY_CHECKS),
    "thence.replica.tree": (lambda module: module, TREE_NODE_CHECKS),
    "thence.replica.open_tree": (lambda module: module.OpenTree, OPEN_TREE_CHECKS),
    "thence.replica.tree_names": (lambda module: module.Tongue, TONGUE_CHECKS),
    "thence.replica.eco": (lambda module: module.EcoReplica, ECO_NODE_CHECKS),
}

PROTOCOLS: dict[str, Kit] = {
    "thence.spread.sync_tree": (lambda module: module.SyncTree, DURABLE_TREE_CHECKS),
    "thence.spread.eco_sync_tree": (lambda module: module.EcoSyncTree, DURABLE_ECO_CHECKS),
}


def called(mutant: Mutant) -> str:
    return f"{mutant.module.split('.')[-1]}: {mutant.name}"


@pytest.mark.parametrize("mutant", OVERLAY + TREE_NODE + OPEN_TREE + TONGUE + ECO_NODE, ids=called)
def test_planted_bug_is_found(mutant: Mutant) -> None:
    assert verdict_on(mutant, KITS) == mutant.finds


@pytest.fixture
def any_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worlds look into streams; let them look into others than ours."""
    monkeypatch.setattr(overlay, "Streams", object)


@pytest.mark.usefixtures("any_streams")
@pytest.mark.parametrize("mutant", DURABLE, ids=called)
def test_bugs_of_the_protocols_are_found_over_logs_as_well(mutant: Mutant) -> None:
    assert verdict_on(mutant, PROTOCOLS) != "nothing"


@pytest.mark.usefixtures("any_streams")
@pytest.mark.parametrize("module", [*KITS, *PROTOCOLS])
def test_the_module_without_a_bug_passes(module: str) -> None:
    take, checks = {**KITS, **PROTOCOLS}[module]
    subject = take(mutate(module, ()))
    for check in checks.values():
        check(subject)
