"""Sorted sets by rank, by score and by the order of their members' bytes."""

from bisect import bisect_left, bisect_right
from functools import partial
from typing import Final

from thence.store.client import Client
from thence.store.commands.zsets import put, remove
from thence.store.executor import Executor
from thence.store.reply import Fail, Pairs, Reply
from thence.store.table import command
from thence.store.words import SYNTAX, Options, number, real

Index = list[tuple[float, bytes]]
BY_RANK: Final = 0
BY_SCORE: Final = 1
BY_LEX: Final = 2
_NOT_FLOAT: Final = "ERR min or max is not a float"
_NOT_LEX: Final = "ERR min or max not valid string range item"


def _score(word: bytes) -> tuple[float, bool]:
    """A bound, and whether it is excluded."""
    excluded = word[:1] == b"("
    return real(word[1:] if excluded else word, _NOT_FLOAT), excluded


def by_score(index: Index, low: bytes, high: bytes) -> tuple[int, int]:
    """From and up to which place."""
    (least, above), (most, below) = _score(low), _score(high)
    first = bisect_right(index, least, key=_of) if above else bisect_left(index, least, key=_of)
    last = bisect_left(index, most, key=_of) if below else bisect_right(index, most, key=_of)
    return first, max(first, last)


def _of(entry: tuple[float, bytes]) -> float:
    return entry[0]


def _lex(word: bytes) -> tuple[int, bytes, bool]:
    """-1, 0, 1: before everything, a member, after everything."""
    if word == b"-":
        return -1, b"", False
    if word == b"+":
        return 1, b"", False
    if word[:1] not in (b"[", b"("):
        raise Fail(_NOT_LEX)
    return 0, word[1:], word[:1] == b"("


def by_lex(index: Index, low: bytes, high: bytes) -> tuple[int, int]:
    bounds = []
    for word, is_high in ((low, False), (high, True)):
        side, member, excluded = _lex(word)
        if side:
            bounds.append(0 if side < 0 else len(index))
        elif excluded == is_high:
            bounds.append(bisect_left(index, member, key=_member))
        else:
            bounds.append(bisect_right(index, member, key=_member))
    return bounds[0], max(bounds)


def _member(entry: tuple[float, bytes]) -> bytes:
    return entry[1]


def by_rank(size: int, start: int, end: int) -> tuple[int, int]:
    start = max(0, start + size) if start < 0 else start
    end = end + size if end < 0 else end
    return start, max(start, min(end, size - 1) + 1)


def _found(
    index: Index, by: int, low: bytes, high: bytes, backward: bool, offset: int = 0, count: int = -1
) -> Index:
    if by == BY_RANK:
        first, last = by_rank(len(index), number(low), number(high))
        if backward:
            first, last = len(index) - last, len(index) - first
            first = max(0, first)
    else:
        low, high = (high, low) if backward else (low, high)
        first, last = (by_score if by == BY_SCORE else by_lex)(index, low, high)
    found = index[first : max(first, last)]
    if backward:
        found.reverse()
    if offset < 0:
        return []
    return found[offset:] if count < 0 else found[offset : offset + count]


