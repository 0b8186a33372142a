"""`thence sim --scenario edge`: one storm over an edge tree."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from thence.core.errors import UsageError
from thence.local.console import out
from thence.sim.edge_run import EDGE, simulate_edge

ITS_OWN = ("delta", "groups")


def without_its_own(given: Mapping[str, object]) -> dict[str, object]:
    """The flags that mean something elsewhere; an error if one of the others was given."""
    for name in ITS_OWN:
        if given.get(name) is not None:
            raise UsageError(f"--{name} is for --spread edge")
    return {name: value for name, value in given.items() if name not in ITS_OWN}


def run(given: Mapping[str, object], trace: Path | None, as_json: bool, name: str) -> int:
    outcome = simulate_edge(given, trace, name)
    if as_json:
        print(json.dumps({"scenario": "edge", **asdict(outcome), "trace": trace and str(trace)}))
        return 0 if outcome.complete else 1
    packets = ", ".join(f"{count:,} {what}" for what, count in outcome.packets.items())
    out.print(
        f"{outcome.spread} ({outcome.kind}): {outcome.nodes} nodes, {outcome.identities} identities, "
        f"{outcome.groups} groups, delta {outcome.delta}, seed {outcome.seed}"
    )
    out.print(
        f"  {outcome.crashes:,} crashes, {outcome.deaths:,} deaths, {outcome.losses:,} disks lost, "
        f"{outcome.moves:,} moves"
    )
    out.print(f"  {outcome.sends:,} sends, {outcome.deliveries:,} deliveries, {outcome.states:,} states")
    if outcome.entries:
        out.print(f"  {outcome.entries:.2f} numbers and barriers per copy")
    out.print(f"  packets: {packets or 'none'}")
    out.print(f"  {outcome.virtual_ms / 1000:,.3f} s of virtual time in {outcome.cpu_seconds:.2f} s of CPU")
    if trace:
        out.print(f"  trace in {trace}")
    out.print(
        "  complete: all attached and joined, and all have what the root has"
        if outcome.complete and outcome.spread == EDGE
        else "  complete: all have what the root has, and no node keeps a message"
        if outcome.complete
        else f"  INCOMPLETE: {outcome.why}"
    )
    return 0 if outcome.complete else 1
