"""What happens to a changing group in a trial, drawn from its seed: who comes, who goes, and what goes wrong.

As in `plan`, a seed gives the same plan again, not the same run, and every kind comes once before any comes
twice, as far as there is a node that it can happen to: none joins while all are in. A plan keeps
`LEAST` members that nothing takes away for good. Trouble with links lies over everything else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final, Literal

from thence.lab.chaos.plan import CALM_S, POINTS, Link, Setup, between, draw_setup, slowed

Kind = Literal[
    "join", "leave", "kill", "kill most", "kill in step", "stop", "pause", "away",
    "restore",
    "kill for good", "lose disk", "kill and evict", "pause and evict", "evict", "evict each other",
    "cut", "isolate", "split", "split and evict", "slow",
]  # fmt: skip

FOR_S: Final[dict[Kind, tuple[float, float]]] = {
    # How long their nodes are left alone: joins and leaves take less unless other trouble lies over them.
    "join": (0.5, 1.5),
    "leave": (1.0, 2.0),
    "kill": (0.0, 3.0),
    "kill most": (0.0, 1.0),
    "kill in step": (0.5, 2.0),
    "stop": (0.0, 2.0),
    # Around the time after which a silent link is given up.
    "pause": (0.2, 6.0),
    # Long enough for the others to have thousands of messages that are not stable.
    "away": (8.0, 14.0),
    # How old the copy is that the disk is put back to.
    "restore": (2.0, 6.0),
    # Until it is evicted.
    "kill for good": (0.0, 3.0),
    "lose disk": (0.0, 3.0),
    # Evicted on half the way, back at the end: as a new incarnation.
    "kill and evict": (1.0, 4.0),
    "pause and evict": (1.0, 4.0),
    # Members that are evicted and live return within about a second.
    "evict": (1.0, 2.0),
    "evict each other": (1.0, 2.0),
    "cut": (1.0, 6.0),
    "isolate": (0.5, 5.0),
    "split": (0.5, 5.0),
    # Evicted on half the way, mended at the end.
    "split and evict": (2.0, 6.0),
    "slow": (1.0, 5.0),
}
"""How long each lasts, in seconds: from, to."""

OF_LINKS: Final = ("cut", "isolate", "split", "split and evict", "slow")
EVICTING: Final = ("kill for good", "kill and evict", "pause and evict", "evict", "evict each other",
                   "split and evict")  # fmt: skip
OFTEN: Final[tuple[Kind, ...]] = ("join", "leave")
"""These come twice as often."""

LEAST: Final = 3
"""Members that stay: with fewer, most trouble would be trouble of all."""
TOGETHER: Final = 5
"""Most that join at once."""
GAP_S: Final = (0.2, 1.2)
"""Between the beginnings of two. Less than most of them last, so that they lie over one another."""

STUCK_S: Final = 2.0
"""What is left over may be impossible for good, as joins are while all are in: all kinds again."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that happens, and ends."""

    at_s: float
    until_s: float
    kind: Kind
    nodes: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    """The contact that one joins through, or who evicts: where links are cut, one of each side."""
    links: tuple[Link, ...] = ()
    delay_ms: float = 0.0
    point: str = ""
    """Where in a step it dies."""

    @property
    def evict_s(self) -> float:
        if self.kind == "kill for good":
            return self.until_s
        return self.at_s if not self.links and "and" not in self.kind else (self.at_s + self.until_s) / 2

    def __str__(self) -> str:
        who, by, lasts = ", ".join(self.nodes), " and ".join(self.by), f"{self.until_s - self.at_s:.1f} s"
        pairs = ", ".join(f"{a}-{b}" for a, b in self.links)
        words = {
            "join": f"{who} joins through {by}" if len(self.nodes) == 1 else f"{who} join through {by}",
            "leave": f"{who} leaves",
            "kill": f"kill -9 {who}, back after {lasts}",
            "kill most": f"kill -9 {who}, back after {lasts}",
            "kill in step": f"kill -9 {who} {self.point}, back after {lasts}",
            "stop": f"stop {who} in order, start it after {lasts}",
            "pause": f"SIGSTOP {who} for {lasts}",
            "restore": f"kill -9 {who}; after {lasts} its disk is put back to what it is now",
            "away": f"kill -9 {who}, and no member evicts it; back after {lasts}",
            "kill for good": f"kill -9 {who} for good, evicted by {by} after {lasts}",
            "lose disk": f"kill -9 {who}, and everything on its disk is lost; back after {lasts}",
            "kill and evict": f"kill -9 {who}, evicted by {by} meanwhile, back after {lasts}",
            "pause and evict": f"SIGSTOP {who} for {lasts}, evicted by {by} meanwhile",
            "evict": f"{who} is evicted by {by}, though it lives",
            "evict each other": f"{who} evict each other",
            "slow": f"{self.delay_ms:.0f} ms more on {pairs} for {lasts}",
            "cut": f"cut {pairs} for {lasts}",
            "isolate": f"cut {who} off from all others for {lasts}",
            "split": f"cut {who} off from the rest for {lasts}",
            "split and evict": f"cut {who} off from the rest for {lasts}; "
            f"meanwhile {by} evict all on the other side",
        }
        return words[self.kind]


