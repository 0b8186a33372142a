"""The server and its whole key space."""

from thence.crdt.numbers import integer
from thence.store import ops
from thence.store.client import Client
from thence.store.commands.connection import REDIS_VERSION
from thence.store.executor import Executor
from thence.store.glob import matches
from thence.store.helping import help_or_error
from thence.store.reply import OK, Fail, Members, Reply, Verbatim
from thence.store.table import TABLE, Command, command
from thence.store.words import SYNTAX, number

NONE = (0, 0, 0)
COUNTED = {
    "MSETEX": 1, "SINTERCARD": 1, "ZDIFF": 1, "ZDIFFSTORE": 2, "ZINTER": 1, "ZINTERCARD": 1, "ZINTERSTORE": 2,
    "ZMPOP": 1, "ZUNION": 1, "ZUNIONSTORE": 2,
}  # fmt: skip
"""Where the number of keys stands that come behind it."""


@command("DBSIZE", 1, "readonly fast", NONE, group="server")
def dbsize(e: Executor, c: Client, a: list[bytes]) -> Reply:
    database = e.database(c)
    hidden = sum(key in database.keys and database.deadline(key) <= e.now for key in database.deadlines)
    return len(database.keys) - hidden


def _flush(e: Executor, a: list[bytes], number: int) -> Reply:
    if len(a) > 1 or (a and a[0].upper() not in (b"SYNC", b"ASYNC")):
        raise Fail(SYNTAX)
    e.emit(number, ops.FLUSH, b"")
    return OK


