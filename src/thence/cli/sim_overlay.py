"""`thence sim` for spreads over partial views: trees, flood, pull."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from thence.core.errors import UsageError
from thence.local.console import counting, out
from thence.order.engines import PROBABILISTIC, chosen
from thence.sim.overlay import OverlayOutcome, OverlayRun, simulate_overlay
from thence.sim.overlay_durable import DurableOverlayRun
from thence.sim.overlay_scenarios import OVERLAY_SCENARIOS, configure
from thence.sim.overlay_settings import TAGGED, OverlaySettings
from thence.sim.scenarios import SCENARIOS
from thence.spread.overlays import ALIASES, OVERLAYS

ITS_OWN = ("durable", "probability", "ttl_ms", "bandwidth_mbit", "handling_us", "shows_links")
"""Flags that mean nothing elsewhere."""


def wanted(scenario: str, given: Mapping[str, object]) -> bool:
    """Whether these flags are about an overlay."""
    spread = given.get("spread")
    if spread in OVERLAYS or spread in ALIASES:
        return True
    if scenario in OVERLAY_SCENARIOS and scenario not in SCENARIOS:
        if spread is not None:
            raise UsageError(f"scenario {scenario} is for partial views: --spread {', '.join(OVERLAYS)}")
        return True
    return False


def without_its_own(given: Mapping[str, object]) -> dict[str, object]:
    """The flags that mean something elsewhere too; an error if one of the others was given."""
    for name in ITS_OWN:
        if given.get(name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} is for spreads over partial views")
    return {name: value for name, value in given.items() if name not in ITS_OWN}


def run_name(given: str | None, scenario: str, seed: int) -> str:
    """What the `run` column of a trace says."""
    return f"{scenario}-{seed}" if given is None else given


def run(
    scenario: str, given: Mapping[str, object], trace: Path | None, as_json: bool, name: str | None
) -> int:
    settings = configure(scenario, **given)
    engine = chosen(settings.order, settings.entries, settings.keys, settings.recent)
    if given.get("durable") and engine.witness is not None:
        raise UsageError(TAGGED)
    runs = DurableOverlayRun if settings.live or settings.order == PROBABILISTIC else OverlayRun
    with counting("simulating") as watcher:
        outcome = simulate_overlay(settings, trace, watcher, run_name(name, scenario, settings.seed), runs)
    if as_json:
        print(json.dumps({**asdict(settings), **asdict(outcome), "trace": trace and str(trace)}))
    else:
        tell(settings, outcome, trace)
    return 0 if outcome.complete else 1


def tell(settings: OverlaySettings, outcome: OverlayOutcome, trace: Path | None) -> None:
    out.print(
        f"{settings.scenario}: {outcome.nodes} nodes at the end, order {settings.order}, spread "
        f"{settings.spread}, seed {settings.seed}"
    )
    out.print(
        f"  {outcome.sends:,} sends, {outcome.deliveries:,} deliveries, {outcome.duplicates:,} duplicates "
        f"dropped; all nodes had a message after {outcome.latency_ms:,.0f} ms on average, "
        f"{outcome.slowest_ms:,.0f} ms at worst ({outcome.slowest})"
    )
    if round(outcome.resident_ms) != round(outcome.latency_ms):
        out.print(f"  without newcomers, who read the past first: {outcome.resident_ms:,.0f} ms on average")
    layers = ", ".join(f"{count:,} {layer}" for layer, count in outcome.bytes.items())
    out.print(f"  bytes: {layers}")
    if settings.order == PROBABILISTIC:
        out.print(f"  {outcome.doubts:,} deliveries were doubted")
    if outcome.installs:
        out.print(f"  {outcome.installs:,} states stood in for messages")
    if outcome.settled_ms:
        healed = ", ".join(f"{ms / 1000:.1f}" for ms in outcome.healed_ms)
        settled = ", ".join(f"{ms / 1000:.1f}" for ms in outcome.settled_ms)
        out.print(f"  one tree again after {healed} s; the last change for a quicker way after {settled} s")
    out.print(f"  {outcome.virtual_ms / 1000:,.3f} s of virtual time in {outcome.cpu_seconds:.2f} s of CPU")
    if trace:
        out.print(f"  trace in {trace}")
    out.print("  complete: all delivered everywhere" if outcome.complete else f"  INCOMPLETE: {outcome.why}")
