"""Figures of a sweep: one small chart per measurement, a line per engine and load, over the peers."""

from dataclasses import dataclass
from typing import Any

import altair as alt

from thence.pages.charts import Chart, finished

Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    title: str
    measure: str
    label: str
    stability: bool
    scale: float = 1.0
    """What the measurement is multiplied with before it is shown."""


FIGURES = (
    Figure("Entries carried by a message", "entries", "entries", False),
    Figure("Bytes of causal metadata on the wire", "stamp_bytes", "bytes", False),
    Figure(
        "Metadata in memory, without stability", "memory_words", "KB, as the document counts", False, 0.008
    ),
    Figure("Metadata in memory, with stability", "memory_words", "KB, as the document counts", True, 0.008),
    Figure("Bytes allocated, with stability", "memory_bytes", "KB, allocated", True, 0.001),
    Figure("Delivery, without stability", "delivery_us", "µs of CPU", False),
    Figure("Delivery, with stability", "delivery_us", "µs of CPU", True),
    Figure("Stability", "stability_us", "µs of CPU per stable message", True),
)

COLOURS = {"graph": "#0b6e4f", "vector": "#c1440e", "vector-e2e": "#7a1f5c"}


def draw(figure: Figure, results: list[Result]) -> Chart:
    rows = [
        {
            "peers": result["size"],
            "value": result[figure.measure] * figure.scale,
            "engine": result["order"],
            "load": result["load"],
        }
        for result in results
        if result["stability"] == figure.stability
    ]
    sizes = sorted({row["peers"] for row in rows})
    engines = sorted({row["engine"] for row in rows})
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("peers:Q", scale=alt.Scale(type="log", base=2), axis=alt.Axis(values=sizes), title="peers"),
        y=alt.Y("value:Q", title=figure.label),
        color=alt.Color(
            "engine:N",
            scale=alt.Scale(domain=engines, range=[COLOURS.get(name, "#555") for name in engines]),
        ),
        tooltip=["engine:N", "load:N", "peers:Q", alt.Tooltip("value:Q", format=",.4~r")],
    )
    # Two layers: the legend of a line that carries its own points would show points, not dashes.
    lines = base.mark_line(strokeWidth=2).encode(strokeDash=alt.StrokeDash("load:N"))
    points = base.mark_point(filled=True, size=30, opacity=1).encode(detail="load:N")
    return finished(figure.title, lines, points)
