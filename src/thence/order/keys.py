"""Keys: the entries of an (N, R, K) clock that a member increments.

A member has K of the R entries, numbered from 0. Sets of K entries are numbered in lexicographic order, from
0 to C(R, K) − 1 (algorithm 3 of the probabilistic ordering document, corrected: docs/ERRATA.md). Members
agree on nothing: a member's number is drawn from a stream that its own index seeds, so that every receiver
draws the same, and a member that comes or goes changes no other member's keys.
"""

from collections.abc import Callable, Sequence
from math import comb
from random import Random

from thence.core.errors import UsageError

Assign = Callable[[int], int]
"""From a member to the number of its set."""


def check_clock(entries: int, keys: int) -> None:
    if entries < 1:
        raise UsageError(f"--entries must be at least 1, not {entries}")
    if not 1 <= keys <= entries:
        raise UsageError(f"--keys must be between 1 and the {entries} entries, not {keys}")


def unrank(number: int, entries: int, keys: int) -> tuple[int, ...]:
    """The set of `keys` out of `entries` with this number in lexicographic order."""
    if not 0 <= number < comb(entries, keys):
        raise ValueError(f"set {number} of {comb(entries, keys)}")
    chosen = []
    entry = 0
    for left in range(keys - 1, -1, -1):
        # So many sets begin with what is chosen and `entry`; then as many as there are with the next entry.
        above = entries - 1 - entry
        starting = comb(above, left)
        while number >= starting:
            number -= starting
            starting = starting * (above - left) // above
            above -= 1
            entry += 1
        chosen.append(entry)
        entry += 1
    return tuple(chosen)


def drawn(entries: int, keys: int, seed: int = 0) -> Assign:
    """At random, each set as likely as another. Two members may have the same."""
    sets = comb(entries, keys)

    def assign(member: int) -> int:
        return Random(f"{seed}/keys/{member}").randrange(sets)

    return assign


def drawn_by_name(entries: int, keys: int, names: Sequence[str]) -> Assign:
    """The same where every node has its own indices: the stream is that of the member's name. `names` may
    grow."""
    sets = comb(entries, keys)

    def assign(member: int) -> int:
        return Random(f"keys/{names[member]}").randrange(sets)

    return assign


def numbered(entries: int, keys: int) -> Assign:
    """One after the other: no two members have the same set while there are sets enough. Even with one key
    per member; with more, neighbouring numbers share most of their entries."""
    sets = comb(entries, keys)

    def assign(member: int) -> int:
        return member % sets

    return assign


class Keys:
    """The keys of every member, found when they are first asked for."""

    __slots__ = ("_assign", "_known", "entries", "keys")

    def __init__(self, entries: int, keys: int, assign: Assign | None = None) -> None:
        check_clock(entries, keys)
        self.entries = entries
        self.keys = keys
        self._assign = assign or drawn(entries, keys)
        self._known: dict[int, tuple[int, ...]] = {}

    def __getitem__(self, member: int) -> tuple[int, ...]:
        known = self._known.get(member)
        if known is None:
            known = self._known[member] = unrank(self._assign(member), self.entries, self.keys)
        return known
