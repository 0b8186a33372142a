"""Runs one process of a changing group: each step's effects, in the order that keeps its promises.

The counterpart of `driver` for `replica.group.GroupNode`: input, what the application takes, commit, trace,
packets (docs/protocols/live.md). Nothing about membership is decided here.

Invariants. Nothing leaves before it is committed, and synced where the log insists on that. A step that could
not be committed never happened: its packets and rows are dropped, links begin anew, and the process is built
again from its disk as after a crash, as soon as that takes writes; until then the driver is in `trouble`. If
a sync fails, or something that cannot happen does, the node must end: `broken`.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Final, Protocol

from thence.core.dots import pack
from thence.core.errors import InvariantError, PeerError, StorageError, ThenceError, UsageError, stopper
from thence.core.group_codec import decode
from thence.core.groups import GroupPacket, JoinRequest, Piece, Sent
from thence.core.machine import NEVER, LinkEffect, Wake
from thence.oplog.log import OpLog
from thence.oplog.policy import Sync
from thence.replica.group import GroupNode
from thence.replica.group_sending import SendQueue, why_not
from thence.runtime.alarm import Alarm
from thence.runtime.asked import Answer, Ask, Asked, refuse, refused
from thence.runtime.checkpoints import Checkpoints
from thence.runtime.consequences import Consequences, Step
from thence.runtime.deferral import Deferral
from thence.runtime.diaries import Diaries
from thence.runtime.outgoing import by_process
from thence.runtime.pacing import Clock
from thence.runtime.shelf import DiskShelf
from thence.runtime.syncing import Syncing
from thence.runtime.trouble import Trouble


class Outlet(Protocol):
    """Where packets go, by the name of a process."""

    def send(self, process: str, packets: Sequence[bytes]) -> None: ...

    def vouched(self, process: str, address: str) -> str | None:
        """Where a joiner is reached, empty if it only says so; None: it should ask again."""
        ...

    def begin_anew(self, why: str) -> None:
        """Drop every link, and make none while the driver is in trouble."""
        ...


class Sink(Protocol):
    """The application's side."""

    def taking(self, now: int) -> None:
        """Before a step is committed: take what the application is ready for."""
        ...

    def stepped(self, now: int) -> None:
        """A step is over."""
        ...


def _no_wishes(wishes: Sequence[LinkEffect]) -> None:
    """Whoever is a member has links to all others."""


