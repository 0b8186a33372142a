"""Errors of an order that may err, and whether the node noticed."""

from collections.abc import Iterable

from thence.check.facts import Facts, dot_of
from thence.check.replay import Replay
from thence.trace.schema import Event

Delivery = tuple[str, str]
"""A node, and a message that it delivered before its causes."""


def early(events: Iterable[Event]) -> dict[Delivery, bool]:
    """All of them. Did a cause come to that node after it? A node notices an error when it gets the cause;
    one that goes for good before that never knows."""
    replay, found = Replay(Facts(events)), dict[Delivery, bool]()
    for node, steps in replay.steps.items():
        came = {dot_of(step.row): at for at, step in enumerate(steps) if step.row.kind == "deliver"}
        for at, step in enumerate(steps):
            missed = [dot for dot in step.lacking if dot.origin != node]
            if missed and not step.held and step.row.kind == "deliver":
                found[node, str(dot_of(step.row))] = any(came.get(dot, -1) > at for dot in missed)
    return found


def undoubted(events: Iterable[Event]) -> set[Delivery]:
    """Errors of which no row tells at their node, though a cause came there."""
    rows = list(events)
    doubted = {(row.node, f"{row.origin}:{row.seq}") for row in rows if row.kind == "doubt"}
    return {delivery for delivery, noticeable in early(rows).items() if noticeable} - doubted
