"""Dots: the identity of a message, packed into one integer.

A dot is a pair (origin, counter): the member that sent the message and that member's own count of
its messages, from 1. Inside a node it is one `int`, counter in the high bits, the origin's index in
the low ones. Hashing and comparing an int is several times cheaper than a tuple, and for dots of one
origin the order of the ints is the order of the counters, so that a delivered vector can hold whole
dots and the test "have I delivered p?" is `p <= delivered[p & ORIGIN_MASK]`.

An index stands for a member only inside one node's `Group`; names travel, indices do not. Counters
start at 1, so the smallest dot of an origin is above its index and `index` itself (counter 0) stands
for "nothing from this origin yet".
"""

from collections.abc import Iterable

from thence.core.errors import UsageError

ORIGIN_BITS = 20
"""A million incarnations in the life of a group, and 2^43 messages of each below 63 bits."""

ORIGIN_MASK = (1 << ORIGIN_BITS) - 1
STEP = 1 << ORIGIN_BITS
"""Distance between two successive dots of one origin."""


def pack(origin: int, seq: int) -> int:
    return seq << ORIGIN_BITS | origin


def origin_of(dot: int) -> int:
    return dot & ORIGIN_MASK


def seq_of(dot: int) -> int:
    return dot >> ORIGIN_BITS


class Group:
    """Names of members and the indices that stand for them; indices are handed out once, for good."""

    __slots__ = ("_index", "names")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names: list[str] = []
        self._index: dict[str, int] = {}
        for name in names:
            self.add(name)

    def add(self, name: str) -> int:
        """The index of `name`, which becomes known if it was not."""
        index = self._index.get(name)
        if index is not None:
            return index
        if not name or any(ch.isspace() for ch in name):
            raise UsageError(f"a member's name must hold no white space and not be empty: {name!r}")
        if len(self.names) > ORIGIN_MASK:
            raise UsageError(f"a group holds at most {ORIGIN_MASK + 1} incarnations")
        index = len(self.names)
        self.names.append(name)
        self._index[name] = index
        return index

    def index(self, name: str) -> int:
        try:
            return self._index[name]
        except KeyError:
            raise UsageError(f"{name} is not a member") from None

    def __len__(self) -> int:
        return len(self.names)

    def show(self, dot: int) -> str:
        """The dot as people write it: `n3:17`."""
        return f"{self.names[origin_of(dot)]}:{seq_of(dot)}"


def newest_of(counters: Iterable[int]) -> tuple[int, ...]:
    """The newest message of each member that has sent any: a vector, spelled as dots."""
    return tuple([pack(origin, seq) for origin, seq in enumerate(counters) if seq])
