"""Sets: where an add and a remove are concurrent, adds win, or removes if the group was made so."""

from functools import partial

from thence.store import ops
from thence.store.client import Client
from thence.store.executor import Executor
from thence.store.reply import Fail, Members, Reply
from thence.store.scanning import paged, words_of
from thence.store.table import command
from thence.store.words import SYNTAX, Options, number

LOCAL = "of this node: two nodes may take the same element"


def elements(e: Executor, c: Client, key: bytes) -> dict[bytes, None]:
    found = e.set(c, key)
    return {} if found is None else dict.fromkeys(found.elements())


@command("SADD", -3, "write denyoom fast", group="set", differs="always broadcast; counts are of this node")
def sadd(e: Executor, c: Client, a: list[bytes]) -> Reply:
    found = e.set(c, a[0])
    if len(a) == 2:
        new = int(found is None or a[1] not in found)
        e.add(c.db, ops.SET_ADD, a[0], found is None, a[1])
        return new
    given = list(dict.fromkeys(a[1:]))
    new = len(given) if found is None else sum(one not in found for one in given)
    e.add(c.db, ops.SET_ADD, a[0], found is None, *given)
    return new


def _remove(e: Executor, c: Client, key: bytes, given: list[bytes]) -> int:
    found = e.set(c, key)
    there = [one for one in dict.fromkeys(given) if found is not None and one in found]
    gone = list(dict.fromkeys(given)) if e.state.space.remove_wins else there
    if gone:
        e.emit(c.db, ops.SET_REMOVE, key, *gone)
        if there:
            e.emptied(c.db, key, "set")
    return len(there)


@command("SREM", -3, "write fast", group="set")
def srem(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return _remove(e, c, a[0], a[1:])


@command("SISMEMBER", 3, "readonly fast", group="set")
def sismember(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return int(a[1] in (e.set(c, a[0]) or ()))


@command("SMISMEMBER", -3, "readonly fast", group="set")
def smismember(e: Executor, c: Client, a: list[bytes]) -> Reply:
    found = e.set(c, a[0]) or ()
    return [int(one in found) for one in a[1:]]


@command("SMEMBERS", 2, "readonly", group="set")
def smembers(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return Members(elements(e, c, a[0]))


@command("SCARD", 2, "readonly fast", group="set")
def scard(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return len(e.set(c, a[0]) or ())


@command("SMOVE", 4, "write fast", (1, 2, 1), group="set", differs=LOCAL)
def smove(e: Executor, c: Client, a: list[bytes]) -> Reply:
    found = e.set(c, a[0])
    if found is None:
        return 0
    e.set(c, a[1])
    if a[2] not in found:
        return 0
    if a[0] != a[1]:
        _remove(e, c, a[0], [a[2]])
        e.emit(c.db, ops.SET_ADD, a[1], a[2])
    return 1


@command("SPOP", -2, "write fast", group="set", differs=LOCAL)
def spop(e: Executor, c: Client, a: list[bytes]) -> Reply:
    if len(a) > 2:
        raise Fail(SYNTAX)
    count = number(a[1]) if len(a) == 2 else 1
    if count < 0:
        raise Fail("ERR value is out of range, must be positive")
    there = list(elements(e, c, a[0]))
    chosen = e.random.sample(there, min(count, len(there)))
    if chosen:
        _remove(e, c, a[0], chosen)
    if len(a) == 2:
        return Members(chosen)
    return chosen[0] if chosen else None


@command("SRANDMEMBER", -2, "readonly", group="set")
def srandmember(e: Executor, c: Client, a: list[bytes]) -> Reply:
    if len(a) > 2:
        raise Fail(SYNTAX)
    count = number(a[1]) if len(a) == 2 else None
    if count is not None and not -(1 << 62) < count < 1 << 62:
        raise Fail("ERR value is out of range")
    there = list(elements(e, c, a[0]))
    if count is None:
        return e.random.choice(there) if there else None
    if not there:
        return []
    return e.random.choices(there, k=-count) if count < 0 else e.random.sample(there, min(count, len(there)))


def combined(what: str, sets: list[dict[bytes, None]]) -> list[bytes]:
    first, others = sets[0], sets[1:]
    if what == "inter":
        return [one for one in first if all(one in each for each in others)]
    if what == "diff":
        return [one for one in first if not any(one in each for each in others)]
    return list(dict.fromkeys(one for each in sets for one in each))


def _show(what: str, e: Executor, c: Client, a: list[bytes]) -> Reply:
    return Members(combined(what, [elements(e, c, key) for key in a]))


def _store(what: str, e: Executor, c: Client, a: list[bytes]) -> Reply:
    found = combined(what, [elements(e, c, key) for key in a[1:]])
    if e.get(c, a[0]) is not None:
        e.delete(c.db, a[0])
    if found:
        e.emit(c.db, ops.SET_ADD, a[0], *found)
    return len(found)


for _what in ("inter", "union", "diff"):
    command(f"S{_what.upper()}", -2, "readonly", (1, -1, 1), group="set")(partial(_show, _what))
    command(f"S{_what.upper()}STORE", -3, "write denyoom", (1, -1, 1), group="set")(partial(_store, _what))


@command("SINTERCARD", -3, "readonly", (0, 0, 0), group="set")
def sintercard(e: Executor, c: Client, a: list[bytes]) -> Reply:
    keys, rest = counted_keys(a, "sintercard")
    options, limit = Options(rest), 0
    while options:
        if options.name() != b"LIMIT":
            raise Fail(SYNTAX)
        limit = number(options.word(), "ERR LIMIT can't be negative")
        if limit < 0:
            raise Fail("ERR LIMIT can't be negative")
    size = len(combined("inter", [elements(e, c, key) for key in keys]))
    return min(size, limit) if limit else size


def counted_keys(a: list[bytes], name: str) -> tuple[list[bytes], list[bytes]]:
    """NUMKEYS KEY…, and what follows."""
    if name.startswith("z"):
        count = number(a[0])
        if count < 1:
            raise Fail(f"ERR at least 1 input key is needed for '{name}' command")
        if count > len(a) - 1:
            raise Fail(SYNTAX)
    else:
        count = number(a[0], "ERR numkeys should be greater than 0")
        if count < 1:
            raise Fail("ERR numkeys should be greater than 0")
        if count > len(a) - 1:
            raise Fail("ERR Number of keys can't be greater than number of args")
    return a[1 : 1 + count], a[1 + count :]


@command("SSCAN", -3, "readonly", group="set")
def sscan(e: Executor, c: Client, a: list[bytes]) -> Reply:
    cursor, options = words_of(a[1:])
    return list(paged(elements(e, c, a[0]), cursor, options))
