"""A store's state as bytes: whole, damaged, of another kind."""

import pytest
from msgspec import msgpack
from support.store_world import World

from thence.core.errors import StorageError
from thence.crdt.cell import Cell
from thence.runtime.open_store import LocalStores
from thence.store import copy_on_write
from thence.store.contents import contents
from thence.store.slots import Slot
from thence.store.snapshot import MAGIC, _chunk, _chunks, dump, load, pieces
from thence.store.state import StoreState


def filled() -> StoreState:
    group = LocalStores("a", "b")
    group["a"].run("SET", "k", "v", "EX", 1000)
    group["a"].run("HSET", "h", "f", 1)
    group["b"].run("SADD", "s", "x", "y")
    group["b"].run("ZADD", "z", 1.5, "m")
    group.deliver()
    group["a"].run("INCR", "n")
    group["a"].run("SADD", "s", "w")
    return group["a"].state


def told(data: bytes) -> list[str]:
    """A state, whatever the order of its records."""
    _, header, *chunks = _chunks([data])
    return [repr(header), *sorted(repr(record) for records in chunks for record in records)]


@pytest.mark.parametrize("seed", range(40))
def test_a_state_in_the_making_is_that_of_the_moment_in_which_it_was_begun(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operations are made and delivered, and become stable, between its pieces."""
    monkeypatch.setattr(copy_on_write, "PIECE_BYTES", 1)
    world = World(seed, 3, remove_wins=bool(seed & 1))
    for _ in range(60):
        world.step()
    name = sorted(world.stores)[seed % 3]
    state = world.stores[name]
    whole = dump(state)
    made = pieces(state)
    parts = [next(made)]
    while (part := next(made, None)) is not None:
        parts.append(part)
        for _ in range(2):
            world.make(name)
            world.deliver(name)
        for each in world.stores:
            while world.deliver(each):
                pass
        world.stabilise(name)
    assert not state.space.copies
    assert told(b"".join(parts)) == told(whole)
    other = StoreState("z", bool(seed & 1))
    load(other, iter([b"".join(parts)[at : at + 50] for at in range(0, len(b"".join(parts)), 50)]))
    assert told(dump(other)) == told(whole)


def test_a_state_that_is_given_up_costs_nothing_more() -> None:
    state = filled()
    made = pieces(state)
    next(made)
    assert len(state.space.copies) == 1
    made.close()
    assert not state.space.copies


def test_a_state_comes_back_as_it_was() -> None:
    state = filled()
    other = StoreState("c")
    load(other, dump(state))
    assert told(dump(other)) == told(dump(state))


@pytest.mark.parametrize("at", range(0, 700, 37))
def test_a_damaged_state_is_refused_and_changes_nothing(at: int) -> None:
    data = bytearray(dump(filled()))
    data[at % len(data)] ^= 0x55
    other = StoreState("c")
    before = dump(other)
    with pytest.raises(StorageError):
        load(other, bytes(data))
    assert dump(other) == before


def test_a_torn_state_is_refused() -> None:
    data = dump(filled())
    for end in range(1, len(data), 11):
        with pytest.raises(StorageError):
            load(StoreState("c"), data[:end])


def test_nothing_is_an_empty_store() -> None:
    state = filled()
    load(state, b"")
    assert not state.space.databases[0].keys
    assert not state.unstable


def test_payloads_of_other_programs_are_passed_over() -> None:
    state = filled()
    before = dump(state)
    for payload in (b"", b"hello", b"\x94\x01\x02\x80\x91\x91\x02", b"\x94\x02\x02\x80\x90"):
        state.deliver("z", 1, payload, None)
    assert state.foreign == 4
    assert len(dump(state)) >= len(before)


class Later:
    """A tag of an operation that is told late: by then the middleware says of `early` that it is stable."""

    def __init__(self, seen: bool = True) -> None:
        self.dot = ("a", 1)
        self.seen = seen

    def before(self, other: object, /) -> bool:
        return False

    def saw(self, origin: str, seq: int, /) -> bool:
        return self.seen


@pytest.mark.parametrize("known", [True, False])
def test_what_becomes_stable_while_an_operation_waits_to_be_told_was_not_seen_by_it(known: bool) -> None:
    group = LocalStores("a", "b")
    group["a"].run("SET", "k", "early")
    group["b"].run("SET", "k", "late")
    other = StoreState("c")
    load(other, dump(group["a"].state))
    if known:
        other.known([Later()])
    [payload] = [payload for tag, payload in group.made if tag.dot == ("b", 1)]
    other.deliver("b", 1, payload, Later())
    slot = other.space.databases[0].keys[b"k"]
    assert isinstance(slot, Slot)
    assert isinstance(slot.string, Cell)
    assert slot.string.values() == ([b"late", b"early"] if known else [b"late"])


def test_a_state_of_version_1_can_be_read() -> None:
    """What operations had seen was in the states, and in the operations."""
    part = [1, 0, b"k", 0, 0, b"v", 1 << 62]
    table = [[7 << 16, "a", False, "a~0", 3, {"b~0": 2}, [[0, b"k", 0, part]]]]
    header = [False, 7 << 16, {"a~0": 3}, {"a~0": {"b~0": 2}}, table, [], [["a~0", [0]]], [], 0]
    records = [[0, b"k", 0, [None, [[0, 0, b"v"]], []]], [0, b"k", 4, [[0, 1 << 62, []]]]]
    data = MAGIC + b"\x01" + b"".join(map(_chunk, (header, records, [[-1, 2]])))
    state = StoreState("c")
    load(state, data)
    assert [key for key, *_ in [(one[1], one[3]) for one in contents(state)]] == [b"k"]
    state.stable("a~0", 3)
    assert state.space.databases[0].keys == {b"k": b"v"}
    state.deliver("a~0", 4, msgpack.encode((1, 8 << 16, {}, [[*part[:5], b"w", 1 << 62]])), Later())
    assert [kinds for *_, kinds in contents(state)] == [{"string": b"w"}]
