"""CONFIG: settings of a store that clients read and change, local to its node.

Those with a meaning here are properties; others are accepted and kept, since clients and tools set them.
"""

from typing import Final

from thence.store.glob import matches
from thence.store.reply import Fail

DEFAULTS: Final = {
    "maxclients": "10000", "timeout": "0", "tcp-keepalive": "300", "requirepass": "", "databases": "16",
    "proto-max-bulk-len": "536870912", "client-query-buffer-limit": "1073741824", "maxmemory": "0",
    "client-output-buffer-limit": "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
    "slowlog-log-slower-than": "10000", "slowlog-max-len": "128", "notify-keyspace-events": "", "save": "",
    "latency-monitor-threshold": "0", "maxmemory-policy": "noeviction", "busy-reply-threshold": "5000",
    "appendfsync": "everysec", "appendonly": "yes", "set-wins": "add", "rename-max-bytes": "8388608",
    "bind": "127.0.0.1", "port": "0", "dir": "", "dbfilename": "", "hz": "10", "io-threads": "1",
    "list-max-listpack-size": "-2", "list-max-ziplist-size": "-2", "list-compress-depth": "0",
    "hash-max-listpack-entries": "512", "hash-max-listpack-value": "64", "hash-max-ziplist-entries": "512",
    "hash-max-ziplist-value": "64", "set-max-intset-entries": "512", "set-max-listpack-entries": "128",
    "set-max-listpack-value": "64", "zset-max-listpack-entries": "128", "zset-max-listpack-value": "64",
    "zset-max-ziplist-entries": "128", "zset-max-ziplist-value": "64", "hll-sparse-max-bytes": "3000",
    "stream-node-max-entries": "100", "stream-node-max-bytes": "4096", "lazyfree-lazy-eviction": "no",
    "lazyfree-lazy-expire": "no", "lazyfree-lazy-server-del": "no", "lazyfree-lazy-user-del": "no",
    "lazyfree-lazy-user-flush": "no", "activedefrag": "no", "activerehashing": "yes", "loglevel": "notice",
    "lua-time-limit": "5000", "maxmemory-samples": "5", "lfu-log-factor": "10", "lfu-decay-time": "1",
    "close-on-replica-write": "yes", "replica-read-only": "yes", "min-replicas-to-write": "0",
    "lock-policy": "warn",
}  # fmt: skip

FIXED: Final = frozenset(
    {"databases", "set-wins", "bind", "port", "dir", "dbfilename", "appendonly", "appendfsync", "save-dir"}
)
NUMBERS: Final = frozenset({"maxclients", "timeout", "slowlog-log-slower-than", "slowlog-max-len"})
SIZES: Final = frozenset({"proto-max-bulk-len", "maxmemory", "rename-max-bytes", "client-query-buffer-limit"})
UNITS: Final = {
    "": 1, "b": 1, "k": 1000, "kb": 1 << 10, "m": 1_000_000, "mb": 1 << 20, "g": 1_000_000_000, "gb": 1 << 30,
}  # fmt: skip
CHOICES: Final = {"lock-policy": ("ok", "warn", "refuse")}


class Config:
    def __init__(self) -> None:
        self._values: Final = dict(DEFAULTS)
        self.password = b""
        self.slower_than_us = 10_000
        self.slow_most = 128
        self.clients_max = 10_000
        self.bulk_max = 512 << 20
        self.timeout_s = 0
        self.rename_max = 8 << 20
        self.locks = "warn"
        """What to do about a SET that looks like a lock, which it is not: `ok`, `warn`, `refuse`."""
        self.memory_max = 0
        """0: as much as there is."""

    def fix(self, name: str, value: str) -> None:
        """As this node is."""
        self._values[name] = value

    def get(self, patterns: list[bytes]) -> dict[bytes, bytes]:
        wanted = [pattern.lower() for pattern in patterns]
        return {
            name.encode(): value.encode(errors="surrogateescape")
            for name, value in self._values.items()
            if any(matches(pattern, name.encode()) for pattern in wanted)
        }

    def set(self, name: bytes, value: bytes) -> None:
        known = name.lower().decode("latin-1")
        if known not in self._values:
            raise Fail(
                f"ERR Unknown option or number of arguments for CONFIG SET - '{name.decode('latin-1')}'"
            )
        if known in FIXED:
            raise _refused(known, "can't set immutable config")
        text = value.decode(errors="surrogateescape")
        if known in NUMBERS and not text.removeprefix("-").isdigit():
            raise _refused(known, "argument couldn't be parsed into an integer")
        if known in SIZES:
            text = _size(known, text)
        if text.lower() not in CHOICES.get(known, (text.lower(),)):
            allowed = ", ".join(CHOICES[known])
            raise _refused(known, f"argument(s) must be one of the following: {allowed}")
        self._values[known] = text
        if known == "requirepass":
            self.password = value
        elif known == "slowlog-log-slower-than":
            self.slower_than_us = int(text)
        elif known == "slowlog-max-len":
            self.slow_most = int(text)
        elif known == "maxmemory":
            self.memory_max = int(text)
        elif known == "maxclients":
            self.clients_max = int(text)
        elif known == "proto-max-bulk-len":
            self.bulk_max = int(text)
        elif known == "timeout":
            self.timeout_s = int(text)
        elif known == "rename-max-bytes":
            self.rename_max = int(text)
        elif known == "lock-policy":
            self.locks = text.lower()


def _size(name: str, text: str) -> str:
    """In bytes."""
    digits = text.lower().rstrip("bkmg")
    unit = text.lower()[len(digits) :]
    if not digits.isdigit() or unit not in UNITS:
        raise _refused(name, "argument must be a memory value")
    return str(int(digits) * UNITS[unit])


def _refused(name: str, why: str) -> Fail:
    return Fail(f"ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
