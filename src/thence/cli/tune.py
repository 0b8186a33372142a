"""`thence tune`: entries and keys of the probabilistic engine's clock, from a group's load."""

import json
from dataclasses import asdict
from math import log

from rich import box
from rich.table import Table

from thence.cli.console import out
from thence.core.errors import UsageError
from thence.order.tuning import MOST_ENTRIES, Clock, Load

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
    load = Load(nodes, rate, delay_ms, SHARE * delay_ms if deviation_ms is None else deviation_ms, skew_ms)
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


def around(load: Load, chosen: Clock) -> list[Clock]:
    """Clocks to compare: from a quarter of the entries to four times as many."""
    sizes = sorted({max(1, chosen.entries * quarters // 4) for quarters in (1, 2, 3, 4, 6, 8, 16)})
    return [chosen if size == chosen.entries else load.clock(size) for size in sizes if size <= MOST_ENTRIES]


def tell(load: Load, chosen: Clock, caveats: list[str]) -> None:
    out.print(
        f"{load.nodes:,} members, {load.rate:g} messages a second each, {load.delay_ms:g} ms under way "
        f"(deviation {load.deviation_ms:g} ms)"
    )
    out.print(
        f"  X = {load.under_way:.3g} messages under way; a message arrives before {load.missing:.3g} of its "
        "causes on average"
    )
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for title in ("", "entries R", "ln 2 · R / X", "keys K", "covered", "errors predicted", "one in"):
        table.add_column(title, justify="right")
    for clock in around(load, chosen):
        table.add_row(
            "→" if clock is chosen else "",
            f"{clock.entries:,}",
            f"{log(2) * clock.entries / load.under_way:.2f}",
            f"{clock.keys:,}",
            f"{clock.covered:.3g}",
            f"{clock.errors:.3g}",
            f"{1 / clock.errors:,.0f}" if clock.errors > 0 else "never",
        )
    out.print(table)
    out.print(f"  --order probabilistic --entries {chosen.entries} --keys {chosen.keys}")
    out.print("  covered: the document's (1 − (1 − 1/R)^(K·X))^K. Errors: with normal delays.")
    for caveat in caveats:
        out.print(f"  it does not hold here: {caveat}")
