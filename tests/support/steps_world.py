"""What surrounds a node `a` that is under the checks of `conformance_steps`: an event loop whose time the
test moves, a disk in memory, syncs that finish when they are told to, a trace in memory, peers, and
wires.

Nothing here waits: timers fire when `World.pass_time` gets there, and `World.turn` gives everything that is
ready its turn. The peers `b` and `c` are machines of the same kind as that of `a`, without a driver: what `a`
sends reaches them at once, what they send waits on the wire until it is let arrive.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextvars import Context
from itertools import count
from math import ceil
from typing import Any, Protocol

from support.steps_subject import Call, Where
from thence.core.errors import PeerError, ThenceError
from thence.core.groups import Place
from thence.core.storage import DiskError
from thence.replica.group.settings import GroupSettings
from thence.replica.group.surroundings import Applied
from thence.replica.life_tag import LifeTag
from thence.replica.send_queue import SendQueue
from thence.replica.steps import TAKE_MAX, Steps
from thence.runtime.drain import Drain
from thence.runtime.driver import Driver
from thence.sim.disk import Disk

PEERS = ("b", "c")
START_US = 1_000_000
ROUNDS = 20
"""Turns of the loop after which all that was ready has happened, and all that became ready by it."""


MOMENT_US = 50_000


class Clockwork(asyncio.SelectorEventLoop):
    """An event loop that has the test's time, and knows its timers."""

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__()
        self._clock = clock
        self._timers: list[asyncio.TimerHandle] = []

    def time(self) -> float:
        return self._clock() / 1e6

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = super().call_at(when, callback, *args, context=context)
        self._timers.append(handle)
        return handle

    @property
    def due(self) -> list[int]:
        """When the timers that wait will fire."""
        now = self._clock()
        self._timers = [timer for timer in self._timers if not timer.cancelled() and timer.when() > now / 1e6]
        return [max(now + 1, ceil(timer.when() * 1e6)) for timer in self._timers]


class Files:
    """A disk that enters into the journal what the log does to it."""

    def __init__(self, disk: Disk, journal: list[str]) -> None:
        self.disk = disk
        self.untried = 0
        """So many syncs cannot even be tried."""
        self._journal = journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self.disk, name)

    def write(self, name: str, offset: int, data: bytes | bytearray) -> None:
        self.disk.write(name, offset, data)
        self._journal.append("write")

    def sync(self, name: str) -> None:
        if self.untried:
            self.untried -= 1
            self._journal.append("untried")
            raise DiskError("Too many open files", file=name, definite=True)
        self.disk.sync(name)
        self._journal.append("synced")


