"""Bytes that no checksum vouches for: random ones, and valid ones that were tampered with.

Whatever reads a peer's bytes may say `PeerError` and nothing else, and must not need more memory than a
multiple of what it was given. Inputs kept in `crashers/` are replayed.

`THENCE_FUZZ=100000` looks that hard.
"""

import asyncio
import os
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, cast
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from thence.core.codec import Codec
from thence.core.codec_overlay import FIRST, KINDS
from thence.core.dots import pack
from thence.core.errors import PeerError
from thence.core.machine import Ack, Batch, Packet, Phantom
from thence.core.message import Message
from thence.core.overlay import Graft, Shuffle, StatePiece, Sync
from thence.runtime.address import Address
from thence.runtime.election import Founded, Open, Seeking, put_answer, take_answer
from thence.runtime.frames import MOST_EARLY_FRAME, MOST_FRAME, PING, Framer, join, link_frame, take_frame
from thence.runtime.handshake import Acceptor, HandshakePolicy, Opener
from thence.runtime.hello import Identity, Introduction, Purpose
from thence.runtime.link import Connection, End
from thence.runtime.options import LinkSettings
from thence.runtime.pacing import LinkLimits

HARD = settings(
    max_examples=int(os.environ.get("THENCE_FUZZ", "150")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
CRASHERS = sorted((Path(__file__).parent / "crashers").glob("*.bin"))
SIZE = 5
SECRET = b"secret"
A, B = Identity("test", "a", b"log", 1), Identity("test", "b", b"log", 1)
DOTS, VECTORS = Codec(SIZE, stamps_are_dots=True), Codec(SIZE, stamps_are_dots=False)


def sealed(body: bytes) -> bytes:
    return body + crc32(body).to_bytes(4, "little")


def message(seq: int) -> Message:
    return Message(pack(1, seq), (pack(0, seq + 3), pack(1, seq - 1), pack(4, 1)), b"payload" * seq, (2, 3))


PACKETS: list[Packet] = [
    message(2),
    Ack((1, 2, 3, 4, 5), (pack(1, 9), pack(2, 8))),
    Phantom((pack(1, 5), pack(2, 9)), True),
    Batch((message(2), message(3), message(9))),
    Shuffle(1, 3, (2, 3, 4)),
    Graft(4, (1, 2, 3, 0, 0)),
    Sync(3, (message(2), message(4)), True),
    StatePiece(1, (1, 0, 2, 0, 0), 1, 3, b"state"),
]
BY_DOTS = [DOTS.encode(packet) for packet in PACKETS]
BY_VECTORS = [
    VECTORS.encode(packet)
    for packet in (
        Message(pack(1, 7), (4, 7, 0, 2, 9), b"payload", ()),
        Message(pack(2, 3), (4, 7, 3, 2, 9, 1, 1, 1, 1, 1), b"", (0, 4)),
        Phantom((4, 7, 0, 2, 9), False),
    )
]
HELLO = Introduction(A, "b", Purpose.LINK, bytes(8), bytes(32))
ANSWERS = [
    put_answer(Founded((("a", Address("127.0.0.1", 1)), ("b", Address("::1", 2))))),
    put_answer(Open((("a", Address("127.0.0.1", 1)),), 3)),
    put_answer(Seeking("a", Address("host", 1), (Address("127.0.0.1", 3), Address("::", 4)))),
]


def judge() -> HandshakePolicy:
    return HandshakePolicy(lambda _: None, lambda *_: None, lambda _: ANSWERS[0])


def exchange(aim: Purpose) -> tuple[list[bytes], list[bytes]]:
    """What the opener and the acceptor of a good handshake say."""
    opener = Opener(Introduction(A, "b", aim, bytes(8), bytes(32)), SECRET, lambda _: None)
    acceptor = Acceptor(B, bytes(8), bytes(32), SECRET, judge())
    hello = opener.start()
    welcome = acceptor.take(hello[0])
    proof = opener.take(welcome[0])
    last = acceptor.take(proof[0])
    return hello + proof + opener.take(last[0]), welcome + last


# What reads bytes. Each takes anything; an exception other than PeerError is a crash.


def framing(data: bytes) -> None:
    """The first byte says how long the reads are."""
    step = data[0] * 8 + 1 if data else 1
    framer = Framer(MOST_FRAME)
    with suppress(PeerError):
        for at in range(1, len(data), step):
            framer.feed(data[at : at + step])
            assert framer.kept_bytes <= len(data)


def handshake(data: bytes) -> None:
    """Both roles, from the start and halfway."""
    for aim in Purpose:
        said_by_opener, said_by_acceptor = exchange(aim)
        for known in range(3 if aim is Purpose.LINK else 2):
            opener = Opener(Introduction(A, "b", aim, bytes(8), bytes(32)), SECRET, lambda _: None)
            acceptor = Acceptor(B, bytes(8), bytes(32), SECRET, judge())
            opener.start()
            for frame in said_by_acceptor[: min(known, 1)]:
                opener.take(frame)
            for frame in said_by_opener[:known]:
                acceptor.take(frame)
            for side in (opener, acceptor):
                buffer = bytearray(data)
                with suppress(PeerError):
                    while (frame_ := take_frame(buffer, MOST_EARLY_FRAME)) is not None:
                        side.take(frame_)


def answer(data: bytes) -> None:
    with suppress(PeerError):
        take_answer(data)


def codec(data: bytes) -> None:
    for reader in (DOTS, VECTORS):
        with suppress(PeerError):
            reader.decode(data)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "framing": framing,
    "handshake": handshake,
    "answer": answer,
    "codec": codec,
}


@pytest.mark.parametrize("path", CRASHERS, ids=lambda path: path.stem)
def test_kept_inputs_are_only_ever_a_peers_error(path: Path) -> None:
    TARGETS[path.name.split("-")[0]](path.read_bytes())


# Ways to spoil something valid.


def spoil(data: bytes, seed: int) -> bytes:
    """A few cuts, flips, repetitions and insertions."""
    random = Random(seed)
    out = bytearray(data)
    for _ in range(random.randint(1, 4)):
        at, length = random.randint(0, len(out)), random.randint(0, 8)
        match random.randint(0, 5):
            case 0:
                del out[at : at + length]
            case 1:
                out[at:at] = out[at : at + length]
            case 2:
                out[at:at] = random.randbytes(length)
            case 3:
                out[at : at + 1] = bytes([random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))])
            case 4:
                out[at : at + length] = b"\xff" * length
            case _:
                del out[at:]
    return bytes(out)


