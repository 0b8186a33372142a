"""Packets between processes of a topology as bytes, framed like those of edge trees (`edge_codec`)."""

from typing import Any, Final

from thence.core.edge_codec import framed, unframed
from thence.core.zones import (
    ZoneAsk,
    ZoneGone,
    ZoneHave,
    ZoneHello,
    ZoneItems,
    ZonePacket,
    ZoneSays,
    ZoneWord,
)

FIRST_KIND: Final = 96

PACKETS: Final[tuple[tuple[type[Any], str], ...]] = (
    (ZoneHello, "biiiiI"),
    (ZoneItems, "iiifDI"),
    (ZoneHave, "iifI"),
    (ZoneWord, "I"),
    (ZoneAsk, "ii"),
    (ZoneSays, "iif"),
    (ZoneGone, "i"),
)
KIND_OF: Final = {kind: (FIRST_KIND + at, fields) for at, (kind, fields) in enumerate(PACKETS)}


def encode(packet: ZonePacket) -> bytes:
    return framed(packet, *KIND_OF[type(packet)])


def decode(data: bytes) -> ZonePacket:
    """A checked packet, or `PeerError`."""
    packet: ZonePacket = unframed(data, FIRST_KIND, PACKETS)
    return packet
