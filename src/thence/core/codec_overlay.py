"""The bodies of overlay packets as bytes; version, kind and checksum around them are `core.codec`'s.

    clock    = count, then a counter per member, trailing zeros left out
    data     = length, then the bytes
    name     = length, then that many bytes of UTF-8
    messages = count, then each with its length in front
    others   = their fields in order, as varints

Whatever no correct peer sends raises `PeerError`, as everywhere.
"""

from collections.abc import Callable, Sequence
from types import NoneType
from typing import Final

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.errors import PeerError
from thence.core.groups import Fragment, FragmentReceipt
from thence.core.message import Message
from thence.core.overlay import (
    LEAVING,
    Accept,
    Announce,
    Disconnect,
    ForwardJoin,
    Graft,
    Join,
    More,
    Naming,
    Neighbour,
    OverlayPacket,
    Ping,
    Places,
    Pong,
    Prune,
    Pull,
    Refuse,
    Resync,
    Rumour,
    Shared,
    Shuffle,
    ShuffleReply,
    StatePiece,
    Sync,
    Tree,
)
from thence.core.varint import MAX_SEQ, Reader, checked_counter, checked_member, put

FIRST: Final = 64
"""Kinds below are `core.codec`'s own and `core.group_codec`'s; those from 128 on belong to live links."""

KINDS: Final[tuple[type, ...]] = (
    Join, ForwardJoin, Neighbour, Accept, Refuse, Disconnect, Shuffle, ShuffleReply,
    Tree, Announce, Graft, Prune, Resync, Sync, More, Pull, StatePiece, Ping, Pong, NoneType, Naming, Places,
    Shared, Rumour, Fragment, FragmentReceipt,
)  # fmt: skip
"""By kind - FIRST. New ones go to the end; 83 was another."""

OPEN: Final = ORIGIN_MASK + 1
"""The size of a group whose members are not known beforehand. Its clocks are as long as their sender made
them: the names behind the indices are the sender's (`Naming`)."""

MOST_NAME_BYTES: Final = 255

KIND_OF: Final = {kind: FIRST + place for place, kind in enumerate(KINDS)}

MOST_STEPS: Final = 64
"""No correct peer starts a longer walk."""

PutMessages = Callable[[bytearray, Sequence[Message]], None]
TakeMessages = Callable[[Reader], tuple[Message, ...]]


def put_body(out: bytearray, packet: OverlayPacket, put_messages: PutMessages) -> None:
    """The fields of a packet; `packet` is one of `KINDS`."""
    if isinstance(packet, Sync):
        put(out, packet.version << 1 | packet.last)
        put_messages(out, packet.messages)
        return
    if isinstance(packet, Naming):
        put(out, packet.first)
        put(out, len(packet.names))
        for name in packet.names:
            _put_text(out, name)
        return
    if isinstance(packet, Places):
        put(out, len(packet.places))
        for index, name, address in packet.places:
            put(out, index)
            _put_text(out, name)
            _put_text(out, address)
        return
    if isinstance(packet, Rumour):
        put(out, packet.dot & ORIGIN_MASK)
        put(out, packet.dot >> ORIGIN_BITS)
        out += packet.check.to_bytes(4, "little")
        for data in (packet.low, packet.payload):
            put(out, len(data))
            out += data
        return
    for field in packet:
        if isinstance(field, tuple):
            _put_numbers(out, field, trim=isinstance(packet, Graft | Pull | StatePiece))
        elif isinstance(field, bytes | memoryview):
            put(out, len(field))
            out += field
        else:
            put(out, field)


def _put_text(out: bytearray, text: str) -> None:
    data = text.encode()
    put(out, len(data))
    out += data


def _take_text(reader: Reader) -> str:
    length = reader.take()
    if length > MOST_NAME_BYTES:
        raise PeerError(f"a name of {length} bytes")
    try:
        return reader.take_bytes(length).decode()
    except UnicodeDecodeError as error:
        raise PeerError("a name that is no text") from error


def _take_count(reader: Reader) -> int:
    count = reader.take()
    if count > reader.end - reader.at:
        raise PeerError(f"{count} entries in {reader.end - reader.at} bytes")
    return count


