"""Edge trees by hand: a quiet world in which directions are held up, nodes crash, and the trace is judged."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from thence.check import judge
from thence.core.edge import EdgeDown, EdgePacket, EdgeUp
from thence.sim.air import Air
from thence.sim.edge import EdgeWorld
from thence.sim.edge_storm import EdgeStorm
from thence.sim.edge_weather import draw_edge
from thence.spread.edge_book import EdgeSettings

MS = 1_000
SECOND = 1_000 * MS


def _receive(node: Any, sender: str, packet: EdgePacket, now: int) -> None:
    node.receive(sender, packet, now)


class Grove:
    """Links take 10 ms and never break by themselves. Nodes are attached and have joined before it begins."""

    def __init__(
        self, parents: Mapping[str, str], delta: int, members: Mapping[str, Sequence[str]], **settings: int
    ) -> None:
        chosen: dict[str, int] = {
            "heartbeat_us": 100 * MS, "suspect_us": 400 * MS, "drop_us": 800 * MS, "attach_us": 200 * MS,
            "probe_us": 50 * MS, "linger_us": 500 * MS, "keep_us": 0, "alone_us": 60 * SECOND, "status_us": 0,
        } | settings  # fmt: skip
        self.world = EdgeWorld(
            1,
            parents,
            Air(jitter_us=0, links=True, wire=False),
            replace(EdgeSettings(delta=delta), **chosen),  # type: ignore[arg-type]  # numbers all
        )
        self.world.filter = self._filter
        self._held: dict[tuple[str, str], list[EdgePacket]] = {}
        self._sessions: set[tuple[str, str]] = set()
        self.watch: Callable[[str, str, EdgePacket], None] = lambda sender, receiver, packet: None  # noqa: ARG005
        for name in parents:
            self.world.boot(name)
            self.run(100)
        for group, names in members.items():
            for name in names:
                self.world.join(name, group)
        self.settle()

    def _filter(self, sender: str, receiver: str, packet: EdgePacket) -> EdgePacket | None:
        self.watch(sender, receiver, packet)
        held = self._held.get((sender, receiver))
        if held is None or (
            (sender, receiver) in self._sessions and not isinstance(packet, EdgeUp | EdgeDown)
        ):
            return packet
        held.append(packet)
        return None

    def hold(self, *pairs: tuple[str, str]) -> None:
        """What goes in these directions waits."""
        for pair in pairs:
            self._held.setdefault(pair, [])

    def hold_session(self, *pairs: tuple[str, str]) -> None:
        """The same, but for what is said outside of sessions."""
        self.hold(*pairs)
        self._sessions.update(pairs)

    def release(self, *pairs: tuple[str, str]) -> None:
        for pair in pairs or tuple(self._held):
            for packet in self._held.pop(pair, []):
                self.world.forge(*pair, packet)

    def hand(self, sender: str, receiver: str) -> None:
        """What waits arrives now: the sender has heard that the link broke, the receiver has not."""
        now = self.world.now
        for packet in self._held.pop((sender, receiver)):
            self.world.call(receiver, partial(_receive, sender=sender, packet=packet, now=now))

    def lose(self, *pairs: tuple[str, str]) -> None:
        """What waits is lost, and the direction is open again."""
        for pair in pairs:
            self._held.pop(pair, None)

    def run(self, ms: int = 300) -> None:
        self.world.run(self.world.now + ms * MS)

    def until(self, condition: Callable[[], bool]) -> None:
        """A millisecond after the other, up to ten seconds."""
        for _ in range(10_000):
            if condition():
                return
            self.run(1)
        raise AssertionError("late: it never happens")

    def send(self, name: str, *groups: str) -> None:
        """A message to each of these, in one turn."""
        self.world.send(name, *groups)

    def crash(self, *names: str) -> None:
        """What these had sent, and did not arrive, is lost."""
        for name in names:
            self.world.crash(name)
            for pair in [pair for pair in self._held if name in pair]:
                self.lose(pair)

    def die(self, *names: str) -> None:
        self.crash(*names)
        for name in names:
            self.world.processes[name].dead = True

    def node(self, name: str) -> Any:
        node = self.world.processes[name].node
        assert node is not None, f"down: {name}"
        return node

    def has_left(self, name: str) -> bool:
        return self.world.processes[name].left

    def got(self, name: str, group: str) -> list[tuple[str, int]]:
        return list(self.world.processes[name].application.groups.get(group, []))

    def chain(self, name: str) -> tuple[str, ...]:
        return tuple(self.node(name).book.chain)

    def settle(self, seconds: int = 30) -> None:
        world = self.world
        assert world.run(world.now + seconds * SECOND, lambda: not world.unsettled()), (
            f"restless: {world.problem or world.unsettled()}"
        )

    def finish(self) -> None:
        """All that is not dead comes back, everything arrives, and the trace is faultless."""
        self.release()
        self.world.cut.clear()
        for name in list(self.world.processes):
            self.world.boot(name)
        self.settle()
        self.world.close_diaries()
        [verdict] = judge(self.world.events())
        wrong = {name: count for name, count in verdict.violations.items() if count}
        assert not wrong, f"{next(iter(wrong))}: {wrong}"


def trouble_on_the_edge(seed: int) -> str:
    """What went wrong in the storm of a seed, or is wrong with its trace."""
    storm = EdgeStorm(seed, draw_edge(seed))
    if why := storm():
        return why
    [verdict] = judge(storm.world.events())
    return ", ".join(f"{name}: {count}" for name, count in verdict.violations.items() if count)
