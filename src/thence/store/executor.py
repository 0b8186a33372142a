"""Commands at one replica: what a client asks becomes a reply, and operations to broadcast.

One command, or one transaction, is one operation. It takes effect here at once; its bytes are in `outbox`,
and its reply must not leave before they are in the log. The clock stands still for the length of a command or
a transaction. Nothing here waits: a command that must answers with a `Later`.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from thence.crdt.cells import CellMap, ScoreMap
from thence.crdt.deadline import NEVER
from thence.crdt.mark import Mark
from thence.crdt.numbers import Value
from thence.crdt.sets import AddWinsSet, Elements, RemoveWinsSet
from thence.store import ops
from thence.store.client import Client
from thence.store.config import Config
from thence.store.ops import Part
from thence.store.reply import Fail, Reply
from thence.store.sessions import cluster_id
from thence.store.slots import Database, State
from thence.store.state import StoreState
from thence.store.table import WORDS, Command, lookup

WRONG_TYPE: Final = "WRONGTYPE Operation against a key holding the wrong kind of value"
OOM: Final = "OOM command not allowed when used memory > 'maxmemory'."
LOADING: Final = "LOADING Redis is loading the dataset in memory"
CONTENT: Final = frozenset(
    {ops.UPDATE, ops.SET_ADD, ops.FIELD_SET, ops.FIELD_UPDATE, ops.SCORE_SET, ops.SCORE_UPDATE}
)
OPERATION_MAX: Final = 12 << 20
"""Bytes of one operation: below a frame of the middleware."""

UNQUEUED: Final = frozenset({"EXEC", "DISCARD", "MULTI", "WATCH", "UNWATCH", "QUIT", "RESET"})
UNKNOWN_MAY: Final = frozenset({"AUTH", "HELLO", "QUIT", "RESET"})
"""Before the client has said who it is."""


class MemberSeen(NamedTuple):
    name: str
    state: str
    lag: int


class Host(Protocol):
    """What the store asks of the node that it runs at."""

    refusal: str | None
    """Why nothing can be written at present."""
    loading: bool
    """It is no member yet: what it has may be old, or part of something."""

    def members(self) -> list[MemberSeen]: ...

    def reached(self, mark: Mark) -> int:
        """At how many other members this operation is known to have been delivered."""
        ...

    def saw(self, mark: Mark) -> list[tuple[str, int]]:
        """The operations that this one names as those before it."""
        ...

    def delivered(self) -> dict[str, int]:
        """By incarnation, the newest operation that was delivered here."""
        ...

    def has_delivered(self, origin: str, seq: int) -> bool:
        """It was, or never will be: nothing more will ever come from that incarnation."""
        ...


class Alone:
    """`Host` of a store without a node."""

    refusal: str | None = None
    loading = False

    def members(self) -> list[MemberSeen]:
        return []

    def reached(self, mark: Mark) -> int:  # noqa: ARG002
        return 0

    def saw(self, mark: Mark) -> list[tuple[str, int]]:  # noqa: ARG002
        return []

    def delivered(self) -> dict[str, int]:
        return {}

    def has_delivered(self, origin: str, seq: int) -> bool:  # noqa: ARG002
        return False


class Later:
    """A reply that has to be waited for."""

    __slots__ = ("look", "timeout_ms", "too_late")

    def __init__(
        self, look: Callable[[], Reply | None], timeout_ms: int, too_late: Callable[[], Reply]
    ) -> None:
        self.look: Final = look
        """None: not yet."""
        self.timeout_ms: Final = timeout_ms
        """0: for ever."""
        self.too_late: Final = too_late


class Slow(NamedTuple):
    number: int
    at: int
    took_us: int
    arguments: list[bytes]
    address: str
    name: bytes


class Executor:
    def __init__(
        self,
        state: StoreState,
        clock_us: Callable[[], int],
        random: Random,
        host: Host | None = None,
        config: Config | None = None,
    ) -> None:
        self.state: Final = state
        self.clock_us: Final = clock_us
        self.random: Final = random
        self.host: Host = host or Alone()
        self.config: Final = config or Config()
        self.now = clock_us() // 1000
        self.started = self.now
        self.outbox: list[bytes] = []
        self.clients: dict[int, Client] = {}
        self.monitors: list[Client] = []
        self.numbers = 0
        self.stats: Counter[str] = Counter()
        self.commands = self.hits = self.misses = 0
        self.memory = 0
        """Bytes of the process, as its host has found them last."""
        self.paused_until = 0
        """CLIENT PAUSE: until when, in milliseconds, and whether reads wait, too."""
        self.pauses_reads = False
        self.held: list[Callable[[], None]] = []
        """Clients to be looked at again when a pause ends before its time."""
        self.ended = 0
        """When the last command had been executed, in microseconds."""
        self.calls: Counter[str] = Counter()
        self.slow: deque[Slow] = deque(maxlen=128)
        self.slow_number = 0
        self.orphans: deque[tuple[str, int, list[Part]]] = deque(maxlen=65_536)
        """Of operations that the group never had: what came to nothing."""
        self.facts: dict[str, Any] = {}
        """Of the process, for INFO and SHUTDOWN."""
        self.cluster = cluster_id("thence")
        self._mark: Mark | None = None
        self._size = 0

    # Clients

    def client(self, address: str = "") -> Client:
        self.numbers += 1
        made = Client(self.numbers, address, self.clock_us() // 1000, not self.config.password)
        self.clients[made.id] = made
        self.stats["connections"] += 1
        return made

    def forget(self, client: Client) -> None:
        self.unwatch(client)
        self.clients.pop(client.id, None)
        if client.monitors:
            self.monitors.remove(client)

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
            self.stats["errors"] += 1
            reply = fail
        finally:
            if self._mark is not None:
                self._end(client)
        self.ended = ended = self.clock_us()
        if ended - begun >= self.config.slower_than_us >= 0:
            self._note_slow(client, arguments, ended - begun)
        return reply

    def _execute(self, client: Client, arguments: list[bytes]) -> Reply:
        found = lookup(arguments[0])
        if not client.authenticated and (found is None or found.name not in UNKNOWN_MAY):
            raise Fail("NOAUTH Authentication required.")
        try:
            if found is None:
                raise unknown(arguments)
            count = len(arguments)
            if (count != found.arity) if found.arity > 0 else (count < -found.arity):
                raise wrong_count(found.name)
        except Fail:
            client.broken = client.broken or client.transaction is not None
            raise
        if client.transaction is not None and found.name not in UNQUEUED:
            client.transaction.append(arguments)
            return "QUEUED"
        if self.monitors:
            self._show(client, arguments)
        return self.run(found, client, arguments)

    def run(self, found: Command, client: Client, arguments: list[bytes]) -> Reply:
        self.calls[found.name] += 1
        host = self.host
        if host.loading and not found.early:
            raise Fail(LOADING)
        if host.refusal is not None and found.writes:
            raise Fail(host.refusal)
        if found.grows and self.is_full:
            raise Fail(OOM)
        return found.run(self, client, arguments[1:])

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
        seconds = self.clock_us()
        words = " ".join(quoted(word) for word in arguments)
        line = f"{seconds // 1_000_000}.{seconds % 1_000_000:06} [{client.db} {client.address}] {words}"
        for monitor in self.monitors:
            monitor.push(line)

    def _note_slow(self, client: Client, arguments: list[bytes], took: int) -> None:
        kept = [word[:128] for word in arguments[:32]]
        self.slow.appendleft(
            Slow(self.slow_number, self.now // 1000, took, kept, client.address, client.name)
        )
        self.slow_number += 1
        while len(self.slow) > self.config.slow_most:
            self.slow.pop()

    def _end(self, client: Client | None) -> None:
        """All parts of a command are one operation."""
        mark = self._mark
        if mark is not None:
            self._mark, self._size = None, 0
            self.outbox.append(self.state.finish(mark))
            if client is not None:
                client.wrote = mark

    # Parts of an operation

    def emit(self, db: int, code: int, key: bytes, *words: Any) -> None:
        """Takes effect here, and travels."""
        fresh = bound = 0
        if code in CONTENT:
            database = self.state.space.databases[db]
            if database.get(key, self.now) is None:
                fresh = 1
            elif key in database.deadlines and (held := database.deadline(key)) < NEVER:
                bound = held
        part = [code, db, key, fresh, bound, *words]
        self._add(part, words)

    def assign(self, db: int, key: bytes, value: Value, until: int = NEVER) -> None:
        """A SET, takes effect here, and travels."""
        self._add([ops.SET, db, key, 0, 0, value, until], (value,))

    def _add(self, part: Part, words: Iterable[Any]) -> None:
        size = self._size + 32 + len(part[2])
        for word in words:
            size += len(word) + 5 if type(word) is bytes else _size(word)
        if size > OPERATION_MAX:
            raise Fail(f"ERR an operation of more than {OPERATION_MAX} bytes")
        self._size = size
        mark = self._mark
        if mark is None:
            mark = self._mark = self.state.begin(self.now)
        self.state.space.add(mark, part)

    def delete(self, db: int, key: bytes) -> None:
        self.emit(db, ops.DELETE, key, 0)

    def emptied(self, db: int, key: bytes, was: str) -> None:
        """A command has taken elements away. If none is left to be seen the key goes, whatever it hides: else
        it would turn into something else. Removes stay, where removes win."""
        database = self.state.space.databases[db]
        found = database.get(key, self.now)
        if kind(found) != was and (found is not None or key in database.deadlines):
            self.emit(db, ops.DELETE, key, 1)

    def remove(
        self, db: int, op: int, key: bytes, kind: str, found: CellMap[Any] | None, names: list[bytes]
    ) -> int:
        """Take these away, as many as are there."""
        there = [name for name in dict.fromkeys(names) if found is not None and name in found]
        if there:
            self.emit(db, op, key, *there)
            self.emptied(db, key, kind)
        return len(there)

    def perform(self, parts: list[Part]) -> None:
        """An operation that no client asked for."""
        self.now = self.clock_us() // 1000
        for part in parts:
            self.emit(part[1], part[0], part[2], *part[5:])
        self._end(None)

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


def _size(word: Any) -> int:
    if isinstance(word, bytes):
        return len(word) + 5
    return sum(map(_size, word)) if isinstance(word, list | tuple) else 9


def kind(found: State | None) -> str:
    if found is None:
        return "none"
    if isinstance(found, bytes | int):
        return "string"
    if isinstance(found, ScoreMap):
        return "zset"
    return "hash" if isinstance(found, CellMap) else "set"


def unknown(arguments: list[bytes]) -> Fail:
    name = arguments[0][:128].decode(errors="surrogateescape")
    words = ""
    for word in arguments[1:]:
        if len(words) >= 128:
            break
        words += f"'{word[: 128 - len(words)].decode(errors='surrogateescape')}' "
    return Fail(f"ERR unknown command '{name}', with args beginning with: {words}")


def wrong_count(name: str) -> Fail:
    return Fail(f"ERR wrong number of arguments for '{name.lower()}' command")


def quoted(word: bytes) -> str:
    """As MONITOR and redis-cli write it."""
    signs = {34: '\\"', 92: "\\\\", 10: "\\n", 13: "\\r", 9: "\\t", 7: "\\a", 8: "\\b"}
    return '"' + "".join([signs.get(b) or (chr(b) if 32 <= b < 127 else f"\\x{b:02x}") for b in word]) + '"'
