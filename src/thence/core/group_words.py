"""Building blocks of what members of a changing group write down and send: names first, then the rest.

    names = count, then each: length, bytes      every name that is spoken of, once
    a name further on is its place among them

Whatever is read may come from any process: what no correct peer writes is a `PeerError`.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from thence.core.errors import PeerError
from thence.core.groups import RUN, STARTED, NamedMessage, Place, Span, Starts, plain
from thence.core.varint import Reader, put

MAX_NAME: Final = 255 + 2 * 20
"""The name of a process, the number of an incarnation and that of a start."""
MAX_ADDRESS: Final = 1024
MAX_SEQ: Final = 1 << 43
NAMES: Final = 4096
"""That were found good lately: each packet names all members again."""


class WordWriter:
    """Gathers names and body."""

    __slots__ = ("_names", "body")

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self.body = bytearray()

    def number(self, value: int) -> None:
        put(self.body, value)

    def name(self, name: str) -> None:
        put(self.body, self._names.setdefault(name, len(self._names)))

    def names(self, names: tuple[str, ...] | list[str]) -> None:
        put(self.body, len(names))
        for name in names:
            self.name(name)

    def data(self, data: bytes | memoryview) -> None:
        put(self.body, len(data))
        self.body += data

    def text(self, text: str) -> None:
        self.data(text.encode())

    def texts(self, texts: dict[str, str]) -> None:
        put(self.body, len(texts))
        for name, text in texts.items():
            self.name(name)
            self.text(text)

    def counts(self, counts: dict[str, int]) -> None:
        put(self.body, len(counts))
        for name, count in counts.items():
            self.name(name)
            put(self.body, count)

    def spans(self, spans: Iterable[Span]) -> None:
        listed = list(spans)
        put(self.body, len(listed))
        for process, low, high in listed:
            self.name(process)
            put(self.body, low)
            put(self.body, high - low)

    def starts(self, starts: dict[str, Starts]) -> None:
        put(self.body, len(starts))
        for name, listed in starts.items():
            self.name(name)
            put(self.body, len(listed))
            for base, start in listed:
                put(self.body, base)
                put(self.body, start)

    def places(self, places: tuple[Place, ...] | list[Place]) -> None:
        put(self.body, len(places))
        for place in places:
            self.place(place)

    def place(self, place: Place) -> None:
        self.name(place[0])
        put(self.body, place[1])

    def message(self, message: NamedMessage) -> None:
        self.name(message.origin)
        put(self.body, message.seq)
        self.places(message.context)
        self.data(message.payload)

    def cut(self) -> bytes:
        """The body since it was last cut."""
        body, self.body = bytes(self.body), bytearray()
        return body

    def head(self) -> bytes:
        """The names so far: they go before the body."""
        head = bytearray()
        put(head, len(self._names))
        for name in self._names:
            encoded = name.encode()
            put(head, len(encoded))
            head += encoded
        return bytes(head)

    def bytes(self) -> bytes:
        return b"".join((self.head(), self.body))


def take_name(reader: Reader) -> str:
    size = reader.take()
    if not 0 < size <= MAX_NAME:
        raise PeerError(f"a name of {size} bytes")
    return _name(reader.take_bytes(size))


@lru_cache(NAMES)
def _name(data: bytes) -> str:
    try:
        name = data.decode()
    except UnicodeDecodeError:
        raise PeerError("a name that is no text") from None
    if any(letter.isspace() for letter in name):
        raise PeerError("a name with white space")
    process, *numbers = name.split("~")
    good = all(number.isascii() and number.isdigit() and len(number) < 20 for number in numbers)
    if not process or len(numbers) > 2 or not good or any(str(int(number)) != number for number in numbers):
        raise PeerError(f"no incarnation is called {name!r}")
    if numbers and (numbers == ["1"] or numbers[0] == "0"):
        raise PeerError(f"{name!r} is another name of {process!r}, or of nothing")
    return name


def is_known(payload: bytes) -> bool:
    """Is this the payload of a message, as far as its first bytes tell?"""
    payload = plain(payload)
    return bool(payload) and payload[0] <= RUN and payload[0] != STARTED


class Parser:
    """The other direction, believing nothing."""

    __slots__ = ("_names", "_reader")

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self._reader = Reader(data, at, end)
        self._names = [take_name(self._reader) for _ in range(self.count())]

    def number(self) -> int:
        return self._reader.take()

    def count(self) -> int:
        count = self._reader.take()
        if count > self._reader.end - self._reader.at:
            raise PeerError(f"{count} things in {self._reader.end - self._reader.at} bytes")
        return count

    def name(self) -> str:
        place = self._reader.take()
        if place >= len(self._names):
            raise PeerError(f"name {place} of {len(self._names)}")
        return self._names[place]

    def names(self) -> tuple[str, ...]:
        return tuple([self.name() for _ in range(self.count())])

    def data(self) -> bytes:
        return self._reader.take_bytes(self._reader.take())

    def text(self) -> str:
        data = self.data()
        if len(data) > MAX_ADDRESS:
            raise PeerError(f"an address of {len(data)} bytes")
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise PeerError("an address that is no text") from None

    def texts(self) -> dict[str, str]:
        return {self.name(): self.text() for _ in range(self.count())}

    def seq(self) -> int:
        seq = self._reader.take()
        if not 0 < seq < MAX_SEQ:
            raise PeerError(f"a counter of {seq}")
        return seq

    def counts(self) -> dict[str, int]:
        return {self.name(): self._reader.take() for _ in range(self.count())}

    def spans(self) -> tuple[Span, ...]:
        return tuple([self._span() for _ in range(self.count())])

    def _span(self) -> Span:
        process, low, more = self.name(), self.number(), self.number()
        if not low:
            raise PeerError(f"number 0 of {process}")
        return process, low, low + more

    def starts(self) -> dict[str, Starts]:
        return {self.name(): self._starts() for _ in range(self.count())}

    def _starts(self) -> Starts:
        starts = tuple([(self.number(), self.number()) for _ in range(self.count())])
        bases = [base for base, _ in starts]
        if bases[:2] == [0, 0]:
            del bases[0]  # installed under one, and the first message sent under the next
        if sorted(set(bases)) != bases:
            raise PeerError("starts in disorder")
        return starts

    def places(self) -> tuple[Place, ...]:
        return tuple([(self.name(), self.seq()) for _ in range(self.count())])

    def each_place(self) -> Iterator[Place]:
        """The same, as they are asked for."""
        return ((self.name(), self.seq()) for _ in range(self.count()))

    def message(self) -> NamedMessage:
        message = NamedMessage(self.name(), self.seq(), self.places(), self.data())
        if not is_known(message.payload):
            raise PeerError("a message of an unknown kind")
        if any(name == message.origin and seq >= message.seq for name, seq in message.context):
            raise PeerError("a message that follows from itself")
        return message

    @property
    def left(self) -> int:
        """Bytes that were not read yet."""
        return self._reader.end - self._reader.at

    @property
    def done(self) -> bool:
        return self._reader.at == self._reader.end

    def end(self) -> None:
        if not self.done:
            raise PeerError(f"{self._reader.end - self._reader.at} bytes too many")
