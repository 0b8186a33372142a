"""The table of commands: the one source of dispatch, of COMMAND and of docs/STORE_COMMANDS.md."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from thence.store.reply import Reply

if TYPE_CHECKING:
    from thence.store.client import Client
    from thence.store.executor import Executor

Handler = Callable[["Executor", "Client", list[bytes]], Reply]


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    arity: int
    """With the name; negative: at least so many."""
    flags: tuple[str, ...]
    keys: tuple[int, int, int]
    """First, last, step, as COMMAND tells."""
    group: str
    run: Handler
    differs: str
    """How it differs from Redis, if it does."""
    writes: bool
    early: bool
    """It is answered before the node is a member."""
    grows: bool
    """It is refused when memory is short."""


TABLE: Final[dict[str, Command]] = {}
"""By name, upper case."""

WORDS: Final[dict[bytes, Command]] = {}
"""By the word of a request, as most clients write it: upper or lower case."""


def lookup(word: bytes) -> Command | None:
    return WORDS.get(word) or TABLE.get(word.decode("latin-1").upper())


def command(
    name: str,
    arity: int,
    flags: str,
    keys: tuple[int, int, int] = (1, 1, 1),
    group: str = "",
    differs: str = "",
) -> Callable[[Handler], Handler]:
    def enter(run: Handler) -> Handler:
        words = tuple(flags.split())
        made = Command(
            name, arity, words, keys, group, run, differs,
            "write" in words, "loading" in words, "denyoom" in words,
        )  # fmt: skip
        TABLE[name] = WORDS[name.encode()] = WORDS[name.lower().encode()] = made
        return run

    return enter


ABSENT: Final = {
    "list": (
        "LPUSH LPUSHX RPUSH RPUSHX LPOP RPOP LLEN LRANGE LINDEX LINSERT LSET LREM LTRIM LPOS LMOVE "
        "RPOPLPUSH LMPOP BLPOP BRPOP BLMOVE BRPOPLPUSH BLMPOP",
        "later",
    ),
    "string": ("DIGEST", "later, with the conditions IFDEQ and IFDNE of SET and DELEX"),
    "sorted set": ("BZPOPMIN BZPOPMAX BZMPOP", "later, with lists: an element is handed out once"),
    "geo": (
        "GEOADD GEODIST GEOHASH GEOPOS GEORADIUS GEORADIUS_RO GEORADIUSBYMEMBER GEORADIUSBYMEMBER_RO "
        "GEOSEARCH GEOSEARCHSTORE",
        "later",
    ),
    "hyperloglog": ("PFADD PFCOUNT PFMERGE PFSELFTEST PFDEBUG", "later"),
    "stream": (
        "XADD XLEN XRANGE XREVRANGE XREAD XDEL XTRIM XGROUP XREADGROUP XACK XCLAIM XAUTOCLAIM XPENDING XINFO "
        "XSETID",
        "later",
    ),
    "pubsub": (
        "SUBSCRIBE PSUBSCRIBE UNSUBSCRIBE PUNSUBSCRIBE PUBLISH PUBSUB SSUBSCRIBE SUNSUBSCRIBE SPUBLISH",
        "later",
    ),
    "scripting": ("EVAL EVALSHA EVAL_RO EVALSHA_RO SCRIPT FCALL FCALL_RO", "later, as an extra"),
    "generic": ("SORT SORT_RO DUMP RESTORE MIGRATE", "later; MIGRATE is another system's protocol"),
    "server": (
        "SWAPDB SYNC PSYNC REPLCONF FAILOVER ACL",
        "SWAPDB and the replication of Redis have no meaning here; users later (`requirepass` is there)",
    ),
}
"""Group -> names, and why they are not there. They answer as unknown."""
