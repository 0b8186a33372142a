"""A client and its connection."""

from hmac import compare_digest

from thence.store.client import Client
from thence.store.commands.generic import database_number
from thence.store.commands.transactions import drop
from thence.store.executor import Executor, wrong_count
from thence.store.helping import help_or_error
from thence.store.reply import NO_REPLY, OK, Fail, Reply, Verbatim
from thence.store.table import command
from thence.store.words import SYNTAX, Options, number

REDIS_VERSION = "7.2.5"
"""What clients and suites switch on."""

NONE = (0, 0, 0)


@command("PING", -1, "fast", NONE, group="connection")
def ping(e: Executor, c: Client, a: list[bytes]) -> Reply:
    if len(a) > 1:
        raise wrong_count("ping")
    return a[0] if a else "PONG"


@command("ECHO", 2, "fast", NONE, group="connection")
def echo(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return a[0]


@command("SELECT", 2, "loading stale fast", NONE, group="connection")
def select(e: Executor, c: Client, a: list[bytes]) -> Reply:
    c.db = database_number(a[0])
    return OK


@command("QUIT", -1, "noscript loading stale fast no-auth", NONE, group="connection")
def quit_(e: Executor, c: Client, a: list[bytes]) -> Reply:
    c.quits = True
    return OK


@command("RESET", 1, "noscript loading stale fast no-auth", NONE, group="connection")
def reset(e: Executor, c: Client, a: list[bytes]) -> Reply:
    drop(e, c)
    e.end_dump(c)
    c.db, c.proto, c.name, c.replies, c.skips = 0, 2, b"", True, 0
    if c.monitors:
        c.monitors = False
        e.monitors.remove(c)
    c.authenticated = not e.config.password
    return "RESET"


def _authenticate(e: Executor, c: Client, user: bytes, password: bytes) -> None:
    known = e.config.password
    if user != b"default" or (known and not compare_digest(password, known)):
        raise Fail("WRONGPASS invalid username-password pair or user is disabled.")
    c.authenticated = True


@command(
    "AUTH", -2, "noscript loading stale fast no-auth", NONE, group="connection", differs="one user, `default`"
)
def auth(e: Executor, c: Client, a: list[bytes]) -> Reply:
    if len(a) > 2:
        raise Fail(SYNTAX)
    if len(a) == 1 and not e.config.password:
        raise Fail(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure "
            "your configuration is correct?"
        )
    _authenticate(e, c, a[0] if len(a) == 2 else b"default", a[-1])
    return OK


@command("HELLO", -1, "noscript loading stale fast no-auth", NONE, group="connection")
def hello(e: Executor, c: Client, a: list[bytes]) -> Reply:
    proto = c.proto
    if a:
        proto = number(a[0], "ERR Protocol version is not an integer or out of range")
        if proto not in (2, 3):
            raise Fail("NOPROTO unsupported protocol version")
    options, name = Options(a[1:]), None
    while options:
        word = options.name()
        if word == b"AUTH" and options.left >= 2:
            _authenticate(e, c, options.word(), options.word())
        elif word == b"SETNAME" and options.left:
            name = _name(options.word())
        else:
            raise Fail(f"ERR Syntax error in HELLO option '{word.decode(errors='surrogateescape').lower()}'")
    if not c.authenticated:
        raise Fail(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> "
            "AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol "
            "version at the same time"
        )
    c.proto = proto
    c.name = c.name if name is None else name
    return {
        b"server": b"redis", b"version": REDIS_VERSION.encode(), b"proto": proto, b"id": c.id,
        b"mode": b"standalone", b"role": b"master", b"modules": [],
    }  # fmt: skip


def _name(word: bytes) -> bytes:
    if any(not 33 <= byte <= 126 for byte in word):
        raise Fail("ERR Client names cannot contain spaces, newlines or special characters.")
    return word


def _line(e: Executor, c: Client) -> str:
    flags = ("O" if c.monitors else "") + ("x" if c.transaction is not None else "") or "N"
    queued = -1 if c.transaction is None else len(c.transaction)
    return (
        f"id={c.id} addr={c.address} laddr={c.local} fd=0 name={c.name.decode('latin-1')} "
        f"age={(e.now - c.created) // 1000} idle={(e.now - c.seen) // 1000} flags={flags} db={c.db} sub=0 "
        f"psub=0 ssub=0 multi={queued} watch={len(c.watching)} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 "
        f"rbs=1024 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd=client user=default redir=-1 "
        f"resp={c.proto} lib-name={c.lib_name.decode('latin-1')} lib-ver={c.lib_ver.decode('latin-1')}"
    )


@command("CLIENT", -2, "admin noscript loading stale", NONE, group="connection",
         differs="TRACKING and CACHING later; PAUSE lets CLIENT through, and others' operations")  # fmt: skip
def client(e: Executor, c: Client, a: list[bytes]) -> Reply:
    what, rest = a[0].upper(), a[1:]
    if what == b"ID" and not rest:
        return c.id
    if what == b"GETNAME" and not rest:
        return c.name or None
    if what == b"SETNAME" and len(rest) == 1:
        c.name = _name(rest[0])
        return OK
    if what == b"SETINFO" and len(rest) == 2:
        return _setinfo(c, rest[0].lower(), rest[1])
    if what == b"INFO" and not rest:
        return Verbatim(_line(e, c).encode("latin-1") + b"\n")
    if what == b"LIST":
        return _list(e, rest)
    if what == b"REPLY" and len(rest) == 1:
        return _reply(c, rest[0].upper())
    if what == b"KILL" and rest:
        return _kill(e, c, rest)
    if what in (b"NO-EVICT", b"NO-TOUCH") and len(rest) == 1:
        if rest[0].upper() not in (b"ON", b"OFF"):
            raise Fail(SYNTAX)
        return OK
    if what == b"PAUSE" and rest:
        wait = number(rest[0], "ERR timeout is not an integer or out of range")
        if wait < 0:
            raise Fail("ERR timeout is negative")
        mode = rest[1].upper() if len(rest) == 2 else b"ALL"
        if mode not in (b"ALL", b"WRITE") or len(rest) > 2:
            raise Fail("ERR CLIENT PAUSE mode must be WRITE or ALL")
        e.pause(e.now + wait, mode == b"ALL")
        return OK
    if what == b"UNPAUSE" and not rest:
        e.go_on()
        return OK
    if what == b"UNBLOCK" and len(rest) in (1, 2):
        return _unblock(e, number(rest[0]), rest[1].upper() if len(rest) == 2 else b"TIMEOUT")
    if what == b"GETREDIR" and not rest:
        return -1
    if what == b"TRACKINGINFO" and not rest:
        return {b"flags": [b"off"], b"redirect": -1, b"prefixes": []}
    return help_or_error("CLIENT", a)


def _unblock(e: Executor, which: int, how: bytes) -> int:
    """What it waits for ends now: as if time was up, or with an error."""
    if how not in (b"TIMEOUT", b"ERROR"):
        raise Fail("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
    found = e.clients.get(which)
    return int(found is not None and found.unblock(how == b"ERROR"))


def _setinfo(c: Client, name: bytes, value: bytes) -> Reply:
    if any(not 33 <= byte <= 126 for byte in value):
        raise Fail(f"ERR {name.decode('latin-1')} cannot contain spaces, newlines or special characters.")
    if name == b"lib-name":
        c.lib_name = value
    elif name == b"lib-ver":
        c.lib_ver = value
    else:
        raise Fail(f"ERR Unrecognized option '{name.decode('latin-1')}'")
    return OK


def _list(e: Executor, rest: list[bytes]) -> Reply:
    shown = list(e.clients.values())
    if rest:
        word = rest[0].upper()
        if word == b"TYPE" and len(rest) == 2:
            if rest[1].lower() not in (b"normal", b"master", b"replica", b"slave", b"pubsub"):
                raise Fail(f"ERR Unknown client type '{rest[1].decode('latin-1')}'")
            shown = shown if rest[1].lower() == b"normal" else []
        elif word == b"ID" and len(rest) > 1:
            wanted = {number(one, "ERR Invalid client ID") for one in rest[1:]}
            shown = [one for one in shown if one.id in wanted]
        else:
            raise Fail(SYNTAX)
    return Verbatim("".join(_line(e, one) + "\n" for one in shown).encode("latin-1"))


def _reply(c: Client, word: bytes) -> Reply:
    if word == b"ON":
        c.replies = True
        return OK
    if word == b"OFF":
        c.replies = False
    elif word == b"SKIP":
        c.skips = 2 if c.replies else 0  # this command's own, and the next one's
    else:
        raise Fail(SYNTAX)
    return NO_REPLY


def _kill(e: Executor, c: Client, rest: list[bytes]) -> Reply:
    if len(rest) == 1:
        found = [one for one in e.clients.values() if one.address.encode() == rest[0]]
        if not found:
            raise Fail("ERR No such client")
        found[0].quits = True
        found[0].end()
        return OK
    if len(rest) % 2:
        raise Fail(SYNTAX)
    found, spares = list(e.clients.values()), True
    for name, value in zip(rest[::2], rest[1::2], strict=True):
        word = name.upper()
        if word == b"ID":
            wanted = number(value, "ERR client-id should be greater than 0")
            if wanted < 1:
                raise Fail("ERR client-id should be greater than 0")
            found = [one for one in found if one.id == wanted]
        elif word == b"ADDR":
            found = [one for one in found if one.address.encode() == value]
        elif word == b"SKIPME" and value.lower() in (b"yes", b"no"):
            spares = value.lower() == b"yes"
        elif word == b"USER":
            found = found if value == b"default" else []
        elif word == b"LADDR":
            found = [one for one in found if one.local.encode() == value]
        elif word in (b"TYPE", b"MAXAGE"):
            found = found if word == b"TYPE" and value.lower() == b"normal" else []
        else:
            raise Fail(SYNTAX)
    doomed = [one for one in found if not (spares and one is c)]
    for one in doomed:
        one.quits = True
        one.end()
    return len(doomed)
