"""Runs one replica: each step's effects, in the order that keeps its promises.

Input, commit, trace, packets: docs/protocols/live.md says why. Nothing about the protocol is decided here,
and no link or file is touched but through what was handed in.

Invariants. Nothing leaves (packets, answers, events) before it is committed; under `always` not before it is
synced: `_held` keeps it until then, in order. If a commit or the trace fails, packets that were about to
leave are dropped, the replica goes back to what its log says and every link is made to begin anew, so that
nobody has seen what was forgotten; the driver is in `trouble` until a write succeeds. Calls whose messages
are in the log are answered when the promises are kept, all others are refused. If a sync fails there is no
way to know what the disk holds: `broken`, and the node must end.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from heapq import heappop, heappush
from typing import Final, NamedTuple, Protocol

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import PeerError, StorageError, UsageError
from thence.core.machine import Effect, LinkEffect, Transmit, Wake
from thence.core.message import Message
from thence.core.storage import Files, UnwrittenError
from thence.oplog.log import OpLog
from thence.oplog.policy import Sync
from thence.replica.live import Live
from thence.replica.replica import Delivered
from thence.runtime.asked import Asked, refuse, refused
from thence.runtime.easing import Easing
from thence.runtime.pacing import Clock
from thence.runtime.recovering import note_closed
from thence.runtime.tracing import LiveTrace
from thence.trace.lines import Lines

PROBE_EVERY_S: Final = 1.0
"""How often a full disk is tried again."""

COLLECT_EVERY_US: Final = 5_000_000
"""Segments come and go in minutes."""

SAMPLES: Final = 1024
"""Messages whose latency is being measured at most."""

SETTLE_S: Final = 0.005
"""How long marks of what was taken, and the search for what is stable, may wait for company: at a thousand
messages a second each of them would otherwise cost as much as a message."""

PROBE_NOTE: Final = 2
"""The key of the note that a driver in trouble tries to write."""


class Outlet(Protocol):
    """Where packets go, by the index of a peer."""

    def send(self, peer: int, packets: Sequence[bytes]) -> None: ...

    def queued(self, peer: int) -> int:
        """Bytes that wait to be sent to it."""
        ...

    def relink(self, wishes: Sequence[LinkEffect]) -> None:
        """Open and close these links."""
        ...

    def begin_anew(self, why: str) -> None:
        """Drop every link, and make none while the driver is in trouble."""
        ...


class Sink(Protocol):
    """The application's side."""

    def stepped(self, now: int) -> None:
        """A step is over: there may be something to take, or to announce as stable."""
        ...


Answer = tuple["asyncio.Future[list[Delivered]]", list[Delivered]]
"""Whoever asked for a broadcast, and what became of it."""


class _Leaving(NamedTuple):
    """What may leave once the log is durable up to a position."""

    position: int
    rows: bytes
    """For the trace, before anything else: under `always` a trace must not know what the disk may forget."""
    packets: dict[int, list[bytes]]
    answers: Sequence["Answer"]
    wishes: Sequence[LinkEffect] = ()
    """Links to be opened and closed, after the packets: some of those say why."""


