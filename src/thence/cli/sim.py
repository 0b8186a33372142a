"""`thence sim`: one simulated run."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from thence.cli import sim_edge, sim_overlay, sim_zones
from thence.core.errors import UsageError
from thence.local.console import counting, out
from thence.order.engines import PROBABILISTIC
from thence.sim.edge_run import EDGE, PATHS, edge_wanted, edge_weather
from thence.sim.groups_run import STORM, group_scenario, simulate_group, weather
from thence.sim.registry import TOLD, VIEWS, known
from thence.sim.run import Outcome, simulate
from thence.sim.scenarios import configure
from thence.sim.settings import SimSettings
from thence.sim.zones_run import ZONES

KNOWN = known()
SEEDS_SHOWN = 20
WIDTH = 1 + max(map(len, KNOWN))
"""Of a column of names."""


def run(
    scenario: str, given: Mapping[str, object], trace: Path | None, as_json: bool, name: str | None = None
) -> int:
    """`name`: of the run, as its trace has it; None: the scenario and the seed."""
    if scenario == "list":
        for world, scenarios in TOLD.items():
            if world == VIEWS:
                out.print("Over partial views (--spread sync-tree, flood, …):")
            for name, says in scenarios.items():
                out.print(f"{name:<{WIDTH}} {says}")
        return 0
    if scenario not in KNOWN:
        raise UsageError(f"unknown scenario {scenario!r}; there is {', '.join(KNOWN)}")
    if scenario == ZONES:
        seed = given.get("seed")
        told = sim_overlay.run_name(name, ZONES, seed if isinstance(seed, int) else 1)
        return sim_zones.run(given, trace, as_json, told)
    if edge_wanted(scenario, given):
        seed = edge_weather(given)[0]
        return sim_edge.run(
            given, trace, as_json, sim_overlay.run_name(name, str(given.get("spread") or EDGE), seed)
        )
    given = sim_edge.without_its_own(given)
    if sim_overlay.wanted(scenario, given):
        return sim_overlay.run(scenario, given, trace, as_json, name)
    given = sim_overlay.without_its_own(given)
    if (kind := group_scenario(scenario, given)) is not None:
        return _group(scenario, kind, given, trace, as_json, name)
    settings = configure(scenario, **given)
    with counting("simulating") as watcher:
        outcome = simulate(settings, trace, watcher, sim_overlay.run_name(name, scenario, settings.seed))
    if as_json:
        print(json.dumps(facts(settings, outcome, trace)))
    else:
        tell(settings, outcome, trace)
    return 0 if outcome.complete else 1


def seeds_told(runs: Iterable[str]) -> str:
    """For people: the seeds of simulated runs whose names say them, as they do unless `--run` was given."""
    told = []
    for name in dict.fromkeys(runs):
        scenario, _, seed = name.rpartition("-")
        if scenario in (*KNOWN, PATHS) and seed.isascii() and seed.isdigit():
            told.append(f"{seed} (scenario {scenario})")
    more = f" and {len(told) - SEEDS_SHOWN} more" if len(told) > SEEDS_SHOWN else ""
    return ", ".join(told[:SEEDS_SHOWN]) + more


def _group(
    scenario: str,
    kind: str,
    given: Mapping[str, object],
    trace: Path | None,
    as_json: bool,
    name: str | None,
) -> int:
    rough = scenario == STORM
    seed, _ = weather(kind, given, rough)
    outcome = simulate_group(kind, given, trace, sim_overlay.run_name(name, scenario, seed), rough)
    if as_json:
        shown = asdict(outcome)
        del shown["forgotten"]  # for those that judge the trace
        print(json.dumps({"scenario": scenario, **shown, "trace": trace and str(trace)}))
        return 0 if outcome.complete else 1
    packets = ", ".join(f"{count:,} {what}" for what, count in outcome.packets.items())
    out.print(
        f"{scenario}: {outcome.processes} processes, {outcome.incarnations} incarnations, seed {outcome.seed}"
    )
    out.print(
        f"  {outcome.joins:,} joins, {outcome.leaves:,} leaves, {outcome.restarts:,} restarts, "
        f"{outcome.evictions:,} evictions (as each member saw them), {outcome.carried:,} operations carried"
    )
    out.print(f"  {outcome.sends:,} sends, {outcome.deliveries:,} deliveries, {outcome.stables:,} stable")
    out.print(
        f"  {outcome.waited:,} broadcasts waited behind operations from before a return, "
        f"{outcome.gave_up:,} were refused"
    )
    if outcome.reads:
        told = f"{outcome.missed:,} operations missed and told, {outcome.gaps:,} gaps"
        out.print(f"  programs without a state: {told}")
    out.print(f"  packets: {packets or 'none'}")
    out.print(f"  {outcome.virtual_ms / 1000:,.3f} s of virtual time in {outcome.cpu_seconds:.2f} s of CPU")
    if trace:
        out.print(f"  trace in {trace}")
    out.print(
        "  complete: one view, all delivered, stable and drained, no operation lost"
        if outcome.complete
        else f"  INCOMPLETE: {outcome.why}"
    )
    return 0 if outcome.complete else 1


def facts(settings: SimSettings, outcome: Outcome, trace: Path | None) -> dict[str, object]:
    return {
        **{key: str(value) if isinstance(value, Path) else value for key, value in asdict(settings).items()},
        **asdict(outcome),
        "trace": None if trace is None else str(trace),
    }


def tell(settings: SimSettings, outcome: Outcome, trace: Path | None) -> None:
    packets = ", ".join(f"{count:,} {what}" for what, count in outcome.packets.items())
    out.print(
        f"{settings.scenario}: {outcome.nodes} nodes, order {settings.order}, "
        f"{f'spread {settings.spread}' if outcome.stamps is None else 'addressed'}, seed {settings.seed}"
    )
    out.print(
        f"  {outcome.sends:,} sends, {outcome.deliveries:,} deliveries, {outcome.stables:,} stable; "
        f"{outcome.held:,} held back for their causes, {outcome.duplicates:,} duplicates dropped"
    )
    if settings.order == PROBABILISTIC:
        out.print(
            f"  {outcome.errors:,} delivered before their causes, {outcome.undoubted:,} of them unnoticed; "
            f"{outcome.doubts:,} doubts"
        )
    if outcome.stamps is not None:
        told = outcome.stamps
        out.print(
            f"  {told.hops:,} hops, stamps of {told.entries:.2f} entries on average (p50 {told.entries_p50}, "
            f"p99 {told.entries_p99}), {told.bytes:.1f} bytes (p50 {told.bytes_p50}, p99 {told.bytes_p99}); "
            f"histories of {told.history:.2f}"
        )
    out.print(f"  packets: {packets or 'none'}; {sum(outcome.bytes.values()):,} bytes")
    out.print(f"  {outcome.virtual_ms / 1000:,.3f} s of virtual time in {outcome.cpu_seconds:.2f} s of CPU")
    if trace:
        out.print(f"  trace in {trace}")
    out.print(
        f"  complete: all delivered{', stable' if outcome.stables else ''} and drained"
        if outcome.complete
        else f"  INCOMPLETE: {outcome.why}"
    )
