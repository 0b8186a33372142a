"""Storms over a topology: all that can happen to applications and gateways, drawn from a seed; then calm.

Safety while it lasts: the trace is judged afterwards, and an invariant that breaks ends the run. Liveness
after: every message is at each of its destinations that lives, nothing is held back or kept for a neighbour,
and of each gateway that died all is known.

Deaths come one at a time: a hop that only two processes had, both of which are gone for good, is nowhere
(docs/protocols/separators.md, Limits).
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from thence.order.topology import Topology
from thence.replica.zone import Directed, ZoneSettings, directed
from thence.sim.air import Air
from thence.sim.groups_disks import KINDS as KINDS_OF_DISKS
from thence.sim.groups_disks import worsen
from thence.sim.step_process import POINTS
from thence.sim.topologies import drawn
from thence.sim.zones_live import ZoneWorld

MS = 1_000
SECOND = 1_000 * MS

RUNS_FROM = 100_000
"""Seeds below this draw what they always drew."""

PATIENCE_US = 240 * SECOND
"""Virtual time after the last fault: several suspicions, each followed by its flush."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneWeather:
    """What is drawn before a storm begins."""

    topology: Topology
    span_us: int
    interval_us: int
    troubles: int
    air: Air
    settings: ZoneSettings
    take_us: int
    sync_us: int
    runs: bool
    """Programs send several messages in a turn: storms from `RUNS_FROM` on."""
    back: bool
    """Disks are put back to earlier states. Then a start waits for all neighbours, however long it takes."""


