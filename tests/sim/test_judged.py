"""Runs with an engine that may err: what they count themselves is what the oracle finds in their traces."""

from dataclasses import replace
from typing import Any

import pytest
from support.traces import simulated

from thence.check.oracle import judge
from thence.core.errors import UsageError
from thence.sim.run import Run
from thence.sim.scenarios import configure
from thence.sim.settings import SimSettings

RUNS: dict[str, dict[str, Any]] = {
    "few errors": {"entries": 30, "keys": 3},
    "shared entries": {"entries": 6, "keys": 2},
    "plausible": {"entries": 5, "keys": 1},
    "lamport": {"entries": 1, "keys": 1},
    "slow clients": {"entries": 8, "keys": 2, "take_ms": 60.0},
    "bad links": {"entries": 8, "keys": 2, "loss": 0.2, "duplicate": 0.2, "reorder": 0.3},
    "without a list": {"entries": 8, "keys": 2, "recent": 0},
    "batches": {"entries": 8, "keys": 2, "batch_ms": 15.0},
}


def settings_of(given: dict[str, Any], seed: int) -> SimSettings:
    usual = {"nodes": 10, "messages": 30, "interval_ms": 60.0, "latency_ms": 30.0, "weibull_scale": 2.0}
    return configure("steady", **{**usual, "order": "probabilistic", "seed": seed, **given})


@pytest.mark.parametrize("given", RUNS.values(), ids=RUNS)
def test_a_run_counts_the_errors_that_the_oracle_finds(given: dict[str, Any]) -> None:
    for seed in (1, 2):
        outcome, events = simulated(settings_of(given, seed))
        assert outcome.complete, outcome.why
        [verdict] = judge(events)
        found = {kind: count for kind, count in verdict.violations.items() if count}
        assert outcome.errors > 0
        assert found.pop("order") == outcome.errors
        assert set(found) <= {"program"}
        assert outcome.doubts == sum(event.kind == "doubt" for event in events)
        assert outcome.undoubted == 0
        if given.get("recent") != 0:
            doubted = {
                (event.node, f"{event.origin}:{event.seq}") for event in events if event.kind == "doubt"
            }
            assert {
                (flag.node, flag.message) for flag in verdict.flagged if flag.verdict == "order"
            } <= doubted


def test_a_list_that_is_too_short_leaves_errors_unnoticed() -> None:
    outcome = Run(settings_of({"entries": 6, "keys": 2, "recent": 1}, 1))()
    assert 0 < outcome.undoubted < outcome.errors


def test_more_entries_err_less() -> None:
    errors = [Run(settings_of({"entries": entries, "keys": 2}, 1))().errors for entries in (4, 20, 200)]
    assert errors[0] > 3 * errors[1] > 9 * errors[2]


@pytest.mark.parametrize("scenario", ["partition", "one-way", "slow-link", "pause"])
def test_faults_do_not_stop_it(scenario: str) -> None:
    settings = configure(scenario, order="probabilistic", nodes=6, messages=20, entries=6, keys=2)
    outcome = Run(settings)()
    assert outcome.complete, outcome.why
    assert outcome.undoubted == 0


def test_an_exact_engine_neither_errs_nor_doubts() -> None:
    outcome = Run(replace(settings_of({}, 1), order="vector"))()
    assert (outcome.errors, outcome.doubts, outcome.undoubted) == (0, 0, 0)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"entries": 3, "keys": 4}, "--keys must be between 1 and the 3 entries, not 4"),
        ({"entries": 0}, "--entries must be at least 1, not 0"),
        ({"recent": -1}, "--recent must not be negative: -1"),
        ({"order": "graph", "keys": 4}, "--keys is for --order probabilistic"),
        ({"order": "alphabetic"}, "there is graph, vector, vector-e2e, none, probabilistic"),
    ],
)
def test_a_clock_that_cannot_be_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Run(settings_of(given, 1))
