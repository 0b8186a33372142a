"""The figures of the tour, all over the same time, with joins, leaves and troubles marked."""

from typing import Any

import pyarrow as pa

from thence.lab.tour import measure
from thence.lab.tour.live import Story
from thence.pages.charts import COLOURS, Chart
from thence.pages.timeline import Span, Timeline, TimelinePoint, draw


def figures(spark: Any, rows: pa.Table, story: Story) -> list[Chart]:
    until_s = max((story.samples[-1].at_us - story.begun_us) / 1e6, 1.0)
    made = [
        Timeline(
            title="How long a message took, by when it was sent",
            label="ms: median (line), 99 % (dots)",
            points=measure.latencies(spark, rows, story),
            colours=_kinds(story),
            scale="log",
        ),
        _of_nodes("Lag: messages that a member has not acknowledged", "messages", measure.lags(story)),
        _of_nodes("Messages not yet stable", "messages", measure.unstable(story)),
        Timeline(
            title="Deliveries a second",
            label="deliveries a second (square root)",
            points=(rates := measure.rates(rows, story)),
            colours=_colours(rates),
            scale="sqrt",  # catching up is tens of times faster than the load
        ),
    ]
    return [draw(figure, spans(story), until_s) for figure in made]


def spans(story: Story) -> list[Span]:
    return [
        Span((begun - story.begun_us) / 1e6, (ended - story.begun_us) / 1e6, what)
        for begun, ended, what in (
            (story.joins_us, story.joined_us, f"{story.newcomer} joins"),
            (story.cut_us, story.mended_us, f"{story.lonely} cut off"),
            (story.killed_us, story.back_us, f"{story.victim} down"),
            (story.asleep_us, story.returned_us, f"{story.sleeper} asleep"),
            (story.leaves_us, story.left_us, f"{story.newcomer} leaves"),
        )
    ]


def _of_nodes(title: str, label: str, points: list[TimelinePoint]) -> Timeline:
    return Timeline(title=title, label=label, points=points, colours=_colours(points))


def _colours(points: list[TimelinePoint]) -> dict[str, str]:
    names = sorted({point.series for point in points})
    return {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}


def _kinds(story: Story) -> dict[str, str]:
    """The colours of the two nodes are those that they have in the other figures."""
    return dict(zip(measure.kinds(story), (COLOURS[2], COLOURS[1], COLOURS[0]), strict=True))
