"""SET and its kin: what gives strings a value, under which conditions, and what of it looks like a lock."""

from functools import partial
from typing import Final, NamedTuple

from thence.core.machine import NEVER
from thence.crdt import steps
from thence.crdt.numbers import Value, packed, text_of
from thence.store import ops
from thence.store.client import Client
from thence.store.commands.strings import EXPIRY, FIRST, bulk
from thence.store.executor import Executor
from thence.store.reply import OK, Fail, Reply
from thence.store.table import command
from thence.store.words import SYNTAX, Options, deadline, number

VALUE_IS: Final = {b"IFEQ": True, b"IFNE": False}
"""Equal to that of the command? What is not there is not."""

LOCK_BYTES: Final = range(16, 65)
"""Tokens of locks are so long."""
LOCKERS_MAX: Final = 1000
"""Clients, by name, that the log warns of."""
REFUSED: Final = "and lock-policy is refuse"


class SetOptions(NamedTuple):
    nx: bool = False
    xx: bool = False
    gets: bool = False
    keeps: bool = False
    until: int = NEVER
    when: bytes = b""
    """A condition on the value that is there, and what it is compared with."""
    match: bytes = b""

    def hold(self, there: bool) -> bool:
        return not (there if self.nx else self.xx and not there)


def set_options(name: str, words: list[bytes], now: int, alone: bool) -> SetOptions:
    """`alone`: of one key, so that a value may be asked for, and compared."""
    options = Options(words)
    nx = xx = gets = keeps = False
    until, when, match = NEVER, b"", b""
    while options:
        word = options.name()
        if word in (b"NX", b"XX") and not when and not (nx if word == b"XX" else xx):
            nx, xx = nx or word == b"NX", xx or word == b"XX"
        elif word in VALUE_IS and alone and not (nx or xx or when):
            when, match = word, options.word()
        elif word == b"GET" and alone:
            gets = True
        elif word == b"KEEPTTL" and until == NEVER:
            keeps = True
        elif word in EXPIRY and until == NEVER and not keeps:
            until = deadline(options.word(), *EXPIRY[word], now, name)
        else:
            raise Fail(SYNTAX)
    return SetOptions(nx, xx, gets, keeps, until, when, match)


@command(
    "SET", -3, "write denyoom", group="string", differs=f"NX: {FIRST}; XX, GET, IFEQ, IFNE: of this node"
)
def set_(e: Executor, c: Client, a: list[bytes]) -> Reply:
    key, value = a[0], packed(a[1])
    if len(a) == 2:
        e.assign(c.db, key, value)
        return OK
    options = set_options("set", a[2:], e.now, alone=True)
    if options.nx and options.until != NEVER and len(a[1]) in LOCK_BYTES:
        looks_like_a_lock(e, c)
    old = bulk(e.string(c, key)) if options.gets or options.when else None
    refused = old if options.gets else None
    if options.when and (old == options.match) != VALUE_IS[options.when]:
        return refused
    if not options.hold(e.get(c, key) is not None):
        return refused
    _set(e, c, key, value, options)
    return old if options.gets else OK


def _set(e: Executor, c: Client, key: bytes, value: Value, options: SetOptions) -> None:
    until = options.until
    if options.keeps and e.get(c, key) is not None:
        until = e.database(c).deadline(key)
    if options.nx:
        claim(e, c, key, value, until)
    else:
        e.assign(c.db, key, value, until)
    if until <= e.now:
        e.delete(c.db, key)


@command("MSETEX", -4, "write denyoom", (0, 0, 0), group="string", differs=f"NX: {FIRST}; XX: of this node")
def msetex(e: Executor, c: Client, a: list[bytes]) -> Reply:
    count = number(a[0], "ERR invalid numkeys value")
    if count < 1:
        raise Fail("ERR invalid numkeys value")
    end = 1 + 2 * count
    if end > len(a):
        raise Fail("ERR wrong number of key-value pairs")
    options = set_options("msetex", a[end:], e.now, alone=False)
    if not all(options.hold(e.get(c, key) is not None) for key in a[1:end:2]):
        return 0
    for key, value in dict(zip(a[1:end:2], a[2:end:2], strict=True)).items():
        _set(e, c, key, packed(value), options)
    return 1


@command("DELEX", -2, "write fast", group="string", differs="removes what was seen; IFEQ, IFNE: of this node")
def delex(e: Executor, c: Client, a: list[bytes]) -> Reply:
    if len(a) not in (1, 3):
        raise Fail("ERR wrong number of arguments for 'delex' command")
    if len(a) == 3 and a[1].upper() not in VALUE_IS:
        raise Fail(SYNTAX)
    found = e.get(c, a[0])
    if found is None:
        return 0
    if len(a) == 3:
        if not isinstance(found, bytes | int):
            raise Fail("ERR Key should be of string type if conditions are specified")
        if (text_of(found) == a[2]) != VALUE_IS[a[1].upper()]:
            return 0
    e.delete(c.db, a[0])
    return 1


def looks_like_a_lock(e: Executor, c: Client) -> None:
    """Two nodes may both be told that they have it."""
    e.stats["locks"] += 1
    if e.config.locks == "refuse":
        raise Fail(f"ERR SET with NX and a deadline is no lock here, {REFUSED}")
    if e.config.locks == "warn" and c.name not in e.lockers and len(e.lockers) < LOCKERS_MAX:
        e.lockers.add(c.name)
        if "warn" in e.facts:
            name = c.name.decode(errors="backslashreplace") or c.address
            e.facts["warn"](
                "a client sets what looks like a lock: two nodes may both be told OK", client=name
            )


def claim(e: Executor, c: Client, key: bytes, value: Value, until: int = NEVER) -> None:
    e.emit(c.db, ops.UPDATE, key, (steps.CLAIM, value))
    e.emit(c.db, ops.STATE, key, until)


@command("SETNX", 3, "write denyoom fast", group="string", differs=FIRST)
def setnx(e: Executor, c: Client, a: list[bytes]) -> Reply:
    if e.get(c, a[0]) is not None:
        return 0
    claim(e, c, a[0], packed(a[1]))
    return 1


def _setex(name: str, seconds: bool, e: Executor, c: Client, a: list[bytes]) -> Reply:
    e.emit(c.db, ops.SET, a[0], packed(a[2]), deadline(a[1], seconds, False, e.now, name))
    return OK


command("SETEX", 4, "write denyoom", group="string")(partial(_setex, "setex", True))
command("PSETEX", 4, "write denyoom", group="string")(partial(_setex, "psetex", False))


@command("MSET", -3, "write denyoom", (1, -1, 2), group="string")
def mset(e: Executor, c: Client, a: list[bytes]) -> Reply:
    if len(a) % 2:
        raise Fail("ERR wrong number of arguments for 'mset' command")
    for at in range(0, len(a), 2):
        e.emit(c.db, ops.SET, a[at], packed(a[at + 1]), NEVER)
    return OK


@command("MSETNX", -3, "write denyoom", (1, -1, 2), group="string", differs=FIRST)
def msetnx(e: Executor, c: Client, a: list[bytes]) -> Reply:
    if len(a) % 2:
        raise Fail("ERR wrong number of arguments for 'msetnx' command")
    if any(e.get(c, key) is not None for key in a[::2]):
        return 0
    last = dict(zip(a[::2], a[1::2], strict=True))
    for key, value in last.items():
        claim(e, c, key, packed(value))
    return 1
