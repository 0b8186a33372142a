"""Hashes: per field as strings and counters; an update wins over a concurrent delete."""

from thence.crdt import steps
from thence.crdt.numbers import INT_MAX, INT_MIN, added, decimal, decimal_text, is_infinite, packed, text_of
from thence.store import ops
from thence.store.client import Client
from thence.store.commands.strings import FIRST, INFINITE, bulk
from thence.store.executor import Executor
from thence.store.reply import OK, Fail, Pairs, Reply
from thence.store.scanning import paged, words_of
from thence.store.table import command
from thence.store.words import SYNTAX, number

HERE = "the reply is the value here and now"


def _set(e: Executor, c: Client, a: list[bytes], name: str) -> int:
    if len(a) % 2 == 0:
        raise Fail(f"ERR wrong number of arguments for '{name}' command")
    fields = e.hash(c, a[0])
    if len(a) == 3:
        new = int(fields is None or a[1] not in fields)
        e.add(c.db, ops.FIELD_SET, a[0], fields is None, a[1], packed(a[2]))
        return new
    last = dict(zip(a[1::2], a[2::2], strict=True))
    new = sum(fields is None or field not in fields for field in last)
    words = [word for field, value in last.items() for word in (field, packed(value))]
    e.add(c.db, ops.FIELD_SET, a[0], fields is None, *words)
    return new


