"""What people and programs ask of a node in a changing group (`control.Controlled`), and what it tells."""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from thence.core.errors import UsageError
from thence.core.group_sizes import payload_max
from thence.core.groups import Place, Sent, process_of
from thence.runtime.asked import must_fit
from thence.runtime.group_report import rollback_of, status_of
from thence.runtime.instruments import Instruments
from thence.runtime.load import Load, Loader
from thence.runtime.report import unwell
from thence.runtime.status import LoadStatus, Status

if TYPE_CHECKING:
    from thence.runtime.group_driver import GroupDriver
    from thence.runtime.group_node import ChangingNode

SAMPLES: Final = 1024
"""Own messages whose way to stability is being measured at most."""


class Controls:
    def __init__(self, node: "ChangingNode") -> None:
        self._node: Final = node
        self.loader: Final = Loader(self.publish)
        self.instruments: Final = Instruments(self.status)
        self._sent: deque[tuple[Place, int]] = deque()
        """Some of the own messages that are not stable, and when they were sent."""

    @property
    def _driver(self) -> "GroupDriver":
        node = self._node
        if node.driver is None:
            raise UsageError(f"{node.settings.name} is {node.state}: it is no member yet")
        return node.driver

    async def broadcast(self, payload: bytes) -> Place:
        [place] = await self.publish([payload])
        return place

    async def publish(self, payloads: Sequence[bytes]) -> list[Place]:
        return [place for place, _ in await self.send(payloads)]

    async def send(self, payloads: Sequence[bytes]) -> list[Sent]:
        must_fit(payloads, payload_max(self._node.settings.links.frame_bytes_max))
        at, sent = self._node.now(), await self._driver.publish(payloads)
        if len(self._sent) < SAMPLES:
            self._sent.append((sent[0][0], at))
        return sent

    def stepped(self, now: int) -> None:
        member = self._driver.node.member
        while self._sent and member is not None:
            (origin, seq), at = self._sent[0]
            if origin == member.me and member.ledger.stable(origin) < seq:
                return
            self._sent.popleft()
            if origin == member.me:
                self.instruments.stability.observe(now - at)

    async def load(self, load: Load) -> None:
        await self.loader.start(load)

    def load_status(self) -> LoadStatus | None:
        return self.loader.status()

    def leave(self, force: bool = False) -> None:
        member = self._driver.node.member
        if member is not None and not force and member.view.side == {member.me}:
            missing = ", ".join(sorted({process_of(name) for name in member.view.evicted()}))
            if missing:
                raise UsageError(
                    f"{member.me} is the last member, and what it has would be lost for {missing}, evicted, "
                    "which may come back: stop it instead, or say --force"
                )
        self._driver.call(lambda node, now: node.leave(now))

    def evict(self, who: str, force: bool = False) -> str:
        self._check_evictable(who, force)
        evicted: list[str] = []
        self._driver.call(lambda node, now: evicted.append(node.evict(who, now)))
        return evicted[0]

    def bury(self, who: str) -> None:
        """One that was evicted never comes back with what it had: nothing is kept for it any more."""
        self._driver.call(lambda node, now: node.bury(process_of(who), now))

    def _check_evictable(self, who: str, force: bool) -> None:
        member = self._driver.node.member
        if member is None:
            return  # it says so itself
        process = process_of(who)
        if process == self._node.settings.name:
            raise UsageError(f"{who} is this node itself: let it leave instead")
        there = sorted(process_of(name) for name in member.view.side)
        if process not in there:
            alone = "nobody else is a member" if len(there) == 1 else f"there is {', '.join(there)}"
            raise UsageError(f"{who} is not a member, or is being evicted already: {alone}")
        if not force and self._node.neighbours is not None and self._node.neighbours.linked(process):
            raise UsageError(f"{who} answers and would come back: let it leave, or say --force")

    def fault(self, what: str, peer: str | None, delay_us: int) -> None:
        if self._node.neighbours is None:
            raise UsageError(f"{self._node.settings.name} has no links yet")
        self._node.neighbours.fault(what, peer, delay_us)

    def metrics(self) -> str:
        return self.instruments.render()

    def health(self) -> str | None:
        node = self._node
        if node.driver is not None and node.driver.trouble is not None:
            return unwell(node.driver.trouble, node.driver.broken.done())
        if why := rollback_of(node):
            return f"put back to an earlier state: {why}"
        if node.driver is None or node.driver.node.member is None or node.state in ("starting", "draining"):
            return f"this node is {node.state}"
        return None

    def status(self) -> Status:
        return status_of(self._node)

    def stop(self) -> None:
        self._node.stop()
