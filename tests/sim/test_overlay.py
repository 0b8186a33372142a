"""Simulation: overlays as a whole. Views that connect all nodes, trees over them, and what the document asks
of both; runs are judged by the oracle."""

from collections.abc import Iterable

import pytest
from support.overlays import simulated

from thence.check.oracle import judge
from thence.core.dots import pack
from thence.core.errors import UsageError
from thence.sim.faults import Cut, Pause, apart
from thence.sim.overlay import OverlayRun
from thence.sim.overlay_links import grid_latencies
from thence.sim.overlay_meter import Meter
from thence.sim.overlay_plan import Arrive, Depart, Happening, OverlayPlan
from thence.sim.overlay_scenarios import OVERLAY_SCENARIOS, configure
from thence.sim.overlay_settings import OverlaySettings
from thence.sim.registry import Scenario
from thence.spread.overlays import OVERLAYS

SECOND = 1_000_000


def planned(monkeypatch: pytest.MonkeyPatch, happenings: Iterable[Happening], size: int) -> None:
    """A scenario `planned` of nodes that arrive one after the other, and then these happenings."""
    listed = tuple(happenings)

    def plan(settings: OverlaySettings, random: object) -> OverlayPlan:
        arrivals = tuple(Arrive(node * 50_000, node) for node in range(settings.nodes))
        return OverlayPlan(size, (*arrivals, *listed), settings.sending_us, settings.until_us)

    monkeypatch.setitem(OVERLAY_SCENARIOS, "planned", Scenario("planned", "", {}, plan))


def graph(run: OverlayRun) -> dict[int, tuple[int, ...]]:
    return {node: here.members.active for node, here in run.world.nodes.items()}


def one_piece(links: dict[int, tuple[int, ...]]) -> bool:
    found, ahead = set[int](), [next(iter(links))]
    while ahead:
        node = ahead.pop()
        if node not in found:
            found.add(node)
            ahead.extend(links[node])
    return found == set(links)


def one_way(run: OverlayRun) -> set[tuple[int, int]]:
    """Links that only one end knows of, now and a second later: news takes its time."""
    seen = []
    for _ in range(2):
        links = graph(run)
        seen.append(
            {(node, peer) for node, peers in links.items() for peer in peers if node not in links[peer]}
        )
        run.world.run(run.world.now + SECOND)
    return seen[0] & seen[1]


@pytest.mark.parametrize("nodes", [1, 2, 3, 6, 20, 60, 200])
def test_views_connect_all_nodes_by_links_that_both_ends_know_of(nodes: int) -> None:
    run = OverlayRun(configure("steady", nodes=nodes, messages=0, spread="flood"))
    assert run().complete
    links = graph(run)
    assert one_piece(links)
    assert not one_way(run)
    assert all(len(peers) <= 5 for peers in links.values())
    if nodes > 6:
        full = sum(len(peers) == 5 for peers in links.values())
        assert full >= 0.8 * nodes, "views are filled"