@command("HSET", -4, "write denyoom fast", group="hash", differs="counts are against this node's state")
def hset(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return _set(e, c, a, "hset")


@command("HMSET", -4, "write denyoom fast", group="hash")
def hmset(e: Executor, c: Client, a: list[bytes]) -> Reply:
    _set(e, c, a, "hmset")
    return OK


@command("HSETNX", 4, "write denyoom fast", group="hash", differs=FIRST)
def hsetnx(e: Executor, c: Client, a: list[bytes]) -> Reply:
    fields = e.hash(c, a[0])
    if fields is not None and a[1] in fields:
        return 0
    e.emit(c.db, ops.FIELD_UPDATE, a[0], a[1], (steps.CLAIM, packed(a[2])))
    return 1


@command("HGET", 3, "readonly fast", group="hash")
def hget(e: Executor, c: Client, a: list[bytes]) -> Reply:
    fields = e.hash(c, a[0])
    return None if fields is None else bulk(fields.get(a[1]))


@command("HMGET", -3, "readonly fast", group="hash")
def hmget(e: Executor, c: Client, a: list[bytes]) -> Reply:
    fields = e.hash(c, a[0])
    return [None if fields is None else bulk(fields.get(field)) for field in a[1:]]


@command("HGETALL", 2, "readonly", group="hash")
def hgetall(e: Executor, c: Client, a: list[bytes]) -> Reply:
    fields = e.hash(c, a[0])
    return {} if fields is None else {field: text_of(value) for field, value in fields.items()}


@command("HKEYS", 2, "readonly", group="hash")
def hkeys(e: Executor, c: Client, a: list[bytes]) -> Reply:
    fields = e.hash(c, a[0])
    return [] if fields is None else list(fields.data)


@command("HVALS", 2, "readonly", group="hash")
def hvals(e: Executor, c: Client, a: list[bytes]) -> Reply:
    fields = e.hash(c, a[0])
    return [] if fields is None else [text_of(value) for _, value in fields.items()]


@command("HLEN", 2, "readonly fast", group="hash")
def hlen(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return len(e.hash(c, a[0]) or ())


@command("HEXISTS", 3, "readonly fast", group="hash")
def hexists(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return int(a[1] in (e.hash(c, a[0]) or ()))


@command("HSTRLEN", 3, "readonly fast", group="hash")
def hstrlen(e: Executor, c: Client, a: list[bytes]) -> Reply:
    fields = e.hash(c, a[0])
    return len((None if fields is None else bulk(fields.get(a[1]))) or b"")


def _remove(e: Executor, c: Client, key: bytes, names: list[bytes]) -> int:
    return e.remove(c.db, ops.FIELD_REMOVE, key, "hash", e.hash(c, key), names)


@command("HDEL", -3, "write fast", group="hash")
def hdel(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return _remove(e, c, a[0], a[1:])


@command("HINCRBY", 4, "write denyoom fast", group="hash", differs=HERE)
def hincrby(e: Executor, c: Client, a: list[bytes]) -> Reply:
    by = number(a[2])
    fields = e.hash(c, a[0])
    value = None if fields is None else fields.get(a[1])
    value = 0 if value is None else value
    if not isinstance(value, int):
        raise Fail("ERR hash value is not an integer")
    if not INT_MIN <= value + by <= INT_MAX:
        raise Fail("ERR increment or decrement would overflow")
    e.emit(c.db, ops.FIELD_UPDATE, a[0], a[1], (steps.INCR, by))
    return value + by


@command("HINCRBYFLOAT", 4, "write denyoom fast", group="hash", differs=f"decimal arithmetic; {HERE}")
def hincrbyfloat(e: Executor, c: Client, a: list[bytes]) -> Reply:
    more = decimal(a[2])
    if is_infinite(a[2]) or a[2].lower().lstrip(b"+-") == b"nan":
        raise Fail("ERR value is NaN or Infinity")
    if more is None:
        raise Fail("ERR value is not a valid float")
    fields = e.hash(c, a[0])
    value = None if fields is None else fields.get(a[1])
    before = decimal(b"0" if value is None else text_of(value))
    if before is None:
        raise Fail("ERR hash value is not a float")
    after = decimal_text(added(before, more))
    if decimal(after) is None:
        raise Fail(INFINITE)
    e.emit(c.db, ops.FIELD_UPDATE, a[0], a[1], (steps.INCR_FLOAT, a[2]))
    return after


@command("HRANDFIELD", -2, "readonly", group="hash")
def hrandfield(e: Executor, c: Client, a: list[bytes]) -> Reply:
    if len(a) > 3 or (len(a) == 3 and a[2].upper() != b"WITHVALUES"):
        raise Fail(SYNTAX)
    count = number(a[1]) if len(a) > 1 else None
    if count is not None and not -(1 << 62) < count < 1 << 62:
        raise Fail("ERR value is out of range")
    fields = e.hash(c, a[0])
    if count is None:
        return None if fields is None else e.random.choice(list(fields.data))
    if fields is None:
        return []
    names = list(fields.data)
    chosen = (
        e.random.choices(names, k=-count) if count < 0 else e.random.sample(names, min(count, len(names)))
    )
    if len(a) < 3:
        return chosen
    return Pairs([[name, bulk(fields.get(name))] for name in chosen])


@command("HSCAN", -3, "readonly", group="hash")
def hscan(e: Executor, c: Client, a: list[bytes]) -> Reply:
    cursor, options = words_of(a[1:], b"NOVALUES")
    fields = e.hash(c, a[0])
    following, found = paged([] if fields is None else fields.data, cursor, options)
    if fields is None or b"NOVALUES" in options:
        return [following, found]
    return [following, [word for name in found for word in (name, bulk(fields.get(name)))]]


@command("HGETDEL", -5, "write fast", group="hash", differs="two nodes may both return a value")
def hgetdel(e: Executor, c: Client, a: list[bytes]) -> Reply:
    names = _fields(a[1:])
    fields = e.hash(c, a[0])
    found = [None if fields is None else bulk(fields.get(name)) for name in names]
    _remove(e, c, a[0], names)
    return found


def _fields(words: list[bytes]) -> list[bytes]:
    if words[0].upper() != b"FIELDS":
        raise Fail("ERR Mandatory argument FIELDS is missing or not at the right position")
    if number(words[1]) != len(words) - 2 or len(words) < 3:
        raise Fail("ERR The `numfields` parameter must match the number of arguments")
    return words[2:]
