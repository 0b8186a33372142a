"""Figures over time: a line per series, and the times of trouble marked behind them."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import altair as alt

WIDTH = 400
HEIGHT = 210
SHADES = ("#f2c14e", "#d1495b", "#8d99ae")


class Point(NamedTuple):
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
    points: list[Point]
    colours: dict[str, str]
    """By series, in the order of the legend."""
    scale: Literal["linear", "sqrt", "log"] = "linear"


def draw(figure: Timeline, spans: list[Span], until_s: float) -> bytes:
    """The figure as PNG, from 0 to `until_s`; figures of one run share the axis."""
    colour = alt.Color(
        "series:N",
        title=None,
        scale=alt.Scale(domain=list(figure.colours), range=list(figure.colours.values())),
    )
    rows = [point._asdict() for point in figure.points if 0 <= point.s <= until_s]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X(
            "s:Q", title="seconds since the load began", scale=alt.Scale(domain=[0, until_s], nice=False)
        ),
        color=colour,
    )
    scale = alt.Scale(type=figure.scale)
    powers = [10**power for power in range(-3, 7)]
    axis = alt.Axis(values=powers, format=",~r") if figure.scale == "log" else alt.Axis()
    layers = [
        base.mark_line(strokeWidth=1.7, opacity=0.9).encode(
            y=alt.Y("value:Q", title=figure.label, scale=scale, axis=axis)
        )
    ]
    dots = alt.Chart(alt.InlineData(values=[row for row in rows if row["high"] is not None]))
    if any(row["high"] is not None for row in rows):
        layers.append(
            dots.mark_point(filled=True, size=9, opacity=0.7).encode(
                x="s:Q", color=colour, y=alt.Y("high:Q", scale=scale, axis=axis)
            )
        )
    return _png(figure.title, [*_marks(spans), *layers])


def _marks(spans: list[Span]) -> list[alt.Chart]:
    charts = []
    for number, span in enumerate(spans):
        base = alt.Chart(alt.InlineData(values=[span._asdict()])).encode(x=alt.X("from_s:Q"))
        shade = SHADES[number % len(SHADES)]
        charts.append(base.mark_rect(color=shade, opacity=0.25).encode(x2="to_s:Q"))
        charts.append(
            base.mark_text(align="left", baseline="bottom", dx=1, fontSize=10, color="#444").encode(
                text="what:N", y=alt.value(-2)
            )
        )
    return charts


def _png(title: str, layers: list[alt.Chart]) -> bytes:
    chart: Any = (
        alt.layer(*layers, width=WIDTH, height=HEIGHT)
        .properties(title=alt.TitleParams(title, offset=14))
        .configure(background="white", font="sans-serif")
        .configure_title(fontSize=13, anchor="start")
        .configure_legend(orient="bottom")
    )
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(chart.to_json(), scale=2))
