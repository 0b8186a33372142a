"""The disks of a simulated process: one per incarnation."""

from random import Random

from thence.core.storage import DiskError
from thence.oplog.log import OpLog
from thence.oplog.policy import Policy
from thence.oplog.settings import LogSettings
from thence.sim.disk import Disk
from thence.sim.disk import Operation as DiskOperation

MACHINE = b"simulated"


def opened(disk: Disk, settings: LogSettings, number: int, now: int) -> OpLog:
    """The log that a start of incarnation `number` finds on a disk, perhaps after a power cut."""
    log = OpLog.open(disk, settings, now, power_lost=True)
    log.boot(number, MACHINE, now)
    return log


class SimShelf:
    """A disk per incarnation; all of them lose power together, and are full together."""

    def __init__(self, random: Random, segment_bytes: int, sync: Policy = "always") -> None:
        self._random = random
        # Always: a member never tells what it could forget, so that it comes back as the same one.
        self._settings = LogSettings(sync=sync, segment_bytes=segment_bytes)
        self._disks: dict[int, Disk] = {}
        self._highest = self._since = 0
        self._room: int | None = None
        self.forgetful = False
        """The newest log may lack its end."""
        self.boots = 0
        self.contacts: dict[str, str] = {}
        self.used: list[int] = []
        """Numbers that were ever reserved; a backup does not bring them back."""

    def copy(self) -> "SimShelf":
        """A backup."""
        other = SimShelf(Random(self._random.random()), self._settings.segment_bytes, self._settings.sync)
        other._disks = {
            number: disk.copy(Random(self._random.random())) for number, disk in self._disks.items()
        }
        other._highest, other._since = self._highest, self._since
        other.forgetful, other.boots, other.used = self.forgetful, self.boots, self.used
        other.contacts = self.contacts
        return other

    @property
    def highest(self) -> int:
        return self._highest

    @property
    def since(self) -> int:
        return self._since

    def kept(self) -> list[int]:
        return sorted(self._disks)

    def reserve(self, number: int, since: int = 0) -> None:
        if self._room == 0:
            raise DiskError("no space left", file="numbers", full=True)
        self._highest, self._since = number, since
        self.used.append(number)

    def forget(self) -> None:
        if self._room == 0:
            raise DiskError("no space left", file="numbers", full=True)
        self.forgetful = True

    def open(self, number: int, now: int) -> OpLog:
        disk = self._disks.setdefault(number, Disk(Random(self._random.random()), self._room))
        return opened(disk, self._settings, number, now)

    def drop(self, number: int) -> None:
        self._disks.pop(number, None)

    def ended(self, number: int, since: int) -> None:
        self._since = since
        self.drop(number)

    def keep_contacts(self, contacts: dict[str, str]) -> None:
        self.contacts = dict(contacts)

    def catch_up(self) -> None:
        """Nothing is put off."""

    def lose_power(self) -> None:
        for number in sorted(self._disks):
            self._disks[number].crash(holes=True)
        self.forgetful = self.forgetful or self._settings.sync != "always"

    def interrupt(self) -> None:
        """The process goes down in the middle of its next write to the newest log."""
        if self._disks:
            self._disks[max(self._disks)].interrupts = True

    def go_on(self) -> None:
        for disk in self._disks.values():
            disk.interrupts = False

    def fill(self, room: int) -> None:
        """So many bytes are left on each disk, and on those to come; none: not even for a number."""
        self._room = room
        for disk in self._disks.values():
            disk.capacity = sum(map(disk.size, disk.names())) + room

    def fail(self, operation: DiskOperation, after: int) -> None:
        """One of the next operations on the newest log fails."""
        if self._disks:
            self._disks[max(self._disks)].fail(operation, after)

    def heal(self) -> None:
        self._room = None
        for disk in self._disks.values():
            disk.capacity = None
            disk.heal()
