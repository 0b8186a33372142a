"""Members of a changing group that are told to leave while others evict each other, are away, or die.

Some processes stay: they neither leave nor die, so that each of the others has a member to leave what it has
to, and must leave in order.
"""

from dataclasses import dataclass
from random import Random

STAY = 3
"""More than one, so that they can evict each other and come back through each other."""

SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Parting:
    """At `at_us` a process is told to leave, if it has company, and at `back_us` to join again."""

    leaver: int
    at_us: int
    back_us: int
    evictions: tuple[tuple[int, int, int], ...]
    """When, by which process, and which."""
    away: int
    """A process that is down for a while."""
    down_us: int
    up_us: int
    dies: bool
    """It does not come back, unless it is one that stays."""
    cut_us: int
    heal_us: int
    """In between, if there is anything, these two are cut off from all others; the leaver goes on without
    them."""


def draw_partings(seed: int | str, processes: int, span_us: int) -> tuple[Parting, ...]:
    """Those in the storm of a seed, with a source of chance of its own."""
    random = Random(f"{seed}/partings")
    if processes <= STAY:
        return ()
    return tuple([_draw(random, processes, span_us) for _ in range(random.choice((1, 1, 2, 4)))])


def _draw(random: Random, processes: int, span_us: int) -> Parting:
    at, evictions = random.randrange(span_us // 8, span_us), list[tuple[int, int, int]]()

    def around() -> int:
        return max(0, at + random.randrange(-3 * SECOND, 3 * SECOND))

    leaver, away = random.randrange(STAY, processes), random.randrange(processes)
    down, cut = around(), around()
    heal = cut
    for _ in range(random.randint(0, 3)):
        one, other = random.sample(range(processes), 2)
        when = around()
        evictions.append((when, one, other))
        if random.random() < 0.7:
            evictions.append((when + random.choice((0, 1_000, 50_000, SECOND)), other, one))
    if random.random() < 0.5:
        away = random.choice([other for other in range(processes) if other != leaver])
        heal += random.randrange(2 * SECOND, 8 * SECOND)
        at, down, when = [random.randrange(cut, heal) for _ in range(3)]
        rest = [other for other in range(processes) if other not in (leaver, away)]
        evictions += [(when, leaver, other) for other in rest]
        if random.random() < 0.7:  # each of the others by the one before it: all of them come back
            apart = (heal - cut) // (len(rest) + 1)
            evictions += [(cut + apart * turn, rest[turn - 1], other) for turn, other in enumerate(rest)]
    return Parting(
        leaver=leaver,
        at_us=at,
        back_us=at + random.randrange(1, 8 * SECOND),
        evictions=tuple(evictions),
        away=away,
        down_us=down,
        up_us=down + random.randrange(1, 8 * SECOND),
        dies=away >= STAY and random.random() < 0.5,
        cut_us=cut,
        heal_us=heal,
    )
