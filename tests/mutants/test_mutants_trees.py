"""The tests of trees and views tested: every planted bug is found by the check named beside it."""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import pytest
from support.conformance_overlay import ECO_CHECKS, KEEPER_CHECKS, VIEW_CHECKS, tree_storms
from support.conformance_streams import STREAM_CHECKS, TREE_CHECKS
from support.mutants import Mutant, mutate
from support.mutants_trees import ECO, KEEPER, STREAMS, TREE, VIEWS

Kit = tuple[Callable[[ModuleType], object], Mapping[str, Callable[[Any], None]]]

KITS: dict[str, Kit] = {
    "thence.spread.streams": (lambda module: module.Streams, STREAM_CHECKS),
    "thence.spread.sync_tree": (lambda module: module.SyncTree, {**TREE_CHECKS, "storms": tree_storms}),
    "thence.spread.eco_sync_tree": (lambda module: module.EcoSyncTree, ECO_CHECKS),
    "thence.sim.overlay_app": (lambda module: module.Keeper, KEEPER_CHECKS),
    "thence.members.hyparview": (lambda module: module.HyParView, VIEW_CHECKS),
}

MUTANTS = STREAMS + TREE + ECO + KEEPER + VIEWS


def verdict(mutant: Mutant) -> str:
    """What the check says of the mutant: the first word of its assertion, or another error's type."""
    take, checks = KITS[mutant.module]
    subject = take(mutate(mutant.module, mutant.edits))
    try:
        checks[mutant.check](subject)
    except AssertionError as error:
        return str(error).split(":")[0]
    except Exception as error:
        return type(error).__name__
    return "nothing"


@pytest.mark.parametrize(
    "mutant", MUTANTS, ids=lambda mutant: f"{mutant.module.split('.')[-1]}: {mutant.name}"
)
def test_planted_bug_is_found(mutant: Mutant) -> None:
    assert verdict(mutant) == mutant.finds


@pytest.mark.parametrize("module", KITS)
def test_the_module_without_a_bug_passes(module: str) -> None:
    take, checks = KITS[module]
    subject = take(mutate(module, ()))
    for check in checks.values():
        check(subject)
