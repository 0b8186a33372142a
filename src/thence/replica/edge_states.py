"""States of groups in the making, as far as each turn allows: a large one holds up no other work.

They are those of the moment when they were begun, whatever happens to the program meanwhile.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from thence.core.errors import PeerError
from thence.oplog.record import MAX_BODY

PAYLOAD_MAX: Final = MAX_BODY - (1 << 20)
"""Of a message, and of the states that go in one answer. A record has room for more beside it: what a state
covers, by origin and group."""


class EdgeStatesMaking:
    __slots__ = ("_at", "_groups", "_made", "_parts", "size")

    def __init__(self, groups: Sequence[str], chunks: Sequence[Iterator[bytes]]) -> None:
        self._groups: Final = groups
        self._parts: Final = list(chunks)
        self._made: Final[list[list[bytes]]] = [[] for _ in chunks]
        self._at = 0
        """Of the group whose state is being made."""
        self.size = 0

    @property
    def over(self) -> bool:
        return self._at == len(self._parts)

    def go_on(self, most: int) -> int:
        """Make so many bytes, and the rest of a chunk; returns how many. `PeerError`: no log holds them."""
        made = 0
        while not self.over and made < most:
            chunk = next(self._parts[self._at], None)
            if chunk is None:
                self._at += 1
                continue
            self._made[self._at].append(chunk)
            made += len(chunk)
        self.size += made
        if self.size > PAYLOAD_MAX:
            of = ", ".join(self._groups)
            raise PeerError(
                f"the state of {of} has {self.size} bytes or more: a log holds up to {PAYLOAD_MAX} of one"
            )
        return made

    def states(self) -> tuple[bytes, ...]:
        """Once all are made."""
        return tuple(map(b"".join, self._made))
