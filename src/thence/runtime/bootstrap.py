"""The way of a process into its group: resume what is on its disk, join through contacts, or found.

Invariants. Its contacts are on its disk before any of them knows of it, so that a process that is killed on
the way asks the same ones. A number that another process may know is never used again: after the loss of a
disk, numbers count from the clock. A process that may have forgotten something does not go on as the same
incarnation, unless no other process was ever told of it.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Final

from thence.core.errors import UsageError
from thence.core.storage import DamageError
from thence.replica.group.process.node import GroupNode
from thence.runtime.address import Address, parse_address
from thence.runtime.discovery import find_group
from thence.runtime.hello import Identity
from thence.runtime.incarnations import IncarnationStore
from thence.runtime.logs import NodeLog
from thence.runtime.pacing import Clock
from thence.runtime.settings import NodeSettings

SECOND: Final = 1_000_000
NUMBERS_BEGIN_S: Final = 1_735_689_600
"""The first of January 2025: numbers after the loss of a disk count from there, so as to be shorter."""


def number_of_now(clock: Clock) -> int:
    """Of an incarnation where it is not known which were used: seconds count faster than incarnations."""
    return clock() // SECOND - NUMBERS_BEGIN_S


class Bootstrap:
    def __init__(self, settings: NodeSettings, clock: Clock, log: NodeLog) -> None:
        self._settings: Final = settings
        self._clock: Final = clock
        self._says: Final = log
        self._obstacles: list[str] = []
        self.contacts: dict[str, Address] = {}
        """Processes that it may join through."""
        self.joins = False
        """It has begun to, and must begin again if it is made anew."""

    @property
    def waiting_for(self) -> list[str]:
        """Of one that is no member: what it waits for, for people."""
        return sorted(f"{name} at {address}" for name, address in self.contacts.items()) or self._obstacles

    async def recalled(
        self, shelf: IncarnationStore, make: Callable[[int], Awaitable[GroupNode]]
    ) -> GroupNode:
        """The process as its disk knows it. An incarnation that no other process was ever told of may go on,
        whatever it has forgotten."""
        if shelf.forgetful and not shelf.contacts:
            shelf.remembered()
        while True:
            if shelf.forgetful:
                self._says.warn(
                    "the end of the log may be missing: this node comes back as a new incarnation"
                )
            try:
                return await make(self._clock())
            except DamageError as damage:
                if not shelf.contacts:
                    raise UsageError(f"{damage}. `thence repair {shelf.path}` cuts it off there") from damage
                self._says.warn("log damaged", what=str(damage))
                shelf.mend(damage, self._clock())

    def asks(self, shelf: IncarnationStore) -> tuple[Address, ...]:
        """Where there may be a group."""
        known = [parse_address(where) for where in (shelf.members | shelf.contacts).values()]
        return tuple(dict.fromkeys((*self._settings.join, *known)))

    async def find(self, join: tuple[Address, ...], shelf: IncarnationStore, machine: GroupNode) -> None:
        """Find contacts to join through; if there are none, a group is to be founded."""
        settings = self._settings
        found = await find_group(
            Identity(settings.cluster, settings.name, b"", 0), settings.listen, join,
            advertise=settings.advertise and settings.reached_at(settings.listen),
            secret=settings.secret, settings=settings.links, random=Random(os.urandom(16)),
            clock=self._clock, log=self._says, patience_us=settings.group.patience_us,
            keeps=sum(machine.former.ledger.vector().values()) if machine.former else 0,
            tell=self._wait_for,
        )  # fmt: skip
        if found.highest > shelf.highest:
            # The disk was lost. Those that answer may not know the last number, if the group is split:
            # seconds count faster than incarnations.
            shelf.reserve(max(found.highest, number_of_now(self._clock)))
        self.contacts = {name: address for name, address in found.members if name != settings.name}
        if self.contacts:
            shelf.keep_contacts({name: str(address) for name, address in self.contacts.items()})

    def _wait_for(self, obstacles: list[str]) -> None:
        self._obstacles = obstacles

    def go_in(self, node: GroupNode, members: Mapping[str, str], now: int) -> None:
        """`members`: of a closed group."""
        if self.contacts:
            self.joins = True
            node.join(now)
        elif node.former is not None:
            node.refound(now)
        else:
            node.found(now, {name: where for name, where in members.items() if name != node.name})

    def returns(self, node: GroupNode) -> None:
        """It was a member, and comes back by itself."""
        self.joins = True
        for name, where in node.addresses.items():
            with suppress(UsageError):
                if name != self._settings.name:
                    self.contacts[name] = parse_address(where)

    def again(self, node: GroupNode, now: int) -> None:
        """The process was made anew, from its disk."""
        if node.member is None and self.joins:
            node.join(now)
