"""Path counters and jumps: the edge multicast report's own scheme, mended, for δ = 1 and static groups.

A baseline for the simulator; docs/protocols/edge-paths.md has the rules, and what was mended. Each node that
lies on the route of a message accepts it once. A *path* is a pair (X, U) of nodes: X numbers what it sends
towards U. Copies carry the numbers of their message, and as barriers the numbers of what came before
(`needs`). A node whose neighbour is silent sends to the nodes beyond it.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from thence.core.groups import Place
from thence.spread.edge_map import PathMap

Path = tuple[str, str]
"""The process that numbers, and the one that it numbers for."""

Numbers = dict[str, dict[str, int]]
"""Of one message: by receiver, what it has from each that numbered it for that one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathSettings:
    """For δ = 1. The report has δ + 1 for all three distances."""

    reach: int = 2
    """δ + 1: how far a copy goes at once, past nodes that are silent."""
    radius: int = 2
    """max(δ + 1, 2δ): up to which distance a node numbers."""
    horizon: int = 4
    """2 · reach: up to which distance numbers are told and kept. A node hears barriers from one that is
    `reach` away, and needs them for another that is `reach` away."""
    barriers: bool = True
    """Off to measure what they cost: then only the order of each path is kept."""
    beat_us: int = 100_000
    suspect_us: int = 400_000
    again_us: int = 200_000
    """After which a copy is repeated downstream; in other directions after three times as much."""


class PathCopy(NamedTuple):
    place: Place
    group: str
    numbers: Numbers
    needs: dict[Path, int]
    payload: bytes


class PathAck(NamedTuple):
    """Per node that numbers for the sender: up to where the sender has everything."""

    counts: dict[str, int]


PathPacket = PathCopy | PathAck


class PathRecord:
    """An accepted message. `needs` is the past at its acceptance, and never changes: later barriers would
    make it wait for what waits for it."""

    __slots__ = ("group", "needs", "numbers", "payload", "place", "sent_at")

    def __init__(
        self, place: Place, group: str, numbers: Numbers, needs: dict[Path, int], payload: bytes
    ) -> None:
        self.place: Final = place
        self.group: Final = group
        self.numbers: Final = numbers
        self.needs: Final = needs
        self.payload: Final = payload
        self.sent_at: dict[str, int] = {}


