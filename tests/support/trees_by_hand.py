"""Two processes of a tree without tags, a and b, and the link between them, by hand: packets are bytes, and
go when the test says so."""

from collections import deque
from random import Random
from typing import Any

from thence.core.groups import Place
from thence.oplog.log import OpLog
from thence.oplog.settings import LogSettings
from thence.replica.group.surroundings import Applied, Closed
from thence.replica.idle import Idle
from thence.replica.live_tree import LiveSettings, open_tree
from thence.replica.open_tree import OpenTree
from thence.sim.disk import Disk
from thence.trace import recorder as rows


class Reader(Idle):
    """A program that keeps what it was told, with positions."""

    reads = True
    holds = False

    def __init__(self) -> None:
        self.had: list[tuple[Place, bytes, int]] = []

    def apply(self, one: Applied) -> None:
        if not one.own:
            self.had.append((one.operation.dot, one.operation.payload, one.position))

    def merge(self, state: bytes) -> None:
        raise AssertionError("it has no state")


class Rows(Closed):
    """A diary that is read."""

    writes = True  # type: ignore[misc]

    def __init__(self) -> None:
        self.rows: list[tuple[int, Place | None]] = []

    def has_row(self, kind: int, about: Place) -> bool:
        return (kind, about) in self.rows

    def row(self, kind: int, about: Place | None, *rest: object, **named: object) -> None:
        del rest, named
        self.rows.append((kind, about))

    def of(self, kind: int) -> list[Place | None]:
        return [about for one, about in self.rows if one == kind]


class End:
    """One of the two."""

    def __init__(self, name: str, other: str, settings: LiveSettings) -> None:
        self.name, self.other, self._settings = name, other, settings
        self.disk, self.program, self.diary = Disk(Random(1)), Reader(), Rows()
        self.boots = 0
        self.out: deque[bytes] = deque()
        """On the link, towards the other."""
        self.takes = True

    def start(self, now: int = 0) -> None:
        self.boots += 1
        self.log = OpLog.open(self.disk, LogSettings(sync="no"), now)
        self.log.boot(self.boots, b"machine", now)
        self.machine: OpenTree = open_tree(
            self.name, f"at {self.name}", {self.other: f"at {self.other}"}, self.log, self._settings,
            self.program, lambda _: self.diary, lambda: 1, now,
        )  # fmt: skip
        self.machine.start(self.boots == 1, now)
        self.step(now)

    def step(self, now: int = 0) -> None:
        if self.takes and self.machine.waiting:
            self.machine.take(1 << 20, now)
        self.machine.commit(now)
        for to, packet in self.machine.output()[0]:
            assert to == self.other
            self.out.append(self.machine.encode(packet))


class Two:
    def __init__(self, **settings: Any) -> None:
        one, two = (LiveSettings(random=Random(seed), **settings) for seed in (1, 2))
        self.a, self.b = End("a", "b", one), End("b", "a", two)
        self.now = 0
        self.largest = 0
        """Bytes of a packet."""
        for end in (self.a, self.b):
            end.start()
        self.link()

    def link(self) -> None:
        for end in (self.a, self.b):
            end.out.clear()
            end.machine.link_up(end.other, self.now)
        for end in (self.a, self.b):
            end.step(self.now)

    def unlink(self) -> None:
        for end in (self.a, self.b):
            end.out.clear()
            end.machine.link_down(end.other, self.now)
            end.step(self.now)
            end.out.clear()

    def pass_on(self, sender: End, packets: int = 1 << 20) -> int:
        """So many packets arrive, or all that there are; how many that were."""
        to, went = self.b if sender is self.a else self.a, 0
        while sender.out and went < packets:
            data = sender.out.popleft()
            self.largest = max(self.largest, len(data))
            to.machine.receive(sender.name, to.machine.decode(data), self.now)
            to.step(self.now)
            went += 1
        return went

    def wake(self) -> None:
        """Time passes."""
        self.now += 5_000
        for end in (self.a, self.b):
            if end.machine.wake_at <= self.now:
                end.machine.wake(self.now)
                end.step(self.now)

    def settle(self) -> None:
        """Until nothing is said but by the clock."""
        for _ in range(600):
            self.wake()
            while self.pass_on(self.a) + self.pass_on(self.b):
                pass

    def say(self, end: End, *payloads: bytes) -> list[Place]:
        """In one turn."""
        sent = [place for place, _ in end.machine.broadcast(payloads, self.now)]
        end.step(self.now)
        return sent


def sends(end: End) -> list[Place | None]:
    return end.diary.of(rows.SEND)


def deliveries(end: End) -> list[Place | None]:
    return end.diary.of(rows.DELIVER)
