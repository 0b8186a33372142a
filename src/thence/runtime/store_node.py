"""A node whose program is a store: turns of commands, their operations, stability, expiry.

All commands that wait are executed in one turn, and their operations are broadcast before anything else
happens to the node: nothing is delivered between a command and its operation, so that what a command saw is
what its operation follows from. Replies of a turn leave when its operations are in the log, and under
`sync = always` on the disk.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from random import Random
from typing import Any, Final

from thence.core.errors import OthersStateError, ThenceError, UsageError
from thence.core.groups import Place, process_of, told_apart
from thence.replica.events import Orphaned
from thence.replica.group.surroundings import Orphan
from thence.replica.life_tag import LifeTag, Sent
from thence.runtime.allocator import Surplus
from thence.runtime.group_report import lag_of
from thence.runtime.instruments import resident_bytes
from thence.runtime.logs import NodeLog
from thence.runtime.making import make_node
from thence.runtime.node import Node
from thence.runtime.pacing import Clock
from thence.runtime.peer import LinkStatus
from thence.runtime.program import Occurrence, Program
from thence.runtime.settings import NodeSettings
from thence.runtime.store_returning import Returning
from thence.store import commands, ops
from thence.store.executor import LOADING, Executor
from thence.store.host import Later, MemberSeen
from thence.store.replicated import ReplicatedStore
from thence.store.reply import Reply
from thence.store.sessions import cluster_id
from thence.store.state import Mark, StoreState

REAP_EVERY_S: Final = 0.1
REAP_AFTER_MS: Final = 100
"""After a deadline, of the first member by name; each further one waits a second longer."""
REAP_NEXT_MS: Final = 1000
TURN_US: Final = 20_000
"""When a turn has taken so long, the others that wait are in the next one."""
GROWN: Final = 10_000
"""Keys from which on it is told that there are twice as many as before."""
LOOKS: Final = 256
"""So many of those that wait for something are looked at after a step; the others after later ones."""
SKEW_MS_MAX: Final = 5000
"""A node whose clock is behind the group's by more does not reap."""

_ = commands


class StoreProgram(Program):
    """A program that is a store: it also hears of orphans."""

    def __init__(
        self,
        replicated: ReplicatedStore,
        on_orphan: Callable[[Orphaned], None],
        on_return: Callable[[Orphan | None], None] = lambda _: None,
    ) -> None:
        super().__init__(replicated, lambda _: False)
        self._store: Final = replicated.store
        self._on_orphan: Final = on_orphan
        self._on_return: Final = on_return

    def sends_again(self, orphan: Orphan) -> bool:
        """The middleware does not: the store makes something else of it."""
        self._on_return(orphan)
        return super().sends_again(orphan)

    def install(self, state: bytes) -> None:
        self._on_return(None)
        if not state:  # an empty store has one as well
            raise OthersStateError(
                "this is the state of a node without a store: all nodes of a group have one, or none"
            )
        super().install(state)

    def stable(self, found: Sequence[LifeTag]) -> None:
        """The store is told when the step is in the log; operations that came before may wait until then,
        too."""
        self._store.known(found)
        super().stable(found)

    def tell(self, events: Sequence[Occurrence]) -> None:
        super().tell(events)
        for event in events:
            if isinstance(event, Orphaned):
                self._on_orphan(event)
        while self.next() is not None:
            pass


