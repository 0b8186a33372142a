"""The program of a simulated process of a changing group."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from thence.core.errors import ApplicationError, InvariantError
from thence.core.groups import Lost, Place
from thence.replica.group.process.node import GroupNode
from thence.replica.group.surroundings import Applied, Operation, Orphan
from thence.replica.life_tag import LifeTag
from thence.sim.groups_pasts import NOTHING, Checked, Past, Pasts
from thence.sim.groups_readers import SimReader

NUMBER_BYTES = 8

CHUNK_BYTES = 64
"""Of a state in the making."""

LENGTH_BYTES = 4


def sized(size: int) -> bytes:
    """An operation that tells how long it is, and how it goes on."""
    return size.to_bytes(LENGTH_BYTES, "big") + bytes([at % 251 for at in range(size)])


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
        self.on_send: Callable[[Place, bool], None] = lambda place, carried: None  # noqa: ARG005
        self.on_decline: Callable[[Place], None] = lambda place: None  # noqa: ARG005
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
            self.on_send(place, one.carried)

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
        """The step was cut short: perhaps no other process will ever hear of it."""
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
        if not orphan.again:
            self.on_decline(place)
