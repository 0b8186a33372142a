"""Zones, separators and the way from one to the other: chapters 3 and 5 of the causal separators document.

A zone is a set of processes that send to each other directly. A process that belongs to two zones is a
gateway; the gateways of the same two zones are a separator. Zones and separators must form a tree. An
application belongs to one zone and lies, for every separator, on one of its two sides.

The tree has its root in the first zone. Each zone knows the span of numbers, in the order of a walk from the
root, that it and what lies behind it have: a side is a comparison and needs no set of the system's size.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final

from thence.core.errors import UsageError
from thence.order.history import Processes, SeparatorCut

LAST: Final = 1 << 62
"""Stands for a hop that is later than all that there are."""
NOWHERE: Final = -1
"""Stands for the separator of a hop that came through none."""


class Zone:
    __slots__ = ("index", "members", "name", "separators")

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.members: list[int] = []
        self.index: dict[int, int] = {}
        """Where a member is among them: its bit in a bit map."""
        self.separators: list[int] = []

    def add(self, process: int) -> None:
        self.index[process] = len(self.members)
        self.members.append(process)

    def mask(self, processes: Iterable[int]) -> int:
        """A bit map; those that are not in the zone are left out."""
        mask, index = 0, self.index
        for process in processes:
            place = index.get(process)
            if place is not None:
                mask |= 1 << place
        return mask

    def unmask(self, mask: int) -> Processes:
        members, found = self.members, []
        while mask:
            lowest = mask & -mask
            found.append(members[lowest.bit_length() - 1])
            mask ^= lowest
        return frozenset(found)


class Separator:
    """Its members by rank, and the two zones that they belong to."""

    __slots__ = ("members", "zones")

    def __init__(self, zones: tuple[int, int]) -> None:
        self.zones: Final = zones
        self.members: list[int] = []

    def far(self, zone: int) -> int:
        one, other = self.zones
        return other if zone == one else one


class Side:
    """The processes on one side of a separator, without its members."""

    __slots__ = ("_below", "_separator", "_topology")

    def __init__(self, topology: "Topology", separator: int, below: bool) -> None:
        self._topology = topology
        self._separator = separator
        self._below = below

    def __contains__(self, process: object) -> bool:
        return isinstance(process, int) and self._topology.below(self._separator, process) is self._below


class Topology:
    """Processes by index, in zones. `names`: of processes; zones are given as names of their members."""

    __slots__ = (
        "_child", "_children", "_depth_first", "_since", "_spans", "_zones_of", "applications", "names",
        "separators", "state", "zones",
    )  # fmt: skip

    def __init__(self, names: Sequence[str], zones: Mapping[str, Sequence[int]]) -> None:
        if not zones:
            raise UsageError("a topology without a zone")
        self.names: Final = list(names)
        self.zones: Final = [Zone(name) for name in zones]
        self.separators: Final[list[Separator]] = []
        self._zones_of: Final[list[list[int]]] = [[] for _ in names]
        self._since: Final[dict[int, dict[int, int]]] = {}
        """By member that joins a separator: by neighbour, its last hop that does not go to it."""
        for number, (zone, members) in enumerate(zip(self.zones, zones.values(), strict=True)):
            if not members:
                raise UsageError(f"zone {zone.name} has no members")
            for process in members:
                if process in zone.index:
                    raise UsageError(f"zone {zone.name} names {names[process]} twice")
                zone.add(process)
                self._zones_of[process].append(number)
        self._separate()
        self._walk()
        self._changed()

    def __len__(self) -> int:
        return len(self.names)

    def _changed(self) -> None:
        self.state = object()
        """Another one after each change: whatever follows from a topology holds as long as this does."""
        zones_of = self._zones_of
        self.applications = tuple([process for process, zones in enumerate(zones_of) if len(zones) == 1])

    def digest(self) -> bytes:
        """The same for all that know the same processes, zones and ranks."""
        told = blake2b(digest_size=16)
        for zone in self.zones:
            told.update(f"{zone.name!r} {[self.names[process] for process in zone.members]!r}".encode())
        told.update(repr(self.names).encode())
        return told.digest()

    def _separate(self) -> None:
        """Gateways of the same two zones are one separator; rank follows from the order of processes."""
        found: dict[tuple[int, int], int] = {}
        for process, zones in enumerate(self._zones_of):
            if not zones:
                raise UsageError(f"{self.names[process]} belongs to no zone: it cannot be reached")
            if len(zones) > 2:
                told = ", ".join(self.zones[zone].name for zone in zones)
                raise UsageError(f"{self.names[process]} belongs to {told}: a gateway joins two zones")
            if len(zones) == 2:
                pair = zones[0], zones[1]
                if pair not in found:
                    found[pair] = len(self.separators)
                    self._new_separator(pair)
                self.separators[found[pair]].members.append(process)

    def _new_separator(self, pair: tuple[int, int]) -> None:
        for zone in pair:
            self.zones[zone].separators.append(len(self.separators))
        self.separators.append(Separator(pair))

    def _walk(self) -> None:
        """Number the zones from the root; refuse what is no tree."""
        size = len(self.zones)
        self._depth_first = [-1] * size
        self._spans = [(0, 0)] * size
        self._children: list[tuple[list[int], list[int]]] = [([], []) for _ in range(size)]
        self._child = [-1] * len(self.separators)
        ends: list[tuple[int, int]] = [(0, NOWHERE)]
        order: list[int] = []
        came: dict[int, int] = {}
        while ends:
            zone, by = ends.pop()
            if zone in came:
                raise UsageError(
                    f"zones form a circle at {self.zones[zone].name}: {self._told(self.separators[by])} "
                    "separates nothing; zones and their gateways must form a tree"
                )
            came[zone] = by
            self._depth_first[zone] = len(order)
            order.append(zone)
            onward = [separator for separator in reversed(self.zones[zone].separators) if separator != by]
            ends += [(self.separators[separator].far(zone), separator) for separator in onward]
        if len(order) < size:
            lost = next(zone.name for number, zone in enumerate(self.zones) if number not in came)
            raise UsageError(
                f"zone {lost} cannot be reached from {self.zones[0].name}: no gateway leads there"
            )
        self._number(order, came)

    def _number(self, order: list[int], came: dict[int, int]) -> None:
        sizes = [1] * len(self.zones)
        for zone in reversed(order):
            by = came[zone]
            if by != NOWHERE:
                self._child[by] = zone
                sizes[self.separators[by].far(zone)] += sizes[zone]
            start = self._depth_first[zone]
            self._spans[zone] = start, start + sizes[zone]
        for zone in order:
            by = came[zone]
            if by != NOWHERE:
                starts, separators = self._children[self.separators[by].far(zone)]
                starts.append(self._depth_first[zone])
                separators.append(by)

    def _told(self, separator: Separator) -> str:
        return "{" + ", ".join(self.names[process] for process in separator.members) + "}"

    # Who is where

    def is_gateway(self, process: int) -> bool:
        return len(self._zones_of[process]) == 2

    def zones_of(self, process: int) -> list[int]:
        return self._zones_of[process]

    def separator_of(self, gateway: int) -> int:
        one, other = self._zones_of[gateway]
        return next(k for k in self.zones[one].separators if self.separators[k].far(one) == other)

    def neighbours(self, process: int) -> list[int]:
        """Those that it shares a zone with."""
        found = dict.fromkeys(each for zone in self._zones_of[process] for each in self.zones[zone].members)
        return [each for each in found if each != process]

    def below(self, separator: int, process: int) -> bool | None:
        """Does a process lie behind the separator, seen from the root? None: it is a member, or unknown."""
        if not 0 <= process < len(self._zones_of):
            return None
        zones = self._zones_of[process]
        child = self._child[separator]
        if len(zones) == 2:
            if process in self.separators[separator].members:
                return None
            one, other = zones
            place = max(self._depth_first[one], self._depth_first[other])
        else:
            place = self._depth_first[zones[0]]
        start, end = self._spans[child]
        return start <= place < end

    def cuts(self, gateway: int) -> list[SeparatorCut]:
        """Its separator in both directions, for R9."""
        number = self.separator_of(gateway)
        others = frozenset(self.separators[number].members) - {gateway} - self._unknown(gateway, LAST)
        up, down = Side(self, number, False), Side(self, number, True)
        return [SeparatorCut(others, up, down), SeparatorCut(others, down, up)]

    # The way of a message

    def toward(self, zone: int, target: int) -> int:
        """The separator of `zone` behind which the zone `target` lies."""
        place = self._depth_first[target]
        start, end = self._spans[zone]
        starts, separators = self._children[zone]
        if start <= place < end:
            return separators[bisect_right(starts, place) - 1]
        return next(k for k in self.zones[zone].separators if self._child[k] == zone)

    def check(self, dest: Iterable[int]) -> None:
        """`UsageError` if a message cannot be addressed like that."""
        for process in dest:
            if not 0 <= process < len(self._zones_of):
                raise UsageError(f"destination {process} is in no zone: it cannot be reached")
            if self.is_gateway(process):
                raise UsageError(f"{self.names[process]} is a gateway: it has no application to send to")

    def address(
        self, zone: int, dest: Sequence[int], came: int, sender: int, counter: int = LAST
    ) -> Processes:
        """Of the hop of `sender` in `zone` that brings a message to `dest`; it came through `came`."""
        index, found = self.zones[zone].index, set[int]()
        for process in dest or self.applications:
            if process in index:
                found.add(process)
                continue
            onward = self.toward(zone, self._zones_of[process][0])
            if onward != came:
                found.update(self.separators[onward].members)
        if came != NOWHERE:
            found.update(self.separators[came].members)
        found.discard(sender)
        if self._since:
            found -= self._unknown(sender, counter)
        return frozenset(found)

    # Joins (section 4.4)

    def admit(self, name: str, zone: int) -> int:
        """(i) An application in a zone: it changes no separator."""
        process = self._admit(name, zone)
        self._changed()
        return process

    def _admit(self, name: str, zone: int) -> int:
        process = len(self.names)
        self.names.append(name)
        self._zones_of.append([zone])
        self.zones[zone].add(process)
        return process

    def extend(self, zone: int, name: str, gateways: Sequence[str], members: Sequence[str]) -> int:
        """(ii) A zone that was never connected, at the end of the tree, behind gateways of its own."""
        if not gateways:
            raise UsageError(f"zone {name} cannot be reached: no gateway joins it to {self.zones[zone].name}")
        number = len(self.zones)
        self.zones.append(Zone(name))
        pair = zone, number
        self._new_separator(pair)
        for gateway in gateways:
            process = self._admit(gateway, zone)
            self.zones[number].add(process)
            self._zones_of[process].append(number)
            self.separators[-1].members.append(process)
        for member in members:
            self._admit(member, number)
        self._walk()
        self._changed()
        return number

    def awaits(self, joiner: int) -> None:
        """(iii) A member of a separator, last in rank, that no process sends to before it has adopted it."""
        self._since[joiner] = {}
        self.state = object()

    def adopts(self, process: int, joiner: int, counter: int) -> None:
        """Hops of a neighbour go to the joiner as well, but for those up to `counter`."""
        self._since[joiner][process] = counter
        self.state = object()

    def adopted(self, process: int, joiner: int) -> int | None:
        """Up to which of its hops a neighbour had not adopted the joiner; None: it has not."""
        return self._since[joiner].get(process)

    def _unknown(self, sender: int, counter: int) -> set[int]:
        """Those that join, and that this hop of a process does not go to."""
        return {joiner for joiner, since in self._since.items() if counter <= since.get(sender, LAST)}

    def widen(self, separator: int, name: str) -> int:
        """(iii) A member of a separator, last in rank, that all send to from now on."""
        one, other = self.separators[separator].zones
        process = self._admit(name, one)
        self.zones[other].add(process)
        self._zones_of[process].append(other)
        self.separators[separator].members.append(process)
        self._changed()
        return process


def flat(size: int) -> Topology:
    """One zone with all processes in it."""
    return Topology([f"n{process}" for process in range(size)], {"zone": range(size)})
