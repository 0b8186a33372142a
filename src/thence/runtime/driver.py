"""Runs one replica: each step's effects, in the order that keeps its promises.

Input, commit, trace, packets: docs/protocols/live.md says why. Nothing about the protocol is decided here,
and no link or file is touched but through what was handed in.

Invariants. Nothing leaves (packets, answers, events) before it is committed, and synced where
the log insists on that (`consequences.py`). If a commit or the trace fails, packets that were about to
leave are dropped, the replica goes back to what its log says and every link is made to begin anew, so that
nobody has seen what was forgotten; the driver is in `trouble` until a write succeeds. Calls whose messages
are in the log are answered when the promises are kept, all others are refused. If a sync fails there is no
way to know what the disk holds, and after a bug none to know what the replica would do: `broken`, and the
node must end.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from heapq import heappop, heappush
from typing import Concatenate, Final, ParamSpec, Protocol

from thence.core.errors import PeerError, StorageError, ThenceError, UsageError, stopper
from thence.core.machine import Ack, Effect, LinkEffect, Wake
from thence.core.message import Message
from thence.core.overlay import Graft
from thence.core.storage import Files, ForgottenError, UnwrittenError
from thence.oplog.log import OpLog
from thence.oplog.policy import Sync
from thence.replica.live import Live
from thence.replica.replica import Delivered
from thence.runtime.alarm import Alarm
from thence.runtime.arrivals import Arrivals
from thence.runtime.asked import Answer, Asked, refuse, refused, told
from thence.runtime.consequences import Consequences, Step
from thence.runtime.deferral import Deferral
from thence.runtime.easing import Easing
from thence.runtime.outgoing import by_peer
from thence.runtime.pacing import Clock
from thence.runtime.recovering import note_closed
from thence.runtime.syncing import Syncing
from thence.runtime.tracing import LiveTrace, Rows
from thence.runtime.trouble import Trouble
from thence.trace.lines import Lines

COLLECT_EVERY_US: Final = 5_000_000
"""Segments come and go in minutes."""

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


P = ParamSpec("P")


def guarded(act: "Callable[Concatenate[Driver, P], None]") -> "Callable[Concatenate[Driver, P], None]":
    """What the loop, a link or a timer calls. Whatever is not a peer's fault stops the node."""

    def acts(driver: "Driver", /, *words: P.args, **named: P.kwargs) -> None:
        try:
            act(driver, *words, **named)
        except PeerError:
            raise
        except Exception as error:
            driver.stops(error)

    return acts


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
    ) -> None:
        self.replica: Final = live.replica
        self.mesh: Final = live.mesh
        self._codec: Final = live.codec
        self.tree: Final = live.overlay
        self._easing: Final = Easing(live, outlet, self._finish, clock)
        self._take_wishes: Final = live.take_wishes
        self._collect_every_us: Final = min(COLLECT_EVERY_US, live.collect_every_us or COLLECT_EVERY_US)
        self._log: Final = log
        self._files: Final = files
        self._outlet: Final = outlet
        self._sink: Final = sink
        self._clock: Final = clock
        self._lines: Final = lines
        self._trace: Final = trace
        self._loop: Final = asyncio.get_running_loop()
        self._consequences: Final = Consequences[int, Delivered](
            lambda: log,
            outlet.send if live.overlay is None else self._easing.send,  # a mesh keeps to its windows
            outlet.relink,
        )
        self._wakes: list[int] = []
        self._alarm: Final = Alarm(clock, self._wake)
        self._settling: Final = Deferral(self._settle, SETTLE_S)
        self._asked: Final = Asked[Delivered](self._loop)
        self._collected_at = clock()
        self._disk: Final = Trouble(self._probe, self._consequences, self._asked, outlet.begin_anew)
        self._syncing: Final = Syncing(syncer, clock, lambda _: True, self._synced, self._disk.last)
        self._came_up = False
        """Since the trouble began, a link did: its greeting was not answered."""
        self._ahead: Final[dict[int, str]] = {}
        """Peers that claim to have more of this node's messages than its log, in words."""
        self.arrivals: Final = Arrivals(log)
        self.sent = 0
        self.delivered = 0

    @property
    def trouble(self) -> ThenceError | None:
        """Why nothing is written at present."""
        return self._disk.why

    @property
    def broken(self) -> "asyncio.Future[ThenceError]":
        """Done when nothing ever will be."""
        return self._disk.broken

    @property
    def syncs(self) -> int:
        return self._syncing.count

    # Steps

    @guarded
    def up(self, peer: int) -> None:
        if self._disk.why is not None:
            self._came_up = True
            return
        now = self._clock()
        self._finish(self.replica.up(peer, now), now)

    @guarded
    def down(self, peer: int) -> None:
        now = self._clock()
        self._finish(self.replica.down(peer, now), now)

    @guarded
    def packets(self, peer: int, packets: list[bytes], now: int) -> None:
        """All packets of one read. What came before garbage counts; then `PeerError`."""
        if self._disk.why is not None:
            return  # the link is about to go down, and all of this comes again
        effects: list[Effect] = []
        decode, receive = self._codec.decode, self.replica.receive
        garbage: PeerError | None = None
        sample = self.arrivals.wanted
        try:
            for data in packets:
                packet = decode(data)
                if sample and type(packet) is Message:
                    sample = not self.arrivals.add(packet.dot, now)
                effects += receive(peer, packet, now)
                if self._ahead and isinstance(packet, Ack | Graft):
                    self._ahead.pop(peer, None)  # it says what it has of this node
        except PeerError as error:
            garbage = error
        except ForgottenError as error:  # true or not, it is said over this link alone, and can be taken back
            self._ahead[peer] = str(error)
            garbage = PeerError(str(error))
        except UnwrittenError as error:
            self._in_trouble(error)
            return
        self._settling.later()
        self._finish(effects, now)
        if garbage is not None:
            raise garbage

    def publish(self, payloads: Sequence[bytes]) -> "asyncio.Future[list[Delivered]]":
        """Broadcast these. All that is asked for before the loop comes round goes into one commit."""
        why = refused(self._disk.why) if self._disk.why is not None else self._recovering()
        if why is None:
            self._settling.soon()
        return self._asked.add(payloads, why)

    @property
    def behind(self) -> str | None:
        """Why the log may be an old copy, if others say so."""
        if not self._ahead:
            return None
        return (
            f"{'; '.join(self._ahead.values())}: its data folder is an old copy, or the disk has lost what "
            "was synced (then `thence repair --forgetful` gets it back)"
        )

    def _recovering(self) -> StorageError | None:
        """Whether nothing can be sent because it is not known what was."""
        if self.behind is not None:
            return StorageError(self.behind)
        if not self.replica.regaining:
            return None
        missing = ", ".join(self._log.names[peer] for peer in self.mesh.waiting_for)
        return StorageError(
            f"this node is recovering what it had sent{missing and ', and waits for '}{missing}"
        )

    def take(self) -> Delivered:
        """The application takes the next message. That it did is written down before anything else leaves
        this node, or a moment later if nothing does."""
        self._settling.later()
        self.delivered += 1
        now = self._clock()
        try:
            delivered = self.replica.take(now)
        except Exception as error:
            self.stops(error)
            raise told(stopper(error)) from error
        if self.arrivals.at:
            self.arrivals.taken(delivered.message.dot, now)
        return delivered

    @guarded
    def drain(self, now: int) -> None:
        """An application that wants nothing but to be up to date takes everything."""
        before = self.delivered
        while self.takeable:
            delivered = self.replica.take(now)
            self.delivered += 1
            if self.arrivals.at:
                self.arrivals.taken(delivered.message.dot, now)
        if self.delivered > before:
            self._settling.later()

    @property
    def takeable(self) -> bool:
        replica = self.replica
        return bool(replica.inbox) and self._log.may_leave(replica.next_position)

    def start(self, effects: list[Effect]) -> None:
        """What the replica asked for when it was made."""
        self._finish(effects, self._clock())

    @guarded
    def _settle(self) -> None:
        """Everything that was put off until the loop came round, or a little longer."""
        if self._disk.why is not None:
            return
        now = self._clock()
        batch = [(payloads, future) for payloads, future in self._asked.take() if not future.cancelled()]
        effects: list[Effect] = []
        answers: list[Answer[Delivered]] = []
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
            except Exception as error:
                refuse([future for _, future in batch], refused(stopper(error), definite=False))
                raise
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
                self._settling.later()
        self._finish(effects, now, answers)

    def _finish(self, effects: list[Effect], now: int, answers: Sequence[Answer[Delivered]] = ()) -> None:
        """A step has been taken: write it down, then let it have its consequences."""
        try:
            self._commit(effects, now, answers)
        except Exception as error:
            refuse([future for future, _ in answers], refused(stopper(error), definite=False))
            self.stops(error)

    def _commit(self, effects: list[Effect], now: int, answers: Sequence[Answer[Delivered]]) -> None:
        if self._disk.why is not None:
            return
        try:
            self._log_effects(self.replica.commit(now))
        except StorageError as error:
            # Whatever is answered here was committed before: it waits for what else was promised.
            self._consequences.add(Step(self._log, self._log.tail, [], {}, answers))
            self._in_trouble(error)
            return
        rows: Rows = []
        if self._trace is not None and self._lines is not None and len(self._lines):
            rows = [(self._trace, self._lines.take_bytes())]
        packets = by_peer(effects, self._codec.encode, self._wake_at)
        wishes = self._take_wishes()
        if packets or answers or rows or wishes:
            self._consequences.add(Step(self._log, self._log.tail, rows, packets, answers, wishes))
            self._follow()
        self._sink.stepped(now)
        if self._disk.why is None and now - self._collected_at > self._collect_every_us:
            self._collect(now)

    def _follow(self) -> None:
        if self._trace is not None and self._trace.waiting:
            return  # rows of an earlier step
        try:
            self._consequences.follow()
        except StorageError as error:
            self._in_trouble(error)

    # Timers

    def _wake_at(self, at: int) -> None:
        heappush(self._wakes, at)
        self._alarm.set(self._wakes[0])

    @guarded
    def _wake(self) -> None:
        now = self._clock()
        while self._wakes and self._wakes[0] <= now:
            heappop(self._wakes)
        if self._disk.why is None:
            self._log_effects(self._log.wake(now))
            self._finish(self.replica.wake(now), now)
        if self._wakes:
            self._alarm.set(self._wakes[0])

    # The log

    def _log_effects(self, effects: Sequence[Sync | Wake]) -> None:
        for effect in effects:
            if isinstance(effect, Sync):
                self._syncing.begin(self._log, self._files, effect)
            else:
                self._wake_at(effect.at)

    @guarded
    def _synced(self, log: OpLog, sync: Sync) -> None:
        now = self._clock()
        self._log_effects(log.synced(sync, now))
        self._follow()
        self._sink.stepped(now)

    def _collect(self, now: int) -> None:
        self._collected_at = now
        try:
            if self._trace is not None and self._consequences:
                self._log.sync(now)  # what is collected cannot be added to a trace later: rows first
                self._follow()
            if self._disk.why is None:
                self.replica.collect(now)
        except StorageError as error:
            self._in_trouble(error)

    # Trouble

    def stops(self, error: Exception) -> None:
        """Something went wrong in the middle of a step that is no peer's fault, and cannot be taken back."""
        self._disk.last(stopper(error))

    def _in_trouble(self, error: StorageError) -> None:
        if self._log.broken is not None:
            self._disk.last(error)
            return
        self.replica.roll_back(self._clock())
        self._disk.begin(error)

    @guarded
    def _probe(self) -> None:
        """Is there room again?"""
        now = self._clock()
        try:
            self._log.note(PROBE_NOTE, b"")
            self._log_effects(self.replica.commit(now))
            if self._trace is not None:
                self._trace.write(b"")
        except StorageError as error:
            if self._log.broken is not None:
                self._disk.last(error)
                return
            self._disk.goes_on(error)
            self.replica.roll_back(now)
            return
        self._disk.over()
        self._follow()
        if self._came_up:
            self._came_up = False
            self._outlet.begin_anew("links were made while nothing could be written")
        self._finish(self.replica.resume(now), now)

    async def close(self) -> None:
        """Everything committed and synced that can be; no timer or task is left."""
        if self._disk.why is None:
            self._settling.now()
        await self._syncing.over()
        self._disk.stop_looking()
        for part in (self._easing, self._alarm, self._settling):
            part.close()
        try:
            if self._disk.why is None:
                self._log.sync(self._clock())
                note_closed(self._log)
                self._log.close(self._clock())
                self._follow()
        finally:
            self._disk.close()