class StoreNode:
    """`host.Host`, and the turns."""

    def __init__(self, settings: NodeSettings, log: NodeLog, clock: Clock) -> None:
        if settings.order == "none":
            raise UsageError("a store needs to know what was seen: order graph or vector, not none")
        self.state: Final = StoreState(f"{settings.name}~0", settings.set_wins == "remove")
        self.refusal: str | None = LOADING
        self.loading = True
        self.replicated: Final = ReplicatedStore(self.state)
        self.engine: Final = Executor(self.state, clock, Random(os.urandom(16)), self)
        self.engine.cluster = cluster_id(settings.cluster)
        self.engine.config.fix("set-wins", settings.set_wins)
        self.engine.config.fix("appendfsync", settings.log.sync)
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self.engine.facts.update(
            pid=os.getpid(), run_id=os.urandom(20).hex(), stop=self._stop, cpu=os.times, warn=log.warn,
            blocked=lambda: len(self._blocked) + len(self.engine.held), memory=memory,
        )  # fmt: skip
        self._returning: Final = Returning(settings.name, settings.data, self.engine, log)
        self._program: Final = StoreProgram(self.replicated, self._orphaned, self._returning.decided)
        self.node: Final[Node] = make_node(settings, self._program, log, clock)
        self.says: Final = log
        self._clock: Final = clock
        self._waiting: deque[Callable[[], None]] = deque()
        """What is to be executed in the next turn."""
        self._turn: asyncio.Handle | None = None
        self._in_turn = False
        self._after: list[Callable[[asyncio.Future[Sequence[Sent]] | None], None]] = []
        self._tainted = -1
        """How many states there had been when a write took effect here that was never made."""
        self._installs = 0
        self._blocked: dict[Callable[[Reply], None], Later] = {}
        """Who waits, and for what."""
        self._reaper: asyncio.TimerHandle | None = None
        self._closed = False
        self.sent: asyncio.Future[Sequence[Sent]] | None = None
        """Of the turn that was last: when its operations are in the log."""
        self._told_skew = False
        self._grown = GROWN
        """How many keys there were when that was told."""
        self.on_grown: Callable[[], None] = lambda: None
        self.surplus: Final = Surplus(resident_bytes)

    async def start(self) -> None:
        await self.node.start()
        before = self.node.on_step

        def stepped() -> None:
            before()
            if self._blocked:
                self._look()

        self.node.on_step = stepped
        self._reaper = asyncio.get_running_loop().call_later(REAP_EVERY_S, self._reap)

    async def entered(self) -> None:
        await self.node.entered()

    async def close(self) -> None:
        self._closed = True
        if self._reaper is not None:
            self._reaper.cancel()
        await self.node.close()
        self._returning.close()

    def _stop(self) -> None:
        self.node.stop()

    # Turns

    def soon(self, act: Callable[[], None]) -> None:
        """In the next turn, with all else that waits for it. `after` tells when replies may leave."""
        self._waiting.append(act)
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._take_turn)

    def soon_after(self, act: "Callable[[asyncio.Future[Sequence[Sent]] | None], None]") -> None:
        """When this turn is over, with what tells that its operations are in the log."""
        if self._in_turn:
            self._after.append(act)
        else:
            act(None)

    def _take_turn(self) -> None:
        self._turn = None
        self._in_turn = True
        self._begin()
        waiting, engine = self._waiting, self.engine
        until = self._clock() + TURN_US
        for _ in range(len(waiting)):
            waiting.popleft()()
            if engine.ended > until:
                break
        if waiting and self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._take_turn)
        self._broadcast()
        self._returning.acted(self.sent)
        self._in_turn = False
        after, self._after = self._after, []
        for act in after:
            act(self.sent)

    def _begin(self) -> None:
        self.sent = None
        self.refusal = self._why_not()
        self.loading = not self.node.is_in.is_set() or self._tainted == self.replicated.installs
        if self.refusal is None:
            # Operations follow from all that the machine has taken, durable or not: commands must see it.
            self._program.catch_up()
            self.state.become(self.node.running.machine.me)
            self._returning.act()

    def _why_not(self) -> str | None:
        driver = self.node.driver
        if driver is None:
            return LOADING
        if driver.trouble is not None:
            return f"MISCONF Errors writing to the log: {driver.trouble}"
        if self.node.state != "running" or driver.machine.in_debt:
            return LOADING
        return None

    def _broadcast(self) -> None:
        """All operations of the turn, in one step."""
        made = self.engine.outbox
        if not made:
            return
        self.engine.outbox = []
        driver = self.node.running
        sent = self.sent = driver.publish(made)
        driver.settle()
        if sent.done():
            self._made(sent)
        else:
            sent.add_done_callback(self._made)
        if self._blocked:
            self._look()

    def _made(self, done: "asyncio.Future[Sequence[Sent]]") -> None:
        if done.cancelled() or (error := done.exception()) is not None:
            self._tainted = self.replicated.installs
            driver = self.node.driver
            if driver is not None and driver.trouble is None:  # else machine and state are built anew
                self.says.error("operations took effect here and could not be sent", why=str(error))
                self.node.stop()

    # What has to be waited for

    def wait(self, later: Later, answer: Callable[[Reply], None]) -> None:
        """`answer` is called once, with the reply."""
        found = later.look()
        if found is not None:
            answer(found)
            return
        self._blocked[answer] = later
        if later.timeout_ms:
            asyncio.get_running_loop().call_later(later.timeout_ms / 1000, self._too_late, answer, later)

    def give_up(self, answer: Callable[[Reply], None]) -> Later | None:
        """This is not waited for any more."""
        return self._blocked.pop(answer, None)

    def _too_late(self, answer: Callable[[Reply], None], later: Later) -> None:
        if self._blocked.get(answer) is later:
            del self._blocked[answer]
            answer(later.too_late())

    def _look(self, most: int = LOOKS) -> None:
        """Some, those that were looked at longest ago: there may be thousands."""
        for answer, later in list(islice(self._blocked.items(), most)):
            if self._blocked.pop(answer, None) is None:
                continue
            found = later.look()
            if found is None:
                self._blocked[answer] = later
            else:
                answer(found)

    # Expiry

    def _reap(self) -> None:
        if self._closed:
            return
        self._reaper = asyncio.get_running_loop().call_later(REAP_EVERY_S, self._reap)
        self._look(len(self._blocked))
        self.engine.sample(resident := resident_bytes())
        self.surplus.look(resident, self.state.unstable > 0)
        keys = sum(len(base.keys) for base in self.state.space.databases)
        if keys > 2 * self._grown:
            self._grown = keys
            self.on_grown()
        if self._returning.unsure:
            self.soon(lambda: None)
        upto = self._reaps_upto()
        if upto is not None and self.state.space.overdue(upto):
            self.soon(lambda: self._reap_now(upto))

    def _reaps_upto(self) -> int | None:
        if self._why_not() is not None:
            return None
        now = self._clock() // 1000
        ahead = (self.state.time >> 16) - now
        if ahead > SKEW_MS_MAX:
            if not self._told_skew:
                self._told_skew = True
                self.says.warn("this clock is behind those of others: nothing is reaped here", ms=ahead)
            return None
        machine = self.node.running.machine
        rank = sorted(machine.members).index(machine.me) if machine.me in machine.members else 0
        return now - REAP_AFTER_MS - rank * REAP_NEXT_MS

    def _reap_now(self, upto: int) -> None:
        if self.refusal is None and self.state.space.overdue(upto):
            self.engine.perform([[ops.REAP, 0, b"", 0, 0, upto]])

    # Orphans

    def _orphaned(self, orphan: Orphaned) -> None:
        self._returning.told(orphan)
        self.soon(lambda: None)

    # `Host`

    def members(self) -> list[MemberSeen]:
        driver = self.node.driver
        if driver is None:
            return []
        try:
            names = sorted(driver.machine.members)
        except UsageError:
            return []
        links = self.node.link_status()
        return [self._seen(name, links.get(process_of(name))) for name in names]

    def _seen(self, name: str, link: LinkStatus | None) -> MemberSeen:
        if process_of(name) == self.node.settings.name:
            return MemberSeen(name, "here", 0, self.node.address)
        lag = lag_of(self._member(), name)
        if link is None:
            return MemberSeen(name, "unlinked", lag)
        state = "cut" if link.cut else "up" if link.up else "down"
        return MemberSeen(name, state, lag, str(link.address) if link.address.host else "")

    def reached(self, mark: Mark) -> int:
        tag, driver = mark.tag, self.node.driver
        if not isinstance(tag, LifeTag) or driver is None:
            return 0
        others = len(driver.machine.members) - 1
        try:
            while others > 0 and not driver.machine.has_reached(tag, others + 1):
                others -= 1
        except (UsageError, ThenceError):
            return 0
        return max(0, others)

    def saw(self, mark: Mark) -> list[Place]:
        member = self._member()
        if member is None or not isinstance(mark.tag, LifeTag) or mark.tag.inner is None:
            return []
        return [member.ledger.place(dot) for dot in mark.tag.inner.context]

    def delivered(self) -> dict[str, int]:
        driver = self.node.driver
        return {} if driver is None else driver.machine.delivered()

    def exactly(self) -> dict[str, int]:
        member, here = self._member(), self.delivered()
        return here if member is None else dict(map(member.ledger.timelines.exactly, here.items()))

    def has_delivered(self, origin: str, seq: int) -> bool:
        driver, member = self.node.driver, self._member()
        if driver is None:
            return False
        return driver.machine.has_delivered((origin, seq)) or (
            member is not None and origin in member.view.past
        )

    def is_elsewhere(self, origin: str, seq: int) -> bool:
        """So many messages of that incarnation are here, and none was sent under that start."""
        member, (name, start) = self._member(), told_apart(origin)
        if member is None or not start or seq > member.ledger.count(name):
            return False
        timelines = member.ledger.timelines
        starts = timelines.starts.get(name, ())
        return bool(starts) and origin not in timelines.branches and start not in dict(starts).values()

    def _member(self) -> Any:
        """Of a group that may change: what its member knows."""
        driver = self.node.driver
        return None if driver is None else getattr(driver.machine, "member", None)