class Syncer(Executor):
    """Runs what it is given when it is told to, or at once."""

    def __init__(self, at_once: bool) -> None:
        self.at_once = at_once
        self.waiting: list[Callable[[], None]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except ThenceError as error:
                future.set_exception(error)

        if self.at_once:
            run()
        else:
            self.waiting.append(run)
        return future


class Trace:
    """As `LiveTrace`, in memory; fails on demand."""

    def __init__(self, journal: list[str]) -> None:
        self._journal = journal
        self._rest = b""
        self.full = False
        self.text = b""

    @property
    def waiting(self) -> int:
        return len(self._rest)

    def write(self, data: bytes) -> None:
        self._rest += data
        if self.full and self._rest:
            raise DiskError("no space left", file="trace", full=True)
        if self._rest:
            self.text += self._rest
            self._rest = b""
            self._journal.append("trace")


class Program(Drain):
    """Tells what it is given by others, once that is in the log."""

    def __init__(self) -> None:
        self.on_stable: Callable[[Place], None] = lambda _: None
        self._fresh: list[bytes] = []

    def apply(self, one: Applied) -> None:
        if not one.own:
            self._fresh.append(one.operation.payload)

    def stable(self, found: Sequence[LifeTag]) -> None:
        for tag in found:
            self.on_stable(tag.dot)

    def output(self) -> list[bytes]:
        fresh, self._fresh = self._fresh, []
        return fresh

    def drop(self) -> None:
        self._fresh.clear()

    def recovering(self, begins: bool) -> None:
        del begins
        self._fresh.clear()


class Peer(Protocol):
    """Another member, as the test plays it."""

    has: list[bytes]
    """Payloads that it was given by others, in order."""
    stable: list[bytes]
    """Its own, once they are stable here."""

    def up(self, other: str, now: int) -> None: ...

    def down(self, other: str, now: int) -> None: ...

    def receive(self, other: str, data: bytes, now: int) -> None: ...

    def broadcast(self, payload: bytes, now: int) -> None: ...

    def wake(self, now: int) -> int:
        """What is due by now; when it wants to be woken next."""
        ...

    def posts(self) -> list[tuple[str, bytes]]:
        """What it wants to send, and to whom, since the last time."""
        ...


class World(ABC):
    """All of `conformance_steps.Subject` but what a kind of driver has its own names for."""

    driver: Any

    def __init__(self, at_once: bool, reads: bool) -> None:
        self.journal: list[str] = []
        self.now = START_US
        self.reads = True
        self._wanted = 0
        self.events: list[bytes] = []
        self.trace = Trace(self.journal)
        self.loop = Clockwork(lambda: self.now)
        self.syncer = Syncer(True)
        self.unheard: list[str] = []
        """What reached the event loop as an exception, or a peer that would have cut the link."""
        self.loop.set_exception_handler(lambda _, context: self.unheard.append(str(context)))
        self.wires: dict[tuple[str, str], list[bytes]] = {}
        self.links: set[str] = set()
        self.dying: set[str] = set()
        """Links that `a` wants to begin anew: what is on the wire may arrive, and no more than that."""
        self.peers: dict[str, Peer] = {}
        self._closing: asyncio.Task[Any] | None = None

        async def begin() -> None:
            self.begin()

        self.loop.run_until_complete(begin())
        self.driver.broken.add_done_callback(lambda _: self.journal.append("stop"))
        for peer, other in (PEERS, PEERS[::-1]):
            self.peers[peer].up(other, self.now)
        for peer in PEERS:
            self.link(peer)
        self.meet()
        self.turn()
        self.syncer.at_once, self.reads = at_once, reads
        self.events.clear()
        self.journal.clear()

    # What a kind of driver has its own names for

    @abstractmethod
    def begin(self) -> None:
        """Make the driver and the peers."""

    @abstractmethod
    def meet(self) -> None:
        """Until all are members, and messages flow."""

    @abstractmethod
    def words(self, peer: str, data: bytes) -> list[str]:
        """What a packet says to a peer, for the journal: payloads of messages, `ack n` (so many of the peer's
        messages are kept), `-` (something else)."""

    @property
    @abstractmethod
    def files(self) -> Files: ...

    def drive(self, machine: Any, make: Callable[[int], Any], trace: Any) -> None:
        steps = Steps(machine, make, trace, SendQueue[Any](GroupSettings()), self.now)
        self.driver = Driver(steps, self, self, lambda: self.now, self.syncer)

    @property
    def machine(self) -> Any:
        return self.driver.machine

    # The sink

    def appetite(self) -> int:
        return TAKE_MAX if self.reads else self._wanted

    def tell(self, events: Iterable[bytes]) -> None:
        for payload in events:
            self.event(payload)

    def stepped(self, now: int) -> None:
        del now

    # The outlet

    def send(self, peer: str, packets: Iterable[bytes]) -> None:
        self.left(peer, packets)

    def unpack(self, peer: str, data: Iterable[bytes]) -> Iterator[Any]:
        del peer
        return map(self.machine.decode, data)

    def keep(self, links: Mapping[str, str | None]) -> None:
        del links  # they are there

    def left(self, peer: str, packets: Iterable[bytes]) -> None:
        for data in packets:
            self.journal += [f"send {peer} {what}" for what in self.words(peer, data)]
            if peer in self.links and peer in self.peers:
                try:
                    self.peers[peer].receive("a", data, self.now)
                except PeerError as error:
                    self.unheard.append(f"{peer} is sent what no correct peer sends: {error}")
        self._collect()

    def begin_anew(self, why: str) -> None:
        del why
        self.dying |= self.links
        self.journal.append("anew")

    # Peers

    def _collect(self) -> None:
        """What peers want to send is on the wire; between the two of them nothing waits."""
        busy = True
        while busy:
            busy = False
            for name, peer in self.peers.items():
                for to, data in peer.posts():
                    busy = True
                    if to in self.peers:
                        self.peers[to].receive(name, data, self.now)
                    elif name in self.links:
                        self.wires.setdefault((name, to), []).append(data)

    def on_wire(self, peer: str) -> list[bytes]:
        return self.wires.pop((peer, "a"), [])

    def says(self, peer: str, payload: bytes) -> None:
        self.peers[peer].broadcast(payload, self.now)
        self._collect()

    def arrives(self, peer: str, *garbage: bytes) -> None:
        self.driver.packets(peer, [*self.on_wire(peer), *garbage], self.now)

    def link(self, peer: str) -> None:
        self.links.add(peer)
        self.dying.discard(peer)
        self.peers[peer].up("a", self.now)
        self.driver.link_up(peer)
        self._collect()

    def unlink(self, peer: str) -> None:
        self.links.discard(peer)
        self.wires.pop((peer, "a"), None)
        self.peers[peer].down("a", self.now)
        self.driver.link_down(peer)
        self._collect()

    def talk(self) -> None:
        busy = True
        while busy:
            busy = False
            for peer in PEERS:
                if peer in self.links - self.dying and self.wires.get((peer, "a")):
                    busy = True
                    try:
                        self.arrives(peer)
                    except PeerError:  # costs the peer its link
                        self.dying.add(peer)
            self.turn()

    def has(self, peer: str) -> list[bytes]:
        return self.peers[peer].has

    def is_stable(self, peer: str, payload: bytes) -> bool:
        return payload in self.peers[peer].stable

    # Time

    def loop_once(self) -> None:
        async def once() -> None:
            await asyncio.sleep(0)

        self.loop.run_until_complete(once())

    def turn(self) -> None:
        async def rounds() -> None:
            for _ in range(ROUNDS):
                await asyncio.sleep(0)

        self.loop.run_until_complete(rounds())

    def pass_time(self, span_us: int) -> None:
        until = self.now + span_us
        while self.now < until:
            wakes = [max(self.now + 1, peer.wake(self.now)) for peer in self.peers.values()]
            self.now = min([until, *wakes, *self.loop.due])
            for peer in self.peers.values():
                peer.wake(self.now)
            self._collect()
            self.turn()
            self.talk()

    # The application

    def ask(self, *payloads: bytes) -> Call:
        call, future = Call(), self.driver.publish(payloads)

        def done(done: "asyncio.Future[Any]") -> None:
            if (error := done.exception()) is not None:
                call.refused(error)
                self.journal.append("refused")
            else:
                call.answered([seq for (_, seq), _ in done.result()])
                self.journal.append("answer")

        future.add_done_callback(done)
        return call

    def demand(self, payload: bytes) -> Call:
        call = Call()
        try:
            found = self.driver.call(lambda machine, now: machine.broadcast([payload], now))
        except ThenceError as error:
            call.refused(error)
        else:
            call.answered([seq for (_, seq), _ in found])
        return call

    def take(self) -> None:
        steps = self.driver.steps
        if not self.machine.waiting:
            self.journal.append("nothing to take")
            return
        before, self._wanted = steps.taken, 1
        self.driver.take()
        self._wanted = 0
        if steps.taken == before or steps.why is not None:
            self.journal.append("not taken")

    def event(self, payload: bytes) -> None:
        self.events.append(payload)
        self.journal.append(f"event {payload.decode()}")

    def rows(self, kind: str) -> int:
        return self.trace.text.count(f'"kind":"{kind}"'.encode())

    # The disk

    def fill(self, room: int = 0) -> None:
        disk = self.files.disk
        disk.capacity = sum(map(disk.size, disk.names())) + room

    def make_room(self) -> None:
        self.files.disk.capacity = None

    def fail_sync(self) -> None:
        self.files.disk.fail("sync")

    def cannot_sync(self, times: int) -> None:
        self.files.untried = times

    def is_written(self, payload: bytes) -> bool:
        disk = self.files.disk
        return any(payload in disk.read(name, 0, disk.size(name)) for name in disk.names())

    @property
    def syncs(self) -> int:
        return len(self.syncer.waiting)

    def finish_sync(self) -> None:
        self.syncer.waiting.pop(0)()
        self.turn()

    def fill_trace(self, full: bool = True) -> None:
        self.trace.full = full

    # Trouble

    def when_tidied(self, act: Callable[[], None]) -> None:
        real = type(self.machine).tidy

        def tidy(machine: Any, now: int) -> None:
            act()
            real(machine, now)

        self._replace(untidy=lambda machine, now: True, tidy=tidy)  # noqa: ARG005

    def _replace(self, **methods: Any) -> None:
        machine = self.machine
        machine.__class__ = type("Planted", (type(machine),), {"__slots__": (), **methods})

    def plant(self, where: Where, error: Exception, after: int = 0) -> None:
        calls, real = count(), getattr(type(self.machine), where)

        def fails(*words: Any, **named: Any) -> Any:
            if next(calls) >= after:
                raise error
            return real(*words, **named)

        self._replace(**{where: fails})

    @property
    def trouble(self) -> str | None:
        return None if self.driver.trouble is None else str(self.driver.trouble)

    @property
    def stops(self) -> ThenceError | None:
        broken: asyncio.Future[ThenceError] = self.driver.broken
        return broken.result() if broken.done() else None

    # The end

    def begin_close(self) -> None:
        if self._closing is None:
            self._closing = self.loop.create_task(self.driver.close())

    def close(self) -> Any:
        self.begin_close()
        closing = self._closing
        assert closing is not None
        self.turn()
        for _ in range(ROUNDS):
            if closing.done():
                break
            while self.syncer.waiting:
                self.finish_sync()
            self.now += MOMENT_US
            self.turn()
        assert closing.done(), "close: it does not end"
        self.turn()
        return closing.result()

    @property
    def left_over(self) -> list[str]:
        tasks = [str(task) for task in asyncio.all_tasks(self.loop)]
        return tasks + [f"a timer, due at {due}" for due in self.loop.due]

    def end(self) -> None:
        """Whatever a check has left behind."""
        if not self.loop.is_closed():
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.turn()
            self.loop.close()
