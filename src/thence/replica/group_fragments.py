"""Messages that are larger than a packet, over a session link: the sender cuts them, the receiver joins them.

Order, log, stability, relays and states know whole messages only: a message is cut where it leaves for one
member and joined before anything else looks at it. docs/protocols/runs.md, "Large operations".

Invariants. Under one number the fragments of a message follow each other without a gap, and nothing else
comes between them; the last one makes the message whole, and its checksum is that of the message. What has
come of a message that is not whole is in no log and no receipt: when the number ends (a link that broke, a
member that is not believed any more, a restart), it is forgotten, and the message comes again from its first
byte.
A window of bytes is under way to one member at most.
"""

from collections.abc import Iterator
from typing import Final

from thence.core.errors import PeerError
from thence.core.groups import Fragment


class Fragmenting:
    """What leaves under one number: a large message at a time. Bytes are counted over all of them."""

    __slots__ = ("_acked", "_at", "_body", "_sent")

    def __init__(self) -> None:
        self._body = memoryview(b"")
        self._at = self._sent = self._acked = 0

    @property
    def busy(self) -> bool:
        """Not all of the message has left."""
        return self._at < len(self._body)

    def begin(self, body: bytes) -> None:
        self._body, self._at = memoryview(body), 0

    def due(self, stream: int, size: int, window: int) -> Iterator[Fragment]:
        """The fragments that may leave now, of so many bytes each."""
        body, total = self._body, len(self._body)
        while self._at < total and self._sent - self._acked < window:
            at, self._at = self._at, min(total, self._at + size)
            self._sent += self._at - at
            yield Fragment(stream, at, total, body[at : self._at])
        if self._at == total:
            self.begin(b"")

    def acknowledged(self, have: int) -> None:
        if not self._acked < have <= self._sent:
            raise PeerError(f"{have} bytes of fragments have come where {self._sent} were sent")
        self._acked = have


class Assembling:
    """What comes under one number."""

    __slots__ = ("_data", "_have", "_most", "_total", "came")

    def __init__(self, most: int) -> None:
        """`most`: bytes of a message."""
        self._most: Final = most
        self._data: list[bytes | memoryview] = []
        self._total = self._have = 0
        self.came = 0
        """Bytes, of all messages."""

    @property
    def busy(self) -> bool:
        """Something of a message has come, and not all."""
        return self._have > 0

    def add(self, fragment: Fragment) -> bytes | None:
        """The message, if this makes it whole."""
        if not self._have:
            self._total = fragment.total
        if fragment.offset != self._have or fragment.total != self._total or not fragment.data:
            raise PeerError(
                f"a fragment from {fragment.offset} on, of {fragment.total}: "
                f"{self._have} bytes of {self._total} have come"
            )
        if self._total > self._most or self._have + len(fragment.data) > self._total:
            raise PeerError(f"a message of more than {min(self._total, self._most)} bytes")
        self._data.append(fragment.data)
        self._have += len(fragment.data)
        self.came += len(fragment.data)
        if self._have < self._total:
            return None
        whole = b"".join(self._data)
        self._data, self._have = [], 0
        return whole
