"""Strings and counters."""

from thence.core.machine import NEVER
from thence.crdt import steps
from thence.crdt.numbers import (
    INT_MAX,
    INT_MIN,
    Value,
    added,
    decimal,
    decimal_text,
    is_infinite,
    packed,
    text_of,
)
from thence.store import ops
from thence.store.client import Client
from thence.store.effects import kind
from thence.store.executor import Executor
from thence.store.reply import Fail, Reply
from thence.store.table import command
from thence.store.words import NOT_FLOAT, SYNTAX, Options, deadline, number

FIRST = "the first claim holds, and both callers may be told 1: no lock"
INFINITE = "ERR increment would produce NaN or Infinity"
TOO_LONG = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
EXPIRY = {b"EX": (True, False), b"PX": (False, False), b"EXAT": (True, True), b"PXAT": (False, True)}
"""In seconds? At a time?"""


def bulk(value: Value | None) -> bytes | None:
    return None if value is None else text_of(value)


@command("GET", 2, "readonly fast", group="string")
def get(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return bulk(e.string(c, a[0]))


@command("GETSET", 3, "write denyoom fast", group="string")
def getset(e: Executor, c: Client, a: list[bytes]) -> Reply:
    old = bulk(e.string(c, a[0]))
    e.emit(c.db, ops.SET, a[0], packed(a[1]), NEVER)
    return old


@command("GETDEL", 2, "write fast", group="string", differs="two nodes may both return the value")
def getdel(e: Executor, c: Client, a: list[bytes]) -> Reply:
    old = e.string(c, a[0])
    if old is not None:
        e.delete(c.db, a[0])
    return bulk(old)


@command("GETEX", -2, "write fast", group="string")
def getex(e: Executor, c: Client, a: list[bytes]) -> Reply:
    options, until = Options(a[1:]), 0
    while options:
        word = options.name()
        if until:
            raise Fail(SYNTAX)
        if word == b"PERSIST":
            until = NEVER
        elif word in EXPIRY:
            until = deadline(options.word(), *EXPIRY[word], e.now, "getex")
        else:
            raise Fail(SYNTAX)
    old = e.string(c, a[0])
    if old is not None and until:
        if until <= e.now:
            e.delete(c.db, a[0])
        elif until != NEVER or e.database(c).deadline(a[0]) != NEVER:
            e.emit(c.db, ops.STATE, a[0], until)
    return bulk(old)


@command("MGET", -2, "readonly fast", (1, -1, 1), group="string")
def mget(e: Executor, c: Client, a: list[bytes]) -> Reply:
    found = [e.get(c, key) for key in a]
    return [text_of(one) if isinstance(one, bytes | int) else None for one in found]


@command("STRLEN", 2, "readonly fast", group="string")
def strlen(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return len(bulk(e.string(c, a[0])) or b"")


def _increment(e: Executor, c: Client, key: bytes, by: int) -> Reply:
    found = e.string(c, key)
    value = 0 if found is None else found
    if not isinstance(value, int):
        raise Fail("ERR value is not an integer or out of range")
    if not INT_MIN <= value + by <= INT_MAX:
        raise Fail("ERR increment or decrement would overflow")
    e.increment(c.db, key, by, found is None)
    return value + by


@command("INCR", 2, "write denyoom fast", group="string", differs="the reply is the value here and now")
def incr(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return _increment(e, c, a[0], 1)


@command("DECR", 2, "write denyoom fast", group="string", differs="the reply is the value here and now")
def decr(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return _increment(e, c, a[0], -1)


@command("INCRBY", 3, "write denyoom fast", group="string", differs="the reply is the value here and now")
def incrby(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return _increment(e, c, a[0], number(a[1]))


@command("DECRBY", 3, "write denyoom fast", group="string", differs="the reply is the value here and now")
def decrby(e: Executor, c: Client, a: list[bytes]) -> Reply:
    by = number(a[1])
    if by == INT_MIN:
        raise Fail("ERR decrement would overflow")
    return _increment(e, c, a[0], -by)


@command("INCRBYFLOAT", 3, "write denyoom fast", group="string",
         differs="decimal arithmetic; the reply is the value here and now")  # fmt: skip
def incrbyfloat(e: Executor, c: Client, a: list[bytes]) -> Reply:
    value = e.string(c, a[0])
    before, more = decimal(b"0" if value is None else text_of(value)), decimal(a[1])
    if before is not None and is_infinite(a[1]):
        raise Fail(INFINITE)
    if before is None or more is None:
        raise Fail(NOT_FLOAT)
    after = decimal_text(added(before, more))
    if decimal(after) is None:
        raise Fail(INFINITE)
    e.emit(c.db, ops.UPDATE, a[0], (steps.INCR_FLOAT, a[1]))
    return after


@command("APPEND", 3, "write denyoom fast", group="string")
def append(e: Executor, c: Client, a: list[bytes]) -> Reply:
    before = bulk(e.string(c, a[0])) or b""
    if len(before) + len(a[1]) > e.config.bulk_max:
        raise Fail(TOO_LONG)
    e.emit(c.db, ops.UPDATE, a[0], (steps.APPEND, a[1]))
    return len(before) + len(a[1])


@command("SETRANGE", 4, "write denyoom", group="string")
def setrange(e: Executor, c: Client, a: list[bytes]) -> Reply:
    at = number(a[1])
    if at < 0:
        raise Fail("ERR offset is out of range")
    before = bulk(e.string(c, a[0])) or b""
    if not a[2]:
        return len(before)
    if at + len(a[2]) > e.config.bulk_max:
        raise Fail(TOO_LONG)
    e.emit(c.db, ops.UPDATE, a[0], (steps.SET_RANGE, at, a[2]))
    return max(len(before), at + len(a[2]))


def _range(e: Executor, c: Client, a: list[bytes]) -> Reply:
    start, end = number(a[1]), number(a[2])
    value = bulk(e.string(c, a[0])) or b""
    size = len(value)
    if start < 0 and end < 0 and start > end:
        return b""
    start = max(0, start + size) if start < 0 else start
    end = max(0, end + size) if end < 0 else end
    return value[start : end + 1]


command("GETRANGE", 4, "readonly", group="string")(_range)
command("SUBSTR", 4, "readonly", group="string")(_range)


@command("LCS", -3, "readonly", (1, 2, 1), group="string")
def lcs(e: Executor, c: Client, a: list[bytes]) -> Reply:
    length = index = matched = False
    least = 0
    options = Options(a[2:])
    while options:
        word = options.name()
        if word == b"LEN":
            length = True
        elif word == b"IDX":
            index = True
        elif word == b"WITHMATCHLEN":
            matched = True
        elif word == b"MINMATCHLEN":
            least = max(0, number(options.word()))
        else:
            raise Fail(SYNTAX)
    if length and index:
        raise Fail("ERR If you want both the length and indexes, please just use IDX.")
    values = [e.get(c, key) for key in a[:2]]
    if any(kind(value) not in ("none", "string") for value in values):
        raise Fail("ERR The specified keys must contain string values")
    one, other = [text_of(value) if isinstance(value, bytes | int) else b"" for value in values]
    if len(one) * len(other) > 64 << 20:
        raise Fail("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len")
    rows = [[0] * (len(other) + 1)]
    for byte in one:
        row, above = [0], rows[-1]
        for at, each in enumerate(other):
            row.append(above[at] + 1 if byte == each else max(above[at + 1], row[-1]))
        rows.append(row)
    if length:
        return rows[-1][-1]
    ranges: list[list[int]] = []
    found = bytearray()
    at, place = len(one), len(other)
    while at and place:
        if one[at - 1] == other[place - 1]:
            found.append(one[at - 1])
            at, place = at - 1, place - 1
            if ranges and ranges[-1][0] == at + 1 and ranges[-1][2] == place + 1:
                ranges[-1][0], ranges[-1][2] = at, place
            else:
                ranges.append([at, at, place, place])
        elif rows[at - 1][place] > rows[at][place - 1]:
            at -= 1
        else:
            place -= 1
    if not index:
        return bytes(reversed(found))
    shown = [
        [[first, last], [start, end], *([last - first + 1] if matched else [])]
        for first, last, start, end in ranges
        if last - first + 1 >= least
    ]
    return {b"matches": shown, b"len": rows[-1][-1]}
