"""Sorted sets: members and scores, and what combines them."""

from functools import partial
from math import isnan

from thence.crdt import steps
from thence.crdt.cells import ScoreMap
from thence.crdt.numbers import double_text
from thence.crdt.sets import AddWinsSet, RemoveWinsSet
from thence.store import ops
from thence.store.client import Client
from thence.store.commands.sets import LOCAL, counted_keys
from thence.store.executor import WRONG_TYPE, Executor
from thence.store.reply import NULL_ARRAY, Fail, Pairs, Reply
from thence.store.scanning import paged, words_of
from thence.store.table import command
from thence.store.words import SYNTAX, Options, number, real

NAN = "ERR resulting score is not a number (NaN)"


@command("ZADD", -4, "write denyoom fast", group="sorted-set",
         differs="always broadcast; NX: the first claim holds; GT, LT: a real maximum, minimum")  # fmt: skip
def zadd(e: Executor, c: Client, a: list[bytes]) -> Reply:
    at, flags = 1, set[bytes]()
    while at < len(a) and a[at].upper() in (b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR"):
        flags.add(a[at].upper())
        at += 1
    rest = a[at:]
    if not rest or len(rest) % 2:
        raise Fail(SYNTAX)
    if {b"NX", b"XX"} <= flags:
        raise Fail("ERR XX and NX options at the same time are not compatible")
    if len(flags & {b"GT", b"LT", b"NX"}) > 1:
        raise Fail("ERR GT, LT, and/or NX options at the same time are not compatible")
    if b"INCR" in flags and len(rest) > 2:
        raise Fail("ERR INCR option supports a single increment-element pair")
    pairs = [(real(score), member) for score, member in zip(rest[::2], rest[1::2], strict=True)]
    members = e.zset(c, a[0])
    new = changed = 0
    last: float | None = None
    for score, member in pairs:
        old = None if members is None else members.get(member)
        last = _add(e, c, a[0], member, score, old, flags)
        new += old is None and last is not None
        changed += old is not None and last is not None and last != old
        members = members or e.zset(c, a[0])
    if b"INCR" in flags:
        return last
    return new + changed if b"CH" in flags else new


def _add(
    e: Executor, c: Client, key: bytes, member: bytes, score: float, old: float | None, flags: set[bytes]
) -> float | None:
    """The score that the member has afterwards; None: it was left alone."""
    after = score
    if b"INCR" in flags and old is not None:
        after = old + score
        if isnan(after):
            raise Fail(NAN)
    if (old is None and b"XX" in flags) or (old is not None and b"NX" in flags):
        return None
    limit = steps.GREATER if b"GT" in flags else steps.LESS if b"LT" in flags else 0
    loses = old is not None and ((b"GT" in flags and after <= old) or (b"LT" in flags and after >= old))
    if b"INCR" in flags:
        if not loses:
            e.emit(c.db, ops.SCORE_UPDATE, key, member, (steps.ADD, score))
    elif limit:
        e.emit(c.db, ops.SCORE_UPDATE, key, member, (limit, score))
    elif b"NX" in flags:
        e.emit(c.db, ops.SCORE_UPDATE, key, member, (steps.CLAIM, score))
    else:
        e.emit(c.db, ops.SCORE_SET, key, member, score)
    return None if loses else after


@command(
    "ZINCRBY", 4, "write denyoom fast", group="sorted-set", differs="the reply is the score here and now"
)
def zincrby(e: Executor, c: Client, a: list[bytes]) -> Reply:
    by = real(a[1])
    members = e.zset(c, a[0])
    return _add(e, c, a[0], a[2], by, None if members is None else members.get(a[2]), {b"INCR"})


def remove(e: Executor, c: Client, key: bytes, names: list[bytes]) -> int:
    return e.remove(c.db, ops.SCORE_REMOVE, key, "zset", e.zset(c, key), names)


@command("ZREM", -3, "write fast", group="sorted-set")
def zrem(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return remove(e, c, a[0], a[1:])


@command("ZSCORE", 3, "readonly fast", group="sorted-set")
def zscore(e: Executor, c: Client, a: list[bytes]) -> Reply:
    members = e.zset(c, a[0])
    return None if members is None else members.get(a[1])


@command("ZMSCORE", -3, "readonly fast", group="sorted-set")
def zmscore(e: Executor, c: Client, a: list[bytes]) -> Reply:
    members = e.zset(c, a[0])
    return [None if members is None else members.get(one) for one in a[1:]]


@command("ZCARD", 2, "readonly fast", group="sorted-set")
def zcard(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return len(e.zset(c, a[0]) or ())


def _pop(greatest: bool, e: Executor, c: Client, a: list[bytes]) -> Reply:
    if len(a) > 2:
        raise Fail(SYNTAX)
    count = number(a[1], "ERR value is out of range, must be positive") if len(a) == 2 else 1
    if count < 0:
        raise Fail("ERR value is out of range, must be positive")
    found = take(e, c, a[0], greatest, count)
    if len(a) == 1:
        return list(found[0]) if found else []
    return Pairs(found)


def take(e: Executor, c: Client, key: bytes, greatest: bool, count: int) -> list[list[bytes | float]]:
    members = e.zset(c, key)
    if members is None or not count:
        return []
    index = members.index
    chosen = index[: -count - 1 : -1] if greatest else index[:count]
    remove(e, c, key, [member for _, member in chosen])
    return [[member, score] for score, member in chosen]


command("ZPOPMIN", -2, "write fast", group="sorted-set", differs=LOCAL)(partial(_pop, False))
command("ZPOPMAX", -2, "write fast", group="sorted-set", differs=LOCAL)(partial(_pop, True))


@command("ZMPOP", -4, "write", (0, 0, 0), group="sorted-set", differs=LOCAL)
def zmpop(e: Executor, c: Client, a: list[bytes]) -> Reply:
    count = number(a[0], "ERR numkeys should be greater than 0")
    if count < 1:
        raise Fail("ERR numkeys should be greater than 0")
    keys, options, most = a[1 : 1 + count], Options(a[1 + count :]), 0
    where = options.name()
    if where not in (b"MIN", b"MAX"):
        raise Fail(SYNTAX)
    while options:
        if options.name() != b"COUNT" or most:
            raise Fail(SYNTAX)
        most = number(options.word(), "ERR count should be greater than 0")
        if most < 1:
            raise Fail("ERR count should be greater than 0")
    for key in keys:
        if e.zset(c, key) is not None:
            return [key, take(e, c, key, where == b"MAX", most or 1)]
    return NULL_ARRAY


@command("ZRANDMEMBER", -2, "readonly", group="sorted-set")
def zrandmember(e: Executor, c: Client, a: list[bytes]) -> Reply:
    if len(a) > 3 or (len(a) == 3 and a[2].upper() != b"WITHSCORES"):
        raise Fail(SYNTAX)
    count = number(a[1]) if len(a) > 1 else None
    if count is not None and not -(1 << 62) < count < 1 << 62:
        raise Fail("ERR value is out of range")
    members = e.zset(c, a[0])
    names = [] if members is None else list(members.data)
    if count is None:
        return e.random.choice(names) if names else None
    if members is None:
        return []
    chosen = (
        e.random.choices(names, k=-count) if count < 0 else e.random.sample(names, min(count, len(names)))
    )
    return chosen if len(a) < 3 else Pairs([[name, members.get(name)] for name in chosen])


@command("ZSCAN", -3, "readonly", group="sorted-set")
def zscan(e: Executor, c: Client, a: list[bytes]) -> Reply:
    cursor, options = words_of(a[1:])
    members = e.zset(c, a[0])
    following, found = paged([] if members is None else members.data, cursor, options)
    if members is None:
        return [following, []]
    scores = [(name, members.get(name)) for name in found]
    return [following, [word for name, score in scores for word in (name, double_text(score or 0.0))]]


def _scores(e: Executor, c: Client, key: bytes) -> dict[bytes, float]:
    """A set counts as one whose scores are 1."""
    found = e.get(c, key)
    if found is None:
        return {}
    if isinstance(found, ScoreMap):
        return dict(found.items())
    if isinstance(found, AddWinsSet | RemoveWinsSet):
        return dict.fromkeys(found.elements(), 1.0)
    raise Fail(WRONG_TYPE)


def _combine(
    e: Executor, c: Client, what: str, name: str, a: list[bytes], stores: bool
) -> "tuple[dict[bytes, float], bool]":
    keys, rest = counted_keys(a, name)
    weights, aggregate, shows = [1.0] * len(keys), b"SUM", False
    options = Options(rest)
    while options:
        word = options.name()
        if word == b"WEIGHTS" and what != "diff" and options.left >= len(keys):
            weights = [real(options.word(), "ERR weight value is not a float") for _ in keys]
        elif word == b"AGGREGATE" and what != "diff":
            aggregate = options.name()
            if aggregate not in (b"SUM", b"MIN", b"MAX"):
                raise Fail(SYNTAX)
        elif word == b"WITHSCORES" and not stores:
            shows = True
        else:
            raise Fail(SYNTAX)
    inputs = [_scores(e, c, key) for key in keys]
    if what == "diff":
        return {m: s for m, s in inputs[0].items() if not any(m in other for other in inputs[1:])}, shows
    found: dict[bytes, float] = {}
    for weight, scores in zip(weights, inputs, strict=True):
        for member, score in scores.items():
            if what == "inter" and not all(member in other for other in inputs):
                continue
            value = score * weight
            value = 0.0 if isnan(value) else value
            if member in found:
                old = found[member]
                total = old + value
                total = 0.0 if isnan(total) else total
                value = total if aggregate == b"SUM" else (min if aggregate == b"MIN" else max)(old, value)
            found[member] = value
    return found, shows


def _show(what: str, e: Executor, c: Client, a: list[bytes]) -> Reply:
    found, shows = _combine(e, c, what, f"z{what}", a, False)
    ordered = sorted((score, member) for member, score in found.items())
    if shows:
        return Pairs([[member, score] for score, member in ordered])
    return [member for _, member in ordered]


def _store(what: str, e: Executor, c: Client, a: list[bytes]) -> Reply:
    found, _ = _combine(e, c, what, f"z{what}store", a[1:], True)
    return put(e, c, a[0], [(score, member) for member, score in found.items()])


def put(e: Executor, c: Client, key: bytes, found: list[tuple[float, bytes]]) -> int:
    """Instead of what the key holds."""
    if e.get(c, key) is not None:
        e.delete(c.db, key)
    if found:
        e.emit(c.db, ops.SCORE_SET, key, *[word for score, member in found for word in (member, score)])
    return len(found)


for _what in ("inter", "union", "diff"):
    command(f"Z{_what.upper()}", -3, "readonly", (0, 0, 0), group="sorted-set")(partial(_show, _what))
    command(f"Z{_what.upper()}STORE", -4, "write denyoom", (1, 1, 1), group="sorted-set")(
        partial(_store, _what)
    )


@command("ZINTERCARD", -3, "readonly", (0, 0, 0), group="sorted-set")
def zintercard(e: Executor, c: Client, a: list[bytes]) -> Reply:
    keys, rest = counted_keys(a, "zintercard")
    options, limit = Options(rest), 0
    while options:
        if options.name() != b"LIMIT":
            raise Fail(SYNTAX)
        limit = number(options.word(), "ERR LIMIT can't be negative")
        if limit < 0:
            raise Fail("ERR LIMIT can't be negative")
    inputs = [_scores(e, c, key) for key in keys]
    size = sum(all(member in other for other in inputs[1:]) for member in inputs[0])
    return min(size, limit) if limit else size
