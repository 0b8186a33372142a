"""Frames: where one ends and the next begins in the bytes of a connection.

    frame = length (4 bytes, little endian) version (1 byte) kind (1 byte) body

Packets (kinds below 128) are not looked into here: they are checked by their decoder. Kinds from 128
on are the link's own.

This is the hot path of a live node, so a read is cut up in one loop, packets are copied once, out of the
read, and only a frame that is split between reads is put together from its pieces. What is kept between
reads never exceeds the longest frame that is allowed, and is allocated as it arrives, not as it is announced.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from thence.core.errors import InvariantError, PeerError

VERSION: Final = 1
"""Of link frames. Packets carry the version of their own form in the same place."""

HELLO, WELCOME, PROOF, READY, REFUSE, PING, PONG, ANSWER, AGREED = range(128, 137)
FIRST_LINK_KIND: Final = 128

MOST_FRAME: Final = 16 << 20
MOST_EARLY_FRAME: Final = 64 << 10
"""Before the handshake is over: a stranger may make us keep no more than this."""

HEAD: Final = 4
LEAST_FRAME: Final = 2

_LENGTH: Final = Struct("<I")
_length_at: Final = _LENGTH.unpack_from
_length: Final = _LENGTH.pack


def link_frame(kind: int, body: bytes = b"") -> bytes:
    """A frame of the link, without its length."""
    return bytes((VERSION, kind)) + body


def join(frames: Sequence[bytes], most: int = MOST_FRAME) -> bytes:
    """Frames as they travel, each with its length in front."""
    if len(frames) == 1:
        joined = _length(len(frames[0])) + frames[0]
    else:
        parts = []
        for frame in frames:
            parts.append(_length(len(frame)))
            parts.append(frame)
        joined = b"".join(parts)
    if len(joined) > most:  # seldom: only then is it worth looking at each
        for frame in frames:
            if len(frame) > most:
                raise InvariantError(f"a frame of {len(frame)} bytes was to be sent; {most} is the limit")
    return joined


def take_frame(buffer: bytearray, most: int) -> bytes | None:
    """Cuts the first frame off `buffer`, if it is complete. For handshakes, which go frame by frame."""
    if len(buffer) < HEAD:
        return None
    length: int = _length_at(buffer)[0]
    _check(length, most)
    if len(buffer) < HEAD + length:
        return None
    frame = bytes(memoryview(buffer)[HEAD : HEAD + length])
    del buffer[: HEAD + length]
    return frame


def _check(length: int, most: int) -> None:
    if length > most:
        raise PeerError(f"a frame of {length} bytes; {most} is the limit")
    if length < LEAST_FRAME:
        raise PeerError(f"a frame of {length} bytes has no kind")


class Framer:
    """Bytes in, complete frames out, a whole read at a time.

    Invariant: `_kept` is a strict prefix of one frame, with its length.
    """

    __slots__ = ("_kept", "_most", "_need", "own")

    def __init__(self, most: int = MOST_FRAME) -> None:
        self._most = most
        self._kept = bytearray()
        self._need = HEAD
        """How long the frame is that `_kept` begins, once its length has arrived."""
        self.own: list[bytes] = []
        """Frames of the link itself, for the connection to take away."""

    @property
    def kept_bytes(self) -> int:
        return len(self._kept)

    def feed(self, data: bytes) -> list[bytes]:
        """The packets that `data` completes, in order. `PeerError`: the stream is beyond repair."""
        packets: list[bytes] = []
        at = self._finish(data, packets) if self._kept else 0
        end, most = len(data), self._most
        append = packets.append
        while end - at >= HEAD:
            length: int = _length_at(data, at)[0]
            if not LEAST_FRAME <= length <= most:
                _check(length, most)
            start = at + HEAD
            stop = start + length
            if stop > end:
                self._need = HEAD + length
                break
            if data[start + 1] < FIRST_LINK_KIND:
                append(data[start:stop])
            else:
                self.own.append(data[start:stop])
            at = stop
        if at < end:
            self._kept += data[at:] if at else data
        return packets

    def _finish(self, data: bytes, packets: list[bytes]) -> int:
        """Completes the frame that earlier reads began; says how much of `data` went into it."""
        kept = self._kept
        at = 0
        if len(kept) < HEAD:
            at = min(HEAD - len(kept), len(data))
            kept += data[:at]
            if len(kept) < HEAD:
                return at
            length: int = _length_at(kept)[0]
            _check(length, self._most)
            self._need = HEAD + length
        stop = at + self._need - len(kept)
        kept += data[at:stop]
        if len(kept) < self._need:
            return len(data)
        frame = bytes(memoryview(kept)[HEAD:])
        # A new one rather than an emptied one: a long frame must not leave its memory behind.
        self._kept = bytearray()
        (packets if frame[1] < FIRST_LINK_KIND else self.own).append(frame)
        return stop
