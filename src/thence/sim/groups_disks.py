"""Processes of a changing group whose disks let them down while they run: what a driver does then.

A step that cannot be written down never was: its packets and rows are dropped, so are the links, and the
process is built again from its disk, as after a crash, as soon as that takes writes; whoever asks something
of it meanwhile is refused. Where a sync failed, or a write could not be undone, nobody knows what is on the
disk: the process goes down as if the power had, and somebody starts it again.

A disk that does not sync everything (`sync` is not `always`) may lose its end with the power. Then its
process knows that it has said more than it remembers, and comes back as somebody new: through the others or,
if nobody is a member any more, by founding the group again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal, Protocol

from thence.core.errors import StorageError
from thence.oplog.policy import Policy, Sync
from thence.replica.group import GroupNode
from thence.sim.disk import Operation
from thence.sim.groups_parts import SimShelf

PROBE_US = 1_000_000
"""How often a process in trouble tries."""

DOWN_US = (100_000, 3_000_000)
"""How long it takes until somebody starts a process again that stopped."""

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


class Surroundings(Protocol):
    """What is needed of the world."""

    now: int

    def at(self, when: int, action: Callable[[], None]) -> None: ...

    def crash(self, name: str, torn: bool = False, power: bool = True) -> None: ...

    def boot(self, name: str) -> None: ...

    def join(self, name: str) -> None: ...


class GroupTroubles:
    def __init__(self, world: Surroundings, random: Random) -> None:
        self._world = world
        self._random = random
        self.full = 0
        """Steps that never were."""
        self.stopped = 0
        """Processes that went down."""

    def failed(self, name: str, node: GroupNode | None, joins: bool) -> None:
        """A step, or a start, of a process could not be written down. `joins`: it was on its way into the
        group."""
        world, broken = self._world, node is not None and node.log is not None and node.log.broken is not None
        world.crash(name, power=broken)
        self.stopped += broken
        self.full += not broken
        wait = self._random.randint(*DOWN_US) if broken else PROBE_US

        def again() -> None:
            world.boot(name)
            if joins:
                world.join(name)

        world.at(world.now + wait, again)


def sync(shelf: SimShelf, node: GroupNode, todo: Sync, now: int) -> None:
    """As a driver does."""
    log = node.log
    assert log is not None
    try:
        shelf.sync(node.number, todo.file)
    except StorageError as error:
        log.sync_failed(todo, error, now)
        raise
    node.synced(todo, now)
