"""Commands that Redis does not have: sessions, tags, conflicts, members; and WAIT."""

from thence.core.groups import process_of, told_apart
from thence.crdt.cell import Cell
from thence.crdt.mark import Mark
from thence.crdt.numbers import text_of
from thence.store import sessions
from thence.store.client import Client
from thence.store.commands.generic import conflicts
from thence.store.dump import Dump
from thence.store.executor import Executor
from thence.store.host import Later
from thence.store.reply import OK, Fail, Reply
from thence.store.scanning import chosen, count_of, words_of
from thence.store.slots import Assigned, Counted, Slot
from thence.store.table import command
from thence.store.words import SYNTAX, number

NONE = (0, 0, 0)
ATTACH_MS = 5000


@command(
    "WAIT",
    3,
    "",
    NONE,
    group="generic",
    differs="until the connection's writes are delivered at so many others",
)
def wait(e: Executor, c: Client, a: list[bytes]) -> Reply:
    wanted, timeout = number(a[0]), number(a[1], "ERR timeout is not an integer or out of range")
    if timeout < 0:
        raise Fail("ERR timeout is negative")
    mark = c.wrote
    if mark is None:
        return len(e.host.members()) - 1 if e.host.members() else 0

    def count() -> int:
        return e.host.reached(mark)

    return Later(lambda: found if (found := count()) >= wanted else None, timeout, count)


@command("WAITAOF", 4, "", NONE, group="generic", differs="own log alone")
def waitaof(e: Executor, c: Client, a: list[bytes]) -> Reply:
    for word in a:
        number(word)
    return [1, 0]


@command("THENCE.SESSION", 1, "readonly", NONE, group="own")
def session(e: Executor, c: Client, a: list[bytes]) -> Reply:
    """What this client may have seen: to be attached to another node."""

    def look() -> Reply | None:
        return None if e.state.pending else sessions.token(e.cluster, e.host.exactly())

    return Later(look, 0, lambda: None)


@command("THENCE.ATTACH", -2, "readonly", NONE, group="own")
def attach(e: Executor, c: Client, a: list[bytes]) -> Reply:
    timeout = ATTACH_MS
    if len(a) == 3 and a[1].upper() == b"TIMEOUT":
        timeout = number(a[2], "ERR timeout is not an integer or out of range")
        if timeout < 0:
            raise Fail("ERR timeout is negative")
    elif len(a) != 1:
        raise Fail(SYNTAX)
    wanted = sorted(sessions.read(e.cluster, a[0]).items())

    def missing() -> list[tuple[str, int]]:
        return [(name, seq) for name, seq in wanted if not e.host.has_delivered(name, seq)]

    def look() -> Reply | None:
        lacking = missing()
        if any(e.host.is_elsewhere(name, seq) for name, seq in lacking):
            return sessions.foreign()
        return None if lacking else OK

    def too_late() -> Reply:
        named = ", ".join(f"{told_apart(name)[0]}:{seq}" for name, seq in missing())
        return Fail(f"THENCENOTYET waiting for {named}") if named else OK

    found = look()
    if found is not None:
        return found
    return Later(look, timeout, too_late) if timeout else too_late()


def _last(e: Executor, db: int, key: bytes) -> Mark | None:
    """The last write of a key that is not stable."""
    found = [
        mark for mark, parts in e.state.space.flight.items()
        if any(part[1] == db and part[2] == key for part in parts)
    ]  # fmt: skip
    return max(found, key=lambda mark: mark.at(0), default=None)


@command("THENCE.TAG", 2, "readonly", group="own")
def tag_(e: Executor, c: Client, a: list[bytes]) -> Reply:
    """Dot, dots that it saw last, and whether it is stable, of the key's last write."""
    mark = _last(e, c.db, a[0])
    if mark is None:
        return [None, [], 1]
    dot = f"{mark.name}:{mark.seq}".encode() if mark.seq else None
    return [dot, [f"{name}:{seq}".encode() for name, seq in sorted(e.host.saw(mark))], 0]