def _put_numbers(out: bytearray, numbers: tuple[int, ...], trim: bool) -> None:
    count = len(numbers)
    while trim and count and not numbers[count - 1]:
        count -= 1
    put(out, count)
    for number in numbers[:count]:
        put(out, number)


def take_body(kind: int, reader: Reader, size: int, take_messages: TakeMessages) -> OverlayPacket:
    """A checked packet of one of the kinds from `FIRST` on, for a group of `size`."""
    if not 0 <= kind - FIRST < len(KINDS) or KINDS[kind - FIRST] is NoneType:
        raise PeerError(f"a packet of kind {kind}")
    take = reader.take
    cls = KINDS[kind - FIRST]
    if cls is Sync:
        head = take()
        return Sync(head >> 1, take_messages(reader), bool(head & 1))
    if cls in (Tree, Announce):
        root = take()
        made: OverlayPacket = cls(root, checked_counter(take()))
    elif cls is Rumour:
        dot = pack(checked_member(take(), size), checked_counter(take()))
        check = int.from_bytes(reader.take_bytes(4), "little")
        made = Rumour(dot, reader.take_bytes(take()), check, reader.take_bytes(take()))
    elif cls is Fragment:
        made = Fragment(take(), take(), take(), reader.take_bytes(take()))
    elif cls in (Shared, FragmentReceipt):
        made = cls(take(), take())
    elif cls in (Ping, Pong):
        made = cls(take())
    elif cls is Graft:
        made = Graft(checked_counter(take()), _take_clock(reader, size))
    elif cls is Prune:
        made = Prune(checked_counter(take()))
    elif cls is Pull:
        made = Pull(_take_clock(reader, size))
    elif cls is StatePiece:
        made = _take_state(reader, size)
    elif cls is Naming:
        made = Naming(take(), tuple([_take_text(reader) for _ in range(_take_count(reader))]))
    elif cls is Places:
        count = _take_count(reader)
        made = Places(tuple([(take(), _take_text(reader), _take_text(reader)) for _ in range(count)]))
    elif cls is ForwardJoin:
        made = ForwardJoin(checked_member(take(), size), _steps(take()))
    elif cls is Neighbour:
        made = Neighbour(_flag(take()))
    elif cls is Disconnect:
        reason, instead = take(), checked_member(take(), size)
        if reason > LEAVING:
            raise PeerError(f"a farewell for reason {reason}")
        made = Disconnect(reason, instead)
    elif cls is Shuffle:
        made = Shuffle(checked_member(take(), size), _steps(take()), _take_nodes(reader, size))
    elif cls is ShuffleReply:
        made = ShuffleReply(_take_nodes(reader, size))
    else:
        made = cls()
    return made


def _take_state(reader: Reader, size: int) -> StatePiece:
    version, clock = reader.take(), _take_clock(reader, size)
    place, pieces = reader.take(), reader.take()
    if place >= pieces:
        raise PeerError(f"piece {place} of {pieces} of a state")
    return StatePiece(version, clock, place, pieces, reader.take_bytes(reader.take()))


def _take_clock(reader: Reader, size: int) -> tuple[int, ...]:
    """Filled up with zeros to a counter per member, where it is known how many there are."""
    count = reader.take()
    if count > size:
        raise PeerError(f"a clock of {count} members in a group of {size}")
    clock = [reader.take() for _ in range(count)]
    if clock and (not clock[-1] or max(clock) >= MAX_SEQ):
        raise PeerError("a clock that no correct peer writes like that")
    return tuple(clock if size == OPEN else clock + [0] * (size - count))


def _take_nodes(reader: Reader, size: int) -> tuple[int, ...]:
    return tuple([checked_member(reader.take(), size) for _ in range(_take_count(reader))])


def _steps(steps: int) -> int:
    if steps > MOST_STEPS:
        raise PeerError(f"a walk of {steps} steps")
    return steps


def _flag(value: int) -> bool:
    if value > 1:
        raise PeerError(f"a flag of {value}")
    return value == 1
