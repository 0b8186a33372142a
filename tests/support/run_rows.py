"""From a finished model run to the rows of a trace: stable rows, metric rows, lost beginnings, places.

All of it needs the whole run: whether a message is stable depends on what comes later, and a trace
that begins midway is a whole one without its head.
"""

from random import Random

import msgspec

from support.run_model import Record, World
from thence.trace.schema import Dot, Event

METRIC_KINDS = ("receive", "duplicate", "replay", "sync", "link")


def dot_of(event: Event) -> Dot | None:
    return None if event.origin is None or event.seq is None else Dot(event.origin, event.seq)


def with_stables(world: World) -> list[Record]:
    """Add some of the stable rows that the definition allows, repeated ones among them."""
    found: list[tuple[int, Dot]] = []
    for index, record in enumerate(world.log):
        event = record.event
        if event.kind in ("start", "leave", "crash"):
            continue
        member = world.members[event.node]
        rest = [later.event for later in world.log[index + 1 :] if later.event.node == event.node]
        later_dots = [dot for dot in map(dot_of, (e for e in rest if e.kind == "deliver")) if dot]
        for dot in sorted(record.held, key=str):
            if not world.addressed(dot, event.node) or member.voids(dot):
                continue
            if all(dot == other or dot in world.messages[other].past for other in later_dots):
                found.append((index, dot))
    chosen = world.rng.sample(found, min(len(found), world.rng.choice((0, 1, 2, 4, 8))))
    log = list(world.log)
    for index, dot in sorted(chosen, key=lambda choice: -choice[0]):
        record = world.log[index]
        event = Event(node=record.event.node, pos=0, kind="stable", origin=dot.origin, seq=dot.seq)
        log.insert(index + 1, Record(event, record.held, record.known))
    return log


def without_beginning(world: World, log: list[Record]) -> list[Event]:
    """Drop a head of the run. Who was there begins with the state that it had; if some message of
    the head would then be unknown to the trace, keep the head."""
    cut = world.rng.randint(1, len(log))
    head, tail = log[:cut], [record.event for record in log[cut:]]
    begin: list[Event] = []
    reach: dict[str, int] = {}
    for name in sorted({record.event.node for record in head}):
        mine = [record for record in head if record.event.node == name]
        if mine[-1].event.kind in ("leave", "crash") and not any(event.node == name for event in tail):
            continue
        frontier = {dot.origin: dot for dot in sorted(mine[-1].known, key=lambda dot: dot.seq)}
        own = [record.event.seq or 0 for record in mine if record.event.kind == "send"]
        if own or world.rng.random() < 0.3:
            frontier[name] = Dot(name, max(own, default=0))
        for dot in frontier.values():
            reach[dot.origin] = max(dot.seq, reach.get(dot.origin, 0))
        if world.rng.random() < 0.7:
            begin.append(Event(node=name, pos=0, kind="start"))
        kind = world.rng.choice(("restart", "restart", "install"))
        begin.append(Event(node=name, pos=0, kind=kind, deps=list(frontier.values())))
        begin += [record.event for record in mine if record.event.kind == "evict"]
    dots = [dot for dot in (dot_of(r.event) for r in head if r.event.kind == "send") if dot]
    if not begin or any(dot.seq > reach.get(dot.origin, 0) for dot in dots):
        return [record.event for record in log]
    return begin + tail


def with_metrics(rng: Random, world: World, events: list[Event]) -> list[Event]:
    nodes = [*world.members, "onlooker"]
    for _ in range(rng.choice((0, 0, 1, 5))):
        origin = rng.choice(nodes)
        row = Event(
            node=rng.choice(nodes), pos=0, kind=rng.choice(METRIC_KINDS), origin=origin, seq=rng.randint(0, 9)
        )
        events.insert(rng.randint(0, len(events)), row)
    return events


def with_lives(rng: Random, world: World, events: list[Event]) -> list[Event]:
    """Say of each node, in one row at least, which process it is if that is not what its name says."""
    rows = list(events)
    for name, member in world.members.items():
        mine = [index for index, event in enumerate(rows) if event.node == name]
        usual = member.number == 1
        if not mine or (usual and rng.random() < 0.5):
            continue
        for column, value in (("process", member.process), ("incarnation", member.number)):
            for index in rng.sample(mine, rng.choice((1, 1, rng.randint(1, len(mine)), len(mine)))):
                rows[index] = msgspec.structs.replace(rows[index], **{column: value})
    return rows


def placed(rng: Random, events: list[Event], run: str, group: str) -> list[Event]:
    """Give every row its place in its node's order, with gaps, and mix up the rows."""
    gap = rng.choice((1, 1, 3, 2**40))
    next_pos: dict[str, int] = {}
    rows: list[Event] = []
    for index, event in enumerate(events):
        pos = next_pos.setdefault(event.node, rng.randint(0, 5))
        next_pos[event.node] = pos + rng.randint(1, gap)
        at_us = event.at_us if event.at_us is not None else index * 1000
        rows.append(msgspec.structs.replace(event, run=run, group=group, pos=pos, at_us=at_us))
    if rng.random() < 0.5:
        rng.shuffle(rows)
    return rows