class GroupDriver:
    def __init__(
        self,
        make: Callable[[int], GroupNode],
        node: GroupNode,
        shelf: DiskShelf,
        diaries: Diaries,
        outlet: Outlet,
        sink: Sink,
        clock: Clock,
        syncer: Executor,
    ) -> None:
        """`make` builds the process from what is on its disk, as `node` was."""
        self._make: Final = make
        self._shelf: Final = shelf
        self._diaries: Final = diaries
        self._outlet: Final = outlet
        self._sink: Final = sink
        self._clock: Final = clock
        self._loop: Final = asyncio.get_running_loop()
        self._consequences: Final = Consequences[str, Sent](lambda: self.log, outlet.send, _no_wishes)
        self._alarm: Final = Alarm(clock, self._wake)
        self._log_wake_at = NEVER
        self._settling: Final = Deferral(self._settle)
        self.backlog: Final = SendQueue[asyncio.Future[list[Sent]]](node.settings)
        """Broadcasts that wait behind what is still to be sent again."""
        self._asked: Final = Asked[Sent](self._loop, self.backlog)
        # A log that does not count is of an incarnation that was replaced, or was opened anew.
        self._syncing: Final = Syncing(syncer, clock, lambda log: log is self.log, self._synced, self._break)
        self._checkpoints: Final = Checkpoints(clock())
        self._disk: Final = Trouble(self._probe, self._consequences, self._asked, outlet.begin_anew)
        self.on_delivery: Callable[[int], None] = lambda _: None
        self._sample: tuple[int, int] | None = None
        """When something arrived, and how much will have been taken when that is."""
        self.sent = 0
        self.taken = 0
        self.node = node

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

    def start(self) -> None:
        """What the process wanted when it was made."""
        self._finish(self._clock())

    @property
    def log(self) -> OpLog | None:
        """Of the incarnation that runs."""
        return self.node.log if self.node.member is not None else None

    # Steps

    def up(self, process: str) -> None:
        self._step(lambda node, now: node.up(process, now))

    def down(self, process: str) -> None:
        self._step(lambda node, now: node.down(process, now))

    def packets(self, process: str, packets: list[bytes], now: int) -> None:
        """All packets of one read. What came before garbage counts; then `PeerError`."""
        if self._disk.why is not None:
            return  # the link is about to go down, and all of this comes again
        garbage: PeerError | None = None
        try:
            for data in packets:
                if not self._receive(process, decode(data), now):
                    return
        except PeerError as error:
            garbage = error
        except Exception as error:
            self._failed(error)
            return
        if self._sample is None and self.node.waiting:
            self._sample = now, self.taken + self.node.waiting
        self._finish(now)
        if garbage is not None:
            raise garbage

    def _receive(self, process: str, packet: GroupPacket, now: int) -> bool:
        """Whether the driver is well afterwards."""
        if isinstance(packet, JoinRequest) and packet.contact and packet.address:
            address = self._outlet.vouched(process, packet.address)
            if address is None:
                return True  # it asks again
            packet = packet._replace(address=address)
        if isinstance(packet, Piece):
            # It may replace the incarnation, and whatever the old one did belongs into the old one's log.
            self._finish(now)
            if self._disk.why is not None:
                return False
        self.node.receive(process, packet, now)
        if isinstance(packet, Piece):
            self._finish(now)
        return self.trouble is None

    def call(self, asked: Callable[[GroupNode, int], object]) -> None:
        """Something that a person or a program asks of the process. `UsageError` if it makes no sense."""
        if self._disk.why is not None:
            raise refused(self._disk.why)
        now = self._clock()
        try:
            asked(self.node, now)
        except UsageError:
            raise  # it was refused before anything was done
        except Exception as error:
            self._failed(error)
            raise refused(stopper(error)) from error
        self._finish(now)
        if self._disk.why is not None:
            raise refused(self._disk.why)  # what was asked for never happened

    def publish(self, payloads: Sequence[bytes]) -> "asyncio.Future[list[Sent]]":
        """Broadcast these. All that is asked for before the loop comes round goes into one commit."""
        why = refused(self._disk.why) if self._disk.why is not None else None
        if why is None:
            self._settling.soon()
        return self._asked.add(payloads, why)

    def take(self) -> "asyncio.Future[list[Sent]]":
        """The application takes the next message. It may be told of it when the future is done: then it is
        certain that it will not come again. `StorageError`: it was not taken."""
        future: asyncio.Future[list[Sent]] = self._loop.create_future()
        if self._disk.why is not None:
            future.set_exception(refused(self._disk.why))
            return future
        now = self._clock()
        try:
            self.node.take(now)
        except Exception as error:
            refuse([future], refused(stopper(error)))
            self._failed(error)
            return future
        self.taken += 1
        self._finish(now, [(future, [])])
        return future

    def drain(self, now: int) -> None:
        """Inside `Sink.taking`: take everything."""
        node = self.node
        while node.waiting:
            node.take(now)
            self.taken += 1

    def _settle(self) -> None:
        """Everything that was put off until the loop came round."""
        if self._disk.why is not None:
            return
        now = self._clock()
        batch = self._in_turn(now)
        answers: list[Answer[Sent]] = []
        try:
            for payloads, future in batch:
                if future.cancelled():
                    continue  # nobody knows of it, and nobody will
                try:
                    sent = [self._broadcast(payload, now) for payload in payloads]
                except UsageError as error:
                    refuse([future], error)
                    continue
                self.sent += len(sent)
                answers.append((future, sent))
        except Exception as error:
            refuse([future for _, future in batch], refused(stopper(error)))
            self._failed(error)
            return
        self._finish(now, answers)

    def _broadcast(self, payload: bytes, now: int) -> Sent:
        place, member = self.node.broadcast(payload, now), self.node.member
        assert member is not None
        tag = member.ledger.window.tag_of(pack(member.ledger.mine, place[1]))
        if tag is None:
            raise InvariantError(f"{place} was sent and has no tag")
        return place, tag

    def _in_turn(self, now: int) -> list[Ask[Sent]]:
        """The broadcasts that may go now. While operations from before a return go first, none may."""
        waits_for = self._owed_to
        refuse(self.backlog.overdue(now), UsageError(why_not(waits_for)))
        asked = self._asked.take()
        if not self.node.in_debt:
            return [ask for ask in self.backlog.take() if not ask[1].done()] + asked
        for payloads, future in asked:
            if not self.backlog.add(payloads, future, now):
                refuse([future], UsageError(why_not(waits_for, room=False)))
        return []

    @property
    def _owed_to(self) -> tuple[str, ...]:
        member = self.node.member
        return member.carrying.waits_for if member is not None else ()

    def _step(self, act: Callable[[GroupNode, int], object]) -> None:
        if self._disk.why is not None:
            return
        now = self._clock()
        try:
            act(self.node, now)
        except Exception as error:
            self._failed(error)
            return
        self._finish(now)

    def _finish(self, now: int, answers: Sequence[Answer[Sent]] = ()) -> None:
        """A step has been taken: write it down, then let it have its consequences."""
        if self._disk.why is not None:
            refuse([future for future, _ in answers], refused(self._disk.why))
            return
        try:
            self._sink.taking(now)
            if self._sample is not None and (self.taken >= self._sample[1] or not self.node.waiting):
                self.on_delivery(self._clock() - self._sample[0])
                self._sample = None
            effects, log = self.node.commit(now), self.log
            if log is not None:
                self._log_effects(log, effects)
            rows = self._diaries.take()
            packets = by_process(self.node.posts)
            if packets or answers or rows:
                self._consequences.add(Step(log, log.tail if log else 0, rows, packets, answers))
            if self._consequences:  # a log that was replaced, or left behind, tells of no sync any more
                self._follow()
            self._plan()
            if self.backlog and not self.node.in_debt:
                self._settling.soon()
            self._sink.stepped(now)
        except Exception as error:
            refuse([future for future, _ in answers], refused(stopper(error), self._never_was(error)))
            self._failed(error)
            return
        if self._disk.why is None and self._checkpoints.look(now):
            self._checkpoint(now)

    def _follow(self) -> None:
        if self._diaries.waiting:
            return  # rows of an earlier step
        try:
            self._consequences.follow()
        except Exception as error:
            self._failed(error)

    # Time

    def _plan(self) -> None:
        at = min(self.node.wake_at, self._log_wake_at, self.backlog.wake_at)
        if at != NEVER:
            self._alarm.set(at)

    def _wake(self) -> None:
        if self._disk.why is not None:
            return
        now = self._clock()
        log = self.log
        try:
            if now >= self._log_wake_at:
                self._log_wake_at = NEVER
                if log is not None:
                    self._log_effects(log, log.wake(now))
            if now >= self.node.wake_at:
                self.node.wake(now)
        except Exception as error:
            self._failed(error)
            return
        if now >= self.backlog.wake_at:
            self._settling.soon()
        self._finish(now)

    def _checkpoint(self, now: int) -> None:
        """Shorten the way back after a restart, if the log has grown enough to be worth it."""
        log, waiting = self.log, self._consequences
        try:
            self._shelf.catch_up()
            if log is None or not self._checkpoints.wanted(log):
                return
            if waiting:
                log.sync(now)  # what the log forgets cannot be added to a trace later: rows first
                self._follow()
            if self._disk.why is None and not waiting and self.node.checkpoint(now):
                self._checkpoints.made(log)
        except Exception as error:
            self._failed(error)

    # The log

    def _log_effects(self, log: OpLog, effects: Sequence[Sync | Wake]) -> None:
        for effect in effects:
            if isinstance(effect, Wake):
                self._log_wake_at = min(self._log_wake_at, effect.at)
                continue
            self._syncing.begin(log, self._shelf.files(self.node.number), effect)

    def _synced(self, log: OpLog, sync: Sync) -> None:
        if self._disk.why is not None:
            return
        now = self._clock()
        try:
            self._log_effects(log, log.synced(sync, now))
            self._follow()
            self._plan()
            self._sink.stepped(now)
        except Exception as error:
            self._failed(error)

    # Trouble

    def _failed(self, error: Exception) -> None:
        """The step that was under way never happened. What is not the disk's trouble is a bug, of ours or the
        program's, and nobody knows what a process would do that went on after one."""
        if not self._never_was(error):
            self._break(stopper(error))
            return
        assert isinstance(error, StorageError)
        self._diaries.take_back()
        self.node.posts.clear()
        self._disk.begin(error)

    def _never_was(self, error: Exception) -> bool:
        """The disk did not take the step, and what it holds is known."""
        return isinstance(error, StorageError) and (self.log is None or self.log.broken is None)

    def _probe(self) -> None:
        """Is there room again? Then begin anew, from the disk."""
        try:
            self._diaries.write_waiting()
            self._shelf.let_go()
            node = self._make(self._clock())
        except StorageError as error:
            self._disk.goes_on(error)
            self._diaries.take_back()
            return
        except Exception as error:
            self._failed(error)
            return
        self.node = node
        self._disk.over()
        self._follow()
        self._finish(self._clock())

    def stops(self, error: Exception) -> None:
        """Something went wrong outside of a step that is no peer's fault."""
        self._break(stopper(error))

    def _break(self, error: ThenceError) -> None:
        self._diaries.take_back()
        self._disk.last(error)

    async def close(self) -> bool:
        """Everything committed and synced that can be; no timer or task is left. Whether that went well."""
        if self._disk.why is None:
            self._settling.now()
        refuse([future for _, future in self.backlog.take()], UsageError("not sent: the node was closed"))
        await self._syncing.over()
        self._disk.stop_looking()
        for part in (self._alarm, self._settling):
            part.close()
        well = self.trouble is None
        try:
            if well and self.log is not None:
                self.log.close(self._clock())
            if well:
                self._follow()
        finally:
            self._disk.close()
        return well
