"""A store as commands: what they make is what clients saw when it was begun."""

from typing import Any

import pytest
from support.store_world import World

from thence.core.machine import NEVER
from thence.runtime.open_store import LocalStores
from thence.store import copy_on_write
from thence.store import dump as dump_module
from thence.store.contents import contents
from thence.store.dump import WORDS, Dump
from thence.store.resp import Requests
from thence.store.state import StoreState

Made = dict[tuple[int, bytes], tuple[int, str, Any]]
"""By database and key: deadline, kind and content."""


def seen(state: StoreState) -> Made:
    return {
        (number, key): (deadline, kind, {m: b"%g" % s for m, s in found.items()} if kind == "zset" else found)
        for number, key, deadline, kinds in contents(state)
        for kind, found in [next(iter(kinds.items()))]
    }


def made(commands: bytes) -> Made:
    """What any store makes of them, to begin with nothing."""
    requests, number, found = Requests(), 0, Made()
    requests.feed(commands)
    while (words := requests.next()) is not None:
        name, key, *rest = words
        place = number, key
        if name == b"SELECT":
            number = int(key)
        elif name == b"PEXPIREAT":
            found[place] = int(rest[0]), *found[place][1:]
        elif name == b"SET":
            assert place not in found
            found[place] = NEVER, "string", rest[0]
        elif name == b"SADD":
            before = found.get(place, (NEVER, "set", []))[2]
            found[place] = NEVER, "set", sorted([*before, *rest])
        else:
            assert name in (b"HSET", b"ZADD")
            fields, values = (rest[::2], rest[1::2]) if name == b"HSET" else (rest[1::2], rest[::2])
            kind = "hash" if name == b"HSET" else "zset"
            before = found.get(place, (NEVER, kind, {}))[2]
            found[place] = NEVER, kind, before | dict(zip(fields, values, strict=True))
    assert not requests.waiting
    return found


def as_text(found: Made) -> Made:
    """Numbers as clients see them."""

    def text(value: Any) -> Any:
        if isinstance(value, dict):
            return {field: text(one) for field, one in value.items()}
        return b"%d" % value if isinstance(value, int) else value

    return {place: (deadline, kind, text(value)) for place, (deadline, kind, value) in found.items()}


@pytest.mark.parametrize("seed", range(40))
def test_a_dump_is_that_of_the_moment_in_which_it_was_begun(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operations are made and delivered, and become stable, between its pieces."""
    monkeypatch.setattr(copy_on_write, "PIECE_BYTES", 1)
    world = World(seed, 3, remove_wins=bool(seed & 1))
    for _ in range(60):
        world.step()
    name = sorted(world.stores)[seed % 3]
    state = world.stores[name]
    expected = as_text(seen(state))
    dump, parts = Dump(state.space, 0), list[bytes]()
    while part := dump.next():
        parts.append(part)
        for _ in range(2):
            world.make(name)
            world.deliver(name)
        for each in world.stores:
            while world.deliver(each):
                pass
        world.stabilise(name)
    dump.end()
    assert not state.space.copies
    assert as_text(made(b"".join(parts))) == expected
    assert dump.keys == len(expected)


def dumped(state: StoreState) -> bytes:
    dump, commands = Dump(state.space, 0), b""
    while part := dump.next():
        commands += part
    return commands


def test_large_collections_take_several_commands() -> None:
    store = LocalStores("a")["a"]
    fields = [f"f{number}" for number in range(2 * WORDS)]
    store.run("SADD", "s", *fields)
    for field in fields:
        store.run("HSET", "h", field, 1)
    commands = dumped(store.state)
    assert commands.count(b"SADD") == 2
    assert commands.count(b"HSET") == 4
    assert as_text(made(commands)) == as_text(seen(store.state))


def test_large_elements_take_commands_that_a_store_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_module, "COMMAND_BYTES", 1000)
    store = LocalStores("a")["a"]
    for number in range(10):
        store.run("HSET", "h", f"f{number}", b"x" * 400)
        store.run("SADD", "s", b"y" * 2000 + b"%d" % number)
    commands = dumped(store.state)
    assert commands.count(b"HSET") == 5
    assert commands.count(b"SADD") == 10
    assert as_text(made(commands)) == as_text(seen(store.state))


def test_what_is_past_its_deadline_or_hidden_is_left_out_and_counted() -> None:
    group = LocalStores("a", "b")
    group["a"].run("SET", "gone", "v", "PXAT", 1)
    group["a"].run("SET", "both", "v")
    group["b"].run("SADD", "both", "x")
    group.deliver()
    dump = Dump(group["a"].state.space, 2)
    assert set(made(dump.next())) == {(0, b"both")}
    assert not dump.next()
    assert (dump.keys, dump.hidden) == (1, 1)
