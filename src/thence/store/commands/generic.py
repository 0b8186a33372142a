"""Keys, whatever they hold: deletes, expiry, renames, scans."""

from functools import partial

from thence.core.machine import NEVER
from thence.crdt.cells import CellMap
from thence.crdt.numbers import text_of
from thence.store import ops
from thence.store.client import Client
from thence.store.effects import kind
from thence.store.executor import Executor
from thence.store.glob import matches
from thence.store.helping import help_or_error
from thence.store.reply import OK, Fail, Reply
from thence.store.scanning import chosen, count_of, words_of
from thence.store.slots import Slot, State
from thence.store.table import command
from thence.store.words import NO_KEY, NOT_INTEGER, SYNTAX, Options, deadline, number

SEEN = "what others add meanwhile stays at its key"


def _delete(e: Executor, c: Client, a: list[bytes]) -> Reply:
    there = [key for key in dict.fromkeys(a) if e.get(c, key) is not None]
    for key in there:
        e.delete(c.db, key)
    return len(there)


command("DEL", -2, "write", (1, -1, 1), group="generic", differs="removes what was seen")(_delete)
command("UNLINK", -2, "write fast", (1, -1, 1), group="generic", differs="removes what was seen")(_delete)


def _exists(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return sum(e.get(c, key) is not None for key in a)


command("EXISTS", -2, "readonly fast", (1, -1, 1), group="generic")(_exists)
command("TOUCH", -2, "readonly fast", (1, -1, 1), group="generic")(_exists)


@command("TYPE", 2, "readonly fast", group="generic")
def type_(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return kind(e.get(c, a[0]))


@command("KEYS", 2, "readonly", (0, 0, 0), group="generic")
def keys(e: Executor, c: Client, a: list[bytes]) -> Reply:
    visible = e.database(c).visible(e.now)
    return list(visible) if a[0] == b"*" else [key for key in visible if matches(a[0], key)]


@command("RANDOMKEY", 1, "readonly", (0, 0, 0), group="generic")
def randomkey(e: Executor, c: Client, a: list[bytes]) -> Reply:
    there = list(e.database(c).visible(e.now))
    return e.random.choice(there) if there else None


@command("SCAN", -2, "readonly", (0, 0, 0), group="generic",
         differs="cursors hold at every node and after restarts")  # fmt: skip
def scan(e: Executor, c: Client, a: list[bytes]) -> Reply:
    cursor, options = words_of(a, b"TYPE") if b"TYPE" not in [w.upper() for w in a[1::2]] else _with_type(a)
    database = e.database(c)
    following, found = database.scan.page(database.keys, cursor, count_of(options))
    shown = [key for key in chosen(found, options) if (state := database.get(key, e.now)) is not None
             and (b"TYPE" not in options or kind(state).encode() == options[b"TYPE"].lower())]  # fmt: skip
    return [b"%d" % following, shown]


def _with_type(a: list[bytes]) -> tuple[int, dict[bytes, bytes]]:
    at = next(i for i in range(1, len(a)) if a[i].upper() == b"TYPE")
    if at + 1 >= len(a):
        raise Fail(SYNTAX)
    cursor, options = words_of([*a[:at], *a[at + 2 :]])
    return cursor, {**options, b"TYPE": a[at + 1]}


# Expiry


def _expire(name: str, seconds: bool, absolute: bool, e: Executor, c: Client, a: list[bytes]) -> Reply:
    until = deadline(a[1], seconds, absolute, e.now, name, positive=False)
    flags = set[bytes]()
    for word in a[2:]:
        if word.upper() not in (b"NX", b"XX", b"GT", b"LT"):
            raise Fail(f"ERR Unsupported option {word.decode(errors='surrogateescape')}")
        flags.add(word.upper())
    if b"NX" in flags and len(flags) > 1:
        raise Fail("ERR NX and XX, GT or LT options at the same time are not compatible")
    if {b"GT", b"LT"} <= flags:
        raise Fail("ERR GT and LT options at the same time are not compatible")
    if e.get(c, a[0]) is None:
        return 0
    held = e.database(c).deadline(a[0])
    if (
        (b"NX" in flags and held != NEVER)
        or (b"XX" in flags and held == NEVER)
        or (b"GT" in flags and (held == NEVER or until <= held))
        or (b"LT" in flags and until >= held)
    ):
        return 0
    if until <= e.now:
        e.delete(c.db, a[0])
    else:
        e.emit(c.db, ops.STATE, a[0], until)
    return 1


_LONGEST = "the longest concurrent one wins"
for _name, _seconds, _absolute in (
    ("expire", True, False), ("pexpire", False, False), ("expireat", True, True), ("pexpireat", False, True),
):  # fmt: skip
    command(_name.upper(), -3, "write fast", group="generic", differs=_LONGEST)(
        partial(_expire, _name, _seconds, _absolute)
    )


def _ttl(seconds: bool, absolute: bool, e: Executor, c: Client, a: list[bytes]) -> Reply:
    if e.get(c, a[0]) is None:
        return -2
    held = e.database(c).deadline(a[0])
    if held == NEVER:
        return -1
    left = held if absolute else held - e.now
    if not seconds:
        return left
    return left // 1000 if absolute else (left + 500) // 1000


command("TTL", 2, "readonly fast", group="generic")(partial(_ttl, True, False))
command("PTTL", 2, "readonly fast", group="generic")(partial(_ttl, False, False))
command("EXPIRETIME", 2, "readonly fast", group="generic")(partial(_ttl, True, True))
command("PEXPIRETIME", 2, "readonly fast", group="generic")(partial(_ttl, False, True))


@command("PERSIST", 2, "write fast", group="generic", differs="beats every concurrent EXPIRE")
def persist(e: Executor, c: Client, a: list[bytes]) -> Reply:
    if e.get(c, a[0]) is None or e.database(c).deadline(a[0]) == NEVER:
        return 0
    e.emit(c.db, ops.STATE, a[0], NEVER)
    return 1


# From one key to another


def _copy(e: Executor, c: Client, source: bytes, db: int, target: bytes) -> None:
    """Instead of what the target holds: the values as they are here."""
    database = e.database(c)
    found, until = database.get(source, e.now), database.deadline(source)
    assert found is not None
    words = _words(found)
    size = sum(len(word) if isinstance(word, bytes) else 9 for word in words)
    if size > e.config.rename_max:
        raise Fail(f"ERR this key holds {size} bytes, more than rename-max-bytes")
    other = e.state.space.databases[db]
    if target in other.keys or target in other.deadlines:
        e.delete(db, target)
    if isinstance(found, bytes | int):
        e.emit(db, ops.SET, target, found, until)
        return
    code = {"hash": ops.FIELD_SET, "zset": ops.SCORE_SET, "set": ops.SET_ADD}[kind(found)]
    e.emit(db, code, target, *words)
    if until != NEVER:
        e.emit(db, ops.STATE, target, until)


def _words(found: State) -> list[bytes | int | float]:
    if isinstance(found, bytes | int):
        return [found]
    if isinstance(found, CellMap):
        return [word for pair in found.items() for word in pair]
    return list(found.elements())


def _rename(e: Executor, c: Client, a: list[bytes], only_new: bool) -> Reply:
    if e.get(c, a[0]) is None:
        raise Fail(NO_KEY)
    if only_new and e.get(c, a[1]) is not None:
        return 0
    if a[0] != a[1]:
        _copy(e, c, a[0], c.db, a[1])
        e.delete(c.db, a[0])
    return 1


@command("RENAME", 3, "write", (1, 2, 1), group="generic", differs=SEEN)
def rename(e: Executor, c: Client, a: list[bytes]) -> Reply:
    _rename(e, c, a, False)
    return OK


@command("RENAMENX", 3, "write fast", (1, 2, 1), group="generic", differs=SEEN)
def renamenx(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return _rename(e, c, a, True)


def database_number(word: bytes, error: str = NOT_INTEGER) -> int:
    value = number(word, error)
    if not 0 <= value < ops.DATABASES:
        raise Fail("ERR DB index is out of range")
    return value


@command("COPY", -3, "write denyoom", (1, 2, 1), group="generic", differs="of what was seen")
def copy(e: Executor, c: Client, a: list[bytes]) -> Reply:
    options, db, replaces = Options(a[2:]), c.db, False
    while options:
        word = options.name()
        if word == b"DB":
            db = database_number(options.word())
        elif word == b"REPLACE":
            replaces = True
        else:
            raise Fail(SYNTAX)
    if db == c.db and a[0] == a[1]:
        raise Fail("ERR source and destination objects are the same")
    if e.get(c, a[0]) is None:
        return 0
    if e.state.space.databases[db].get(a[1], e.now) is not None and not replaces:
        return 0
    _copy(e, c, a[0], db, a[1])
    return 1


@command("MOVE", 3, "write fast", group="generic", differs=SEEN)
def move(e: Executor, c: Client, a: list[bytes]) -> Reply:
    db = database_number(a[1])
    if db == c.db:
        raise Fail("ERR source and destination objects are the same")
    if e.get(c, a[0]) is None or e.state.space.databases[db].get(a[0], e.now) is not None:
        return 0
    _copy(e, c, a[0], db, a[0])
    e.delete(c.db, a[0])
    return 1


# What a key looks like


@command(
    "OBJECT",
    -2,
    "readonly",
    (2, 2, 1),
    group="generic",
    differs="encodings are those that Redis would choose; IDLETIME is 0",
)
def object_(e: Executor, c: Client, a: list[bytes]) -> Reply:
    what = a[0].upper()
    if what not in (b"ENCODING", b"REFCOUNT", b"IDLETIME", b"FREQ") or len(a) != 2:
        return help_or_error("OBJECT", a)
    found = e.get(c, a[1])
    if found is None:
        return None
    if what == b"FREQ":
        raise Fail(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that "
            "when switching between policies at runtime LRU and LFU data will take some time to adjust."
        )
    if what == b"ENCODING":
        return encoding(found).encode()
    return int(what == b"REFCOUNT")


def encoding(found: State) -> str:
    if isinstance(found, int):
        return "int"
    if isinstance(found, bytes):
        return "embstr" if len(found) <= 44 else "raw"
    words = [text_of(word) for word in _words(found) if not isinstance(word, float)]
    short = all(len(word) <= 64 for word in words)
    if isinstance(found, CellMap):
        is_hash = kind(found) == "hash"
        small = len(found) <= (512 if is_hash else 128) and short
        return "listpack" if small else "hashtable" if is_hash else "skiplist"
    if len(found) <= 512 and all(word.removeprefix(b"-").isdigit() and len(word) < 19 for word in words):
        return "intset"
    return "listpack" if len(found) <= 128 and short else "hashtable"


def conflicts(e: Executor, number: int, key: bytes) -> bool:
    """Are there concurrent values, or kinds?"""
    slot = e.state.space.databases[number].keys.get(key)
    if not isinstance(slot, Slot):
        return False
    return len(slot.kinds()) > 1 or len(getattr(slot.string, "candidates", ())) > 1
