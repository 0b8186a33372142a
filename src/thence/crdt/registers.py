"""Types for programs: a register that shows concurrent values, flags, and a map of anything."""

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from thence.crdt.mark import Mark, Stamp
from thence.crdt.sets import AddWinsSet, RemoveWinsSet

V = TypeVar("V")
_FLAG = b""


class MultiValue(Generic[V]):
    """All assignments that no later one covers, the latest by stamp first."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[Stamp, Mark, V]] = []

    def assign(self, mark: Mark, index: int, value: V) -> None:
        self.reset(mark)
        self._entries.append((mark.at(index), mark, value))

    def reset(self, mark: Mark) -> None:
        self._entries = [one for one in self._entries if not one[1].precedes(mark)]

    def values(self) -> list[V]:
        return [one[2] for one in sorted(self._entries, key=lambda one: one[0], reverse=True)]

    @property
    def empty(self) -> bool:
        return not self._entries

    def strip(self) -> bool:
        """Concurrent values stay until an assignment covers them; whether all of them are stable."""
        return all(mark.stable for _, mark, _ in self._entries)


class _Flag:
    """On if a set has the one element that there is."""

    __slots__ = ("_on",)

    def __init__(self, on: AddWinsSet | RemoveWinsSet) -> None:
        self._on = on

    def enable(self, mark: Mark) -> None:
        self._on.add(mark, _FLAG)

    def disable(self, mark: Mark) -> None:
        self._on.remove(mark, _FLAG)

    def reset(self, mark: Mark) -> None:
        self._on.reset(mark)

    def __bool__(self) -> bool:
        return _FLAG in self._on

    @property
    def empty(self) -> bool:
        return self._on.empty

    def strip(self) -> bool:
        self._on.strip((_FLAG,))
        return not self._on.loose


class EnableWins(_Flag):
    """A flag: on if there is an enable that no disable follows."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(AddWinsSet())


class DisableWins(_Flag):
    """A flag: on if there is an enable that follows every disable."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(RemoveWinsSet())


class Child(Protocol):
    @property
    def empty(self) -> bool: ...

    def reset(self, mark: Mark) -> None: ...

    def strip(self) -> bool: ...


C = TypeVar("C", bound=Child)


class NestedMap(Generic[C]):
    """Names of children, which may be maps. A child is there for as long as it holds something; removing it
    resets what was seen of it, all the way down."""

    __slots__ = ("_children", "_make")

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._children: dict[bytes, C] = {}

    def child(self, name: bytes) -> C:
        """To be changed by an operation; `settle` follows."""
        found = self._children.get(name)
        if found is None:
            found = self._children[name] = self._make()
        return found

    def settle(self, name: bytes) -> None:
        if name in self._children and self._children[name].empty:
            del self._children[name]

    def remove(self, mark: Mark, name: bytes) -> None:
        if name in self._children:
            self._children[name].reset(mark)
            self.settle(name)

    def reset(self, mark: Mark) -> None:
        for name in list(self._children):
            self.remove(mark, name)

    def get(self, name: bytes) -> C | None:
        return self._children.get(name)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._children)

    def __len__(self) -> int:
        return len(self._children)

    @property
    def empty(self) -> bool:
        return not self._children

    def strip(self) -> bool:
        done = [child.strip() for child in self._children.values()]
        for name in list(self._children):
            self.settle(name)
        return all(done)