class Driver:
    def __init__(
        self,
        live: Live,
        log: OpLog,
        files: Files,
        outlet: Outlet,
        sink: Sink,
        clock: Clock,
        syncer: Executor,
        lines: Lines | None = None,
        trace: LiveTrace | None = None,
        always: bool = False,
    ) -> None:
        self.replica: Final = live.replica
        self.mesh: Final = live.mesh
        self._codec: Final = live.codec
        self.tree: Final = live.overlay
        self._easing: Final = Easing(live, outlet.queued, self._finish, clock)
        self._take_wishes: Final = live.take_wishes
        self._collect_every_us: Final = min(COLLECT_EVERY_US, live.collect_every_us or COLLECT_EVERY_US)
        self._log: Final = log
        self._files: Final = files
        self._outlet: Final = outlet
        self._sink: Final = sink
        self._clock: Final = clock
        self._syncer: Final = syncer
        self._lines: Final = lines
        self._trace: Final = trace
        self._always: Final = always
        self._loop: Final = asyncio.get_running_loop()
        self._held: deque[_Leaving] = deque()
        self._wakes: list[int] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0
        self._settling = False
        self._later: asyncio.TimerHandle | None = None
        self._asked: Final = Asked[Delivered](self._loop)
        self._collected_at = clock()
        self._syncing: set[asyncio.Task[None]] = set()
        self._probing: asyncio.TimerHandle | None = None
        self._came_up = False
        """Since the trouble began, a link did: its greeting was not answered."""
        self.trouble: StorageError | None = None
        """Why nothing is written at present."""
        self.broken: asyncio.Future[StorageError] = self._loop.create_future()
        """Done when nothing ever will be."""
        self._arrived: dict[int, int] = {}
        """When some of the messages arrived that were not taken yet: one of each read."""
        self.on_delivery: Callable[[int], None] = lambda _: None
        self.syncs = 0
        self.sent = 0
        self.delivered = 0

    # Steps

    def up(self, peer: int) -> None:
        if self.trouble is not None:
            self._came_up = True
            return
        now = self._clock()
        self._finish(self.replica.up(peer, now), now)

    def down(self, peer: int) -> None:
        now = self._clock()
        self._finish(self.replica.down(peer, now), now)

    def packets(self, peer: int, packets: list[bytes], now: int) -> None:
        """All packets of one read. What came before garbage counts; then `PeerError`."""
        if self.trouble is not None:
            return  # the link is about to go down, and all of this comes again
        effects: list[Effect] = []
        decode, receive = self._codec.decode, self.replica.receive
        garbage: PeerError | None = None
        sample = len(self._arrived) < SAMPLES
        try:
            for data in packets:
                packet = decode(data)
                if sample and type(packet) is Message and self._is_new(packet.dot):
                    self._arrived[packet.dot] = now
                    sample = False
                effects += receive(peer, packet, now)
        except PeerError as error:
            garbage = error
        except UnwrittenError as error:
            self._in_trouble(error)
            return
        except StorageError as error:  # the log cannot be read, or others know more than it holds
            self._break(error)
            return
        self._settle_later()
        self._finish(effects, now)
        if garbage is not None:
            raise garbage

    def publish(self, payloads: Sequence[bytes]) -> "asyncio.Future[list[Delivered]]":
        """Broadcast these. All that is asked for before the loop comes round goes into one commit."""
        why = refused(self.trouble) if self.trouble is not None else self._recovering()
        if why is None:
            self._settle_soon()
        return self._asked.add(payloads, why)

    def _recovering(self) -> StorageError | None:
        """Whether nothing can be sent because it is not known what was."""
        if not self.replica.regaining:
            return None
        missing = ", ".join(self._log.names[peer] for peer in self.mesh.waiting_for)
        return StorageError(
            f"this node is recovering what it had sent{missing and ', and waits for '}{missing}"
        )

    def take(self) -> Delivered:
        """The application takes the next message. That it did is written down before anything else leaves
        this node, or a moment later if nothing does."""
        self._settle_later()
        self.delivered += 1
        now = self._clock()
        delivered = self.replica.take(now)
        if self._arrived:
            self._observe(delivered, now)
        return delivered

    def drain(self, now: int) -> None:
        """An application that wants nothing but to be up to date takes everything."""
        before = self.delivered
        while self.takeable:
            delivered = self.replica.take(now)
            self.delivered += 1
            if self._arrived:
                self._observe(delivered, now)
        if self.delivered > before:
            self._settle_later()

    def _is_new(self, dot: int) -> bool:
        origin, vector = dot & ORIGIN_MASK, self._log.vector
        return origin < len(vector) and dot >> ORIGIN_BITS > vector[origin]

    def _observe(self, delivered: Delivered, now: int) -> None:
        at = self._arrived.pop(delivered.message.dot, None)
        if at is not None:
            self.on_delivery(now - at)

    @property
    def takeable(self) -> bool:
        replica = self.replica
        return bool(replica.inbox) and (not self._always or replica.next_position <= self._log.durable)

    def start(self, effects: list[Effect]) -> None:
        """What the replica asked for when it was made."""
        self._finish(effects, self._clock())

    def _settle_soon(self) -> None:
        if not self._settling:
            self._settling = True
            self._loop.call_soon(self._settle)

    def _settle_later(self) -> None:
        if self._later is None:
            self._later = self._loop.call_later(SETTLE_S, self._settle)

    def _settle(self) -> None:
        """Everything that was put off until the loop came round, or a little longer."""
        self._settling = False
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self.trouble is not None:
            return
        now = self._clock()
        batch = self._asked.take()
        effects: list[Effect] = []
        answers: list[Answer] = []
        if batch:
            payloads = [payload for asked, _ in batch for payload in asked]
            try:
                published = self.replica.publish(payloads, now)
            except StorageError as error:
                refuse([future for _, future in batch], refused(error))
                self._in_trouble(error)
                return
            except UsageError as error:
                refuse([future for _, future in batch], error)
                return
            effects = published.effects
            self._log_effects(published.log_effects)
            self.sent += len(payloads)
            first = 0
            for asked, future in batch:
                answers.append((future, published.delivered[first : first + len(asked)]))
                first += len(asked)
        else:
            self.replica.sweep(now)
            if self.replica.unswept:  # much at once, after a member was away: one part after the other
                self._settle_later()
        self._finish(effects, now, answers)

    def _finish(
        self,
        effects: list[Effect],
        now: int,
        answers: Sequence[Answer] = (),
    ) -> None:
        """A step has been taken: write it down, then let it have its consequences."""
        if self.trouble is not None:
            return
        try:
            self._log_effects(self.replica.commit(now))
        except StorageError as error:
            # Whatever is answered here was committed before: it waits for what else was promised.
            self._held.append(_Leaving(self._log.tail, b"", {}, answers))
            self._in_trouble(error)
            return
        rows = b"" if self._lines is None or not len(self._lines) else self._lines.take_bytes()
        packets: dict[int, list[bytes]] = {}
        encode = self._codec.encode
        for effect in effects:
            if isinstance(effect, Transmit):
                data = encode(effect.packet)
                for peer in effect.peers:
                    if peer in packets:
                        packets[peer].append(data)
                    else:
                        packets[peer] = [data]
            else:
                self._wake_at(effect.at)
        wishes = self._take_wishes()
        if packets or answers or rows or wishes:
            self._held.append(_Leaving(self._log.tail, rows, packets, answers, wishes))
            self._leave()
        self._sink.stepped(now)
        if self.trouble is None and now - self._collected_at > self._collect_every_us:
            self._collect(now)

    def _leave(self) -> None:
        """In order: a segment that was sealed makes later steps durable while a sync for earlier ones is
        still under way."""
        if self._trace is not None and self._trace.waiting:
            return  # rows of an earlier step
        held = self._held
        while held and (not self._always or held[0].position <= self._log.durable):
            leaving = held.popleft()
            if leaving.rows and not self._write_rows(leaving):
                return
            for peer, packets in leaving.packets.items():
                self._outlet.send(peer, packets)
                self._easing.sent(peer)
            if leaving.wishes:
                self._outlet.relink(leaving.wishes)
            for future, delivered in leaving.answers:
                if not future.done():
                    future.set_result(delivered)

    def _write_rows(self, leaving: _Leaving) -> bool:
        try:
            self._trace.write(leaving.rows)  # type: ignore[union-attr]  # where there are rows there is a trace
        except StorageError as error:  # the trace keeps them, and they go first when it can be written again
            self._held.appendleft(leaving._replace(rows=b""))
            self._in_trouble(error)
            return False
        return True

    # Timers

    def _wake_at(self, at: int) -> None:
        heappush(self._wakes, at)
        self._set_timer()

    def _set_timer(self) -> None:
        """For the earliest of all, which need not be the one that was asked for last."""
        at = self._wakes[0]
        if self._timer is None or at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = at
            delay_s = max(0, at - self._clock()) / 1e6
            self._timer = self._loop.call_later(delay_s, self._wake)

    def _wake(self) -> None:
        self._timer = None
        now = self._clock()
        while self._wakes and self._wakes[0] <= now:
            heappop(self._wakes)
        self._log_effects(self._log.wake(now))
        if self.trouble is None:
            self._finish(self.replica.wake(now), now)
        if self._wakes:
            self._set_timer()

    # The log

    def _log_effects(self, effects: Sequence[Sync | Wake]) -> None:
        for effect in effects:
            if isinstance(effect, Sync):
                task = self._loop.create_task(self._sync(effect))
                self._syncing.add(task)
                task.add_done_callback(self._syncing.discard)
            else:
                self._wake_at(effect.at)

    async def _sync(self, sync: Sync) -> None:
        try:
            await self._loop.run_in_executor(self._syncer, self._files.sync, sync.file)
        except StorageError as error:
            self._log.sync_failed(sync, error, self._clock())
            if self._log.durable < sync.position:
                self._break(error)
            return
        self.syncs += 1
        now = self._clock()
        self._log_effects(self._log.synced(sync, now))
        self._leave()
        self._sink.stepped(now)

    def _collect(self, now: int) -> None:
        self._collected_at = now
        try:
            if self._trace is not None and self._held:
                self._log.sync(now)  # what is collected cannot be added to a trace later: rows first
                self._leave()
            if self.trouble is None:
                self.replica.collect(now)
        except StorageError as error:
            self._in_trouble(error)

    # Trouble

    def _in_trouble(self, error: StorageError) -> None:
        if self._log.broken is not None:
            self._break(error)
            return
        self.trouble = error
        self.replica.roll_back(self._clock())
        # What is committed goes to the peers when the links are back, and its answers wait for their sync.
        self._held = deque([held._replace(packets={}, wishes=()) for held in self._held])
        self._asked.refuse(refused(error))
        self._outlet.begin_anew(str(error))
        self._probe_later()

    def _probe_later(self) -> None:
        if self._probing is None:
            self._probing = self._loop.call_later(PROBE_EVERY_S, self._probe)

    def _probe(self) -> None:
        """Is there room again?"""
        self._probing = None
        if self.broken.done():
            return
        now = self._clock()
        try:
            self._log.note(PROBE_NOTE, b"")
            self._log_effects(self.replica.commit(now))
            if self._trace is not None:
                self._trace.write(b"")
        except StorageError as error:
            if self._log.broken is not None:
                self._break(error)
                return
            self.trouble = error
            self.replica.roll_back(now)
            self._probe_later()
            return
        self.trouble = None
        self._leave()
        if self._came_up:
            self._came_up = False
            self._outlet.begin_anew("links were made while nothing could be written")
        self._finish(self.replica.resume(now), now)

    def _break(self, error: StorageError) -> None:
        self.trouble = error
        self._give_up(refused(error))
        self._outlet.begin_anew(str(error))
        if not self.broken.done():
            self.broken.set_result(error)

    def _give_up(self, error: StorageError) -> None:
        refuse([future for held in self._held for future, _ in held.answers], error)
        self._held.clear()
        self._asked.refuse(error)

    async def close(self) -> None:
        """Everything committed and synced that can be; no timer or task is left."""
        if self.trouble is None:
            self._settle()
        while self._syncing:  # one may ask for another
            await asyncio.wait(list(self._syncing))
        self._easing.close()
        for timer in (self._timer, self._probing, self._later):
            if timer is not None:
                timer.cancel()
        try:
            if self.trouble is None:
                self._log.sync(self._clock())
                note_closed(self._log)
                self._log.close(self._clock())
                self._leave()
        finally:
            self._give_up(StorageError("the node was closed before it was certain that this is written"))
            self.trouble = self.trouble or StorageError("this node is closed")
