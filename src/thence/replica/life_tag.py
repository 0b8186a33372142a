"""A tag as a program sees it: of a message, as one incarnation of its node has seen it."""

from typing import Final

from thence.core.errors import UsageError
from thence.core.groups import Place
from thence.core.tag import Tag


class LifeTag:
    """A tag, and whose: the incarnation that has seen the message. Tags of two incarnations do not compare:
    between them the node has begun anew from another member's state."""

    __slots__ = ("inner", "life", "origin", "seq")

    def __init__(self, inner: Tag, life: str, place: Place) -> None:
        self.inner: Final = inner
        self.life: Final = life
        self.origin, self.seq = place

    @property
    def dot(self) -> int:
        return self.inner.dot

    @property
    def context(self) -> tuple[int, ...]:
        return self.inner.context

    def before(self, other: "LifeTag") -> bool:
        return self.inner.before(self._comparable(other))

    def after(self, other: "LifeTag") -> bool:
        return self.inner.after(self._comparable(other))

    def concurrent(self, other: "LifeTag") -> bool:
        return self.inner.concurrent(self._comparable(other))

    def _comparable(self, other: "LifeTag") -> Tag:
        if self.life != other.life:
            raise UsageError(
                f"tags of {self.life} and {other.life} do not compare: the node returned in between"
            )
        return other.inner