CROWD: Final = 9
"""More nodes than that do not send much."""


@dataclass(frozen=True, slots=True)
class ChangingSetup:
    """What all nodes are started with."""

    base: Setup
    founders: int
    filler: int
    """Bytes of application state besides the tally."""
    readers: tuple[str, ...] = ()
    """Nodes whose program has no state."""
    history_bytes: int = 16 << 20
    """Of log that is kept for such programs."""

    def flags(self) -> dict[str, object]:
        return {
            "spread": self.base.spread,
            "log.sync": self.base.sync,
            "log.segment_bytes": self.base.segment_bytes,
            "group.history_bytes": self.history_bytes,
        }

    def __str__(self) -> str:
        rates = ", ".join(f"{rate:.3g}" for rate in self.base.rates)
        return (
            f"{self.base.spread}, {self.founders} found the group, sync {self.base.sync}, segments of "
            f"{self.base.segment_bytes:,} bytes, messages of {self.base.message_bytes:,} bytes, {rates} a "
            f"second, {self.filler:,} bytes of state; programs of {', '.join(self.readers) or 'no node'} "
            f"have none, and logs keep {self.history_bytes:,} bytes for them"
        )


def draw_changing_setup(seed: int, names: Sequence[str], spread: str = "mesh") -> ChangingSetup:
    """About half of the nodes only read, one of them at least, and not all."""
    random, reading, nodes = Random(f"{seed}/changing setup"), Random(f"{seed}/reading"), len(names)
    most = 20.0 if nodes > CROWD else 100.0
    rates = tuple([random.choice([2.0, 20.0, most]) for _ in range(nodes)])
    return ChangingSetup(
        base=replace(draw_setup(seed, nodes), order="graph", rates=rates, spread=spread),
        founders=random.randint(min(LEAST, nodes - 1), nodes - 1),
        filler=random.choice([0, 10_000, 1_000_000]),
        readers=tuple(sorted(reading.sample(names, reading.randint(1, nodes - 1)))),
        history_bytes=reading.choice([1, 1, 16 << 20]),
    )


def draw_changes(seed: int, names: Sequence[str], founders: int, seconds: float) -> list[Change]:
    """What happens in so many seconds, in the order of its beginning; all is over at the end."""
    return _Plan(Random(f"{seed}/changes"), names, founders, seconds).draw()


