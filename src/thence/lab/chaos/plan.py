"""What a trial is made of, drawn from its seed: the settings of the nodes, their load, what goes wrong when.

The same seed gives the same plan. It does not give the same run: processes and kernels have a will of their
own. A plan is drawn so that every kind of trouble comes once before any comes twice. Trouble with a node
(killed, stopped, paused) has the node to itself until it is over; trouble with links may lie over anything.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random
from typing import Final, Literal

POINTS: Final = (
    "before the commit",
    "after the commit",
    "before the rows",
    "in the middle of the rows",
    "after the rows",
)
"""Where a node can be told to die (`crash_points.py`): around the writes of the log and of the trace."""

Kind = Literal[
    "kill", "kill two", "kill all", "kill in start", "kill in step", "stop", "pause",
    "cut", "isolate", "split", "slow",
    "leave", "lose disk",
    "kill chain", "restore", "join group", "leave group",
    "kill for good",
]  # fmt: skip
Link = tuple[str, str]

FOR_S: Final[dict[Kind, tuple[float, float]]] = {
    "kill": (0.0, 4.0),
    "kill two": (0.0, 3.0),
    "kill all": (0.0, 1.0),
    # Within the time that a node takes to start: before it has opened its log, and after.
    "kill in start": (1.0, 3.0),
    "kill in step": (0.5, 2.0),
    "stop": (0.0, 3.0),
    # Around the time after which a silent link is given up: some are not noticed, some are.
    "pause": (0.2, 8.0),
    "cut": (0.5, 6.0),
    "isolate": (0.5, 8.0),
    "split": (0.5, 8.0),
    "slow": (1.0, 6.0),
}
"""How long each lasts, in seconds: from, to."""

COMING: Final[Mapping[Kind, tuple[float, float]]] = {"leave": (0.5, 4.0), "lose disk": (0.5, 4.0)}
"""And where members come and go without any other's consent."""

EDGE_KINDS: Final[Mapping[Kind, tuple[float, float]]] = {
    **COMING,
    "kill chain": (0.0, 4.0),
    # How old the copy is that the disk is put back to.
    "restore": (2.0, 5.0),
    "join group": (0.5, 1.0),
    "leave group": (0.5, 1.0),
}
"""And on an edge tree."""

OF_NODES: Final = (
    "kill", "kill two", "kill all", "kill in start", "kill in step", "stop", "pause", "leave", "lose disk",
    "kill chain", "restore", "join group", "leave group", "kill for good",
)  # fmt: skip

TOLD: Final = 15
"""Links that are told one by one: as many as six nodes have."""

GAP_S: Final = (0.3, 2.0)
"""Between the beginnings of two. Less than most of them last, so that they lie over one another."""

