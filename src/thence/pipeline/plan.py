"""Which task judges what: large runs in several blocks of columns, small runs many to a task.

The plan is made from the packed pieces' counts alone. It balances two costs: every block of a run gets
all of the run's rows, and the matrix of pasts (messages × columns) must fit into a task's memory.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

# Below this a run is judged faster in one task than its rows are sent twice.
EVENTS_PER_BLOCK: Final = 1_000_000
COLUMNS_PER_BLOCK_MIN: Final = 16
MATRIX_BYTES_MAX: Final = 1 << 30
# What a run costs however small it is, as events that take as long.
EVENTS_PER_RUN: Final = 5_000
EVENTS_PER_TASK: Final = 500_000
# A task holds the packed rows of all its runs at once.
EVENTS_PER_TASK_MAX: Final = 1 << 26


class Size(NamedTuple):
    """How much one run holds."""

    run: str
    group: str
    events: int
    sends: int
    columns: int


class Share(NamedTuple):
    """One block of one run, and the task that judges it."""

    run: str
    group: str
    block: int
    blocks: int
    task: int


def blocks_of(size: Size, parallelism: int) -> int:
    """Into how many blocks a run is cut."""
    for_memory = -(-size.sends * size.columns * 4 // MATRIX_BYTES_MAX)
    for_speed = min(parallelism, size.events // EVENTS_PER_BLOCK, size.columns // COLUMNS_PER_BLOCK_MIN)
    return max(1, min(max(for_memory, for_speed), size.columns))


def plan(sizes: Sequence[Size], parallelism: int, blocks: int | None = None) -> list[Share]:
    """A share for every block, largest first to the least loaded task. `blocks` forces a number of blocks."""
    cut = [(size, blocks or blocks_of(size, parallelism)) for size in sorted(sizes)]
    total = sum((size.events + EVENTS_PER_RUN) * pieces for size, pieces in cut)
    tasks = max(1, min(parallelism, total // EVENTS_PER_TASK), total // EVENTS_PER_TASK_MAX)
    if blocks is None:
        tasks = max(tasks, max((pieces for _, pieces in cut), default=1))
    load = [0] * tasks
    shares = []
    for size, pieces in sorted(cut, key=lambda item: -item[0].events):
        for block in range(pieces):
            task = load.index(min(load))
            load[task] += size.events + EVENTS_PER_RUN
            shares.append(Share(size.run, size.group, block, pieces, task))
    return shares
