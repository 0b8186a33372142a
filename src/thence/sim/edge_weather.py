"""What is drawn from a seed before a storm over an edge tree begins (`sim.edge_storm`)."""

from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from thence.oplog.policy import Policy
from thence.sim.air import Air
from thence.spread.edge_book import EdgeSettings

MS = 1_000
SECOND = 1_000 * MS

Kind = Literal["hostile", "chaos", "chains"]
KINDS: tuple[Kind, ...] = ("hostile", "chaos", "chains")


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeWeather:
    """What is drawn before a storm begins."""

    kind: Kind
    nodes: int
    degree: int
    groups: int
    span_us: int
    interval_us: int
    troubles: int
    air: Air
    settings: EdgeSettings
    take_us: int = 0
    payload_bytes: int = 0
    sync: Policy = "always"
    """Of all but the root."""
    run: int = 1
    """Messages that a program sends in one turn, at most."""
    lasts_us: int = 2 * SECOND
    """How long a process is down or a link is cut, at most; other trouble takes half of that."""
    brief: bool = False
    """It begins as soon as all are attached and joined."""


MORE_FROM = 10_000
"""Storms with these seeds also draw when logs are synced, and whether nodes move back under their parents.
Those before keep what they once found."""
RUNS_FROM = 200_000
"""And those from here on send several messages in one turn."""
BRIEF_FROM = 2_000_000
"""And those from here on are over soon: as much trouble, in less time, with fewer messages. Many of them find
more than few of those before."""

CHUNKS_FROM = 4_000_000
"""And those from here on make and send states in turns of a few bytes."""


def draw_edge(seed: int) -> EdgeWeather:
    random = Random(f"{seed}/edge")
    kind = KINDS[seed % len(KINDS)]
    few = kind == "chaos"
    nodes = random.randint(4, 8) if few else random.randint(5, random.choice((12, 24)))
    beat = 100 * MS
    settings = EdgeSettings(
        delta=random.randint(1, 3),
        heartbeat_us=beat,
        suspect_us=random.choice((4, 8)) * beat,
        drop_us=random.choice((8, 12)) * beat,
        attach_us=random.choice((2, 5)) * beat,
        probe_us=random.choice((0, 20 * MS, 100 * MS)),
        linger_us=random.choice((0, 5, 12)) * beat,
        keep_us=random.choice((0, 0, 3, 10, 100)) * beat,
        alone_us=random.choice((5, 30, 300)) * beat,
        status_us=random.choice((0, 1 * MS, 20 * MS)),
        window=random.choice((1, 4, 1024, 1024)),
    )
    air = Air(
        latency_us=10 * MS,
        jitter_us=random.choice((2 * MS, 50 * MS)),
        links=True,
        loss=random.choice((0.0, 0.05, 0.3)) if few else random.choice((0.0, 0.02)),
        wire=random.random() < 0.2,
        starve=random.choice((0.1, 0.3)) if few else 0.0,
    )
    span_us, sends = random.randint(3, 8) * SECOND, random.choice((60, 150, 300))
    sync: Policy = "always"
    if seed >= MORE_FROM:
        more = Random(f"{seed}/edge more")
        sync = more.choice(("always", "everysec", "no"))
        settings = replace(
            settings, rehome_us=more.choice((0, 5, 20)) * beat, greet_us=more.choice((0, 5)) * beat
        )
    run, payload_bytes = 1, 0
    if seed >= RUNS_FROM:
        runs = Random(f"{seed}/edge runs")
        run, payload_bytes = runs.choice((1, 3, 20)), runs.choice((0, 0, 200))
        settings = replace(
            settings,
            packet_bytes=runs.choice((300, 1 << 20)),
            window_bytes=runs.choice((100, 5_000, 4 << 20)),
            inbox_max=runs.choice((1, 3, 8192)),
        )
    if seed >= CHUNKS_FROM:
        settings = replace(settings, turn_bytes=Random(f"{seed}/edge chunks").choice((1, 100, 1000, 1 << 20)))
    brief, lasts_us = seed >= BRIEF_FROM, 2 * SECOND
    if brief:
        short = Random(f"{seed}/edge brief")
        span_us, lasts_us = short.randint(5, 30) * beat, short.choice((3, 10)) * beat
        sends, run = short.choice((40, 80, 160)), short.choice((1, 1, 2, 5))
        if settings.window == 1:  # each step is a packet then
            settings = replace(settings, window=short.choice((1, 2, 2, 2)))
    return EdgeWeather(
        brief=brief,
        lasts_us=lasts_us,
        kind=kind,
        sync=sync,
        run=run,
        payload_bytes=payload_bytes,
        nodes=nodes,
        degree=random.randint(2, 5),
        groups=random.randint(2, 8),
        span_us=span_us,
        interval_us=span_us * nodes // sends,
        troubles=random.randint(nodes // 4, 2 * nodes),
        air=air,
        settings=settings,
        take_us=random.choice((0, 0, 0, 200 * MS)),
    )


def tree_of(nodes: int, degree: int, random: Random, deep: bool = True) -> dict[str, str]:
    """Parents by name, the root first. A deep tree grows where it grew last, another one anywhere."""
    names = [f"n{number}" for number in range(nodes)]
    parents, children = {names[0]: ""}, dict.fromkeys(names, 0)
    for at, name in enumerate(names[1:], 1):
        open_ones = [other for other in names[:at] if children[other] < degree]
        parent = random.choice(open_ones[-2 * degree :] if deep else open_ones)
        children[parent] += 1
        parents[name] = parent
    return parents
