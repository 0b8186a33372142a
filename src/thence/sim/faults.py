"""What goes wrong during a run, and when: a plan made before it starts."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """From `at_us` to `until_us` nothing sent over these directed links arrives."""

    at_us: int
    until_us: int
    links: frozenset[tuple[int, int]]

    @property
    def nodes(self) -> list[int]:
        """At either end of them."""
        return sorted({node for link in self.links for node in link})


@dataclass(frozen=True, slots=True)
class Pause:
    """From `at_us` to `until_us` a node does nothing; what arrives waits."""

    at_us: int
    until_us: int
    node: int


@dataclass(frozen=True, slots=True)
class Crash:
    """From `at_us` to `until_us` a node is down: what arrives is lost, and so are its timers. Then it
    comes back with everything that it knew."""

    at_us: int
    until_us: int
    node: int


@dataclass(frozen=True, slots=True)
class Death:
    """At `at_us` a node of an addressed run dies for good; at `until_us` its neighbours know. What it
    has sent is under way."""

    at_us: int
    until_us: int
    node: int


@dataclass(frozen=True, slots=True)
class PlannedJoin:
    """A node of an addressed run is there from `at_us` on: an application. A member of a separator its
    neighbours adopt one by one until `until_us`; when all members have, it begins."""

    at_us: int
    until_us: int
    node: int


Fault = Cut | Pause | Crash | Death | PlannedJoin


@dataclass(frozen=True, slots=True)
class Plan:
    """The faults of one run, and the links that are slow all along."""

    faults: tuple[Fault, ...] = ()
    slow: frozenset[tuple[int, int]] = frozenset()

    @property
    def over_us(self) -> int:
        """From when on nothing goes wrong any more."""
        return max([fault.until_us for fault in self.faults], default=0)


def between(one: Iterable[int], other: Iterable[int]) -> frozenset[tuple[int, int]]:
    """The links from every node of `one` to every node of `other`."""
    targets = tuple(other)
    return frozenset((a, b) for a in one for b in targets)


def apart(one: Iterable[int], other: Iterable[int]) -> frozenset[tuple[int, int]]:
    """The links in both directions."""
    left, right = tuple(one), tuple(other)
    return between(left, right) | between(right, left)
