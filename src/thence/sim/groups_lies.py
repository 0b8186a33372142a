"""Peers that lie: well-formed packets that are untrue in who speaks, of which member, and how much.

A *guest* is linked and no member. It repeats what it has overheard, changed here and there and under other
names. It can cost members a link, an attempt to join or a return, and nothing else: what they deliver, and
which members they keep, is judged as in every other storm. A *traitor* is a member whose packets are changed
on their way out. Members believe each other, so nothing is promised then but this: the others take it for a
peer's error or for the truth, and none of them breaks.
"""

from collections import deque
from random import Random
from typing import Any

from msgspec.structs import astuple, replace

from thence.core.codec import Codec
from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.errors import PeerError
from thence.core.groups import (
    CARRY,
    Extent,
    Flow,
    GroupPacket,
    JoinRequest,
    NamedMessage,
    Notice,
    Receipt,
    Running,
    Span,
    incarnation,
    process_of,
)
from thence.core.message import Message
from thence.sim.groups import GUEST, GroupWorld

CODEC = Codec(ORIGIN_MASK + 1, stamps_are_dots=True)

OVERHEARD_MAX = 200
"""True packets that a liar remembers: the newest say most."""

NUMBERS = (0, 1, 2, 3, 7, 255, 1 << 20, (1 << 42) + 1, (1 << 43) - 1)


LISTS = ("suspects", "unheard", "wants", "members", "names", "past")
"""Fields that may be empty, and need not be in a lie."""


class Liar:
    def __init__(self, random: Random, names: list[str]) -> None:
        self._random = random
        self._names = [incarnation(name, number) for name in names for number in (1, 1, 2, 3)]
        self.overheard: deque[GroupPacket] = deque(maxlen=OVERHEARD_MAX)

    def lie(self, packet: GroupPacket) -> GroupPacket:
        """The packet with one to three of its fields changed."""
        random, (names, fields) = self._random, _fields(packet)
        for _ in range(random.randint(1, 3)):
            at = random.randrange(len(fields))
            if fields[at] not in ((), {}):
                fields[at] = self._other(fields[at])
            elif names[at] in LISTS:
                fields[at] = (self._span() if names[at] == "past" else random.choice(self._names),)
        lie: GroupPacket = type(packet)(*fields)
        if isinstance(lie, JoinRequest):
            grade, size, least, own = lie.rank
            return lie._replace(rank=(grade, -abs(size), least, own))
        if isinstance(lie, Flow) and random.random() < 0.7:
            return replace(lie, bodies=tuple([self._body(body) for body in lie.bodies]))
        return lie

    def _other(self, value: object) -> object:
        random = self._random
        if isinstance(value, str):
            return random.choice(self._names)
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return random.choice((*NUMBERS, max(0, value - 1), value + 1, value + 2))
        if isinstance(value, bytes):
            return self._bytes(value)
        if isinstance(value, dict):
            changed: dict[str, object] = dict(value)
            some = random.choice(list(changed.values()))
            changed[random.choice([*changed, random.choice(self._names)])] = self._other(some)
            return changed
        if isinstance(value, Receipt):
            return self.lie(value)
        if isinstance(value, Extent | NamedMessage | Running):
            at = random.randrange(len(value))
            parts: list[Any] = list(value)
            parts[at] = self._other(parts[at])
            return type(value)(*parts)
        return self._tuple(value) if isinstance(value, tuple) and value else value

    def _tuple(self, value: tuple[object, ...]) -> tuple[object, ...]:
        parts, random = list(value), self._random
        at = random.randrange(len(parts))
        if isinstance(parts[0], str) and len(parts) == 3 and isinstance(parts[1], int):
            return self._span()
        if any(isinstance(part, int) for part in parts) or random.random() < 0.7:
            parts[at] = self._other(parts[at])
        elif random.random() < 0.5:
            del parts[at]
        else:
            parts.append(parts[at])
        return tuple(parts)

    def _span(self) -> Span:
        low = self._random.randint(1, 4)
        return process_of(self._random.choice(self._names)), low, low + self._random.choice((0, 1, 9))

    def _bytes(self, value: bytes) -> bytes:
        changed = bytearray(value or b"\0")
        changed[self._random.randrange(len(changed))] = self._random.randrange(CARRY + 3)
        return bytes(changed)

    def _body(self, body: bytes) -> bytes:
        """A message of a flow, as if its sender had written another one."""
        random = self._random
        try:
            message = CODEC.decode(body)
        except PeerError:
            return body
        if not isinstance(message, Message):
            return body
        dot = pack((message.dot & ORIGIN_MASK) + random.choice((0, 0, 1)), message.dot >> ORIGIN_BITS)
        if random.random() < 0.4:
            dot += random.choice((1, 2, 1 << 30)) << ORIGIN_BITS
        context = message.context
        if random.random() < 0.3:
            context = (*context, pack(random.randrange(4), random.choice((1, 2, 9))))
        last = {one & ORIGIN_MASK: one for one in context if one & ORIGIN_MASK != dot & ORIGIN_MASK}
        context = tuple(sorted(last.values(), key=lambda one: one & ORIGIN_MASK))
        payload = message.payload
        if random.random() < 0.5:
            payload = bytes((random.randrange(CARRY + 1),)) + payload[1:]
        return CODEC.encode(Message(dot, context, payload))


class Guest(Liar):
    """Sends lies from a process that is linked and never joins."""

    def __init__(self, world: GroupWorld, random: Random, until: int, every_us: int) -> None:
        super().__init__(random, [*world.names, GUEST])
        self._world = world
        self._until = until
        self._every_us = every_us
        self._honest = world.filter
        world.filter = self._overhear
        world.liars.add(GUEST)
        world.boot(GUEST)
        world.at(every_us, self._speak)

    def _overhear(self, sender: str, receiver: str, packet: GroupPacket) -> GroupPacket | None:
        self.overheard.append(packet)
        kept: GroupPacket | None = self._honest(sender, receiver, packet)
        return kept

    def _speak(self) -> None:
        world, random = self._world, self._random
        if self.overheard:
            true = random.choice(self.overheard)
            lie = true if random.random() < 0.3 else self.lie(true)
            # A notice under its own name is one that any member could send: it would cost a return each time.
            if not (isinstance(lie, Notice) and process_of(lie.source) == GUEST):
                world.forge(GUEST, random.choice(world.names), lie)
        if world.now < self._until:
            world.at(world.now + int(random.expovariate(1) * self._every_us), self._speak)


class Traitor(Liar):
    """Changes what a member sends."""

    def __init__(self, world: GroupWorld, name: str, random: Random, share: float) -> None:
        super().__init__(random, world.names)
        self._name = name
        self._share = share
        self._honest = world.filter
        world.filter = self._betray
        world.liars.add(name)

    def _betray(self, sender: str, receiver: str, packet: GroupPacket) -> GroupPacket | None:
        if sender == self._name and self._random.random() < self._share:
            packet = self.lie(packet)
        kept: GroupPacket | None = self._honest(sender, receiver, packet)
        return kept


def _fields(packet: GroupPacket) -> tuple[tuple[str, ...], list[Any]]:
    """Their names, and what is in them."""
    if isinstance(packet, Flow):
        return packet.__struct_fields__, list(astuple(packet))
    return packet._fields, list(packet)
