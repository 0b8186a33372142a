"""What surrounds a simulated process of a changing group: its disk, its application, its diary."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Final

import msgspec

from thence.core.errors import ApplicationError, InvariantError
from thence.core.groups import Lost, Place
from thence.core.storage import DiskError
from thence.oplog.log import OpLog
from thence.oplog.policy import Policy
from thence.oplog.settings import Settings as LogSettings
from thence.replica.group import GroupNode
from thence.replica.group_parts import Applied, Operation, Orphan
from thence.replica.life_tag import LifeTag
from thence.replica.steps import Rows
from thence.sim.disk import Disk
from thence.sim.disk import Operation as DiskOperation
from thence.sim.groups_pasts import NOTHING, Checked, Past, Pasts
from thence.sim.groups_readers import SimReader
from thence.trace.recorder import CRASH, DELIVER, EACH_TIME, LEAVE, SEND, SUBSCRIBE, UNSUBSCRIBE

MACHINE = b"simulated"


NUMBER_BYTES = 8

CHUNK_BYTES = 64
"""Of a state in the making."""

Row = tuple[int, Place | None, tuple[Place, ...] | None, int, tuple[Place, ...]]
"""Kind, message, named messages, time, carried operations."""


LENGTH_BYTES = 4


def sized(size: int) -> bytes:
    """An operation that tells how long it is, and how it goes on."""
    return size.to_bytes(LENGTH_BYTES, "big") + bytes([at % 251 for at in range(size)])


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
        log = OpLog.open(disk, self._settings, now, power_lost=True)
        log.boot(number, MACHINE, now)
        return log

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


class SimApplication:
    """Remembers which operations took effect, in order: its whole state.

    `pasts` is shared by all applications of a world: what had taken effect where an operation was sent. No
    operation may take effect before those, anywhere, however it gets there.
    """

    def __init__(self, pasts: Pasts) -> None:
        self._pasts = self._sent = pasts
        self._checked = Checked()
        self.order: list[Place] = []
        self.applied: set[Place] = set()
        self.ever: set[Place] = set()
        """Applied in this process at any time, whatever became of it."""
        self.fresh: set[Place] = set()
        """Of these, what it first knew of in steps whose outputs were not released yet."""
        self.orphans: list[Place] = []
        self.declined: list[Place] = []
        """Orphans that were not sent again."""
        self.declines: Callable[[Place], bool] = lambda place: False  # noqa: ARG005
        self.views: list[tuple[str, ...]] = []
        self.reads = False
        """Its program has no use for the state, which is kept to compare it."""
        self.reader = SimReader(pasts)
        self.replays: set[Place] | None = None
        """While its process starts: what the log tells again."""
        self.padding = b""
        """Makes the state as large as one likes."""
        self.places: dict[Place, Place] = {}
        """By what an operation is known by: the name that it came under."""
        self.sized = False
        """Payloads tell how long they are: none may come in part."""
        self.numbered = False
        """Payloads begin with a number that no other operation has: counters may be given twice."""

    def believe(self) -> None:
        """From here on operations take effect as they come: members that lie make them come anyhow."""
        self._pasts = self.reader.pasts = {}

    def begin(self) -> None:
        """Its process starts, with nothing but its disk."""
        self.order = []  # the old one is a past of others
        self.applied.clear()
        self._checked = Checked()

    def compose(self, node: GroupNode, payload: bytes, count: int) -> list[bytes]:  # noqa: ARG002
        """What it broadcasts in one turn, if it is to send so many operations."""
        return [payload] * count

    def stable(self, found: Sequence[LifeTag]) -> None:
        """Nothing that it would remember."""

    def known_as(self, operation: Operation) -> Place:
        """What an operation is known by in the whole world."""
        known = operation.dot
        if self.numbered:
            known = known[0], int.from_bytes(operation.payload[:NUMBER_BYTES], "big")
        self.places[known] = operation.origin, operation.seq
        return known

    def _whole(self, payload: bytes) -> bool:
        payload = payload[NUMBER_BYTES:] if self.numbered else payload
        return payload == sized(int.from_bytes(payload[:LENGTH_BYTES], "big"))

    def apply(self, one: Applied) -> None:
        place = self.known_as(one.operation)
        if self.sized and not self._whole(one.operation.payload):
            raise InvariantError(f"{place} takes effect in part")
        if place in self.applied:
            raise InvariantError(f"{place} takes effect twice")
        sends = one.own and self.replays is None
        if sends and not one.carried:
            self._sent.pop(place, None)  # of a step that its disk had no room for
        if causes := self._checked.lacks(self._pasts.get(place, NOTHING), self.applied):
            raise InvariantError(f"{place} takes effect before {causes[0]}, which it follows from")
        past = Past(self.order, len(self.order))
        self.order.append(place)
        self.applied.add(place)
        self._knows({place})
        if self.replays is not None:
            self.replays.add(place)
        elif self.reads:
            self.reader.hears(place, one.again)
        if sends:
            self._sent[place] = past

    def missed(self, operation: Operation, tag: LifeTag | None, position: int) -> None:  # noqa: ARG002
        self.reader.hears(self.known_as(operation), again=False)
        self.reader.late += 1

    def lost(self, what: tuple[Lost, ...], holders: tuple[str, ...], position: int) -> None:  # noqa: ARG002
        self.reader.misses(what)

    def output(self) -> list[Place]:
        """What it came to know in the step."""
        return [*self.fresh, *self.reader.fresh]

    def released(self, places: Iterable[Place]) -> None:
        """The step is over, and safe."""
        self.fresh.difference_update(places)
        self.reader.fresh.difference_update(places)

    def drop(self) -> None:
        """The world takes back what is not safe when the process is gone (`take_back`)."""

    def _knows(self, places: set[Place]) -> None:
        new = places - self.ever
        self.ever |= new
        self.fresh |= new

    def take_back(self) -> None:
        """The step was cut short: perhaps nobody will ever hear of it."""
        self.ever -= self.fresh
        self.fresh.clear()

    def state(self) -> bytes:
        return msgspec.json.encode(self.order) + self.padding

    def state_chunks(self) -> Iterator[bytes]:
        """Small ones, so that a state is made in many steps."""
        state = self.state()
        return (state[at : at + CHUNK_BYTES] for at in range(0, len(state), CHUNK_BYTES))

    def install(self, state: bytes) -> None:
        body = state[: len(state) - len(self.padding)] if state else b"[]"
        try:
            order = msgspec.json.decode(body, type=list[Place])
        except msgspec.DecodeError as error:
            raise ApplicationError(f"a state that is none: {error}") from error
        self.order = order
        self.applied = set(order)
        self._checked = Checked()
        self._knows(self.applied)
        self.reader.installed(order)

    def view_changed(self, members: tuple[str, ...], me: str) -> None:  # noqa: ARG002
        if not self.views or self.views[-1] != members:
            self.views.append(members)

    def sends_again(self, orphan: Orphan) -> bool:
        return not self.declines(self.known_as(orphan.operation))

    def orphaned(self, orphan: Orphan) -> None:
        place = self.known_as(orphan.operation)
        (self.orphans if orphan.again else self.declined).append(place)


class SimDiary:
    """The rows of one incarnation: those of a step are written when its outputs are released. A crash forgets
    the others, and after the restart the log tells them again."""

    writes: Final = True

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.channels: dict[Place, str] = {}
        """By message: the channel that it was sent to."""
        self._fresh: list[Row] = []
        self._known: set[tuple[int, Place | None]] = set()

    def is_ahead(self, count: Callable[[str], int]) -> bool:
        told = [about for kind, about, *_ in self.rows if kind in (SEND, DELIVER) and about]
        return (CRASH, None) in self._known or any(seq > count(origin) for origin, seq in told)

    def has_row(self, kind: int, about: Place) -> bool:
        return (kind, about) in self._known

    def row(
        self,
        kind: int,
        about: Place | None,
        deps: tuple[Place, ...] | None,
        now: int,
        carries: tuple[Place, ...] = (),
        *,
        channel: str = "",
        key: int = 0,
    ) -> None:
        """`channel`: that a message is sent to, or that the node is a member of from here on or not any more;
        then `key` tells rows apart that say the same, and both stand where a message would."""
        if kind in (SUBSCRIBE, UNSUBSCRIBE):
            about = channel, key
        elif channel and about is not None:
            self.channels[about] = channel
        if kind not in EACH_TIME:
            if (kind, about) in self._known:
                return
            self._known.add((kind, about))
        self._fresh.append((kind, about, deps, now, carries))

    def take(self) -> list[Row]:
        fresh, self._fresh = self._fresh, []
        return fresh

    def write(self, rows: list[Row]) -> None:
        self.rows += rows

    def take_back(self) -> None:
        """The step never happened."""
        for kind, about, *_ in self._fresh:
            self._known.discard((kind, about))
        self._fresh.clear()

    def crash(self) -> None:
        """What was not written is forgotten."""
        self._fresh.clear()
        self._known = {(kind, about) for kind, about, *_ in self.rows if kind not in EACH_TIME}


class SimTrace:
    """`steps.Trace` of a process: all its incarnations'."""

    waiting = False

    def __init__(self) -> None:
        self.diaries: list[SimDiary] = []

    def take(self) -> Rows:
        return [(diary, rows) for diary in self.diaries if (rows := diary.take())]

    def take_back(self) -> None:
        for diary in self.diaries:
            diary.take_back()

    def crash(self) -> None:
        for diary in self.diaries:
            diary.crash()

    def write_waiting(self) -> None:
        """Nothing ever waits."""


def close(diaries: dict[str, SimDiary], running: set[str], now: int) -> None:
    """Say of whoever neither runs nor has left that it is down. To have left is to have been heard by one
    who runs, or has left: others may have left a side that was given up."""
    heard = {about for name in running for kind, about, *_ in diaries[name].rows if kind == DELIVER}
    left = {}
    for name, diary in diaries.items():
        kinds = [kind for kind, *_ in diary.rows]
        if LEAVE in kinds and CRASH not in kinds:
            left[name] = (name, kinds.count(SEND))
    settled = set() if running else set(left)
    while fresh := {name for name, last in left.items() if last in heard} - settled:
        settled |= fresh
        heard |= {about for name in fresh for kind, about, *_ in diaries[name].rows if kind == DELIVER}
    for name, diary in diaries.items():
        if name not in running | settled and diary.rows and diary.rows[-1][0] != CRASH:
            diary.row(CRASH, None, None, now)
            diary.write(diary.take())
