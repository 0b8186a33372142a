"""Storms over an edge tree: everything that can happen to its nodes, drawn from a seed; then calm.

Three kinds. *hostile*: crashes with and without disks, deaths, cuts, false suspicions, joins, leaves, moves,
at times of their own. *chaos*: few nodes, links that break, and directions that starve, so that what was sent
first arrives last. *chains*: all nodes that a node could attach to go down at once, some of them for good.

Safety while it lasts: the trace is judged afterwards, and an invariant that breaks ends the run. Liveness
after: everyone must be attached and joined, with a whole chain, and have what the root has.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from thence.core.groups import incarnation, process_of
from thence.oplog.policy import Policy
from thence.sim.edge import EdgeWorld
from thence.sim.groups_disks import KINDS as KINDS_OF_DISKS
from thence.sim.groups_disks import worsen
from thence.sim.step_world import Air
from thence.spread.edge_book import EdgeSettings

MS = 1_000
SECOND = 1_000 * MS

Kind = Literal["hostile", "chaos", "chains"]
KINDS: tuple[Kind, ...] = ("hostile", "chaos", "chains")

PATIENCE_US = 120 * SECOND
"""Virtual time after the last fault: some attachments in vain, and states over several hops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeWeather:
    """What is drawn before a storm begins."""

    kind: Kind
    nodes: int
    degree: int
    groups: int
    span_us: int
    interval_us: int
    troubles: int
    air: Air
    settings: EdgeSettings
    take_us: int = 0
    payload_bytes: int = 0
    sync: Policy = "always"
    """Of all but the root."""


MORE_FROM = 10_000
"""Storms with these seeds also draw when logs are synced, and whether nodes move back under their parents.
Those before keep what they once found."""


