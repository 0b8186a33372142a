"""Processes of a changing group whose disks are put back to an earlier state, as from a backup."""

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Restore:
    """At `saved_us` a backup is made of a process's disk, at `down_us` it takes the disk's place, and at
    `up_us` the process is started."""

    saved_us: int
    down_us: int
    up_us: int
    process: int


def draw_restores(seed: int | str, processes: int, span_us: int) -> tuple[Restore, ...]:
    """What is put back in the storm of a seed, with a source of chance of its own."""
    random = Random(f"{seed}/restores")
    found = []
    for _ in range(random.randint(1, 3)):
        saved = random.randrange(span_us // 10, span_us)
        down = saved + random.randrange(1, span_us)
        found.append(Restore(saved, down, down + random.randrange(1, 2_000_000), random.randrange(processes)))
    return tuple(found)
