"""The tests tested: every planted bug is found by the check named beside it, and by nothing else's fault."""

from dataclasses import replace

import pytest
from support.conformance import ENGINE_CHECKS, GRAPH_CHECKS
from support.conformance_batched import BATCHED_CHECKS
from support.conformance_codec import CODEC_CHECKS, VARINT_CHECKS
from support.conformance_durable import DURABLE_CHECKS
from support.conformance_herald import HERALD_CHECKS
from support.conformance_phantoms import ALL_REPLICA_CHECKS
from support.conformance_probabilistic import KEYS_CHECKS, PROBABILISTIC_CHECKS
from support.conformance_separators import DELIVERIES_CHECKS, HISTORY_CHECKS, SEPARATOR_CHECKS
from support.conformance_spread import SPREAD_CHECKS
from support.conformance_witness import MATRIX_CHECKS, WITNESS_CHECKS
from support.mutants import GRAPH, VECTOR, Kit, Mutant, mutate, through, verdict_on
from support.mutants_durable import DURABLE
from support.mutants_nodes import MESH, REPLICA
from support.mutants_probabilistic import KEYS, PROBABILISTIC
from support.mutants_separators import DELIVERIES, HISTORY, SEPARATOR
from support.mutants_stability import HERALD, MATRIX, REPLICA_STABILITY, TAGGERS, TAGS, WINDOW
from support.mutants_wire import BATCHED, CODEC, VARINT

from thence.order.engines import ENGINES

AS_WITNESS = {f"witness: {name}": check for name, check in WITNESS_CHECKS.items()}
"""A tagger's phantoms are judged by what witnesses make of them."""

KITS: dict[str, Kit] = {
    "thence.order.graph": (lambda module: module.GRAPH, GRAPH_CHECKS | AS_WITNESS),
    "thence.order.vector": (lambda module: module.VECTOR, ENGINE_CHECKS | AS_WITNESS),
    "thence.spread.mesh": (lambda module: module.MESH, SPREAD_CHECKS),
    "thence.replica.replica": (lambda module: module.Replica, ALL_REPLICA_CHECKS),
    "thence.replica.tree": (lambda module: module.TreeReplica, DURABLE_CHECKS),
    "thence.order.window": (
        lambda module: replace(ENGINES["graph"], witness=module.Window),
        WITNESS_CHECKS,
    ),
    "thence.order.matrix": (
        lambda module: replace(ENGINES["vector"], witness=module.Matrix),
        MATRIX_CHECKS,
    ),
    "thence.core.codec": (lambda module: module.Codec, CODEC_CHECKS),
    "thence.core.varint": (lambda module: module, VARINT_CHECKS),
    "thence.spread.batched": (lambda module: module.Batched, BATCHED_CHECKS),
    "thence.order.probabilistic": (lambda module: module.probabilistic, PROBABILISTIC_CHECKS),
    "thence.order.keys": (lambda module: module, KEYS_CHECKS),
    "thence.order.history": (lambda module: module, HISTORY_CHECKS),
    "thence.order.deliveries": (lambda module: module, DELIVERIES_CHECKS),
    "thence.order.separator": (lambda module: module, SEPARATOR_CHECKS),
    "thence.order.phantom_timer": (lambda module: module.PhantomSchedule, HERALD_CHECKS),
}
"""By module: what to take from it, and the checks to put it under."""

MUTANTS = GRAPH + VECTOR + MESH + REPLICA + DURABLE
MUTANTS += TAGGERS + WINDOW + through("thence.order.window", TAGS) + MATRIX + HERALD + REPLICA_STABILITY
MUTANTS += CODEC + VARINT + BATCHED + PROBABILISTIC + KEYS + HISTORY + DELIVERIES + SEPARATOR


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


def test_no_two_mutants_are_the_same() -> None:
    assert len({(mutant.module, mutant.edits) for mutant in MUTANTS}) == len(MUTANTS)
    assert len({(mutant.module, mutant.name) for mutant in MUTANTS}) == len(MUTANTS)
