"""What the metrics of a trace are, in plain Python: one definition after the other, nothing shared with the
pipeline. And traces to try them on, in which anything may happen that the format allows."""

from collections import defaultdict
from collections.abc import Sequence
from math import ceil
from random import Random
from typing import Any

from thence.trace.schema import Dot, Event

KINDS = ("send", "deliver", "stable", "hold", "duplicate")


def random_trace(rng: Random, size: int = 120) -> list[Event]:
    """Rows without rhyme: times go up and down, are absent, messages were never sent, kinds are unknown."""
    nodes = [f"n{number}" for number in range(rng.randint(1, 5))]
    kinds = (*KINDS * 4, "install", "restart", "evict", "heal", "start", "crash", "receive")
    top = rng.choice([1_000, 3_000_000, 40_000_000])
    events = []
    for pos in range(size):
        kind, node = rng.choice(kinds), rng.choice(nodes)
        origin = node if kind == "send" else rng.choice([*nodes, "gone"])
        about = kind in (*KINDS, "evict")
        deps = [Dot(rng.choice(nodes), rng.randint(1, 9)) for _ in range(rng.randint(0, 3))]
        events.append(
            Event(
                run=rng.choice(["", "r"]),
                node=node,
                pos=pos,
                kind=kind,
                origin=origin if about else None,
                seq=rng.randint(1, 6) if about else None,
                at_us=rng.randint(0, top) if rng.random() < 0.95 else None,
                deps=deps if kind == "send" and rng.random() < 0.7 else None,
            )
        )
    return events


def describe(values: Sequence[int]) -> dict[str, Any]:
    """Count, mean, nearest-rank percentiles, the largest."""
    ordered = sorted(values)
    ranks = {name: ordered[max(0, ceil(len(ordered) * q) - 1)] for name, q in RANKS.items()}
    return {"count": len(ordered), "mean": sum(ordered) / len(ordered), **ranks, "max": ordered[-1]}


RANKS = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


class Model:
    """Of one run."""

    def __init__(self, events: Sequence[Event], bin_us: int) -> None:
        self.bin_us = bin_us
        self.timed = [event for event in events if event.at_us is not None]
        self.dots = {(event.origin, event.seq) for event in events if event.kind == "send"}
        self.sent: dict[tuple[str | None, int | None], int] = {}
        for event in self.of("send"):
            dot = event.origin, event.seq
            self.sent[dot] = min(self.sent.get(dot, self.at(event)), self.at(event))

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.timed if event.kind == kind]

    @staticmethod
    def at(event: Event) -> int:
        assert event.at_us is not None
        return event.at_us

    def since_send(self, kind: str) -> list[tuple[Event, int, int]]:
        """Rows, when their message was sent, and how long before; not where clocks say it was later."""
        found = []
        for event in self.of(kind):
            sent = self.sent.get((event.origin, event.seq))
            if sent is not None and self.at(event) >= sent:
                found.append((event, sent, self.at(event) - sent))
        return found

    def distributions(self) -> dict[tuple[str, str, str, str, int], dict[str, Any]]:
        """By measure, by what, node, origin, bin."""
        values: dict[tuple[str, str, str, str, int], list[int]] = defaultdict(list)
        for measure, kind in (("delivery", "deliver"), ("stability", "stable")):
            for event, sent, took in self.since_send(kind):
                values[measure, "run", "", "", 0].append(took)
                values[measure, "member", event.node, "", 0].append(took)
                values[measure, "bin", "", "", sent // self.bin_us * self.bin_us].append(took)
                if kind == "deliver":
                    values[measure, "link", event.node, str(event.origin), 0].append(took)
        for sent, took in self.broadcasts():
            values["broadcast", "run", "", "", 0].append(took)
            values["broadcast", "bin", "", "", sent // self.bin_us * self.bin_us].append(took)
        for node, took in self.held():
            values["held", "run", "", "", 0].append(took)
            values["held", "member", node, "", 0].append(took)
        return {key: describe(taken) for key, taken in values.items()}

    def broadcasts(self) -> list[tuple[int, int]]:
        since: dict[str, int] = {}
        for event in (*self.of("start"), *self.of("install")):
            since[event.node] = min(since.get(event.node, self.at(event)), self.at(event))
        last: dict[Any, int] = {}
        for event, sent, took in self.since_send("deliver"):
            if since.get(event.node, -1) <= sent:
                dot = event.origin, event.seq
                last[dot] = max(last.get(dot, 0), took)
        return [(self.sent[dot], took) for dot, took in last.items()]

    def held(self) -> list[tuple[str, int]]:
        began: dict[Any, int] = {}
        for event in self.of("hold"):
            if (event.origin, event.seq) in self.dots:
                key = event.node, event.origin, event.seq
                began[key] = min(began.get(key, self.at(event)), self.at(event))
        found = []
        for (node, origin, seq), at in began.items():
            ends = [
                self.at(e) for e in self.of("deliver") if (e.node, e.origin, e.seq) == (node, origin, seq)
            ]
            ends = [end for end in ends if end >= at]
            if ends:
                found.append((node, min(ends) - at))
        return found

    def marks(self) -> set[tuple[str, str, str, int, int | None]]:
        """Change, node, about, when, how long."""
        found = set()
        names = {
            "install": ("join", "deliver"),
            "restart": ("restart", "deliver"),
            "evict": ("evict", "stable"),
        }
        for kind, (change, until) in names.items():
            for event in self.of(kind):
                ends = [
                    self.at(e)
                    for e in self.of(until)
                    if e.node == event.node and self.at(e) >= self.at(event)
                ]
                about = str(event.origin) if kind == "evict" else ""
                found.add(
                    (change, event.node, about, self.at(event), min(ends) - self.at(event) if ends else None)
                )
        return found

    def catch_ups(self) -> set[tuple[str, str, int, int, int]]:
        """Change, node, when, deliveries of messages from before it, how long the last of them took."""
        found = set()
        for kind, change in (("install", "join"), ("restart", "restart")):
            for event in self.of(kind):
                at = self.at(event)
                late = [
                    sent + took
                    for row, sent, took in self.since_send("deliver")
                    if row.node == event.node and sent < at <= sent + took
                ]
                found.add((change, event.node, at, len(late), max(late, default=at) - at))
        return found

    def heals(self) -> set[tuple[int, int, int]]:
        """When, deliveries that came after it, how long the last of them took."""
        found = set()
        for heal in {self.at(event) for event in self.of("heal")}:
            late = [sent + took for _, sent, took in self.since_send("deliver") if sent < heal <= sent + took]
            found.add((heal, len(late), max(late, default=heal) - heal))
        return found


def models(events: Sequence[Event], bin_us: int) -> dict[str, Model]:
    """Of each run."""
    runs = sorted({event.run for event in events})
    return {run: Model([event for event in events if event.run == run], bin_us) for run in runs}
