"""Requests in the Redis protocol: bytes in, commands out.

Lengths are checked before the bytes that they announce are kept. A `BadRequest` ends the connection; its
text is Redis' own. Requests that are not arrays are inline commands: words, perhaps in quotes.

Most of what clients send is whole requests of short words. Those are cut at their line ends all at once, and
each word is compared with the length before it: a word that holds a line end, or is long, fails there, and
from that request on bytes are looked at one length after the other. `hiredis` would be three times as fast,
half a microsecond of each command; but it makes room for as many words as a request announces.
"""

from collections import deque
from typing import Final

INLINE_MAX: Final = 64 << 10
ARGUMENTS_MAX: Final = 1 << 20
ARGUMENTS_UNKNOWN_MAX: Final = 10
"""Before the client has said who it is."""
BULK_UNKNOWN_MAX: Final = 16 << 10

_COUNTS: Final = {b"*%d" % count: count for count in range(1, 65)}
_LENGTHS: Final = [b"$%d" % size for size in range(1025)]
_SHORT: Final = 4096
"""An unfinished request of so many bytes is looked at once more, from its beginning, when more has come."""

_WORD_COST: Final = 32
"""Bytes that Python needs for a line of a request that is whole, beside its own."""

_SIMPLE: Final = {110: b"\n", 114: b"\r", 116: b"\t", 98: b"\b", 97: b"\a"}
_HEX: Final = b"0123456789abcdefABCDEF"
_SPACES: Final = b" \t\r\n\v\f\0"


class BadRequest(Exception):  # noqa: N818  # the client's error, not ours
    """No client that speaks the protocol sends this."""