@command("THENCE.VALUES", 2, "readonly", group="own")
def values(e: Executor, c: Client, a: list[bytes]) -> Reply:
    """Of a string its concurrent values, the winner first; else the sizes of all kinds that the key holds."""
    if e.get(c, a[0]) is None:
        return []
    slot = e.database(c).keys.get(a[0])
    if isinstance(slot, Assigned | Counted):
        return [text_of(slot.value)]
    if not isinstance(slot, Slot):
        return [text_of(slot)] if slot is not None else []
    kinds = slot.kinds()
    if len(kinds) == 1 and kinds[0][0] == "string":
        found = kinds[0][1]
        shown = [text_of(found)] if isinstance(found, bytes | int) else []
        if isinstance(slot.string, Cell):
            shown += [text_of(one) for one in slot.string.values()[1:]]
        return shown
    return {
        name.encode(): len(text_of(found)) if isinstance(found, bytes | int) else len(found)
        for name, found in kinds
    }


@command("THENCE.STABLE", -1, "readonly", NONE, group="own")
def stable(e: Executor, c: Client, a: list[bytes]) -> Reply:
    """Whether all writes, or all of a key, are known to be everywhere; `WAIT ms` waits for that."""
    if len(a) == 2 and a[0].upper() == b"WAIT":
        timeout = number(a[1], "ERR timeout is not an integer or out of range")
        return Later(lambda: None if e.state.unstable else 1, timeout, lambda: int(not e.state.unstable))
    if len(a) > 1:
        raise Fail(SYNTAX)
    if a:
        return int(_last(e, c.db, a[0]) is None)
    return int(not e.state.unstable)


@command("THENCE.MEMBERS", 1, "readonly", NONE, group="own")
def members(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return [
        {
            b"name": process_of(one.name).encode(),
            b"incarnation": one.name.encode(),
            b"address": one.address.encode(),
            b"state": one.state.encode(),
            b"lag": one.lag,
        }
        for one in e.host.members()
    ]


@command("THENCE.ORPHANS", 1, "readonly", NONE, group="own")
def orphans(e: Executor, c: Client, a: list[bytes]) -> Reply:
    """What came to nothing of operations that the group never had: dot, and how many parts."""
    return [[f"{origin}:{seq}".encode(), len(parts)] for origin, seq, parts in e.orphans]


@command("THENCE.CONFLICTS", -2, "readonly", NONE, group="own")
def conflicting(e: Executor, c: Client, a: list[bytes]) -> Reply:
    """Like SCAN: keys with concurrent values or kinds."""
    cursor, options = words_of(a)
    database = e.database(c)
    following, found = database.scan.page(database.keys, cursor, count_of(options))
    return [b"%d" % following, [key for key in chosen(found, options) if conflicts(e, c.db, key)]]


@command("THENCE.DUMP", 2, "readonly", NONE, group="own")
def dump(e: Executor, c: Client, a: list[bytes]) -> Reply:
    """All keys as commands that make them anew: BEGIN, which tells what they follow from, as THENCE.SESSION
    does; NEXT until it is null; END, which tells how many keys there were and how many of them had values of
    other kinds."""
    word = a[0].upper()
    if word == b"BEGIN":

        def begin() -> Reply | None:
            if e.state.pending:
                return None  # what is not in the log yet is not to be in a backup
            if any(client.dump is not None for client in e.clients.values()):
                return Fail("ERR a dump is under way")
            if c.id not in e.clients:
                return Fail("ERR a dump needs a connection of its own")
            c.dump = Dump(e.state.space, e.now)
            return sessions.token(e.cluster, e.host.exactly())

        return Later(begin, 0, lambda: None)
    if c.dump is None:
        raise Fail("ERR no dump was begun")
    if word == b"NEXT":
        return c.dump.next() or None
    if word != b"END":
        raise Fail(SYNTAX)
    told = [c.dump.keys, c.dump.hidden]
    e.end_dump(c)
    return told


@command("THENCE.HELP", 1, "readonly", NONE, group="own")
def help_(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return [
        "THENCE.SESSION: a token of what this connection may have seen",
        "THENCE.ATTACH token [TIMEOUT ms]: wait until this node has all of that",
        "THENCE.TAG key: the last write's dot, what it saw, whether it is stable",
        "THENCE.VALUES key: concurrent values, or kinds",
        "THENCE.STABLE [key | WAIT ms]: is everything known to be everywhere?",
        "THENCE.MEMBERS, THENCE.ORPHANS, THENCE.CONFLICTS cursor",
        "THENCE.DUMP BEGIN | NEXT | END: all keys as commands, for `thence store backup`",
    ]
