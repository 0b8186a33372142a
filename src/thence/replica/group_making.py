"""The bytes of a state, a bounded part of them at a time: rule 10 of docs/protocols/membership.md.

Where a member was away for long, a state holds tens of thousands of messages. What it says is fixed in the
step that lets a joiner in, and that step copies only what is as small as the membership. The long lists are
read from the log, which is only added to and is not collected while a joiner is waited for, so a reader that
was begun in that step finds the same however much is delivered meanwhile. Each later step encodes as much as
its allowance lets it.
"""

from bisect import bisect_right
from collections.abc import Generator

from thence.replica.group_backlog import KILOBYTE_BITS, Allowance
from thence.replica.group_state import Encoded


class Making:
    """A state that is encoded in steps, and then read in pieces."""

    __slots__ = ("_parts", "_rest", "_starts", "size", "transfer")

    def __init__(self, rest: Generator[int, None, Encoded]) -> None:
        """`rest` yields the bytes that each item has cost."""
        self._rest: Generator[int, None, Encoded] | None = rest
        self._parts: list[bytes] = []
        self._starts: list[int] = []
        self.size = 0
        """In bytes; as far as it is known, while it is in the making."""
        self.transfer = 0
        """Named after the contents, once they are known."""

    @property
    def whole(self) -> bool:
        return self._rest is None

    def go_on(self, allowance: Allowance) -> None:
        """Encode as much as is allowed."""
        if self._rest is None:
            return
        try:
            while allowance.left > 0:
                cost = next(self._rest)
                self.size += cost
                allowance.left -= 1 + (cost >> KILOBYTE_BITS)
        except StopIteration as end:
            self._rest = None
            self._finish(end.value)

    def _finish(self, made: Encoded) -> None:
        self._parts, self.size = made.parts, 0
        for part in made.parts:
            self._starts.append(self.size)
            self.size += len(part)
        self.transfer = made.sum << 24 | self.size & 0xFFFFFF

    def read(self, first: int, size: int) -> bytes:
        """So many bytes from one on, or as many as there are."""
        at, found, end = bisect_right(self._starts, first) - 1, [], min(first + size, self.size)
        while first < end:
            offset = first - self._starts[at]
            found.append(memoryview(self._parts[at])[offset : offset + end - first])
            first += len(found[-1])
            at += 1
        return b"".join(found)
