"""Commands at one replica: what a client asks becomes a reply, and operations to broadcast.

One command, or one transaction, is one operation. It takes effect here at once; its bytes are in `outbox`,
and its reply must not leave before they are in the log. The clock stands still for the length of a command or
a transaction. Nothing here waits: a command that must answers with a `Later`.
"""

from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Any, Final

from thence.crdt.cells import CellMap, ScoreMap
from thence.crdt.numbers import Value
from thence.crdt.sets import AddWinsSet, Elements, RemoveWinsSet
from thence.store.client import Client
from thence.store.config import Config
from thence.store.effects import Effects
from thence.store.host import Alone, Host
from thence.store.monitoring import SECRETS, Slow, monitored
from thence.store.ops import Part
from thence.store.reply import Fail, Reply
from thence.store.sessions import cluster_id
from thence.store.slots import Database, State
from thence.store.state import StoreState
from thence.store.table import WORDS, Command, lookup

WRONG_TYPE: Final = "WRONGTYPE Operation against a key holding the wrong kind of value"
OOM: Final = "OOM command not allowed when used memory > 'maxmemory'."
LOADING: Final = "LOADING Redis is loading the dataset in memory"
TRANSACTION_MAX: Final = 64 << 20
"""Bytes of the commands of one transaction, and what Python needs for them."""

SLOW_WORDS: Final = 32
SLOW_BYTES: Final = 128
"""Of a command in SLOWLOG, and of each of its words."""

UNQUEUED: Final = frozenset({"EXEC", "DISCARD", "MULTI", "WATCH", "UNWATCH", "QUIT", "RESET"})
UNFIT: Final = frozenset({"SAVE", "SHUTDOWN"})
"""Not in a transaction."""
UNKNOWN_MAY: Final = frozenset({"AUTH", "HELLO", "QUIT", "RESET"})
"""Before the client has said who it is."""


QUEUED: Final = "QUEUED"


class Rejected(Fail):
    """A command that was not run."""


