"""The words of SCAN and its kin: cursor, MATCH, COUNT; and a page of a collection."""

from collections.abc import Collection

from thence.store.glob import matches
from thence.store.reply import Fail
from thence.store.scan import page
from thence.store.words import SYNTAX, Options, number

SMALL = 256
"""A collection of at most so many comes in one page."""


def words_of(words: list[bytes], *flags: bytes) -> tuple[int, dict[bytes, bytes]]:
    cursor = words[0]
    if not cursor.isdigit() or len(cursor) > 20:
        raise Fail("ERR invalid cursor")
    found: dict[bytes, bytes] = {}
    options = Options(words[1:])
    while options:
        name = options.name()
        if name in flags:
            found[name] = b""
        elif name in (b"MATCH", b"COUNT", b"TYPE"):
            found[name] = options.word()
        else:
            raise Fail(SYNTAX)
    if b"COUNT" in found and number(found[b"COUNT"]) < 1:
        raise Fail(SYNTAX)
    if b"TYPE" in found and b"TYPE" not in flags:
        raise Fail(SYNTAX)
    return int(cursor), found


def count_of(options: dict[bytes, bytes]) -> int:
    return number(options.get(b"COUNT", b"10"))


def chosen(names: list[bytes], options: dict[bytes, bytes]) -> list[bytes]:
    pattern = options.get(b"MATCH")
    return names if pattern is None else [name for name in names if matches(pattern, name)]


def paged(names: Collection[bytes], cursor: int, options: dict[bytes, bytes]) -> tuple[bytes, list[bytes]]:
    if len(names) <= SMALL and not cursor:
        following, found = 0, list(names)
    else:
        following, found = page(names, cursor, count_of(options))
    return b"%d" % following, chosen(found, options)
