"""Registers, flags and maps for programs, against what they must show as a function of operations and
happens-before."""

from random import Random

import pytest

from thence.crdt.cell import Cell
from thence.crdt.mark import Mark
from thence.crdt.registers import DisableWins, EnableWins, MultiValue, NestedMap
from thence.crdt.steps import INCR, string_step


class Past:
    """`Cause`: what an operation saw, whole."""

    def __init__(self, name: int, past: frozenset[int]) -> None:
        self.name = name
        self.past = past

    def before(self, other: "Past", /) -> bool:
        return self.name in other.past

    def saw(self, origin: str, seq: int, /) -> bool:
        raise NotImplementedError


class History:
    """Operations at a few replicas, each delivered everywhere in causal order, at any moment."""

    def __init__(self, seed: int, replicas: int, make: object) -> None:
        self.random = Random(seed)
        self.made: list[tuple[int, frozenset[int], tuple[str, bytes, int]]] = []
        self.seen: list[dict[int, None]] = [{} for _ in range(replicas)]
        self.marks: list[dict[int, Mark]] = [{} for _ in range(replicas)]
        self.states = [make() for _ in range(replicas)]  # type: ignore[operator]

    def run(self, kinds: tuple[str, ...], apply: object, count: int = 25) -> None:
        for _ in range(count):
            at = self.random.randrange(len(self.seen))
            if self.random.random() < 0.5:
                word = self.random.choice(kinds), self.random.choice((b"x", b"y")), self.random.randrange(4)
                self.made.append((at, frozenset(self.seen[at]), word))
                self._deliver(at, len(self.made) - 1, apply)
            else:
                self._some(at, apply)
            if self.random.random() < 0.3:
                self._strip(at)
        for at in range(len(self.seen)):
            while self._some(at, apply):
                pass
            self._strip(at)

    def _some(self, at: int, apply: object) -> bool:
        ready = [
            name for name, (_, past, _) in enumerate(self.made)
            if name not in self.seen[at] and past <= self.seen[at].keys()
        ]  # fmt: skip
        if ready:
            self._deliver(at, self.random.choice(ready), apply)
        return bool(ready)

    def _deliver(self, at: int, name: int, apply: object) -> None:
        origin, past, word = self.made[name]
        mark = self.marks[at][name] = Mark(name, str(origin), Past(name, past))
        self.seen[at][name] = None
        apply(self.states[at], mark, *word)  # type: ignore[operator]

    def _strip(self, at: int) -> None:
        missing = [past for name, (_, past, _) in enumerate(self.made) if name not in self.seen[at]]
        for name in self.seen[at]:
            if all(name in seen for seen in self.seen) and all(name in past for past in missing):
                self.marks[at][name].stable = True
        self.states[at].strip()

    def after(self, name: int, kinds: tuple[str, ...], key: bytes | None = None) -> bool:
        """Does one of these operations, on the key, follow this one?"""
        return any(
            name in past and word[0] in kinds and (key is None or word[1] == key)
            for _, past, word in self.made
        )


SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_register_shows_what_nothing_covers(seed: int) -> None:
    def apply(state: MultiValue[int], mark: Mark, kind: str, _: bytes, value: int) -> None:
        state.assign(mark, 0, value) if kind == "set" else state.reset(mark)

    history = History(seed, 3, MultiValue[int])
    history.run(("set", "set", "reset"), apply)
    meant = [
        word[2] for name, (_, _, word) in reversed(list(enumerate(history.made)))
        if word[0] == "set" and not history.after(name, ("set", "reset"))
    ]  # fmt: skip
    assert all(state.values() == meant for state in history.states)


@pytest.mark.parametrize("seed", SEEDS)
def test_flags(seed: int) -> None:
    def apply(state: EnableWins | DisableWins, mark: Mark, kind: str, _: bytes, __: int) -> None:
        getattr(state, kind)(*((mark,)))

    for make in (EnableWins, DisableWins):
        history = History(seed, 4, make)
        history.run(("enable", "disable", "enable", "reset"), apply)
        live = [name for name in range(len(history.made)) if not history.after(name, ("reset",))]
        ons = [name for name in live if history.made[name][2][0] == "enable"]
        offs = [name for name in live if history.made[name][2][0] == "disable"]
        if make is EnableWins:
            meant = any(not history.after(name, ("disable",)) for name in ons)
        else:
            meant = any(all(off in history.made[name][1] for off in offs) for name in ons)
        assert all(bool(state) is meant for state in history.states)


class Counter:
    """A child: a cell that only counts."""

    def __init__(self) -> None:
        self.cell = Cell[bytes | int](string_step)

    @property
    def empty(self) -> bool:
        return self.cell.empty

    def reset(self, mark: Mark) -> None:
        self.cell.reset(mark)

    def strip(self) -> bool:
        return self.cell.strip()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_map_in_a_map_counts_what_no_remove_saw(seed: int) -> None:
    def apply(state: NestedMap[NestedMap[Counter]], mark: Mark, kind: str, name: bytes, by: int) -> None:
        if kind == "incr":
            state.child(b"m").child(name).cell.update(mark, 0, (INCR, by + 1))
        elif kind == "remove":
            inner = state.get(b"m")
            if inner is not None:
                inner.remove(mark, name)
                state.settle(b"m")
        else:
            state.remove(mark, b"m")

    history = History(seed, 3, lambda: NestedMap(lambda: NestedMap(Counter)))
    history.run(("incr", "incr", "remove", "drop"), apply)
    meant: dict[bytes, int] = {}
    for name, (_, _, word) in enumerate(history.made):
        covered = history.after(name, ("drop",)) or history.after(name, ("remove",), word[1])
        if word[0] == "incr" and not covered:
            meant[word[1]] = meant.get(word[1], 0) + word[2] + 1
    for state in history.states:
        inner = state.get(b"m")
        shown = {} if inner is None else {name: inner.get(name).cell.value for name in inner}
        assert shown == meant
