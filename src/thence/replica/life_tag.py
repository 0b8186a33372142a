"""A tag as a program sees it: which operation it is, and what happened before it.

A tag is a value. Its `dot` names the operation for good: a program may write it into its state and read it
back, at this member, at a joiner, after a restart (`OpenNode.tag`). What happened before what is known of
everything that is not stable; whatever is stable happened before all that is still to come, and is not
compared with each other any more.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol, overload

from msgspec import Struct

from thence.core.dots import ORIGIN_BITS
from thence.core.errors import UsageError
from thence.core.groups import Place
from thence.core.tag import Tag


class Book(Protocol):
    """What one incarnation has delivered."""

    def inner(self, place: Place) -> Tag | None:
        """Of an operation that was delivered here; None: it is stable. `UsageError`: it was not."""
        ...


class LifeTag(Struct, frozen=True, eq=False, gc=False):
    """Names an operation, and knows what happened before it. A value: two tags of one operation are equal,
    and `dot` may be written down. It belongs to the incarnation `life` of the node that has seen it.
    Tags of two incarnations do not compare unless one of them is stable: in between the node has begun anew
    from another member's state. `OpenNode.tag` gives the tag that an operation has now."""

    inner: Tag | None
    """None if the operation is stable."""
    life: str
    dot: Place
    """Who sent the operation, and which of its messages it is."""
    _book: Book | None = None
    """As long as the life lasts. It knows no tag of a program, so that tags are in no cycle."""

    @property
    def origin(self) -> str:
        return self.dot[0]

    @property
    def seq(self) -> int:
        return self.dot[1]

    def before(self, other: "LifeTag") -> bool:
        """Did this operation happen before the other? Of two that are stable it is known only if they have
        one origin; else the answer is no."""
        if self.origin == other.origin:
            return self.seq < other.seq
        if self.inner is None or other.inner is None:
            return self.inner is None and other.inner is not None
        return self.inner.before(self._comparable(other, other.inner))

    def after(self, other: "LifeTag") -> bool:
        """Did the other operation happen before this one?"""
        return other.before(self)

    def concurrent(self, other: "LifeTag") -> bool:
        """Did neither happen before the other?"""
        if self.origin == other.origin or self.inner is None or other.inner is None:
            return False
        inner = self._comparable(other, other.inner)
        return self.inner.dot == inner.dot or self.inner.concurrent(inner)  # or carried in one message

    def saw(self, origin: str, seq: int) -> bool:
        """Did this operation happen after the one of that name, which was delivered here before it? What is
        stable by now counts as seen. As long as the life lasts; `UsageError` if nothing of that name was."""
        if self._book is None:
            raise UsageError(f"{self} is of {self.life}, which is over: nothing more is known of it")
        other = self._book.inner((origin, seq))
        if origin == self.origin:
            return seq < self.seq
        if other is None:
            return True
        return self.inner is not None and other.before(self.inner)

    def _comparable(self, other: "LifeTag", inner: Tag) -> Tag:
        if self.life != other.life:
            raise UsageError(
                f"tags of {self.life} and {other.life} do not compare: the node returned in between"
            )
        return inner

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LifeTag) and self.dot == other.dot

    def __hash__(self) -> int:
        return hash(self.dot)

    def __repr__(self) -> str:
        return f"Tag({self.origin}:{self.seq})"


Sent = tuple[Place, LifeTag | None]
"""What became of a broadcast."""


class SentRuns(Sequence[Sent]):
    """What became of the operations of a call, which are the messages of these tags: their own tags are made
    where one asks for them."""

    __slots__ = ("_book", "_life", "_runs", "_size")

    def __init__(self, life: str, book: Book, runs: list[tuple[Tag, int]], size: int) -> None:
        """`runs`: messages, and how many operations each of them has; `size`: all together."""
        self._life: Final = life
        self._book: Final = book
        self._runs: Final = runs
        self._size: Final = size

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Sent]:
        for tag, span in self._runs:
            last = tag.dot >> ORIGIN_BITS
            for seq in range(last - span + 1, last + 1):
                yield self._one(tag, seq)

    @overload
    def __getitem__(self, at: int) -> Sent: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Sent]: ...

    def __getitem__(self, at: int | slice) -> Sent | Sequence[Sent]:
        if isinstance(at, slice) or self._size > 1:
            return list(self)[at]
        tag, _ = self._runs[at]
        return self._one(tag, tag.dot >> ORIGIN_BITS)

    def _one(self, tag: Tag, seq: int) -> Sent:
        place = self._life, seq
        return place, LifeTag(tag, self._life, place, self._book)
