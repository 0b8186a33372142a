"""`thence sim --scenario zones`: one storm over processes of a topology."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from thence.local.console import out
from thence.sim.zones_run import ZONES, simulate_zones


def run(given: Mapping[str, object], trace: Path | None, as_json: bool, name: str) -> int:
    outcome = simulate_zones(given, trace, name)
    if as_json:
        print(json.dumps({"scenario": ZONES, **asdict(outcome), "trace": trace and str(trace)}))
        return 0 if outcome.complete else 1
    packets = ", ".join(f"{count:,} {what}" for what, count in outcome.packets.items())
    out.print(f"zones: {outcome.processes} processes in {outcome.zones} zones, seed {outcome.seed}")
    lost = f"{outcome.deaths:,} gateways dead, {outcome.put_back:,} disks put back"
    out.print(f"  {outcome.crashes:,} crashes, {lost}")
    out.print(f"  {outcome.sends:,} sends, {outcome.deliveries:,} deliveries")
    out.print(f"  packets: {packets or 'none'}")
    out.print(f"  {outcome.virtual_ms / 1000:,.3f} s of virtual time in {outcome.cpu_seconds:.2f} s of CPU")
    if trace:
        out.print(f"  trace in {trace}")
    out.print(
        "  complete: all delivered at every process that lives, nothing kept or held back"
        if outcome.complete
        else f"  INCOMPLETE: {outcome.why}"
    )
    return 0 if outcome.complete else 1