def draw_zones(seed: int) -> ZoneWeather:
    random = Random(f"{seed}/zones")
    topology = drawn(random).topology
    back = random.random() < 0.3
    span_us = random.randint(3, 10) * SECOND
    settings = ZoneSettings(
        greet_us=1000 * SECOND if back else random.choice((0, 200 * MS, 2 * SECOND)),
        suspect_us=random.choice((0, 500 * MS, 2 * SECOND)),
        ack_us=random.choice((0, 0, 20 * MS, 200 * MS)),
        word_us=random.choice((50 * MS, 200 * MS, SECOND)),
        window=random.choice((1, 4, 1024)),
        packet_bytes=random.choice((200, 1 << 20)),
        inbox_max=random.choice((2, 8192)),
    )
    air = Air(
        latency_us=10 * MS,
        jitter_us=random.choice((2 * MS, 50 * MS)),
        links=True,
        loss=random.choice((0.0, 0.02, 0.3)),
        wire=random.random() < 0.3,
        starve=random.choice((0.0, 0.0, 0.2)),
    )
    return ZoneWeather(
        topology=topology,
        span_us=span_us,
        interval_us=span_us * len(topology.applications) // random.choice((60, 150, 300)),
        troubles=random.randint(len(topology) // 4, 2 * len(topology)),
        air=air,
        settings=settings,
        take_us=random.choice((0, 0, 200 * MS)),
        sync_us=random.choice((0, 0, 30 * MS)),
        runs=seed >= RUNS_FROM,
        back=back,
    )


class ZoneStorm:
    def __init__(self, seed: int, weather: ZoneWeather) -> None:
        self.weather = weather
        self._random = Random(f"{seed}/zone storm")
        self.world = ZoneWorld(
            seed, weather.topology, weather.air, weather.settings, weather.take_us, weather.sync_us
        )
        names = weather.topology.names
        self._applications = [names[each] for each in weather.topology.applications]
        self._gateways = [name for name in names if name not in self._applications]
        self.crashes = self.deaths = self.backs = 0

    def __call__(self) -> str:
        """Why it did not end well; empty: it did."""
        world, weather, random = self.world, self.weather, self._random
        for name in world.names:
            world.boot(name)
        world.run(2 * SECOND)
        for name in self._applications:
            self._plan_sends(name)
        end = world.now + weather.span_us
        for _ in range(weather.troubles):
            world.at(world.now + random.randrange(weather.span_us), self._draw_trouble())
        world.run(end)
        self._calm()
        settled = world.run(world.now + PATIENCE_US, lambda: not world.unsettled())
        world.run(world.now + SECOND)  # rows of the trace may wait for their sync
        world.close_diaries()
        return world.problem or ("" if settled else world.unsettled())

    def _plan_sends(self, name: str) -> None:
        world, random, weather = self.world, self._random, self.weather
        until = world.now + weather.span_us

        def send() -> None:
            if world.now >= until:
                return
            most = min(len(self._applications), random.choice((1, 2, 3, 100)))
            to = random.sample(self._applications, random.randint(1, most))
            world.send_turn(name, self._turn(to, b"." * random.choice((0, 0, 100))))
            world.at(world.now + int(2 * random.random() * weather.interval_us), send)

        world.at(world.now + random.randrange(max(1, weather.interval_us)), send)

    def _turn(self, to: list[str], payload: bytes) -> list[Directed]:
        if not self.weather.runs:
            return [directed(to, payload)]
        random, calls = self._random, list[Directed]()
        for _ in range(random.choice((1, 1, 2))):
            calls += [directed(to, payload)] * random.choice((1, 2, 3, 20))
            to = random.sample(self._applications, random.randint(1, len(self._applications)))
        return calls

    def _calm(self) -> None:
        """Faults stop."""
        world = self.world
        world.cut.clear()
        world.air = Air(
            latency_us=world.air.latency_us, jitter_us=world.air.jitter_us, links=True, wire=world.air.wire
        )
        for process in world.processes.values():
            process.shelf.heal()
            process.torn = None
        self._tend()

    def _tend(self) -> None:
        """A person starts what is down, and looks after those that are gone for good."""
        world = self.world
        for name, process in world.processes.items():
            world.boot(name)
            if not process.dead:
                continue
            for peer in world.topology.neighbours(world.index[name]):
                other = world.names[peer]
                node = world.processes[other].node
                if node is not None and world.index[name] not in node.core.closed:
                    world.evict(other, name)
                    break
        world.at(world.now + 5 * SECOND, self._tend)

    # Trouble

    def _draw_trouble(self) -> Callable[[], None]:
        kinds = [self._crash, self._crash, self._gateway, self._cut, self._pause, self._spoil, self._die]
        if self.weather.back:
            kinds.append(self._put_back)
        return self._random.choice(kinds)

    def _some(self) -> str:
        return self._random.choice(self.world.names)

    def _crash(self) -> None:
        self._down(self._some())

    def _gateway(self) -> None:
        if self._gateways:
            self._down(self._random.choice(self._gateways))

    def _down(self, name: str) -> None:
        self.crashes += 1
        world, random = self.world, self._random
        world.crash(name, torn=random.choice(POINTS) if random.random() < 0.5 else None)
        world.at(world.now + random.randrange(2 * SECOND), lambda: world.boot(name))

    def _cut(self) -> None:
        world, random = self.world, self._random
        one = self._some()
        near = world.topology.neighbours(world.index[one])
        if not near:
            return
        others = [world.names[each] for each in near]
        cut = others if random.random() < 0.3 else [random.choice(others)]
        pairs = {pair for other in cut for pair in ((one, other), (other, one))}
        world.cut |= pairs
        world.at(world.now + random.randrange(3 * SECOND), lambda: world.cut.difference_update(pairs))

    def _pause(self) -> None:
        self.world.processes[self._some()].paused = self.world.now + self._random.randrange(SECOND)

    def _spoil(self) -> None:
        """A disk is full, or one of its next operations fails."""
        world, random = self.world, self._random
        shelf = world.processes[self._some()].shelf
        worsen(shelf, random.choice(KINDS_OF_DISKS), random)
        world.at(world.now + random.randrange(2 * SECOND), shelf.heal)

    def _known(self) -> bool:
        """Is everything known of those that are gone?"""
        world = self.world
        gone = {world.index[name] for name, process in world.processes.items() if process.dead}
        for process in world.processes.values():
            if process.dead:
                continue
            node = process.node
            if node is None or not gone & {*node.core.near} <= node.core.flushed.keys():
                return False
        return True

    def _may_die(self, name: str) -> bool:
        """Do others of its separator live?"""
        world, topology = self.world, self.world.topology
        members = topology.separators[topology.separator_of(world.index[name])].members
        living = [each for each in members if not world.processes[world.names[each]].dead]
        return self._known() and len(living) > 1

    def _die(self) -> None:
        if not self._gateways:
            return
        name = self._random.choice(self._gateways)
        if self._is_covered(name) and self._may_die(name):
            self.deaths += 1
            self.world.die(name)

    def _is_covered(self, name: str) -> bool:
        """Does it run, and has nothing overtaken messages that no other process has? While none of a hop's
        addressees can be reached, others are sent all the same (docs/protocols/separators.md, Limits)."""
        node = self.world.processes[name].node
        return node is not None and not node.talk.exposed

    def _put_back(self) -> None:
        """A copy of its disk replaces it a while later."""
        world, random, name = self.world, self._random, self._some()
        copy = world.processes[name].shelf.copy()

        def replaced() -> None:
            gateway = name in self._gateways
            if not self._is_covered(name) or not self._known() or (gateway and not self._may_die(name)):
                return
            self.backs += 1
            world.put_back(name, copy)
            world.boot(name)

        world.at(world.now + random.randrange(2 * SECOND), replaced)