class Requests:
    """What one connection sends."""

    __slots__ = (
        "_arguments", "_at", "_cost", "_data", "_held", "_left", "_need", "_whole", "bulk_max", "known"
    )  # fmt: skip

    def __init__(self, bulk_max: int = 512 << 20) -> None:
        self.bulk_max = bulk_max
        self.known = True
        """The client may send large requests: it has said who it is, if it must."""
        self._data = bytearray()
        self._at = 0
        self._left = 0
        """Arguments of the present request that are still to come."""
        self._need = -1
        """Length of the argument that is under way; -1: not known yet."""
        self._arguments: list[bytes] = []
        self._held = 0
        """Bytes of these, and what Python needs for them."""
        self._whole: deque[list[bytes]] = deque()
        self._cost = 0
        """Bytes of these, and what Python needs for them, until the last one is taken."""

    @property
    def waiting(self) -> int:
        """Bytes that are kept of requests, unfinished or not taken yet."""
        return len(self._data) - self._at + self._held + self._cost

    @property
    def whole(self) -> int:
        """Requests that can be taken at once."""
        return len(self._whole)

    def feed(self, data: bytes) -> None:
        if self.known and not self._left and len(self._data) - self._at <= _SHORT:
            if self._data:
                data = bytes(self._data[self._at :]) + data
                self._data.clear()
                self._at = 0
            done = self._cut(data)
            if done < len(data):
                self._data += memoryview(data)[done:]
            return
        if self._at:
            del self._data[: self._at]
            self._at = 0
        self._data += data

    def _cut(self, data: bytes) -> int:
        """Whole requests of short words; how many bytes they are."""
        lines = data.split(b"\r\n")
        at, end, add = 0, len(lines) - 1, self._whole.append
        while at < end:
            count = _COUNTS.get(lines[at])
            if count is None:
                break
            after = at + 1 + 2 * count
            if after > end:
                break
            words, head = lines[at + 2 : after : 2], at + 1
            for word in words:
                if len(word) > 1024 or lines[head] != _LENGTHS[len(word)]:
                    head = 0
                    break
                head += 2
            if not head:
                break
            add(words)
            at = after
        done = len(data) if at == end and not lines[end] else sum(map(len, lines[:at])) + 2 * at
        self._cost += done + _WORD_COST * at
        return done

    def put_back(self, request: list[bytes]) -> None:
        """It is the next one once more."""
        self._whole.appendleft(request)

    def next(self) -> list[bytes] | None:
        """The next whole request; None: more bytes are needed. An empty one is to be passed over."""
        if self._whole:
            return self._whole.popleft()
        self._cost = 0
        if not self._left and len(self._data) - self._at <= _SHORT:
            begun = self._at
            found = self._next()
            if found is None:
                self._at, self._left, self._need, self._held = begun, 0, -1, 0
                self._arguments.clear()
            return found
        return self._next()

    def _next(self) -> list[bytes] | None:
        data = self._data
        if not self._left:
            if self._at >= len(data):
                return None
            if data[self._at] != 42:  # *
                return self._inline()
            line = self._line("too big mbulk count string")
            if line is None:
                return None
            count = _number(line[1:])
            if count is None or count > ARGUMENTS_MAX:
                raise BadRequest("Protocol error: invalid multibulk length")
            if not self.known and count > ARGUMENTS_UNKNOWN_MAX:
                raise BadRequest("Protocol error: unauthenticated multibulk length")
            if count <= 0:
                return []
            self._left = count
        while self._left:
            if self._need < 0 and not self._length():
                return None
            end = self._at + self._need
            if len(data) < end + 2:
                return None
            self._arguments.append(bytes(data[self._at : end]))
            self._held += self._need + 40
            self._at = end + 2
            self._need = -1
            self._left -= 1
        found, self._arguments, self._held = self._arguments, [], 0
        return found

    def _length(self) -> bool:
        line = self._line("too big bulk count string")
        if line is None:
            return False
        if line[:1] != b"$":
            sign = chr(line[0]) if line else "\r"
            raise BadRequest(f"Protocol error: expected '$', got '{sign}'")
        size = _number(line[1:])
        if size is None or size < 0 or size > self.bulk_max:
            raise BadRequest("Protocol error: invalid bulk length")
        if not self.known and size > BULK_UNKNOWN_MAX:
            raise BadRequest("Protocol error: unauthenticated bulk length")
        self._need = size
        return True

    def _line(self, too_long: str) -> bytes | None:
        end = self._data.find(b"\r\n", self._at, self._at + INLINE_MAX)
        if end < 0:
            if len(self._data) - self._at > INLINE_MAX:
                raise BadRequest(f"Protocol error: {too_long}")
            return None
        line = bytes(self._data[self._at : end])
        self._at = end + 2
        return line

    def _inline(self) -> list[bytes] | None:
        end = self._data.find(b"\n", self._at, self._at + INLINE_MAX)
        if end < 0:
            if len(self._data) - self._at > INLINE_MAX:
                raise BadRequest("Protocol error: too big inline request")
            return None
        line = bytes(self._data[self._at : end]).removesuffix(b"\r")
        self._at = end + 1
        words = split(line)
        if words is None:
            raise BadRequest("Protocol error: unbalanced quotes in request")
        return words


def _number(text: bytes) -> int | None:
    digits = text[1:] if text[:1] == b"-" else text
    return int(text) if digits.isdigit() and len(digits) < 20 else None


def split(line: bytes) -> list[bytes] | None:
    """Words as in a shell, with `\\xff` and the like in double quotes; None: a quote does not end."""
    words: list[bytes] = []
    at, end = 0, len(line)
    while True:
        while at < end and line[at] in _SPACES:
            at += 1
        if at >= end:
            return words
        word = bytearray()
        while at < end and line[at] not in _SPACES:
            byte = line[at]
            if byte in b"\"'":
                found = _quoted(line, at + 1, byte, word)
                if found is None:
                    return None
                at = found
                break
            word.append(byte)
            at += 1
        words.append(bytes(word))


def _quoted(line: bytes, at: int, quote: int, word: bytearray) -> int | None:
    """Where the quotation ends; white space must follow."""
    end = len(line)
    while at < end:
        byte = line[at]
        if byte == quote:
            return at + 1 if at + 1 >= end or line[at + 1] in _SPACES else None
        if byte == 92 and at + 1 < end:
            following = line[at + 1]
            if quote == 39:
                if following == 39:
                    word.append(39)
                    at += 2
                    continue
            elif following == 120 and at + 3 < end and line[at + 2] in _HEX and line[at + 3] in _HEX:
                word.append(int(line[at + 2 : at + 4], 16))
                at += 4
                continue
            else:
                word += _SIMPLE.get(following, bytes([following]))
                at += 2
                continue
        word.append(byte)
        at += 1
    return None