SEEDS = st.integers(0, 1 << 64)


@HARD
@given(st.binary(max_size=2000))
def test_random_bytes_are_only_ever_a_peers_error(data: bytes) -> None:
    for target in TARGETS.values():
        target(data)
    codec(sealed(b"\x01" + data))


@HARD
@given(st.integers(0, FIRST + len(KINDS)), st.binary(max_size=400))
def test_a_body_with_the_right_checksum_is_still_not_believed(kind: int, body: bytes) -> None:
    codec(sealed(bytes((1, kind)) + body))


@HARD
@given(st.sampled_from(BY_DOTS + BY_VECTORS), SEEDS)
def test_a_packet_that_was_tampered_with_and_sealed_again(packet: bytes, seed: int) -> None:
    codec(sealed(spoil(packet[:-4], seed)))


def test_what_is_tampered_with_was_good_before() -> None:
    """Else the fuzzing would only ever see the first check."""
    for packet in BY_DOTS:
        DOTS.decode(packet)
    for packet in BY_VECTORS:
        VECTORS.decode(packet)
    for data in ANSWERS:
        take_answer(data)


@HARD
@given(st.sampled_from(ANSWERS), SEEDS)
def test_an_answer_that_was_tampered_with(data: bytes, seed: int) -> None:
    answer(spoil(data, seed))


