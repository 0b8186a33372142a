"""The tests of gossip tested: every planted bug is found by the check named beside it."""

import pytest
from support.conformance_gossip import GOSSIP_CHECKS, ORDER_CHECKS, RIGHT_CHECKS, RUMOUR_CHECKS
from support.mutants import Kit, Mutant, mutate, verdict_on
from support.mutants_gossip import GOSSIP, ORDER, RIGHT, RUMOURS

KITS: dict[str, Kit] = {
    "thence.spread.gossip": (lambda module: module.Gossip, GOSSIP_CHECKS),
    "thence.replica.tree_order": (lambda module: module.Clocked, ORDER_CHECKS),
    "thence.core.rumours": (lambda module: module, RUMOUR_CHECKS),
    "thence.replica.tree_right": (lambda module: module, RIGHT_CHECKS),
}


@pytest.mark.parametrize("mutant", GOSSIP + ORDER + RUMOURS + RIGHT, ids=lambda mutant: mutant.name)
def test_planted_bug_is_found(mutant: Mutant) -> None:
    assert verdict_on(mutant, KITS) == mutant.finds


@pytest.mark.parametrize("module", KITS)
def test_the_module_without_a_bug_passes(module: str) -> None:
    take, checks = KITS[module]
    subject = take(mutate(module, ()))
    for check in checks.values():
        check(subject)
