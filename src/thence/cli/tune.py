"""`thence tune`: entries and keys of the probabilistic engine's clock, from a group's load."""

import json
from dataclasses import asdict
from math import ceil, log

from rich import box
from rich.table import Table

from thence.core.errors import UsageError
from thence.local.console import out
from thence.order.tuning import MOST_ENTRIES, Clock, OfferedLoad

BARS, WIDTH = 12, 40
"""Of the figure: lines, about, and columns."""

SHARE = 0.2
"""Deviation of a delay whose deviation is not given: the document's 20 ms of 100."""


def run(
    nodes: int,
    rate: float,
    delay_ms: float,
    deviation_ms: float | None,
    skew_ms: float | None,
    target: float,
    entries: int | None,
    keys: int | None,
    as_json: bool,
) -> int:
    load = OfferedLoad(
        nodes, rate, delay_ms, SHARE * delay_ms if deviation_ms is None else deviation_ms, skew_ms
    )
    if entries is not None:
        chosen = load.clock(entries, keys)
    elif keys is not None:
        raise UsageError("--keys needs --entries")
    else:
        found = load.smallest(target)
        if found is None:
            raise UsageError(
                f"no clock of up to {MOST_ENTRIES:,} entries errs in only {target:g} of deliveries"
            )
        chosen = found
    caveats = load.caveats(chosen)
    if as_json:
        told = {"under_way": load.under_way, "missing": load.missing, **asdict(chosen), "caveats": caveats}
        print(json.dumps(told))
    else:
        tell(load, chosen, caveats)
    return 0


def around(load: OfferedLoad, chosen: Clock) -> list[Clock]:
    """Clocks to compare: from a quarter of the entries to four times as many."""
    sizes = sorted({max(1, chosen.entries * quarters // 4) for quarters in (1, 2, 3, 4, 6, 8, 16)})
    return [chosen if size == chosen.entries else load.clock(size) for size in sizes if size <= MOST_ENTRIES]


def figure(load: OfferedLoad, chosen: Clock) -> list[str]:
    """Errors by keys: from one to twice those that were chosen, a few of them."""
    most = min(chosen.entries, max(2 * chosen.keys, 6))
    counts = sorted({*range(1, most + 1, ceil(most / BARS)), chosen.keys})
    clocks = [clock for keys in counts if (clock := load.clock(chosen.entries, keys)).errors > 0]
    if not clocks:
        return ["  none: nothing is ever late"]
    heights = [log(clock.errors) for clock in clocks]
    step = (max(heights) - min(heights)) / (WIDTH - 1) or 1.0
    return [
        f"  {'→' if clock.keys == chosen.keys else ' '} K = {clock.keys:>4,} "
        f"{'█' * (1 + round((height - min(heights)) / step)):<{WIDTH}} {clock.errors:.3g}"
        for clock, height in zip(clocks, heights, strict=True)
    ]


def tell(load: OfferedLoad, chosen: Clock, caveats: list[str]) -> None:
    out.print(
        f"{load.nodes:,} members, {load.rate:g} messages a second each, {load.delay_ms:g} ms under way "
        f"(deviation {load.deviation_ms:g} ms)"
    )
    out.print(
        f"  X = {load.under_way:.3g} messages under way; a message arrives before {load.missing:.3g} of its "
        "causes on average"
    )
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for title in (
        "",
        "entries R",
        "ln 2 · R / X",
        "keys K",
        "covered",
        "the document's",
        "errors predicted",
        "one in",
    ):
        table.add_column(title, justify="right")
    for clock in around(load, chosen):
        table.add_row(
            "→" if clock is chosen else "",
            f"{clock.entries:,}",
            f"{log(2) * clock.entries / load.under_way:.2f}",
            f"{clock.keys:,}",
            f"{clock.covered:.3g}",
            f"{clock.documented:.3g}",
            f"{clock.errors:.3g}",
            f"{1 / clock.errors:,.0f}" if clock.errors > 0 else "never",
        )
    out.print(table)
    out.print(f"\n  errors predicted with {chosen.entries:,} entries, by keys (bars: logarithms)")
    for line in figure(load, chosen):
        out.print(line, highlight=False)
    out.print()
    out.print(f"  --order probabilistic --entries {chosen.entries} --keys {chosen.keys}")
    out.print(
        "  covered: the document's (1 − (1 − 1/R)^(K·X))^K; times the share that misses a cause: its errors."
    )
    out.print("  errors predicted: with normal delays, independent of each other. Over gossip a message")
    out.print(
        "  mostly comes after its causes, and errors are many times rarer: docs/protocols/probabilistic.md."
    )
    for caveat in caveats:
        out.print(f"  it does not hold here: {caveat}")