@HARD
@given(st.sampled_from(Purpose), st.integers(0, 3), SEEDS, st.booleans())
def test_a_handshake_frame_that_was_tampered_with(aim: Purpose, which: int, seed: int, whole: bool) -> None:
    """`whole`: the length still fits, so that the contents are looked at."""
    opener, acceptor = exchange(aim)
    frame = [*opener, *acceptor][which]
    handshake(join([spoil(frame, seed)]) if whole else spoil(join([frame]), seed))


@HARD
@given(st.lists(st.binary(min_size=2, max_size=50), max_size=20), SEEDS, st.integers(0, 255))
def test_a_stream_of_frames_that_was_tampered_with(frames: list[bytes], seed: int, step: int) -> None:
    framing(bytes([step]) + spoil(join(frames), seed))


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def close(self) -> None:
        self.closed = True

    abort = close


class Owner:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def connection_open(self, connection: Connection) -> None:
        self.heard.append("open")

    def connection_up(self, connection: Connection, now: int) -> None:
        self.heard.append("up")

    def connection_packets(self, connection: Connection, packets: list[bytes], now: int) -> None:
        for packet in packets:
            DOTS.decode(packet)

    def connection_down(self, connection: Connection, end: End, why: str) -> None:
        assert why.isprintable()
        self.heard.append("down")

    def connection_gone(self, connection: Connection) -> None:
        self.heard.append("gone")

    def stops(self, error: Exception) -> None:
        raise error


@HARD
@given(st.integers(0, 3), SEEDS, st.integers(1, 3000))
def test_nothing_raises_past_a_connection(spoiled: int, seed: int, step: int) -> None:
    """A whole life of a connection, in reads of `step` bytes, one part of it tampered with."""

    async def life() -> list[str]:
        owner, wire = Owner(), Wire()
        acceptor = Acceptor(B, bytes(8), bytes(32), SECRET, judge())
        connection = Connection(owner, acceptor, LinkSettings(), LinkLimits(), lambda: 0)
        connection.connection_made(cast(asyncio.BaseTransport, wire))
        (hello, *proof), _ = exchange(Purpose.LINK)
        traffic = [link_frame(PING), *BY_DOTS] * 5
        parts = [join([hello]), join(proof), join(traffic)]
        if spoiled < len(parts):
            parts[spoiled] = spoil(parts[spoiled], seed)
        data = b"".join(parts)
        for at in range(0, len(data), step):
            connection.data_received(data[at : at + step])
        assert connection.ended == wire.closed
        connection.connection_lost(None)
        return owner.heard

    heard = asyncio.run(life())
    assert heard in (["open", "up", "down", "gone"], ["open", "down", "gone"])
    if spoiled >= 2:
        assert "up" in heard


HOGS = {
    "framing": b"\x00" + MOST_FRAME.to_bytes(4, "little") + bytes(100),
    "handshake": join([link_frame(128, b"\x01\x00" + b"\xff" * 9 + b"\x01" + bytes(60_000))]),
    "answer": b"\x01" + b"\xff\xff\xff\x7f" + bytes(1000),
    "batch of many": sealed(b"\x01\x03" + b"\x90\x4e" + b"\x05\x01\x01\x00\x00\x00" * 10_000),
    "batch of too many": sealed(b"\x01\x03" + b"\xff\xff\xff\x7f" + bytes(1000)),
    "early dots": sealed(b"\x01\x01\x05" + bytes(5) + b"\xa0\x9c\x01" + b"\x01\x01" * 20_000),
    "endless bitmap": sealed(b"\x01\x00\x01\x01\x03\xe0\xd4\x03" + b"\xff" * 60_000),
}


@pytest.mark.parametrize("name", HOGS)
def test_memory_is_a_multiple_of_what_came_and_not_of_what_was_announced(name: str) -> None:
    data = HOGS[name]
    target = TARGETS.get(name, codec)
    target(data)  # once, so that what is only made once does not count
    tracemalloc.start()
    try:
        target(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 100_000 + 80 * len(data), f"{peak} bytes for {len(data)}"