def draw_edge(seed: int) -> EdgeWeather:
    random = Random(f"{seed}/edge")
    kind = KINDS[seed % len(KINDS)]
    few = kind == "chaos"
    nodes = random.randint(4, 8) if few else random.randint(5, random.choice((12, 24)))
    beat = 100 * MS
    settings = EdgeSettings(
        delta=random.randint(1, 3),
        heartbeat_us=beat,
        suspect_us=random.choice((4, 8)) * beat,
        drop_us=random.choice((8, 12)) * beat,
        attach_us=random.choice((2, 5)) * beat,
        probe_us=random.choice((0, 20 * MS, 100 * MS)),
        linger_us=random.choice((0, 5, 12)) * beat,
        keep_us=random.choice((0, 0, 3, 10, 100)) * beat,
        alone_us=random.choice((5, 30, 300)) * beat,
        status_us=random.choice((0, 1 * MS, 20 * MS)),
        window=random.choice((1, 4, 1024, 1024)),
    )
    air = Air(
        latency_us=10 * MS,
        jitter_us=random.choice((2 * MS, 50 * MS)),
        links=True,
        loss=random.choice((0.0, 0.05, 0.3)) if few else random.choice((0.0, 0.02)),
        wire=random.random() < 0.2,
        starve=random.choice((0.1, 0.3)) if few else 0.0,
    )
    span_us, sends = random.randint(3, 8) * SECOND, random.choice((60, 150, 300))
    sync: Policy = "always"
    if seed >= MORE_FROM:
        more = Random(f"{seed}/edge more")
        sync = more.choice(("always", "everysec", "no"))
        settings = replace(
            settings, rehome_us=more.choice((0, 5, 20)) * beat, greet_us=more.choice((0, 5)) * beat
        )
    return EdgeWeather(
        kind=kind,
        sync=sync,
        nodes=nodes,
        degree=random.randint(2, 5),
        groups=random.randint(2, 8),
        span_us=span_us,
        interval_us=span_us * nodes // sends,
        troubles=random.randint(nodes // 4, 2 * nodes),
        air=air,
        settings=settings,
        take_us=random.choice((0, 0, 0, 200 * MS)),
    )


def tree_of(nodes: int, degree: int, random: Random, deep: bool = True) -> dict[str, str]:
    """Parents by name, the root first. A deep tree grows where it grew last, another one anywhere."""
    names = [f"n{number}" for number in range(nodes)]
    parents, children = {names[0]: ""}, dict.fromkeys(names, 0)
    for at, name in enumerate(names[1:], 1):
        open_ones = [other for other in names[:at] if children[other] < degree]
        parent = random.choice(open_ones[-2 * degree :] if deep else open_ones)
        children[parent] += 1
        parents[name] = parent
    return parents


class EdgeStorm:
    def __init__(self, seed: int, weather: EdgeWeather) -> None:
        self.seed = seed
        self.weather = weather
        self._random = Random(f"{seed}/edge storm")
        self.parents = tree_of(weather.nodes, weather.degree, self._random)
        self.world = EdgeWorld(
            seed, self.parents, weather.air, weather.settings, weather.sync, take_us=weather.take_us
        )
        self.groups = [f"g{number}" for number in range(weather.groups)]
        self._fresh = weather.nodes
        self.deaths = self.crashes = self.losses = self.moves = self.revived = self.spoilt = 0

    def __call__(self) -> str:
        """Why it did not end well; empty: it did."""
        world, weather, random = self.world, self.weather, self._random
        for name in self.parents:
            world.boot(name)
            for group in random.sample(self.groups, random.randint(0, min(3, weather.groups))):
                if name != world.root:
                    world.join(name, group)
        world.run(2 * SECOND)
        for name in self.parents:
            self._plan_sends(name)
        end = world.now + weather.span_us
        for _ in range(weather.troubles):
            at = world.now + random.randrange(weather.span_us)
            world.at(at, self._draw_trouble())
        world.run(end)
        self._calm()
        if not world.run(world.now + PATIENCE_US // 4, lambda: not world.unsettled()):
            self._revive()
        settled = world.run(world.now + PATIENCE_US, lambda: not world.unsettled())
        world.close_diaries()
        return world.problem or ("" if settled else world.unsettled())

    def _plan_sends(self, name: str) -> None:
        world, random, weather = self.world, self._random, self.weather
        until = world.now + weather.span_us

        def send() -> None:
            process = world.processes[name]
            own = list(process.groups)
            if not process.leaves:
                group = random.choice(own) if own and random.random() < 0.8 else random.choice(self.groups)
                world.send(name, group, b"." * weather.payload_bytes)
            if world.now < until:
                world.at(world.now + int(2 * random.random() * weather.interval_us), send)

        world.at(world.now + random.randrange(weather.interval_us), send)

    def _calm(self) -> None:
        """Faults stop."""
        world = self.world
        world.cut.clear()
        world.air = Air(
            latency_us=world.air.latency_us, jitter_us=world.air.jitter_us, links=True, wire=world.air.wire
        )
        for name, process in world.processes.items():
            process.shelf.heal()
            world.boot(name)

    def _revive(self) -> None:
        """A death in the short while when a chain was being cut may leave a node with none that lives (limit
        3 of docs/protocols/edge.md): such deaths were not for good."""
        world = self.world
        for name, node in world.nodes().items():
            if node.tree.parent is None and name != world.root:
                for who in node.book.chain:
                    process = world.processes[process_of(who)]
                    if process.dead and not process.left and who == self._identity(process_of(who)):
                        process.dead = False
                        self.revived += 1
                        world.boot(process_of(who))

    # Trouble

    def _draw_trouble(self) -> Callable[[], None]:
        random = self._random
        if self.weather.kind == "chains":
            kinds = [self._kill_chain, self._kill_chain, self._crash, self._change_group, self._move]
        elif self.weather.kind == "chaos":
            kinds = [
                self._crash,
                self._crash,
                self._cut,
                self._change_group,
                self._move,
                self._lose,
                self._pause,
            ]
        else:
            kinds = [
                self._crash, self._crash, self._neighbours, self._cut, self._change_group, self._change_group,
                self._move, self._lose, self._die, self._pause, self._newcomer, self._leave_tree, self._spoil,
            ]  # fmt: skip
        return random.choice(kinds)

    def _some(self, root: bool = False) -> str:
        """A process that has not ended."""
        world = self.world
        names = [name for name, one in world.processes.items() if not (one.dead or one.leaves)]
        return self._random.choice([name for name in names if root or name != world.root] or names)

    def _crash(self) -> None:
        self._down(self._some(root=True))

    def _down(self, name: str) -> None:
        self.crashes += 1
        world, random = self.world, self._random
        power = self.weather.sync == "always" or name == world.root
        torn = random.random() < 0.3 and power
        world.crash(name, torn="written" if torn else None, power=power)
        world.at(world.now + random.randrange(2 * SECOND), lambda: world.boot(name))

    def _neighbours(self) -> None:
        """A node goes down, and those that it may attach to."""
        name = self._some()
        for who in (*self.world.processes[name].chain, incarnation(name, 1)):
            if self._random.random() < 0.7:
                self._down(process_of(who))

    def _survives(self, gone: set[str]) -> bool:
        """Has each node that stays one of its chain that stays? Else it would wait for ever (limit 3)."""
        world = self.world
        dead = {name for name, one in world.processes.items() if one.dead or one.leaves or one.retired} | gone
        for name, process in world.processes.items():
            if name in dead or name == world.root or not process.chain:
                continue
            stays = [
                who
                for who in process.chain
                if process_of(who) not in dead and who == self._identity(process_of(who))
            ]
            if not stays:
                return False
        return True

    def _identity(self, name: str) -> str:
        return incarnation(name, self.world.processes[name].number)

    def _die(self) -> None:
        name = self._some()
        if name != self.world.root and self._survives({name}):
            self.deaths += 1
            self.world.crash(name)
            self.world.processes[name].dead = True

    def _lose(self) -> None:
        """A disk is lost, or was put back, or lacks what was not synced when the power went: the process is
        another from then on."""
        name, world, random = self._some(), self.world, self._random
        if name == world.root or not self._survives({name}):
            return
        self.losses += 1
        if self.weather.sync != "always" and random.random() < 0.5:
            world.crash(name)
            world.processes[name].retired = True  # as its shelf will say
        else:
            (world.lose_disk if random.random() < 0.5 else world.forget)(name)
        world.at(world.now + random.randrange(SECOND), lambda: world.boot(name))

    def _kill_chain(self) -> None:
        """All that a node may attach to; up to δ of them for good."""
        world, random = self.world, self._random
        chain = [process_of(who) for who in world.processes[self._some()].chain]
        doomed = [name for name in chain[: self.weather.settings.delta] if name != world.root]
        if doomed and random.random() < 0.6 and self._survives(set(doomed)):
            for name in doomed:
                self.deaths += 1
                world.crash(name)
                world.processes[name].dead = True
        for name in chain:
            self._down(name)

    def _cut(self) -> None:
        world, random = self.world, self._random
        one, other = self._some(root=True), self._some(root=True)
        parent = world.processes[one].chain[:1]
        if parent and random.random() < 0.8:
            other = process_of(parent[0])
        pairs = {(one, other), (other, one)} if random.random() < 0.7 else {(one, other)}
        world.cut |= pairs
        world.at(world.now + random.randrange(2 * SECOND), lambda: world.cut.difference_update(pairs))

    def _pause(self) -> None:
        world = self.world
        world.processes[self._some(root=True)].paused = world.now + self._random.randrange(SECOND)

    def _spoil(self) -> None:
        """A disk is full, or one of its next operations fails."""
        world, random, name = self.world, self._random, self._some(root=True)
        shelf = world.processes[name].shelf
        self.spoilt += 1
        worsen(shelf, random.choice(KINDS_OF_DISKS), random)
        world.at(world.now + random.randrange(2 * SECOND), shelf.heal)

    def _change_group(self) -> None:
        world, random = self.world, self._random
        name, group = self._some(), random.choice(self.groups)
        if name == world.root:
            return
        if group in world.processes[name].groups:
            world.leave(name, group)
            if random.random() < 0.4:
                world.at(world.now + random.randrange(SECOND), lambda: world.join(name, group))
        else:
            world.join(name, group)

    def _move(self) -> None:
        """A node moves below a sibling."""
        world, name = self.world, self._some()
        parent = world.processes[name].chain[:1]
        siblings = [
            other
            for other, one in world.processes.items()
            if one.chain[:1] == parent and other != name and not one.dead
        ]
        if parent and siblings:
            self.moves += 1
            world.rehome(name, self._random.choice(siblings))

    def _newcomer(self) -> None:
        world, parent = self.world, self._some(root=True)
        name = f"n{self._fresh}"
        self._fresh += 1
        world.add(name, parent)
        world.boot(name)
        for group in self._random.sample(self.groups, 2):
            world.join(name, group)

    def _leave_tree(self) -> None:
        name = self._some()
        if name != self.world.root and self._survives({name}):
            self.world.leave_tree(name)
