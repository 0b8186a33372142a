"""Runs with addressed messages in zones: judged by the oracle, with gateways that die."""

from random import Random
from typing import Any

import pytest
from support.traces import simulated

from thence.check.oracle import judge
from thence.core.errors import UsageError
from thence.order.history import RULES
from thence.sim.faults import PlannedJoin
from thence.sim.run import Outcome, Run
from thence.sim.scenarios import SCENARIOS, configure, zones_of
from thence.sim.zoned import SimZones
from thence.trace.schema import Event


def clean(scenario: str, **given: Any) -> tuple[Outcome, list[Event]]:
    settings = configure(scenario, **{"order": "separator", **given})
    outcome, events = simulated(settings)
    assert outcome.complete, f"{settings.seed}: {outcome.why}"
    [verdict] = judge(events)
    assert not any(verdict.violations.values()), (settings.seed, verdict)
    assert verdict.deliveries == outcome.deliveries > 0
    return outcome, events


@pytest.mark.parametrize("seed", range(20))
def test_storms_end_well(seed: int) -> None:
    clean("storm", seed=seed)


@pytest.mark.parametrize("rules", RULES)
def test_every_set_of_rules_is_safe_and_live(rules: str) -> None:
    for seed in (1, 2, 3):
        clean("steady", seed=seed, rules=rules, messages=8, interval_ms=20.0, weibull_scale=3.0)
        clean("storm", seed=seed, rules=rules, messages=8)


@pytest.mark.parametrize("seed", range(3))
def test_witnesses_survive_all_but_one_gateway_of_each_separator(seed: int) -> None:
    outcome, events = clean("routers", seed=seed, messages=10, interval_ms=40.0)
    dead = [event.node for event in events if event.kind == "crash"]
    assert len(dead) == 16
    assert outcome.nodes == 24 + 24


@pytest.mark.parametrize("scenario", ["partition", "one-way", "pause", "flaky", "slow-link"])
def test_other_scenarios(scenario: str) -> None:
    clean(scenario, seed=4, messages=10, interval_ms=50.0)


@pytest.mark.parametrize(
    "topology", ["table-7-1", "table-7-1-more", "small-large", "three-lans", "2x3x4", "5x6"]
)
def test_named_topologies(topology: str) -> None:
    outcome, events = clean("steady", topology=topology, messages=6, weibull_scale=2.0)
    assert all(event.dest for event in events if event.kind == "send")
    assert outcome.stamps is not None
    assert outcome.stamps.hops >= outcome.sends


def test_separators_keep_stamps_short() -> None:
    means = []
    for rules in ("1-8", "1-9", "1-10", "1-11"):
        settings = configure(
            "steady", order="separator", topology="3x4x6", rules=rules, messages=6, latency_ms=1.0,
            weibull_scale=49.0, weibull_shape=1.0,
        )  # fmt: skip
        outcome = Run(settings)()
        assert outcome.stamps is not None
        means.append(outcome.stamps.entries)
    assert means == sorted(means, reverse=True)
    assert means[0] > 2 * means[1]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"topology": "moebius"}, "unknown topology 'moebius'"),
        ({"topology": "0x3"}, "each must be at least 1"),
        ({"gateways": 0, "topology": "2x2"}, "at least 1"),
        ({"rules": "9"}, "unknown rules '9'"),
        ({"word_ms": 0.0}, "--word-ms must be above 0"),
        ({"batch_ms": 1.0}, "does not batch"),
        ({"order": "graph", "rules": "1-8"}, "--rules is for --order separator"),
        ({"order": "graph", "scenario": "joins"}, "--topology is for --order separator"),
        ({"order": "graph", "scenario": "routers"}, "--topology is for --order separator"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], says: str) -> None:
    given = {"scenario": "steady", "order": "separator", **given}
    with pytest.raises(UsageError, match=says):
        Run(configure(given.pop("scenario"), **given))


def test_histories_of_witnesses_are_measured() -> None:
    run = Run(configure("steady", order="separator", topology="table-7-1", messages=10))
    run()
    witness = run.zones.topology.names.index("d2")
    assert run.meter.histories[witness].total() > 0


def joined(**given: Any) -> tuple[Outcome, list[Event]]:
    return clean("joins", **{"messages": 12, "interval_ms": 50.0, **given})


@pytest.mark.parametrize("seed", range(3))
def test_applications_zones_and_gateways_join(seed: int) -> None:
    settings = configure("joins", seed=seed)
    late = {fault.node for fault in SCENARIOS.find("joins").plan(settings, Random(f"{seed}/plan")).faults
            if isinstance(fault, PlannedJoin)}  # fmt: skip
    topology = zones_of(settings)
    gateways = {node for node in late if topology.is_gateway(node)}
    assert len(gateways) == len(topology.separators)
    assert any({*zone.members} - {*late} <= {*topology.separators[zone.separators[0]].members}
               for zone in topology.zones if len(zone.separators) == 1), "a new zone"  # fmt: skip
    outcome, events = joined(seed=seed)
    names = [topology.names[node] for node in late - gateways]
    assert {event.node for event in events if event.kind == "send"} >= {*names}
    assert {event.node for event in events if event.kind == "deliver"} & {*names}
    assert outcome.nodes == len(topology)


def test_joins_over_bad_links_and_with_late_clients() -> None:
    joined(seed=0, loss=0.5, reorder=0.3, interval_ms=20.0, gateways=2)
    joined(seed=5, loss=0.2, duplicate=0.2, reorder=0.3)
    joined(seed=6, topology="3x2x3", gateways=2, take_ms=100.0, rules="1-8")


def test_one_that_joined_forwards_when_it_is_the_last() -> None:
    forwarded = 0
    for seed in range(3):
        settings = configure("joins", seed=seed, messages=20, interval_ms=50.0)
        run = Run(settings)
        outcome = run()
        assert outcome.complete, outcome.why
        nodes = run.zones.nodes
        for separator in run.zones.topology.separators:
            *others, last = separator.members
            if all(nodes[member].dead for member in others):
                forwarded += nodes[last].history.counter
    assert forwarded > 0


def test_neighbours_that_adopt_before_all_members_have_let_messages_be_forwarded_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a neighbour sent to the joiner and to a member that did not know of it was forwarded without an
    echo: the joiner forwards it again when that member has died."""

    def early(zones: SimZones, node: int, now: int, until: int) -> list[tuple[int, int]]:
        zones.late.discard(node)
        if not zones.topology.is_gateway(node):
            return []
        members = zones._givers(node)
        return [(peer, until if peer in members else now) for peer in zones.topology.neighbours(node)]

    monkeypatch.setattr(SimZones, "joins", early)
    twice = 0
    for seed in range(6):
        _, events = simulated(configure("joins", messages=12, interval_ms=50.0, seed=seed))
        [verdict] = judge(events)
        twice += verdict.violations["duplicate"]
    assert twice > 0


def test_a_separator_of_which_none_is_left_is_not_joined() -> None:
    """4.4 (iv): what it had filtered is nowhere else."""
    run = Run(configure("joins", seed=1))
    zones, joiner = run.zones, run.zones.topology.separators[0].members[-1]
    for member in zones.topology.separators[0].members[:-1]:
        zones.nodes[member].die(0)
    with pytest.raises(UsageError, match=r"none of the separator of g\.0-2 is left to join"):
        zones.joins(joiner, 0, 10)