@command("FLUSHDB", -1, "write", NONE, group="server", differs="removes what was seen")
def flushdb(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return _flush(e, a, c.db)


@command("FLUSHALL", -1, "write", NONE, group="server", differs="removes what was seen")
def flushall(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return _flush(e, a, ops.ALL)


@command("TIME", 1, "loading stale fast", NONE, group="server")
def time(e: Executor, c: Client, a: list[bytes]) -> Reply:
    now = e.clock_us()
    return [b"%d" % (now // 1_000_000), b"%d" % (now % 1_000_000)]


@command("INFO", -1, "loading stale", NONE, group="server", differs="a section `thence`")
def info(e: Executor, c: Client, a: list[bytes]) -> Reply:
    from thence.store.info import info as text

    return Verbatim(text(e, a))


@command("LASTSAVE", 1, "loading stale fast", NONE, group="server")
def lastsave(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return e.started // 1000


@command(
    "SAVE", 1, "admin noscript", NONE, group="server", differs="nothing to do: every write is in the log"
)
def save(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return OK


@command(
    "BGSAVE", -1, "admin noscript", NONE, group="server", differs="nothing to do: every write is in the log"
)
def bgsave(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return "Background saving started"


@command(
    "BGREWRITEAOF", 1, "admin noscript", NONE, group="server", differs="nothing to do: the log is collected"
)
def bgrewriteaof(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return "Background append only file rewriting started"


@command("ROLE", 1, "noscript loading stale fast", NONE, group="server", differs="every node is a master")
def role(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return [b"master", 0, []]


def _replicaof(e: Executor, c: Client, a: list[bytes]) -> Reply:
    if [word.upper() for word in a] == [b"NO", b"ONE"]:
        return OK
    raise Fail("ERR a node joins a group with `thence join`")


command("REPLICAOF", 3, "admin noscript", NONE, group="server", differs="NO ONE alone")(_replicaof)
command("SLAVEOF", 3, "admin noscript", NONE, group="server", differs="NO ONE alone")(_replicaof)


@command("CLUSTER", -2, "stale", NONE, group="server", differs="answers that it is disabled")
def cluster(e: Executor, c: Client, a: list[bytes]) -> Reply:
    raise Fail("ERR This instance has cluster support disabled")


@command(
    "CONFIG",
    -2,
    "admin noscript loading stale",
    NONE,
    group="server",
    differs="local to a node, not rewritten",
)
def config(e: Executor, c: Client, a: list[bytes]) -> Reply:
    what = a[0].upper()
    if what == b"GET" and len(a) > 1:
        return e.config.get(a[1:])
    if what == b"SET" and len(a) > 2 and len(a) % 2:
        for name, value in zip(a[1::2], a[2::2], strict=True):
            e.config.set(name, value)
        return OK
    if what == b"RESETSTAT" and len(a) == 1:
        e.stats.clear()
        for counts in (e.calls, e.spent, e.failed, e.rejected):
            counts.clear()
        e.errors.clear()
        return OK
    if what == b"REWRITE" and len(a) == 1:
        raise Fail("ERR The server is running without a config file")
    return help_or_error("CONFIG", a)


@command(
    "FUNCTION",
    -2,
    "noscript",
    NONE,
    group="scripting",
    differs="FLUSH, LIST, STATS: there are none",
)
def function(e: Executor, c: Client, a: list[bytes]) -> Reply:
    what = a[0].upper()
    if what == b"FLUSH" and (len(a) == 1 or (len(a) == 2 and a[1].upper() in (b"SYNC", b"ASYNC"))):
        return OK
    if what == b"LIST":
        return []
    if what == b"STATS" and len(a) == 1:
        return {b"running_script": None, b"engines": {}}
    return help_or_error("FUNCTION", a)


@command("MONITOR", 1, "admin noscript loading stale", NONE, group="server",
         differs="128 words of a command and 1,024 bytes of each; who does not read is cut off")  # fmt: skip
def monitor(e: Executor, c: Client, a: list[bytes]) -> Reply:
    if not c.monitors:
        c.monitors = True
        e.monitors.append(c)
    return OK


@command("SLOWLOG", -2, "admin loading stale", NONE, group="server")
def slowlog(e: Executor, c: Client, a: list[bytes]) -> Reply:
    what = a[0].upper()
    if what == b"LEN" and len(a) == 1:
        return len(e.slow)
    if what == b"RESET" and len(a) == 1:
        e.slow.clear()
        return OK
    if what == b"GET" and len(a) <= 2:
        count = number(a[1]) if len(a) == 2 else 10
        if count < -1:
            raise Fail("ERR count should be greater than or equal to -1")
        shown = list(e.slow)[: None if count == -1 else count]
        return [
            [one.number, one.at, one.took_us, one.arguments, one.address.encode(), one.name] for one in shown
        ]
    return help_or_error("SLOWLOG", a)


@command("LATENCY", -2, "admin noscript loading stale", NONE, group="server", differs="nothing is sampled")
def latency(e: Executor, c: Client, a: list[bytes]) -> Reply:
    what = a[0].upper()
    if what in (b"LATEST", b"HISTORY", b"HISTOGRAM"):
        return {} if what == b"HISTOGRAM" else []
    if what == b"RESET":
        return 0
    if what == b"DOCTOR":
        return Verbatim(b"I'm sorry, Dave, I can't do that. Latency monitoring is disabled here.\n")
    return help_or_error("LATENCY", a)


@command("MODULE", -2, "admin noscript", NONE, group="server", differs="LIST alone: there are none")
def module(e: Executor, c: Client, a: list[bytes]) -> Reply:
    if a[0].upper() == b"LIST" and len(a) == 1:
        return []
    return help_or_error("MODULE", a)


@command("MEMORY", -2, "readonly", NONE, group="server", differs="estimates")
def memory(e: Executor, c: Client, a: list[bytes]) -> Reply:
    what = a[0].upper()
    if what == b"USAGE" and len(a) >= 2:
        from thence.store.commands.generic import _words

        found = e.get(c, a[1])
        if found is None:
            return None
        return 96 + len(a[1]) + sum(48 + (len(w) if isinstance(w, bytes) else 8) for w in _words(found))
    if what == b"STATS":
        return {b"keys.count": sum(len(base.keys) for base in e.state.space.databases), b"total.allocated": 0}
    if what == b"DOCTOR":
        return Verbatim(b"Sam, I detected no issues in this instance.")
    if what in (b"PURGE", b"MALLOC-STATS"):
        return OK
    return help_or_error("MEMORY", a)


@command(
    "DEBUG",
    -2,
    "admin noscript loading stale",
    NONE,
    group="server",
    differs="SET-ACTIVE-EXPIRE, JMAP: nothing",
)
def debug(e: Executor, c: Client, a: list[bytes]) -> Reply:
    raise Fail(
        'ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it '
        "from a local connection, otherwise you need to set this option in the configuration file, and then "
        "restart the server."
    )


@command("LOLWUT", -1, "readonly fast", NONE, group="server")
def lolwut(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return Verbatim(f"thence: from that cause, in consequence\nRedis ver. {REDIS_VERSION}\n".encode())


@command("SHUTDOWN", -1, "admin noscript loading stale", NONE, group="server",
         differs="stops the node, which stays a member")  # fmt: skip
def shutdown(e: Executor, c: Client, a: list[bytes]) -> Reply:
    words = {word.upper() for word in a}
    if words - {b"SAVE", b"NOSAVE", b"NOW", b"FORCE", b"ABORT"} or words >= {b"SAVE", b"NOSAVE"}:
        raise Fail(SYNTAX)
    if b"ABORT" in words:
        raise Fail(SYNTAX if len(a) > 1 else "ERR No shutdown in progress.")
    stop = e.facts.get("stop")
    if not callable(stop):
        raise Fail("ERR Errors trying to SHUTDOWN. Check logs.")
    stop()
    c.quits = True
    return OK


@command("COMMAND", -1, "loading stale", NONE, group="server")
def command_(e: Executor, c: Client, a: list[bytes]) -> Reply:
    if not a:
        return [_described(one) for one in TABLE.values()]
    what, rest = a[0].upper(), [word.decode("latin-1").upper() for word in a[1:]]
    if what == b"COUNT":
        return len(TABLE)
    if what == b"INFO":
        chosen = [TABLE.get(name) for name in rest] if rest else list(TABLE.values())
        return [None if one is None else _described(one) for one in chosen]
    if what == b"LIST":
        return _listed(a[1:])
    if what == b"DOCS":
        wanted = [TABLE[name] for name in rest if name in TABLE] if rest else list(TABLE.values())
        return {one.name.lower().encode(): {b"summary": one.differs.encode(), b"group": one.group.encode()}
                for one in wanted}  # fmt: skip
    if what == b"GETKEYS" and rest:
        return _keys(a[1:])
    return help_or_error("COMMAND", a)


def _listed(a: list[bytes]) -> Reply:
    found = list(TABLE.values())
    if a:
        by = a[1].upper() if len(a) == 3 and a[0].upper() == b"FILTERBY" else b""
        if by == b"PATTERN":
            found = [one for one in found if matches(a[2].lower(), one.name.lower().encode())]
        elif by == b"ACLCAT":
            found = [one for one in found if "@" + a[2].decode("latin-1").lower() in _categories(one)]
        elif by == b"MODULE":
            found = []
        else:
            raise Fail(SYNTAX)
    return [one.name.lower().encode() for one in found]


def _categories(one: Command) -> list[str]:
    return ["@write" if one.writes else "@read" if "readonly" in one.flags else "@connection"]


def _described(one: Command) -> Reply:
    return [
        one.name.lower().encode(), one.arity, Members(one.flags), *one.keys, Members(_categories(one)),
        [], [], [],
    ]  # fmt: skip


def _keys(words: list[bytes]) -> list[bytes]:
    found = TABLE.get(words[0].decode("latin-1").upper())
    if found is None:
        raise Fail("ERR Invalid command specified")
    if (len(words) != found.arity) if found.arity > 0 else (len(words) < -found.arity):
        raise Fail("ERR Invalid number of arguments specified for command")
    first, last, step = found.keys
    if (counted := COUNTED.get(found.name)) is not None:
        count, each = integer(words[counted]), 2 if found.name == "MSETEX" else 1
        if count is None or not 0 < each * count < len(words) - counted:
            raise Fail("ERR Invalid arguments specified for command")
        return words[1:counted] + words[counted + 1 : counted + 1 + each * count : each]
    if not first:
        raise Fail("ERR The command has no key arguments")
    return words[first : (last + 1 if last > 0 else len(words) + last + 1) : step]