def _range(e: Executor, c: Client, key: bytes, words: list[bytes], stores: bool) -> tuple[Index, bool]:
    """ZRANGE in its whole generality; and whether scores are shown."""
    by, backward, shows, offset, count, limited = BY_RANK, False, False, 0, -1, False
    options = Options(words[2:])
    while options:
        word = options.name()
        if word == b"BYSCORE":
            by = BY_SCORE
        elif word == b"BYLEX":
            by = BY_LEX
        elif word == b"REV":
            backward = True
        elif word == b"WITHSCORES" and not stores:
            shows = True
        elif word == b"LIMIT":
            offset, count, limited = number(options.word()), number(options.word()), True
        else:
            raise Fail(SYNTAX)
    if limited and by == BY_RANK:
        raise Fail("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
    if shows and by == BY_LEX:
        raise Fail("ERR syntax error, WITHSCORES not supported in combination with BYLEX")
    return _ordered(e, c, key, by, words[0], words[1], backward, offset, count), shows


def _ordered(
    e: Executor,
    c: Client,
    key: bytes,
    by: int,
    low: bytes,
    high: bytes,
    backward: bool,
    offset: int,
    count: int,
) -> Index:
    _found([], by, low, high, backward)  # what cannot be read is an error also where there is no key
    members = e.zset(c, key)
    return [] if members is None else _found(members.index, by, low, high, backward, offset, count)


def _shown(found: Index, shows: bool) -> Reply:
    if shows:
        return Pairs([[member, score] for score, member in found])
    return [member for _, member in found]


@command("ZRANGE", -4, "readonly", group="sorted-set")
def zrange(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return _shown(*_range(e, c, a[0], a[1:], False))


@command("ZRANGESTORE", -5, "write denyoom", (1, 2, 1), group="sorted-set")
def zrangestore(e: Executor, c: Client, a: list[bytes]) -> Reply:
    found, _ = _range(e, c, a[1], a[2:], True)
    return put(e, c, a[0], found)


def _old_range(by: int, backward: bool, e: Executor, c: Client, a: list[bytes]) -> Reply:
    """ZREVRANGE, Z(REV)RANGEBYSCORE, Z(REV)RANGEBYLEX."""
    shows, offset, count = False, 0, -1
    options = Options(a[3:])
    while options:
        word = options.name()
        if word == b"WITHSCORES" and by != BY_LEX:
            shows = True
        elif word == b"LIMIT" and by != BY_RANK:
            offset, count = number(options.word()), number(options.word())
        else:
            raise Fail(SYNTAX)
    return _shown(_ordered(e, c, a[0], by, a[1], a[2], backward, offset, count), shows)


for _name, _by, _backward in (
    ("ZREVRANGE", BY_RANK, True),
    ("ZRANGEBYSCORE", BY_SCORE, False),
    ("ZREVRANGEBYSCORE", BY_SCORE, True),
    ("ZRANGEBYLEX", BY_LEX, False),
    ("ZREVRANGEBYLEX", BY_LEX, True),
):
    command(_name, -4, "readonly", group="sorted-set")(partial(_old_range, _by, _backward))


def _count(by: int, e: Executor, c: Client, a: list[bytes]) -> Reply:
    return len(_ordered(e, c, a[0], by, a[1], a[2], False, 0, -1))


def _remove_range(by: int, e: Executor, c: Client, a: list[bytes]) -> Reply:
    found = _ordered(e, c, a[0], by, a[1], a[2], False, 0, -1)
    return remove(e, c, a[0], [member for _, member in found])


command("ZCOUNT", 4, "readonly fast", group="sorted-set")(partial(_count, BY_SCORE))
command("ZLEXCOUNT", 4, "readonly fast", group="sorted-set")(partial(_count, BY_LEX))
command("ZREMRANGEBYRANK", 4, "write", group="sorted-set")(partial(_remove_range, BY_RANK))
command("ZREMRANGEBYSCORE", 4, "write", group="sorted-set")(partial(_remove_range, BY_SCORE))
command("ZREMRANGEBYLEX", 4, "write", group="sorted-set")(partial(_remove_range, BY_LEX))


def _rank(backward: bool, e: Executor, c: Client, a: list[bytes]) -> Reply:
    if len(a) > 3 or (len(a) == 3 and a[2].upper() != b"WITHSCORE"):
        raise Fail(SYNTAX)
    members = e.zset(c, a[0])
    score = None if members is None else members.get(a[1])
    if members is None or score is None:
        return None
    rank = bisect_left(members.index, (score, a[1]))
    rank = len(members) - 1 - rank if backward else rank
    return [rank, score] if len(a) == 3 else rank


command("ZRANK", -3, "readonly fast", group="sorted-set")(partial(_rank, False))
command("ZREVRANK", -3, "readonly fast", group="sorted-set")(partial(_rank, True))
