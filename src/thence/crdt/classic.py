"""The classical operation-based types: counter, last-writer-wins register, observed-remove set and map.

They need causal delivery, each operation once, and nothing else: no tags, no stability, so that they run over
trees without tags. What tags would tell travels in the operations: a remove names the identifiers that it
saw. `add`, `put` and the like prepare an operation, which takes effect everywhere by `effect`, at the origin
too. Identifiers must be unique, such as a dot.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

E = TypeVar("E", bound=Hashable)
V = TypeVar("V")
Name = tuple[str, int]
"""Who made an operation, and its how manieth."""
Moment = tuple[int, str]
"""A Lamport clock, and who has it: total, and it extends happens-before."""


class OpCounter:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def effect(self, by: int) -> None:
        self.value += by


class LastWriter(Generic[V]):
    __slots__ = ("at", "value")

    def __init__(self) -> None:
        self.at: Moment = (0, "")
        self.value: V | None = None

    def effect(self, at: Moment, value: V) -> None:
        if at > self.at:
            self.at, self.value = at, value


class ObservedSet(Generic[E]):
    """An element is in while there is an add that no remove saw."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: dict[E, dict[Name, None]] = {}

    def __contains__(self, element: E) -> bool:
        return element in self._names

    def elements(self) -> list[E]:
        return list(self._names)

    def add(self, element: E, name: Name) -> tuple[E, Name | None, tuple[Name, ...]]:
        """It replaces the adds that it saw: one name per element is left where nothing is concurrent."""
        return element, name, tuple(self._names.get(element, ()))

    def remove(self, element: E) -> tuple[E, Name | None, tuple[Name, ...]]:
        return element, None, tuple(self._names.get(element, ()))

    def effect(self, element: E, name: Name | None, seen: tuple[Name, ...]) -> None:
        names = self._names.setdefault(element, {})
        for one in seen:
            names.pop(one, None)
        if name is not None:
            names[name] = None
        if not names:
            del self._names[element]


class ObservedMap(Generic[E, V]):
    """A key is there while there is a put that no remove and no later put saw. The latest one shows."""

    __slots__ = ("_puts",)

    def __init__(self) -> None:
        self._puts: dict[E, dict[Name, tuple[Moment, V]]] = {}

    def get(self, key: E) -> V | None:
        puts = self._puts.get(key)
        return None if puts is None else max(puts.values(), key=lambda put: put[0])[1]

    def keys(self) -> list[E]:
        return list(self._puts)

    def seen(self, key: E) -> tuple[Name, ...]:
        """What a put or a remove of this key covers."""
        return tuple(self._puts.get(key, ()))

    def put(self, key: E, name: Name, at: Moment, value: V, seen: tuple[Name, ...]) -> None:
        puts = self._puts.setdefault(key, {})
        for one in seen:
            puts.pop(one, None)
        puts[name] = (at, value)

    def remove(self, key: E, seen: tuple[Name, ...]) -> None:
        puts = self._puts.get(key, {})
        for one in seen:
            puts.pop(one, None)
        if not puts:
            self._puts.pop(key, None)
