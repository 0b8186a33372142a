"""Format: packets as every version since has written them. Peers of an older version must be understood, and
logs hold messages in this form."""

import json
from pathlib import Path

import pytest

from thence.core.codec import Codec
from thence.core.dots import pack
from thence.core.machine import Ack, Batch, Packet, Phantom
from thence.core.message import Message

GOLDEN = Path(__file__).parent / "golden"
SIZE = 40

MESSAGE = Message(pack(2, 300), (pack(0, 290), pack(7, 305)), b"payload", ())
CROWDED = Message(pack(1, 50), tuple(sorted([pack(origin, 40 + origin % 3) for origin in range(2, 30)])), b"")
ADDRESSED = Message(pack(3, 1), (), b"\x00\xff", (0, 39))

DOTS: dict[str, Packet] = {
    "message": MESSAGE,
    "message with a bitmap": CROWDED,
    "message to some": ADDRESSED,
    "batch": Batch((MESSAGE, ADDRESSED)),
    "ack": Ack(tuple(range(SIZE)), (pack(5, 9), pack(5, 10))),
    "phantom": Phantom((pack(0, 4), pack(9, 1000)), asks=True),
}
VECTORS: dict[str, Packet] = {
    "vector message": Message(pack(1, 5), (9, 5, *[0] * (SIZE - 2)), b"v"),
    "vector phantom": Phantom(tuple(range(SIZE)), asks=False),
}


def shown(packet: Packet) -> object:
    """A packet as plain values."""
    if isinstance(packet, Message):
        return ["message", packet.dot, packet.context, packet.payload, packet.dest]
    if isinstance(packet, Batch):
        return ["batch", [shown(message) for message in packet.messages]]
    if isinstance(packet, Ack):
        return ["ack", packet.received, packet.early]
    assert isinstance(packet, Phantom)
    return ["phantom", packet.context, packet.asks]


@pytest.mark.parametrize("version", ["v1"])
@pytest.mark.parametrize("name", [*DOTS, *VECTORS])
def test_packets_of_any_version_are_understood(name: str, version: str) -> None:
    data = bytes.fromhex(json.loads((GOLDEN / f"packets-{version}.json").read_text())[name])
    codec = Codec(SIZE, stamps_are_dots=name in DOTS)
    assert shown(codec.decode(data)) == shown((DOTS | VECTORS)[name])


def test_what_is_written_today_is_what_the_newest_golden_packets_are() -> None:
    """If this fails, the form has changed: it needs a new version, and the old one must still be read."""
    kept = json.loads((GOLDEN / "packets-v1.json").read_text())
    written = {name: Codec(SIZE, True).encode(packet).hex() for name, packet in DOTS.items()}
    written |= {name: Codec(SIZE, False).encode(packet).hex() for name, packet in VECTORS.items()}
    assert written == kept