class _Plan:
    def __init__(self, random: Random, names: Sequence[str], founders: int, seconds: float) -> None:
        self._random: Final = random
        self._names: Final = list(names)
        self._seconds: Final = seconds
        self._inside: Final = list(names[:founders])
        self._outside: Final = list(names[founders:])
        self._free_at: Final = dict.fromkeys(names, 0.0)
        self._split_until = 0.0
        """Two partitions at once with evictions in each leave sides of one, which return all day long."""

    def draw(self) -> list[Change]:
        changes: list[Change] = []
        at, left = CALM_S, self._kinds()
        while True:
            if changes and at > changes[-1].at_s + STUCK_S:
                left = self._kinds()
            for kind in left:
                until = min(at + self._random.uniform(*FOR_S[kind]), self._seconds - CALM_S)
                if until < at + FOR_S[kind][0]:
                    continue
                change = self._change(kind, at, until)
                if change is not None:
                    changes.append(change)
                    left.remove(kind)
                    left = left or self._kinds()
                    break
            at += self._random.uniform(*GAP_S)
            if at > self._seconds - CALM_S:
                return changes

    def _kinds(self) -> list[Kind]:
        """First joins: whatever happens then happens to more."""
        kinds: list[Kind] = [*FOR_S, *OFTEN]
        self._random.shuffle(kinds)
        return ["join", *kinds]

    def _free(self, among: Sequence[str], at: float) -> list[str]:
        return [name for name in among if self._free_at[name] <= at]

    def _change(self, kind: Kind, at: float, until: float) -> Change | None:
        """None: there is no node that it could happen to now."""
        if kind in OF_LINKS:
            return self._of_links(kind, at, until)
        if kind == "join":
            return self._join(at, until)
        free = self._free(self._inside, at)
        goes = kind in ("leave", "kill for good")
        if goes and len(self._inside) <= LEAST:
            return None
        if kind == "kill for good" and len(self._inside) + len(self._outside) <= LEAST + 1:
            return None
        count = 2 if kind == "evict each other" else 1
        if kind == "kill most":  # all that are in no other trouble
            count = max(len(free), 1 + len(self._inside) // 2)
        by = 1 if kind in EVICTING and kind != "evict each other" else 0
        if len(free) < count + by:
            return None
        chosen = self._random.sample(free, count + by)
        nodes, callers = tuple(sorted(chosen[:count])), tuple(chosen[count:])
        self._free_at.update(dict.fromkeys(chosen, until + CALM_S))
        if goes:
            self._inside.remove(nodes[0])
        if kind == "leave":
            self._outside.append(nodes[0])
        point = self._random.choice(POINTS) if kind == "kill in step" else ""
        return Change(at, until, kind, nodes, nodes if kind == "evict each other" else callers, point=point)

    def _join(self, at: float, until: float) -> Change | None:
        free, contacts = self._free(self._outside, at), self._free(self._inside, at)
        if not free or not contacts:
            return None
        nodes = self._random.sample(free, self._random.randint(1, min(TOGETHER, len(free))))
        by = (self._random.choice(contacts),)
        for name in nodes:
            self._outside.remove(name)
            self._inside.append(name)
            self._free_at[name] = until + CALM_S
        return Change(at, until, "join", tuple(sorted(nodes)), by)

    def _of_links(self, kind: Kind, at: float, until: float) -> Change | None:
        random, names = self._random, self._names
        if kind == "cut":
            return Change(at, until, kind, links=(tuple(sorted(random.sample(self._inside, 2))),))  # type: ignore[arg-type]
        if kind == "slow":
            slow, delay_ms = slowed(random, names)
            return Change(at, until, kind, links=slow, delay_ms=delay_ms)
        count = 1 if kind == "isolate" else random.randint(1, len(self._inside) - 1)
        apart = random.sample(self._inside, count)
        if kind != "isolate":  # newcomers belong to one of the sides as well
            apart += [name for name in names if name not in self._inside and random.random() < 0.5]
        by: tuple[str, ...] = ()
        if kind == "split and evict":
            free = self._free(self._inside, at)
            sides = [[n for n in free if n in apart], [n for n in free if n not in apart]]
            if not all(sides) or at < self._split_until:
                return None
            by = tuple([random.choice(side) for side in sides])
            self._free_at.update(dict.fromkeys(by, until))
            self._split_until = until + 2 * CALM_S
        return Change(at, until, kind, tuple(sorted(apart)), by, between(apart, names))
