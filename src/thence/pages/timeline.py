"""Figures over time: a line per series, and the times of trouble marked behind them."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import altair as alt

from thence.pages.charts import Chart, finished

SHADES = ("#90be6d", "#f2c14e", "#d1495b", "#8d99ae", "#b5a1c9")


class TimelinePoint(NamedTuple):
    s: float
    series: str
    value: float
    high: float | None = None
    """Drawn as a dot: what few values reach."""


class Span(NamedTuple):
    from_s: float
    to_s: float
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    title: str
    label: str
    points: list[TimelinePoint]
    colours: dict[str, str]
    """By series, in the order of the legend."""
    scale: Literal["linear", "sqrt", "log"] = "linear"
    axis: str = "seconds since the load began"


def draw(figure: Timeline, spans: list[Span], until_s: float) -> Chart:
    """From 0 to `until_s`; figures of one run share the axis."""
    rows = [point._asdict() for point in figure.points if 0 <= point.s <= until_s]
    chosen = alt.selection_point(fields=["series"], bind="legend")
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("s:Q", title=figure.axis, scale=alt.Scale(domain=[0, until_s], nice=False)),
        color=_colour(figure),
        opacity=alt.when(chosen).then(alt.value(0.9)).otherwise(alt.value(0.1)),
        tooltip=[
            alt.Tooltip("s:Q", title="s", format=".4~f"),
            alt.Tooltip("series:N"),
            alt.Tooltip("value:Q", format=",.4~r"),
            *(
                [alt.Tooltip("high:Q", format=",.4~r")]
                if any(row["high"] is not None for row in rows)
                else []
            ),
        ],
    )
    scale = alt.Scale(type=figure.scale)
    powers = [10**power for power in range(-3, 7)]
    axis = alt.Axis(values=powers, format=",~r") if figure.scale == "log" else alt.Axis(format=",~r")
    lines = base.mark_line(strokeWidth=1.7).encode(
        y=alt.Y("value:Q", title=figure.label, scale=scale, axis=axis)
    )
    layers = [lines.add_params(chosen)]
    if any(row["high"] is not None for row in rows):
        dots = base.transform_filter("datum.high !== null").mark_point(filled=True, size=9)
        layers.append(dots.encode(y=alt.Y("high:Q", scale=scale, axis=axis)))
    return finished(figure.title, *_marks(spans, until_s), *layers)


def _colour(figure: Timeline) -> alt.Color:
    scale = alt.Scale(domain=list(figure.colours), range=list(figure.colours.values()))
    if max(map(len, figure.colours), default=0) > 3:
        return alt.Color("series:N", title=None, scale=scale)
    return alt.Color("series:N", title=None, scale=scale, legend=alt.Legend(columns=8))


WORDS = 11
"""The height of what stands above a span."""


def _marks(spans: list[Span], until_s: float) -> list[alt.Chart]:
    """Words of neighbours stand at two heights, and those of the last end at its beginning: short spans may
    be close to each other, and to the edge."""
    charts = []
    for number, span in enumerate(sorted(spans)):
        base = alt.Chart(alt.InlineData(values=[span._asdict()])).encode(x=alt.X("from_s:Q"))
        shade = SHADES[number % len(SHADES)]
        charts.append(base.mark_rect(color=shade, opacity=0.25).encode(x2="to_s:Q"))
        charts.append(base.mark_rule(color=shade))
        align: Literal["left", "right"] = "right" if span.from_s > 0.85 * until_s else "left"
        charts.append(
            base.mark_text(align=align, baseline="bottom", dx=1, fontSize=10, color="#444").encode(
                text="what:N", y=alt.value(-2 - WORDS * (number % 2))
            )
        )
    return charts