CALM_S: Final = 1.0
"""A plan begins when the nodes have met, and leaves a moment of load at the end."""


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that goes wrong, and ends."""

    at_s: float
    until_s: float
    kind: Kind
    nodes: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    delay_ms: float = 0.0
    starts_s: tuple[float, ...] = ()
    """When the node is started in vain, and killed a little later: pairs of times."""
    point: str = ""
    """Where in a step it dies."""

    def __str__(self) -> str:
        who, pairs = ", ".join(self.nodes), ", ".join(f"{a}-{b}" for a, b in self.links[:TOLD])
        if len(self.links) > TOLD:
            pairs = f"{len(self.links)} links ({pairs}, …)"
        lasts = f"{self.until_s - self.at_s:.1f} s"
        if self.kind == "leave":
            return f"let {who} leave, start it after {lasts}"
        if self.kind == "lose disk":
            return f"kill -9 {who}, which loses its disk, back after {lasts}"
        if self.kind.endswith(" group"):
            return f"let {who} {self.kind.split()[0]} {self.point}"
        if self.kind == "restore":
            return f"kill -9 {who}; after {lasts} its disk is put back to what it is now"
        if self.kind == "stop":
            return f"stop {who} in order, start it after {lasts}"
        if self.kind == "kill in start":
            return f"kill -9 {who}, and again {len(self.starts_s) // 2} × while it starts, back after {lasts}"
        if self.kind == "kill in step":
            return f"kill -9 {who} {self.point}, back after {lasts}"
        if self.kind == "kill for good":
            return f"kill -9 {who} for good"
        if self.kind.startswith("kill"):
            return f"kill -9 {who}, back after {lasts}"
        if self.kind == "pause":
            return f"SIGSTOP {who} for {lasts}"
        if self.kind == "slow":
            return f"{self.delay_ms:.0f} ms more on {pairs} for {lasts}"
        if self.kind == "isolate":
            return f"cut {who} off from all others for {lasts}"
        return f"cut {pairs} for {lasts}"


@dataclass(frozen=True, slots=True)
class Setup:
    """What all nodes are started with."""

    order: str
    sync: str
    segment_bytes: int
    window: int
    inbox_max: int
    message_bytes: int
    rates: tuple[float, ...]
    """Messages per second, by node."""
    spread: str = "mesh"
    ttl_us: int = 0
    """Of logs that forget: shorter than some troubles last, so that states are needed."""

    def flags(self) -> dict[str, object]:
        return {
            "order": self.order,
            "spread": self.spread,
            "log.sync": self.sync,
            "log.segment_bytes": self.segment_bytes,
            "mesh.window": self.window,
            "application.inbox_max": self.inbox_max,
            **({"tree.ttl_us": self.ttl_us} if self.ttl_us else {}),
        }

    def __str__(self) -> str:
        rates = ", ".join(f"{rate:.3g}" for rate in self.rates)
        return (
            f"{self.spread}, order {self.order}, sync {self.sync}, segments of {self.segment_bytes:,} bytes, "
            f"window {self.window:,}, inbox {self.inbox_max:,}, messages of {self.message_bytes:,} bytes, "
            f"{rates} a second"
        )


MANY: Final = 9
"""With more nodes each sends the less: every message is delivered by all of them, on one machine."""


def draw_setup(seed: int, nodes: int, spread: str = "mesh") -> Setup:
    random = Random(f"{seed}/setup")
    few = min(1.0, (MANY / nodes) ** 2 / 5) if nodes > MANY else 1.0
    order = random.choice(["graph", "graph", "graph", "vector" if spread == "mesh" else "none"])
    eco = spread == "eco-sync-tree"
    drawn = Setup(
        order="none" if eco else order,
        sync=("always", "everysec", "no")[seed % 3],  # three rounds in a row have seen them all
        segment_bytes=random.choice([4 << 10, 64 << 10, 1 << 20]),
        window=random.choice([8, 256, 8192]),
        inbox_max=random.choice([16, 8192]),
        message_bytes=random.choice([8, 64, 1000]),
        rates=tuple([few * random.choice([5.0, 50.0, 500.0]) for _ in range(nodes)]),
        spread=spread,
        ttl_us=random.choice([1_000_000, 4_000_000, 20_000_000]) if eco else 0,
    )
    # A segment for every few messages at twenty nodes is three thousand syncs a second on one disk.
    least = 64 * drawn.message_bytes if nodes > MANY else 0
    return replace(drawn, segment_bytes=max(drawn.segment_bytes, least))


def draw_plan(
    seed: int,
    names: Sequence[str],
    seconds: float,
    besides: Mapping[Kind, tuple[float, float]] | None = None,
) -> list[Act]:
    """What goes wrong in so many seconds, in the order of its beginning; all is over at the end. `besides`:
    more that may."""
    lasting = {**FOR_S, **(besides or {})}
    random = Random(f"{seed}/plan")
    free_at = dict.fromkeys(names, 0.0)
    acts: list[Act] = []
    at = CALM_S
    for kind in _kinds(random, len(names), tuple(lasting)):
        shortest, longest = lasting[kind]
        needed = {"kill two": 2, "kill all": len(names)}.get(kind, 1 if kind in OF_NODES else 0)
        if needed:  # of nodes that are in no other trouble
            at = max(at, sorted(free_at.values())[needed - 1])
        if at + shortest > seconds - CALM_S:
            return acts
        until = min(at + random.uniform(shortest, longest), seconds - CALM_S)
        if needed:
            chosen = sorted(random.sample([name for name in names if free_at[name] <= at], needed))
            starts = _starts(random, at, until) if kind == "kill in start" else ()
            point = random.choice(POINTS) if kind == "kill in step" else ""
            acts.append(Act(at, until, kind, nodes=tuple(chosen), starts_s=starts, point=point))
            free_at.update(dict.fromkeys(chosen, until + CALM_S))
        else:
            acts.append(_of_links(random, kind, names, at, until))
        at += random.uniform(*GAP_S)
    raise AssertionError("kinds never end")


def _kinds(random: Random, nodes: int, all_kinds: Sequence[Kind]) -> Iterator[Kind]:
    kinds = [kind for kind in all_kinds if nodes > 2 or kind not in ("kill two", "split")]
    while True:
        random.shuffle(kinds)
        yield from kinds


def _of_links(random: Random, kind: Kind, names: Sequence[str], at: float, until: float) -> Act:
    links = list(combinations(names, 2))
    if kind == "cut":
        return Act(at, until, kind, links=(random.choice(links),))
    if kind == "slow":
        slow, delay_ms = slowed(random, names)
        return Act(at, until, kind, links=slow, delay_ms=delay_ms)
    count = 1 if kind == "isolate" else random.randint(2, max(2, len(names) // 2))
    apart = sorted(random.sample(names, count))
    return Act(at, until, kind, nodes=tuple(apart), links=between(apart, names))


def slowed(random: Random, names: Sequence[str]) -> tuple[tuple[Link, ...], float]:
    """Some links, and by how many milliseconds."""
    links = list(combinations(names, 2))
    chosen = random.sample(links, random.randint(1, len(links)))
    return tuple(sorted(chosen)), random.choice([5.0, 50.0, 300.0])


def between(apart: Sequence[str], names: Sequence[str]) -> tuple[Link, ...]:
    """The links of these with all others."""
    return tuple([link for link in combinations(names, 2) if (link[0] in apart) != (link[1] in apart)])


def _starts(random: Random, at: float, until: float) -> tuple[float, ...]:
    """Times between the two: start, kill, start, kill. A start is given up to a second."""
    times: list[float] = []
    while len(times) < 6:
        start = (times[-1] if times else at) + random.uniform(0.0, 0.2)
        kill = start + random.uniform(0.0, 1.0)
        if kill > until:
            break
        times += [start, kill]
    return tuple(times)