class PathNode:
    """What a node writes down stays in a crash; `restart` forgets the rest."""

    __slots__ = (
        "acks", "beat_at", "box", "buffer", "covers", "given", "had", "heard", "known", "last", "log", "map",
        "me", "number", "outbox", "settings", "told",
    )  # fmt: skip

    def __init__(self, me: str, tree: PathMap, settings: PathSettings) -> None:
        self.me: Final = me
        self.map: Final = tree
        self.settings: Final = settings
        # Written down.
        self.number = 0
        self.last: dict[str, int] = {}
        """By origin, the highest number that was accepted."""
        self.given: dict[str, int] = {}
        """By receiver, how many messages this node has numbered for it."""
        self.had: dict[str, int] = {}
        """By node that numbers: all of its numbers up to this one are accepted here."""
        self.known: dict[Path, int] = {}
        """The past, as far as it is not acknowledged."""
        self.log: dict[Place, PathRecord] = {}
        # Forgotten in a crash.
        self.acks: dict[Path, int] = {}
        self.buffer: dict[tuple[Place, str], PathCopy] = {}
        """Copies that wait, by message and sender."""
        self.covers: dict[str, set[int]] = {}
        """Numbers of accepted messages that do not follow `had` yet."""
        self.heard: dict[str, int] = {}
        self.told: dict[str, int] = {}
        self.beat_at = 0
        self.box: list[PathRecord] = []
        """Accepted in this step."""
        self.outbox: list[tuple[str, PathPacket]] = []

    def restart(self, now: int) -> None:
        self.acks, self.buffer, self.covers, self.told = {}, {}, {}, {}
        self.heard = dict.fromkeys(self.map.ball(self.me, self.settings.reach), now)
        self.beat_at = now
        self.box, self.outbox = [], []
        for record in self.log.values():
            record.sent_at = {}

    # Inputs

    def publish(self, group: str, payload: bytes, now: int) -> Place:
        self.number += 1
        place = self.me, self.number
        self._accept(PathCopy(place, group, {}, {}, payload), self.me, now)
        return place

    def receive(self, sender: str, packet: PathPacket, now: int) -> None:
        if sender in self.heard:
            self.heard[sender] = now
        if isinstance(packet, PathAck):
            self._acknowledged(sender, packet)
            return
        self.buffer[packet.place, sender] = packet
        self._go_on(now)

    def wake(self, now: int) -> None:
        if now < self.beat_at:
            return
        self.beat_at = now + self.settings.beat_us
        self._repair(now)
        self._tell()

    def settle(self) -> None:
        """The end of a step: others hear of what has changed."""
        if self.told != self.had:
            self._tell()

    # Accepting

    def is_new(self, copy: PathCopy) -> bool:
        """Program order is part of causal order, so a number is enough, whatever way a copy took."""
        origin, number = copy.place
        return number > self.last.get(origin, 0)

    def is_next(self, own: dict[str, int]) -> bool:
        """Two nodes may number concurrent messages in different orders: one number that is next will do."""
        return any(number == self.had.get(who, 0) + 1 for who, number in own.items())

    def may_number(self, numbers: Numbers, receiver: str) -> bool:
        return receiver not in numbers

    def _is_ready(self, copy: PathCopy) -> bool:
        return self.is_next(copy.numbers.get(self.me, {})) and all(
            self.had.get(who, 0) >= number
            for (who, receiver), number in copy.needs.items()
            if receiver == self.me
        )

    def _go_on(self, now: int) -> None:
        """Whatever waits and may be accepted, or is a duplicate, until nothing is."""
        again = True
        while again:
            again = False
            for (place, sender), copy in list(self.buffer.items()):
                if not self.is_new(copy):
                    del self.buffer[place, sender]
                    again = self._repeated(copy) or again
                elif self._is_ready(copy):
                    del self.buffer[place, sender]
                    self._accept(copy, sender, now)
                    again = True

    def _accept(self, copy: PathCopy, sender: str, now: int) -> None:
        origin, number = copy.place
        self.last[origin] = max(number, self.last.get(origin, 0))
        self._cover(copy.numbers.get(self.me, {}))
        self._learn(copy.needs)
        near = self.map.ball(self.me, self.settings.horizon)
        numbers = {who: dict(by) for who, by in copy.numbers.items() if who != self.me and who in near}
        needs = dict(self.known) if self.settings.barriers else {}
        record = PathRecord(copy.place, copy.group, numbers, needs, copy.payload)
        for receiver in self._below(record, sender):
            if self.may_number(numbers, receiver):
                self.given[receiver] = self.given.get(receiver, 0) + 1
                numbers.setdefault(receiver, {})[self.me] = self.given[receiver]
        for receiver, by in numbers.items():
            self._learn({(who, receiver): count for who, count in by.items()})
        self.log[copy.place] = record
        self.box.append(record)
        for receiver in self._next(record, now):
            if receiver != sender:
                self._send(record, receiver, now)
        if not self._open(record):
            del self.log[copy.place]

    def _below(self, record: PathRecord, sender: str) -> list[str]:
        """Nodes of the route to number for: those behind this one, and those behind nodes that were jumped
        over on the way here, nearest first."""
        origin, tree = record.place[0], self.map
        route = tree.route(origin, record.group)
        way = tree.path(origin, self.me)
        first = way[way.index(sender) + 1] if sender in way[:-1] else self.me
        jumped = way[way.index(first) : -1]
        return [
            name
            for name in tree.ball(self.me, self.settings.radius)
            if name in route and name not in (self.me, sender, *jumped) and first in tree.path(origin, name)
        ]

    def _cover(self, own: dict[str, int]) -> bool:
        """Numbers for this node, of a message that is accepted. Has a counter moved?"""
        moved = False
        for who, number in own.items():
            count = self.had.get(who, 0)
            if number <= count:
                continue
            waiting = self.covers.setdefault(who, set())
            waiting.add(number)
            while count + 1 in waiting:
                count += 1
                waiting.remove(count)
            moved = moved or count > self.had.get(who, 0)
            self.had[who] = count
        return moved

    def _repeated(self, copy: PathCopy) -> bool:
        """A duplicate: its numbers count all the same, and those for others are passed on."""
        record = self.log.get(copy.place)
        near = self.map.ball(self.me, self.settings.horizon)
        for receiver, by in copy.numbers.items() if record is not None else ():
            assert record is not None
            for who, number in by.items():
                fresh = number > self.acks.get((who, receiver), 0)
                if receiver != self.me and receiver in near and fresh:
                    mine = record.numbers.setdefault(receiver, {})
                    if who not in mine:
                        mine[who] = number
                        record.sent_at.pop(receiver, None)
        return self._cover(copy.numbers.get(self.me, {}))

    def _learn(self, numbers: dict[Path, int]) -> None:
        near = self.map.ball(self.me, self.settings.horizon)
        for path, number in numbers.items():
            if path[1] != self.me and path[1] in near and number > self.acks.get(path, 0):
                self.known[path] = max(number, self.known.get(path, 0))

    # Sending

    def silent(self, name: str, now: int) -> bool:
        return now - self.heard.get(name, now) > self.settings.suspect_us

    def _next(self, record: PathRecord, now: int) -> list[str]:
        """Neighbours on the route, and those behind a neighbour that is silent."""
        origin, group = record.place[0], record.group
        found: list[str] = []
        for name in self.map.beyond(origin, group, self.me):
            if self.silent(name, now):
                found += self.map.beyond(origin, group, name)
            else:
                found.append(name)
        return found

    def _send(self, record: PathRecord, to: str, now: int) -> None:
        """With the numbers that the receiver may need. A barrier at or above the message's own number is no
        cause of it: a node that numbered both numbered the message first."""
        record.sent_at[to] = now
        near = self.map.ball(to, self.settings.horizon)
        numbers: Numbers = {}
        for receiver, by in record.numbers.items():
            missing = {who: number for who, number in by.items() if self._lacks(who, receiver, number)}
            if receiver in near and missing:
                numbers[receiver] = missing
        needs = {
            (who, receiver): number
            for (who, receiver), number in record.needs.items()
            if receiver in near
            and self._lacks(who, receiver, number)
            and number < record.numbers.get(receiver, {}).get(who, number + 1)
        }
        self.outbox.append((to, PathCopy(record.place, record.group, numbers, needs, record.payload)))

    def _lacks(self, who: str, receiver: str, number: int) -> bool:
        return number > self.acks.get((who, receiver), 0)

    def _open(self, record: PathRecord) -> list[str]:
        """Nodes that this one has to bring the message to, if others do not."""
        near = self.map.ball(self.me, max(self.settings.reach, self.settings.radius))
        return [
            receiver
            for receiver, by in record.numbers.items()
            if receiver in near
            and (near[receiver] <= self.settings.reach or self.me in by)
            and any(self._lacks(who, receiver, number) for who, number in by.items())
        ]

    def _repair(self, now: int) -> None:
        """What is not acknowledged goes again, in any direction. A jump is an early repair."""
        again = self.settings.again_us
        for record in self.log.values():
            onward = self._next(record, now)
            for receiver in self._open(record):
                if self.silent(receiver, now):
                    continue
                since = record.sent_at.get(receiver)
                if since is None and receiver not in onward:
                    record.sent_at[receiver] = now - again
                elif since is None or now - since >= (again if receiver in onward else 3 * again):
                    self._send(record, receiver, now)

    def _tell(self) -> None:
        self.told = dict(self.had)
        for name in self.map.ball(self.me, self.settings.horizon):
            if name != self.me:
                self.outbox.append((name, PathAck(self.told)))

    def _acknowledged(self, sender: str, ack: PathAck) -> None:
        moved = False
        for who, number in ack.counts.items():
            if number > self.acks.get((who, sender), 0):
                self.acks[who, sender] = number
                moved = True
                if self.known.get((who, sender), number + 1) <= number:
                    del self.known[who, sender]
        if moved:
            self.log = {place: record for place, record in self.log.items() if self._open(record)}
