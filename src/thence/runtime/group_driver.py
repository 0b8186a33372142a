"""Runs one process of a changing group: each step's effects, in the order that keeps its promises.

The counterpart of `driver` for `replica.group.GroupNode`: input, what the application takes, commit, trace,
packets (docs/protocols/live.md). Nothing about membership is decided here.

Invariants. Nothing leaves before it is committed, under `always` not before it is synced. A step that could
not be committed never happened: its packets and rows are dropped, links begin anew, and the process is built
again from its disk as after a crash, as soon as that takes writes; until then the driver is in `trouble`. If
a sync fails, or something that cannot happen does, the node must end: `broken`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Final, NamedTuple, Protocol

from thence.core.errors import PeerError, StorageError, ThenceError, UsageError
from thence.core.group_codec import decode, encode
from thence.core.groups import GroupPacket, Piece, Place
from thence.core.machine import Wake
from thence.oplog.log import OpLog
from thence.oplog.policy import Sync
from thence.replica.group import NEVER, GroupNode
from thence.runtime.asked import Asked, refuse, refused
from thence.runtime.diaries import Diaries, Rows
from thence.runtime.files import DiskFiles
from thence.runtime.pacing import Clock
from thence.runtime.shelf import DiskShelf

PROBE_EVERY_S: Final = 1.0
"""How often a full disk is tried again."""

CHECKPOINT_BYTES: Final = 8 << 20
"""Of log since the last one: a restart reads that again in well under a second."""

CHECKPOINT_EVERY_US: Final = 10_000_000
"""At most so often: it writes down everything that is not stable."""


class Outlet(Protocol):
    """Where packets go, by the name of a process."""

    def send(self, process: str, packets: Sequence[bytes]) -> None: ...

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


Answer = tuple["asyncio.Future[list[Place]]", list[Place]]
"""Whoever asked for a broadcast, and what became of it."""


class _Leaving(NamedTuple):
    """What may leave once `log` is durable up to a position."""

    log: OpLog | None
    position: int
    rows: Rows
    packets: dict[str, list[bytes]]
    answers: Sequence["Answer"]


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
        always: bool = False,
    ) -> None:
        """`make` builds the process from what is on its disk, as `node` was."""
        self._make: Final = make
        self._shelf: Final = shelf
        self._diaries: Final = diaries
        self._outlet: Final = outlet
        self._sink: Final = sink
        self._clock: Final = clock
        self._syncer: Final = syncer
        self._always: Final = always
        self._loop: Final = asyncio.get_running_loop()
        self._held: deque[_Leaving] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER
        self._log_wake_at = NEVER
        self._settling: asyncio.Handle | None = None
        self._asked: Final = Asked[Place](self._loop)
        self._syncing: set[asyncio.Task[None]] = set()
        self._probing: asyncio.TimerHandle | None = None
        self._checkpoint_at = clock() + CHECKPOINT_EVERY_US
        self._checkpointed: tuple[OpLog | None, int] = (None, 0)
        self.trouble: StorageError | None = None
        """Why nothing is written at present."""
        self.broken: asyncio.Future[StorageError] = self._loop.create_future()
        """Done when nothing ever will be."""
        self.bug: Exception | None = None
        """Why, if it is nobody's fault but ours."""
        self.on_delivery: Callable[[int], None] = lambda _: None
        self._sample: tuple[int, int] | None = None
        """When something arrived, and how much will have been taken when that is."""
        self.syncs = 0
        self.sent = 0
        self.taken = 0
        self.node = node

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
        del process
        if self.trouble is not None:
            return  # the link is about to go down, and all of this comes again
        garbage: PeerError | None = None
        try:
            for data in packets:
                if not self._receive(decode(data), now):
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

    def _receive(self, packet: GroupPacket, now: int) -> bool:
        """Whether the driver is well afterwards."""
        if isinstance(packet, Piece):
            # It may replace the incarnation, and whatever the old one did belongs into the old one's log.
            self._finish(now)
            if self.trouble is not None:
                return False
        self.node.receive(packet, now)
        if isinstance(packet, Piece):
            self._finish(now)
        return self.trouble is None

    def call(self, asked: Callable[[GroupNode, int], object]) -> None:
        """Something that a person or a program asks of the process. `UsageError` if it makes no sense."""
        if self.trouble is not None:
            raise refused(self.trouble)
        now = self._clock()
        try:
            asked(self.node, now)
        except UsageError:
            raise  # it was refused before anything was done
        except Exception as error:
            self._failed(error)
            raise refused(self.trouble or StorageError(str(error))) from error
        self._finish(now)

    def publish(self, payloads: Sequence[bytes]) -> "asyncio.Future[list[Place]]":
        """Broadcast these. All that is asked for before the loop comes round goes into one commit."""
        why = refused(self.trouble) if self.trouble is not None else None
        if why is None:
            self._settle_soon()
        return self._asked.add(payloads, why)

    def take(self) -> "asyncio.Future[list[Place]]":
        """The application takes the next message. It may be told of it when the future is done: then it is
        certain that it will not come again. `StorageError`: it was not taken."""
        future: asyncio.Future[list[Place]] = self._loop.create_future()
        if self.trouble is not None:
            future.set_exception(refused(self.trouble))
            return future
        now = self._clock()
        try:
            self.node.take(now)
        except Exception as error:
            refuse([future], refused(StorageError(str(error))))
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

    def _settle_soon(self) -> None:
        if self._settling is None:
            self._settling = self._loop.call_soon(self._settle)

    def _settle(self) -> None:
        """Everything that was put off until the loop came round."""
        self._settling = None
        if self.trouble is not None:
            return
        now = self._clock()
        batch = self._asked.take()
        answers: list[Answer] = []
        try:
            for payloads, future in batch:
                try:
                    places = [self.node.broadcast(payload, now) for payload in payloads]
                except UsageError as error:
                    refuse([future], error)
                    continue
                self.sent += len(places)
                answers.append((future, places))
        except Exception as error:
            refuse([future for _, future in batch], refused(StorageError(str(error))))
            self._failed(error)
            return
        self._finish(now, answers)

    def _step(self, act: Callable[[GroupNode, int], object]) -> None:
        if self.trouble is not None:
            return
        now = self._clock()
        try:
            act(self.node, now)
        except Exception as error:
            self._failed(error)
            return
        self._finish(now)

    def _finish(self, now: int, answers: Sequence[Answer] = ()) -> None:
        """A step has been taken: write it down, then let it have its consequences."""
        if self.trouble is not None:
            refuse([future for future, _ in answers], refused(self.trouble))
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
        except Exception as error:
            refuse([future for future, _ in answers], refused(StorageError(str(error))))
            self._failed(error)
            return
        packets = self._encoded()
        if packets or answers or rows:
            self._held.append(_Leaving(log, log.tail if log else 0, rows, packets, answers))
            self._leave()
        self._plan()
        self._sink.stepped(now)
        if self.trouble is None and now >= self._checkpoint_at:
            self._checkpoint(now)

    def _encoded(self) -> dict[str, list[bytes]]:
        packets: dict[str, list[bytes]] = {}
        known: dict[int, bytes] = {}  # the same packet often goes to several
        posts = self.node.posts
        for post in posts:
            data = known.get(id(post.packet))
            if data is None:
                data = known[id(post.packet)] = encode(post.packet)
            packets.setdefault(post.to, []).append(data)
        posts.clear()
        return packets

    def _leave(self) -> None:
        """In order, and nothing while rows of an earlier step could not be written."""
        if self._diaries.waiting:
            return
        held = self._held
        while held and self._may_leave(held[0]):
            leaving = held.popleft()
            try:
                for place, (trace, data) in enumerate(leaving.rows):
                    left = leaving.rows[place + 1 :]
                    trace.write(data)
            except StorageError as error:  # the trace keeps what it was given
                held.appendleft(leaving._replace(rows=left))
                self._failed(error)
                return
            try:
                for process, packets in leaving.packets.items():
                    self._outlet.send(process, packets)
            except Exception as error:
                held.appendleft(leaving._replace(rows=[], packets={}))
                self._failed(error)
                return
            for future, places in leaving.answers:
                if not future.done():
                    future.set_result(places)

    def _may_leave(self, leaving: _Leaving) -> bool:
        """An incarnation that was replaced never comes back: what it said needs no log any more."""
        if not self._always or leaving.log is None or leaving.log is not self.log:
            return True
        return leaving.position <= leaving.log.durable

    # Time

    def _plan(self) -> None:
        at = min(self.node.wake_at, self._log_wake_at)
        if at == NEVER or (self._timer is not None and self._timer_at <= at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_later(max(0, at - self._clock()) / 1e6, self._wake)

    def _wake(self) -> None:
        self._timer = None
        if self.trouble is not None:
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
        self._finish(now)

    def _checkpoint(self, now: int) -> None:
        """Shorten the way back after a restart, if the log has grown enough to be worth it."""
        self._checkpoint_at = now + CHECKPOINT_EVERY_US
        log, (before, size) = self.log, self._checkpointed
        try:
            self._shelf.catch_up()
            if log is None or log.appended_bytes - (size if log is before else 0) < CHECKPOINT_BYTES:
                return
            if self._held:
                log.sync(now)  # what the log forgets cannot be added to a trace later: rows first
                self._leave()
            if self.trouble is None and not self._held and self.node.checkpoint(now):
                self._checkpointed = log, log.appended_bytes
        except Exception as error:
            self._failed(error)

    # The log

    def _log_effects(self, log: OpLog, effects: Sequence[Sync | Wake]) -> None:
        for effect in effects:
            if isinstance(effect, Wake):
                self._log_wake_at = min(self._log_wake_at, effect.at)
                continue
            task = self._loop.create_task(self._sync(log, self._shelf.files(self.node.number), effect))
            self._syncing.add(task)
            task.add_done_callback(self._syncing.discard)

    async def _sync(self, log: OpLog, files: DiskFiles, sync: Sync) -> None:
        try:
            await self._loop.run_in_executor(self._syncer, files.sync, sync.file)
        except ThenceError as error:
            if log is not self.log:
                return  # of an incarnation that was replaced, or a log that was opened anew
            why = StorageError(str(error))
            log.sync_failed(sync, why, self._clock())
            if log.durable < sync.position:
                self._break(why)
            return
        if log is not self.log or self.trouble is not None:
            return
        self.syncs += 1
        now = self._clock()
        self._log_effects(log, log.synced(sync, now))
        self._leave()
        self._plan()
        self._sink.stepped(now)

    # Trouble

    def _failed(self, error: Exception) -> None:
        """The step that was under way never happened. What is not the disk's trouble is a bug, and nobody
        knows what a process would do that went on after one."""
        if not isinstance(error, StorageError):
            self._break(StorageError(f"{type(error).__name__}: {error}"), error)
            return
        if self.log is not None and self.log.broken is not None:
            self._break(error)
            return
        self.trouble = error
        self._diaries.take_back()
        self.node.posts.clear()
        # What is committed reaches the others when links are back, and its answers wait for the disk.
        self._held = deque([held._replace(packets={}) for held in self._held])
        self._asked.refuse(refused(error))
        self._outlet.begin_anew(str(error))
        self._probe_later()

    def _probe_later(self) -> None:
        if self._probing is None:
            self._probing = self._loop.call_later(PROBE_EVERY_S, self._probe)

    def _probe(self) -> None:
        """Is there room again? Then begin anew, from the disk."""
        self._probing = None
        if self.broken.done():
            return
        try:
            self._diaries.write_waiting()
            self._shelf.let_go()
            node = self._make(self._clock())
        except StorageError as error:
            self.trouble = error
            self._diaries.take_back()
            self._probe_later()
            return
        except Exception as error:
            self._failed(error)
            return
        self.node = node
        self.trouble = None
        self._leave()
        self._finish(self._clock())

    def _break(self, error: StorageError, bug: Exception | None = None) -> None:
        self.trouble = error
        self.bug = self.bug or bug
        self._diaries.take_back()
        self._give_up(refused(error))
        self._outlet.begin_anew(str(error))
        if not self.broken.done():
            self.broken.set_result(error)

    def _give_up(self, error: StorageError) -> None:
        refuse([future for held in self._held for future, _ in held.answers], error)
        self._held.clear()
        self._asked.refuse(error)

    async def close(self) -> bool:
        """Everything committed and synced that can be; no timer or task is left. Whether that went well."""
        if self.trouble is None:
            self._settle()
        while self._syncing:  # one may ask for another
            await asyncio.wait(list(self._syncing))
        for timer in (self._timer, self._probing, self._settling):
            if timer is not None:
                timer.cancel()
        well = self.trouble is None
        try:
            if well and self.log is not None:
                self.log.close(self._clock())
            if well:
                self._leave()
        finally:
            self._give_up(StorageError("the node was closed before it was certain that this is written"))
            self.trouble = self.trouble or StorageError("this node is closed")
        return well
