"""Storms and schedules over changing groups, and what is wrong with them."""

from dataclasses import replace
from random import Random

from thence.check import judge
from thence.sim.groups_storm import SECOND, Storm, draw
from thence.trace.schema import Event


def judged(why: str, events: list[Event]) -> str:
    """What is wrong with a run that says `why` of itself; if nothing, the trace has the last word."""
    for verdict in judge(events) if not why else ():
        if not verdict.ok:
            kinds = [kind for kind, count in verdict.violations.items() if count]
            why = why or f"{', '.join(kinds)}: {verdict.flagged[:3]}"
    return why


def trouble(seed: int) -> str:
    """What is wrong with the storm of a seed, if anything."""
    storm = Storm(seed)
    return judged(storm(), storm.events())


def trouble_in_a_glass(seed: int) -> str:
    """The same for a short storm with few messages and much trouble: many of these fit into a second."""
    random = Random(f"{seed}/glass")
    weather = draw(seed)
    storm = Storm(
        seed,
        replace(
            weather,
            processes=random.choice((3, 4, 5)),
            founders=4,
            span_us=5 * SECOND,
            interval_us=random.choice((300_000, 700_000)),
            troubles=random.randint(4, 9),
            air=replace(weather.air, wire=False, latency_us=10_000, jitter_us=10_000),
        ),
    )
    return judged(storm(), storm.events())