class Executor(Effects):
    def __init__(
        self,
        state: StoreState,
        clock_us: Callable[[], int],
        random: Random,
        host: Host | None = None,
        config: Config | None = None,
    ) -> None:
        super().__init__(state, clock_us)
        self.random: Final = random
        self.host: Host = host or Alone()
        self.config: Final = config or Config()
        self.started = self.now
        self.clients: dict[int, Client] = {}
        self.monitors: list[Client] = []
        self.numbers = 0
        self.stats: Counter[str] = Counter()
        self.commands = self.hits = self.misses = 0
        self.memory = self.memory_peak = 0
        """Bytes of the process, as its host has found them last."""
        self._samples: deque[tuple[int, int]] = deque(maxlen=16)
        """When the host looked, and how many commands there had been."""
        self.paused_until = 0
        """CLIENT PAUSE: until when, in milliseconds, and whether reads wait, too."""
        self.pauses_reads = False
        self.held: list[Callable[[], None]] = []
        """Clients to be looked at again when a pause ends before its time."""
        self.lockers: set[bytes] = set()
        """Names of clients that set what looks like a lock."""
        self.ended = 0
        """When the last command had been executed, in microseconds."""
        self.calls: Counter[str] = Counter()
        self.spent: Counter[str] = Counter()
        """By command: how often it ran, and microseconds that it took."""
        self.failed: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()
        """How often with an error, and how often it did not run at all."""
        self.errors: Counter[str] = Counter()
        """By code."""
        self.slow: deque[Slow] = deque(maxlen=128)
        self.slow_number = 0
        self.orphans: deque[tuple[str, int, list[Part]]] = deque(maxlen=65_536)
        """Of operations that the group never had: what came to nothing."""
        self.facts: dict[str, Any] = {}
        """Of the process, for INFO and SHUTDOWN."""
        self.cluster = cluster_id("thence")

    # Clients

    def client(self, address: str = "") -> Client:
        self.numbers += 1
        made = Client(self.numbers, address, self.clock_us() // 1000, not self.config.password)
        self.clients[made.id] = made
        self.stats["connections"] += 1
        return made

    def forget(self, client: Client) -> None:
        self.unwatch(client)
        self.end_dump(client)
        self.clients.pop(client.id, None)
        if client.monitors:
            self.monitors.remove(client)

    def end_dump(self, client: Client) -> None:
        if client.dump is not None:
            client.dump.end()
            client.dump = None

    def unwatch(self, client: Client) -> None:
        watched = self.state.space.watched
        for place in client.watching:
            waiting = watched[place]
            waiting.remove(client.spoil)
            if not waiting:
                del watched[place]
        client.watching.clear()
        client.dirty = False

    # Commands

    def execute(self, client: Client, arguments: list[bytes], begun: int = 0) -> Reply:
        """The reply; an error of Redis' own is one. `begun`: when, if the clock was just read."""
        if not begun:
            begun = self.clock_us()
        self.now = client.seen = begun // 1000
        self.commands += 1
        try:
            found = WORDS.get(arguments[0])
            if found is None or client.transaction is not None or not client.authenticated or self.monitors:
                reply = self._execute(client, arguments)
            else:
                count, arity = len(arguments), found.arity
                if (count != arity) if arity > 0 else (count < -arity):
                    raise wrong_count(found.name)
                reply = self.run(found, client, arguments)
        except Fail as fail:
            reply = fail
            found = found or lookup(arguments[0])
            self._count_fail(found, fail)
        finally:
            if self._mark is not None:
                client.wrote = self.end()
        self.ended = ended = self.clock_us()
        found = found or lookup(arguments[0])
        if found is not None and reply is not QUEUED and type(reply) is not Rejected:
            self.spent[found.name] += ended - begun
        if ended - begun >= self.config.slower_than_us >= 0:
            self._note_slow(client, arguments, ended - begun)
        return reply

    def _count_fail(self, found: Command | None, fail: Fail) -> None:
        self.stats["errors"] += 1
        self.errors[fail.text.partition(" ")[0]] += 1
        if found is not None:
            counts = self.rejected if isinstance(fail, Rejected) else self.failed
            counts[found.name] += 1

    def _execute(self, client: Client, arguments: list[bytes]) -> Reply:
        found = lookup(arguments[0])
        if not client.authenticated and (found is None or found.name not in UNKNOWN_MAY):
            raise Rejected("NOAUTH Authentication required.")
        try:
            if found is None:
                raise unknown(arguments)
            count = len(arguments)
            if (count != found.arity) if found.arity > 0 else (count < -found.arity):
                raise wrong_count(found.name)
            if client.transaction is not None and found.name in UNFIT:
                raise Rejected("ERR Command not allowed inside a transaction")
        except Fail:
            client.broken = client.broken or client.transaction is not None
            raise
        if client.transaction is not None and found.name not in UNQUEUED:
            self._queue(client, client.transaction, arguments)
            return QUEUED
        if self.monitors and found.name not in SECRETS:
            self._show(client, arguments)
        return self.run(found, client, arguments)

    def _queue(self, client: Client, queued: list[list[bytes]], arguments: list[bytes]) -> None:
        """Of a transaction that EXEC will refuse, nothing is kept."""
        if client.broken:
            return
        client.queued += sum(map(len, arguments)) + 64 * (len(arguments) + 1)
        if client.queued > TRANSACTION_MAX:
            client.broken = True
            queued.clear()
            raise Fail(f"ERR a transaction of more than {TRANSACTION_MAX} bytes")
        queued.append(arguments)

    def run(self, found: Command, client: Client, arguments: list[bytes]) -> Reply:
        host = self.host
        if host.loading and not found.early:
            raise Rejected(LOADING)
        if found.writes:
            if host.refusal is not None:
                raise Rejected(host.refusal)
            if found.grows and self.config.memory_max and self.is_full:
                raise Rejected(OOM)
        self.calls[found.name] += 1
        return found.run(self, client, arguments[1:])

    def sample(self, memory: int) -> None:
        """The host looks at what the process needs, several times a second."""
        self.memory, self.memory_peak = memory, max(memory, self.memory_peak)
        self._samples.append((self.clock_us(), self.commands))

    @property
    def rate(self) -> int:
        """Commands in a second."""
        if len(self._samples) < 2:
            return 0
        (begun, before), (ended, after) = self._samples[0], self._samples[-1]
        return round((after - before) * 1_000_000 / max(1, ended - begun))

    @property
    def is_full(self) -> bool:
        """Operations of others take effect all the same."""
        return 0 < self.config.memory_max < self.memory

    def pause(self, until: int, reads: bool) -> None:
        """The longer of two pauses holds, as in Redis."""
        self.paused_until, self.pauses_reads = max(self.paused_until, until), self.pauses_reads or reads

    def go_on(self) -> None:
        self.paused_until, self.pauses_reads = 0, False
        held, self.held = self.held, []
        for each in held:
            each()

    def holds(self, client: Client, arguments: list[bytes]) -> bool:
        """Must this wait for the end of a pause? What ends it need not."""
        if self.clock_us() // 1000 >= self.paused_until:
            self.go_on()
            return False
        found = lookup(arguments[0])
        if found is None or found.name == "CLIENT":
            return False
        if self.pauses_reads or found.writes:
            return client.transaction is None or found.name == "EXEC"
        queued = client.transaction if found.name == "EXEC" else None
        return any((one := lookup(words[0])) is not None and one.writes for words in queued or ())

    def _show(self, client: Client, arguments: list[bytes]) -> None:
        line = monitored(self.clock_us(), client.db, client.address, arguments)
        for monitor in self.monitors:
            if monitor is not client or arguments[0].upper() != b"RESET":
                monitor.push(line)

    def _note_slow(self, client: Client, arguments: list[bytes], took: int) -> None:
        if arguments[0].upper().decode("latin-1") in SECRETS:
            return
        kept = [_cut(word) for word in arguments[: SLOW_WORDS - (len(arguments) > SLOW_WORDS)]]
        if len(arguments) > SLOW_WORDS:
            kept.append(b"... (%d more arguments)" % (len(arguments) - len(kept)))
        self.slow.appendleft(
            Slow(self.slow_number, self.now // 1000, took, kept, client.address, client.name)
        )
        self.slow_number += 1
        while len(self.slow) > self.config.slow_most:
            self.slow.pop()

    # What commands see

    def database(self, client: Client) -> Database:
        return self.state.space.databases[client.db]

    def get(self, client: Client, key: bytes) -> State | None:
        found = self.state.space.databases[client.db].get(key, self.now)
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
        return found

    def string(self, client: Client, key: bytes) -> Value | None:
        found = self.get(client, key)
        if found is None or isinstance(found, bytes | int):
            return found
        raise Fail(WRONG_TYPE)

    def hash(self, client: Client, key: bytes) -> CellMap[Value] | None:
        found = self.get(client, key)
        if found is None or (isinstance(found, CellMap) and not isinstance(found, ScoreMap)):
            return found
        raise Fail(WRONG_TYPE)

    def zset(self, client: Client, key: bytes) -> ScoreMap | None:
        found = self.get(client, key)
        if found is None or isinstance(found, ScoreMap):
            return found
        raise Fail(WRONG_TYPE)

    def set(self, client: Client, key: bytes) -> Elements | None:
        found = self.get(client, key)
        if found is None or isinstance(found, AddWinsSet | RemoveWinsSet):
            return found
        raise Fail(WRONG_TYPE)


def _cut(word: bytes) -> bytes:
    more = len(word) - SLOW_BYTES
    return word if more <= 0 else word[:SLOW_BYTES] + b"... (%d more bytes)" % more


def unknown(arguments: list[bytes]) -> Fail:
    name = arguments[0][:128].decode(errors="surrogateescape")
    words = ""
    for word in arguments[1:]:
        if len(words) >= 128:
            break
        words += f"'{word[: 128 - len(words)].decode(errors='surrogateescape')}' "
    return Fail(f"ERR unknown command '{name}', with args beginning with: {words}")


def wrong_count(name: str) -> Fail:
    return Rejected(f"ERR wrong number of arguments for '{name.lower()}' command")