@pytest.mark.parametrize("nodes", [2, 3, 4, 5, 20])
def test_halves_of_a_healed_partition_merge(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut long enough for each half to have forgotten all nodes of the other by then."""
    half = nodes // 2
    cut = Cut(10 * SECOND, 70 * SECOND, apart(range(half), range(half, nodes)))
    planned(monkeypatch, [cut], nodes)
    outcome, events, run = simulated(configure("planned", nodes=nodes, messages=60, payload_bytes=10))
    assert outcome.complete, outcome.why
    assert outcome.virtual_ms < 100_000, "within one back-off"
    assert one_piece(graph(run))
    [verdict] = judge(events)
    assert not any(verdict.violations.values()), verdict


@pytest.mark.parametrize("nodes", [3, 4, 8])
def test_a_node_that_slept_for_a_minute_comes_back(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    planned(monkeypatch, [Pause(10 * SECOND, 70 * SECOND, 1)], nodes)
    outcome, events, run = simulated(configure("planned", nodes=nodes, messages=30, payload_bytes=10))
    assert outcome.complete, outcome.why
    assert run.world.nodes[1].members.active
    [verdict] = judge(events)
    assert not any(verdict.violations.values()), verdict


def test_a_node_that_leaves_says_so_and_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    planned(monkeypatch, [Depart(15 * SECOND, 2, polite=True)], 8)
    outcome, events, run = simulated(configure("planned", nodes=8, messages=20, payload_bytes=10))
    assert outcome.complete, outcome.why
    assert not any(2 in peers for peers in graph(run).values())
    kinds = [event.kind for event in events if event.node == "n2" and event.kind != "metric"]
    assert kinds[-1] == "leave"
    [verdict] = judge(events)
    assert not any(verdict.violations.values()), verdict


@pytest.mark.parametrize("spread", [name for name, kind in OVERLAYS.items() if kind.causal])
@pytest.mark.parametrize("scenario", ["stable", "churn", "massive-join", "catastrophe", "partition", "root"])
def test_the_documents_scenarios_deliver_everything_in_order(scenario: str, spread: str) -> None:
    given = {"nodes": 12, "messages": 60 if scenario == "churn" else 20, "payload_bytes": 16}
    outcome, events, _ = simulated(configure(scenario, spread=spread, **given))
    assert outcome.complete, outcome.why
    [verdict] = judge(events)
    assert not any(verdict.violations.values()), verdict
    assert verdict.sends > 100
    assert verdict.deliveries > 1000


def test_a_stable_tree_sends_each_message_to_each_node_once() -> None:
    """Section 3.3.1: no duplicates while nothing happens."""
    outcome, _, run = simulated(configure("stable", nodes=30, messages=10))
    assert outcome.duplicates == 0
    assert run.meter.packets["messages"] == outcome.deliveries == outcome.sends * 29
    perfect = outcome.deliveries * (1024 + 13)
    assert run.meter.bytes["messages"] <= perfect


def test_pull_sends_nothing_twice() -> None:
    """Section 5.3.1."""
    outcome, _, _ = simulated(configure("churn", nodes=12, messages=40, spread="pull"))
    assert outcome.duplicates == 0


def test_a_tree_is_quicker_than_pull_and_cheaper_than_flood() -> None:
    """Section 5.3.3, in small."""
    found = {
        spread: simulated(configure("stable", nodes=30, messages=10, spread=spread))[0]
        for spread in ("sync-tree", "flood", "pull", "pull-1s")
    }
    latency = {spread: outcome.latency_ms for spread, outcome in found.items()}
    assert latency["flood"] < latency["sync-tree"] < latency["pull"] < latency["pull-1s"]
    traffic = {spread: sum(outcome.bytes.values()) for spread, outcome in found.items()}
    assert traffic["sync-tree"] * 3 < traffic["flood"]


@pytest.mark.parametrize("nodes", [2, 4, 16])
def test_halves_that_were_apart_for_longer_than_logs_remember_merge_their_states(nodes: int) -> None:
    """Section 3.4.4 leaves this open. Nothing is lost on either side."""
    outcome, events, run = simulated(configure("long-partition", nodes=nodes, payload_bytes=16))
    assert outcome.complete, outcome.why
    assert outcome.installs >= 2, "a state in either direction"
    ends = {here.keeper.app.clock for here in run.world.nodes.values() if here.keeper}
    assert ends == {(60,) * nodes}
    [verdict] = judge(events)
    assert not any(verdict.violations.values()), verdict


def test_a_node_that_slept_for_longer_than_logs_remember_catches_up(monkeypatch: pytest.MonkeyPatch) -> None:
    planned(monkeypatch, [Pause(12 * SECOND, 42 * SECOND, 3)], 8)
    outcome, events, _ = simulated(
        configure("planned", nodes=8, messages=60, ttl_ms=4000.0, spread="eco-sync-tree", interval_ms=500.0)
    )
    assert outcome.complete, outcome.why
    assert outcome.installs >= 1
    assert "install" in [event.kind for event in events if event.node == "n3"]
    [verdict] = judge(events)
    assert not any(verdict.violations.values()), verdict


def test_a_newcomer_behind_a_node_that_has_a_state_is_not_stranded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Erratum 3: what came with a state was not forwarded. Newcomers arrive in a burst, and each other's."""
    joins = [Arrive(30 * SECOND + 2000 * k, 6 + k) for k in range(12)]
    planned(monkeypatch, joins, 18)
    outcome, events, _ = simulated(
        configure("planned", nodes=6, messages=80, ttl_ms=2000.0, spread="eco-sync-tree", interval_ms=500.0)
    )
    assert outcome.complete, outcome.why
    assert outcome.installs >= 12
    [verdict] = judge(events)
    assert not any(verdict.violations.values()), verdict


def test_what_a_state_stands_in_for_counts_as_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a node that gets a state would look quicker than it is."""
    seen: set[tuple[int, int]] = set()
    delivered = Meter.delivered

    def note(meter: Meter, node: int, dot: int, now: int) -> None:
        seen.add((node, dot))
        delivered(meter, node, dot, now)

    monkeypatch.setattr(Meter, "delivered", note)
    planned(monkeypatch, [Arrive(20 * SECOND, 5)], 6)
    settings = configure("planned", nodes=5, messages=30, ttl_ms=2000.0, spread="eco-sync-tree")
    outcome, _, run = simulated(settings)
    assert outcome.complete, outcome.why
    assert outcome.installs == 1
    vector = run.world.nodes[5].history.vector
    assert all((5, pack(origin, seq)) in seen for origin in range(5) for seq in range(1, vector[origin] + 1))


def test_logs_that_forget_stay_small() -> None:
    """Section 5.4.2: disk use levels off."""
    given = {"nodes": 8, "messages": 100, "interval_ms": 200.0, "ttl_ms": 2000.0}
    whole, _, _ = simulated(configure("stable", spread="sync-tree", **given))
    eco, _, _ = simulated(configure("stable", spread="eco-sync-tree", **given))
    assert eco.complete
    assert eco.log_bytes * 3 < whole.log_bytes
    assert eco.deliveries == whole.deliveries


def test_a_killed_root_holds_nothing_up_for_a_second() -> None:
    """The published code: 6 s. Here the others graft at once, and beat after less than half a second."""
    for seed in range(8):
        outcome, _, _ = simulated(configure("root", seed=seed, interval_ms=100.0, messages=60))
        assert outcome.complete, outcome.why
        assert outcome.slowest_ms < 1000, seed


@pytest.mark.parametrize("seed", [3, 5, 6, 12])
def test_a_catastrophe_leaves_the_tree_at_rest_within_five_seconds(seed: int) -> None:
    """The document: 27 to 88 s. These took more than five while the last free places of views were looked for
    and the smallest gains waited until they were believed."""
    given = {"nodes": 60, "messages": 20, "probability": 0.1, "payload_bytes": 64}
    outcome, _, _ = simulated(configure("catastrophe", seed=seed, **given))
    assert outcome.complete, outcome.why
    assert max(outcome.healed_ms) < 3000
    assert max(outcome.settled_ms) < 5000


def test_a_trace_can_show_what_becomes_of_links() -> None:
    """For a viewer: at the end, the links that are eager at both ends are the tree."""
    _, events, run = simulated(configure("catastrophe", nodes=12, messages=6, shows_links=True))
    last: dict[tuple[str, str], str] = {}
    for event in sorted(events, key=lambda event: (event.node, event.pos)):
        if event.kind in ("lazy", "sync", "eager", "unlink") and event.origin is not None:
            last[event.node, event.origin] = event.kind
    up = {f"n{node}" for node in run.world.nodes}
    eager = {link for link, kind in last.items() if kind == "eager" and set(link) <= up}
    assert len(eager) == 2 * (len(up) - 1)
    assert all((there, here) in eager for here, there in eager)
    [verdict] = judge(events)
    assert not any(verdict.violations.values()), "rows for people count for nothing"


def test_a_grid_is_as_the_document_lays_it_out() -> None:
    """Section 5.2: 200 nodes on 20 × 10, latencies from 10 to 100 ms."""
    table = grid_latencies(200, 10_000, 100_000)
    cells = [cell for one, row in enumerate(table) for other, cell in enumerate(row) if one != other]
    assert (min(cells), max(cells)) == (10_000, 100_000)
    assert table[0][1] == table[0][20] == 10_000
    assert table[0][199] == 100_000
    assert all(table[a][b] == table[b][a] for a in range(0, 200, 7) for b in range(0, 200, 11))


def test_settings_that_make_no_sense_are_refused() -> None:
    for wrong in (
        {"nodes": 0},
        {"probability": 0.0},
        {"latency": "slow"},
        {"loss": 0.1},
        {"interval_ms": 0.0},
    ):
        with pytest.raises(UsageError):
            configure("steady", **wrong)
    with pytest.raises(UsageError, match="no scenario"):
        configure("storm")
