"""A store's state as bytes: whole, damaged, of another kind."""

import pytest

from thence.core.errors import StorageError
from thence.runtime.open_store import LocalStores
from thence.store.snapshot import dump, load
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


def test_a_state_comes_back_as_it_was() -> None:
    state = filled()
    other = StoreState("c", lambda: 0)
    load(other, dump(state))
    assert dump(other) == dump(state)
    assert other.vector == state.vector


@pytest.mark.parametrize("at", range(0, 700, 37))
def test_a_damaged_state_is_refused_and_changes_nothing(at: int) -> None:
    data = bytearray(dump(filled()))
    data[at % len(data)] ^= 0x55
    other = StoreState("c", lambda: 0)
    before = dump(other)
    with pytest.raises(StorageError):
        load(other, bytes(data))
    assert dump(other) == before


def test_a_torn_state_is_refused() -> None:
    data = dump(filled())
    for end in range(1, len(data), 11):
        with pytest.raises(StorageError):
            load(StoreState("c", lambda: 0), data[:end])


def test_nothing_is_an_empty_store() -> None:
    state = filled()
    load(state, b"")
    assert not state.space.databases[0].keys
    assert state.vector == {}


def test_payloads_of_other_programs_are_passed_over() -> None:
    state = filled()
    before = dump(state)
    for payload in (b"", b"hello", b"\x94\x01\x02\x80\x91\x91\x02", b"\x94\x02\x02\x80\x90"):
        state.deliver("z", 1, payload)
    assert state.foreign == 4
    state.vector.pop("z", None)
    assert len(dump(state)) >= len(before)
