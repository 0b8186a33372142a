"""Metrics of a trace, DataFrame to DataFrame (docs/METRICS.md).

    from thence.pipeline import metrics

    summary = metrics.summary(events)                       # a frame with the columns of docs/TRACES.md
    metrics.distribution(summary, "delivery", by="link").show()
    metrics.synchronisations(events).show()

`timed` packs rows by their messages, `tally` works out what those of one task went through (with `sorting`),
`merge` puts the tallies of all tasks together, `frames` takes all this to Spark, and `summaries` chooses from
it. `nodes` (with `trees`) is about nodes and links. `measured` does it all for a trace in files.
"""

from pyspark.sql import DataFrame

from thence.pipeline.metrics import frames
from thence.pipeline.metrics.nodes import evictions, levels, samples, stabilisation, synchronisations, totals
from thence.pipeline.metrics.summaries import catch_up, changes, convergence, counts, distribution, spans

BIN_US = 1_000_000


def summary(events: DataFrame, *, parts: int = 4, bin_us: int = BIN_US) -> DataFrame:
    """What `distribution`, `counts`, `changes`, `catch_up`, `convergence` and `spans` choose from. `parts`:
    messages are cut into so many tasks by their origin; `bin_us`: over time means in bins of so many
    microseconds."""
    return frames.summarised(frames.pieces_of(events, parts), parts, bin_us)


__all__ = [
    "BIN_US",
    "catch_up",
    "changes",
    "convergence",
    "counts",
    "distribution",
    "evictions",
    "levels",
    "samples",
    "spans",
    "stabilisation",
    "summary",
    "synchronisations",
    "totals",
]
