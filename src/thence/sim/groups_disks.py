"""Disks of processes in a changing group that fail while they run.

A step that cannot be written stalls the process (`replica.steps`), which tries again now and then. Where a
sync failed, or a write could not be undone, it is unknown what is on the disk: the process goes down as if
the power had, and is started again.

A disk that does not sync everything (`sync` is not `always`) may lose its end with the power. Then its
process knows that it has sent more than it remembers, and comes back as a new incarnation: through the others
or, if no process is a member any more, by founding the group again.
"""

from dataclasses import dataclass
from random import Random
from typing import Literal

from thence.oplog.policy import Policy
from thence.replica.group.process.node import GroupNode
from thence.sim.disk import Operation
from thence.sim.shelf import SimShelf

PROBE_US = 1_000_000
"""How often a process in trouble tries."""

DOWN_US = (100_000, 3_000_000)
"""How long it takes until a process that stopped is started again."""

What = Literal["full", "write", "torn", "sync", "folder", "remove", "power"]

KINDS: tuple[What, ...] = ("full", "full", "write", "torn", "sync", "sync", "folder", "remove")

FAILS: dict[What, Operation] = {
    "write": "write", "torn": "write", "sync": "sync", "folder": "sync_folder", "remove": "remove",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class BadDisk:
    """From `at_us` to `until_us` a process has a full disk, or one of its next operations of a kind fails,
    or there is no power."""

    at_us: int
    until_us: int
    process: int
    what: What


def draw_disks(seed: int, processes: int, span_us: int) -> tuple[tuple[BadDisk, ...], Policy]:
    """What becomes of the disks in the storm of a seed, and how they sync. It has a source of chance of its
    own: whatever else happens in the storm stays as it is. In every other storm nothing happens to disks."""
    random = Random(f"{seed}/bad disks")
    if random.random() < 0.5:
        return (), "always"
    policy: Policy = "always" if random.random() < 0.7 else "no"
    faults = []
    for _ in range(random.randint(1, 5)):
        at = random.randrange(span_us // 8, span_us)
        until = at + random.randrange(200_000, 5_000_000)
        faults.append(BadDisk(at, until, random.randrange(processes), random.choice(KINDS)))
    if random.random() < 0.3:  # whole rooms go dark
        at = random.randrange(span_us // 8, span_us)
        dark = [process for process in range(processes) if random.random() < 0.8]
        faults += [BadDisk(at, at + random.randrange(1, 3_000_000), process, "power") for process in dark]
    return tuple(faults), policy


def worsen(shelf: SimShelf, what: What, random: Random) -> None:
    if what == "full":
        shelf.fill(random.randrange(400))
        return
    shelf.fail(FAILS[what], random.randrange(6))
    if what == "torn":
        shelf.fail("truncate", 0)


@dataclass(slots=True)
class Troubles:
    full: int = 0
    """Steps that never were."""
    stopped: int = 0
    """Processes that went down."""


def written_down(node: GroupNode, at_once: bool, now: int) -> None:
    """A member writes itself down, in one step or in several; or is done with that."""
    if node.log is not None and node.log.drafted:
        node.has_written_down(now)
    elif at_once:
        node.checkpoint(now)
    else:
        node.writes_down(now)
