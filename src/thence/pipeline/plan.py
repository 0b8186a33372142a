"""Which task judges what: large runs in several shards of nodes or blocks of columns, small runs many to a
task.

The plan is made from the packed pieces' counts alone. It balances costs: a shard has the rows of its own
nodes and what all nodes sent, but needs a round before it (`shards`); a block of columns has all rows; and
the matrix of pasts (messages × columns) must fit into a task's memory.
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
EVENTS_PER_SHARD_MAX: Final = 1 << 25
# On two cores shards take a tenth more time than blocks; what blocks repeat grows with their number.
BLOCKS_PAY_UP_TO: Final = 4
BUCKETS_PER_TASK: Final = 8
BUCKETS_MAX: Final = 512


class Size(NamedTuple):
    """How much one run holds; `buckets` with the events of their nodes."""

    run: str
    group: str
    events: int
    sends: int
    columns: int
    restarts: int = 0
    buckets: tuple[tuple[int, int], ...] = ()


class Share(NamedTuple):
    """One part of one run, and the task that judges it; `own`: of a shard, the buckets of its nodes."""

    run: str
    group: str
    block: int
    blocks: int
    task: int
    shard: int = 0
    shards: int = 1
    own: tuple[int, ...] = ()


def buckets_for(events: int, parallelism: int) -> int:
    """Into how many buckets nodes are dealt when a trace of about so many events is read: several to a shard,
    so that shards can be made even."""
    least = 2 * EVENTS_PER_BLOCK if parallelism > BLOCKS_PAY_UP_TO else EVENTS_PER_SHARD_MAX
    if events < least:
        return 1
    shards = max(parallelism, -(-events // EVENTS_PER_SHARD_MAX))
    return min(BUCKETS_MAX, BUCKETS_PER_TASK * shards)


def blocks_of(size: Size, parallelism: int) -> int:
    """Into how many blocks of columns a run is cut that cannot be cut into shards."""
    for_memory = -(-_matrix_bytes(size) // MATRIX_BYTES_MAX)
    for_speed = min(parallelism, size.events // EVENTS_PER_BLOCK, size.columns // COLUMNS_PER_BLOCK_MIN)
    return max(1, min(max(for_memory, for_speed), size.columns))


def _matrix_bytes(size: Size, shards: int = 1) -> int:
    """Of pasts, in shards of runs with restarts of lineages as well; and of each node what it knows, of how
    much of that it has all, and which place in each program it has reached."""
    matrices = 2 if size.restarts and shards > 1 else 1
    return 4 * size.columns * (matrices * size.sends + 3 * -(-size.columns // shards))


def shards_of(size: Size, parallelism: int) -> int:
    """Into how many shards of nodes a run is cut, where its nodes are dealt into enough buckets."""
    for_memory = -(-size.events // EVENTS_PER_SHARD_MAX)
    for_speed = min(parallelism, size.events // EVENTS_PER_BLOCK) if parallelism > BLOCKS_PAY_UP_TO else 1
    return max(1, for_memory, for_speed)


class _Part(NamedTuple):
    size: Size
    block: int
    blocks: int
    shard: int
    shards: int
    own: tuple[int, ...]
    events: int


def plan(
    sizes: Sequence[Size],
    parallelism: int,
    blocks: int | None = None,
    shards: int | None = None,
    buckets: int = 1,
) -> list[Share]:
    """A share for every part, largest first to the least loaded task. `blocks` and `shards` force numbers;
    nodes are dealt into so many `buckets`: with one, no run is cut into shards."""
    parts = [part for size in sorted(sizes) for part in _parts(size, parallelism, blocks, shards, buckets)]
    total = sum(part.events + EVENTS_PER_RUN for part in parts)
    tasks = max(1, min(parallelism, total // EVENTS_PER_TASK), total // EVENTS_PER_TASK_MAX)
    if blocks is None and shards is None:
        tasks = max(tasks, max((part.blocks * part.shards for part in parts), default=1))
    load = [0] * tasks
    shares = []
    for part in sorted(parts, key=lambda part: -part.events):
        task = load.index(min(load))
        load[task] += part.events + EVENTS_PER_RUN
        size = part.size
        shares.append(
            Share(size.run, size.group, part.block, part.blocks, task, part.shard, part.shards, part.own)
        )
    return shares


def _parts(size: Size, parallelism: int, blocks: int | None, shards: int | None, buckets: int) -> list[_Part]:
    cut = min(shards or shards_of(size, parallelism), buckets)
    if cut == 1:
        pieces = blocks or blocks_of(size, parallelism)
        return [_Part(size, block, pieces, 0, 1, (), size.events) for block in range(pieces)]
    pieces = blocks or max(1, -(-_matrix_bytes(size, cut) // MATRIX_BYTES_MAX))
    return [
        _Part(size, block, pieces, shard, cut, own, events)
        for shard, (own, events) in enumerate(_dealt(size, cut, buckets))
        for block in range(pieces)
    ]


def _dealt(size: Size, shards: int, buckets: int) -> list[tuple[tuple[int, ...], int]]:
    """The buckets of each shard and their events: the largest first to the smallest shard. All are dealt: one
    of which nothing is known may have nodes in pieces that were not cut."""
    own: list[list[int]] = [[] for _ in range(shards)]
    load = [0] * shards
    known = dict(size.buckets)
    for bucket in sorted(range(buckets), key=lambda bucket: (-known.get(bucket, 0), bucket)):
        shard = load.index(min(load))
        own[shard].append(bucket)
        load[shard] += known.get(bucket, 1)
    return [(tuple(sorted(buckets)), events) for buckets, events in zip(own, load, strict=True)]
