"""Storms over an edge tree: everything that can happen to its nodes, drawn from a seed; then calm.

Three kinds. *hostile*: crashes with and without disks, deaths, cuts, false suspicions, joins, leaves, moves,
at times of their own. *chaos*: few nodes, links that break, and directions that starve, so that what was sent
first arrives last. *chains*: all nodes that a node could attach to go down at once, some of them for good.

Safety while it lasts: the trace is judged afterwards, and an invariant that breaks ends the run. Liveness
after: every node must be attached and joined, with a whole chain, and have what the root has.
"""

from collections.abc import Callable
from random import Random

from thence.core.groups import incarnation, process_of
from thence.sim.air import Air
from thence.sim.edge import EdgeWorld
from thence.sim.edge_weather import MS, SECOND, EdgeWeather, tree_of
from thence.sim.groups_disks import KINDS as KINDS_OF_DISKS
from thence.sim.groups_disks import worsen

PATIENCE_US = 120 * SECOND
"""Virtual time after the last fault: some attachments in vain, and states over several hops. Longer where
what was sent cannot travel in that time (`EdgeStorm.calm_us`)."""


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
        self._sent = 0
        """Messages so far."""
        self._short: set[str] = set()
        """Processes whose parent had told them of a chain that it alone was left of, and lost its disk."""
        self.deaths = self.crashes = self.losses = self.moves = self.revived = self.spoilt = 0
        self.given_up = 0
        """Of those, processes that had to begin as another identity."""

    def __call__(self) -> str:
        """Why it did not end well; empty: it did."""
        world, weather, random = self.world, self.weather, self._random
        for name in self.parents:
            world.boot(name)
            for group in random.sample(self.groups, random.randint(0, min(3, weather.groups))):
                if name != world.root:
                    world.join(name, group)
        world.run(2 * SECOND, (lambda: not world.unsettled()) if weather.brief else None, 100 * MS)
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
        settled = world.run(world.now + self.calm_us, lambda: not world.unsettled())
        world.close_diaries()
        return world.problem or ("" if settled else world.unsettled())

    @property
    def calm_us(self) -> int:
        """Virtual time after the last fault, within which all must come to rest. A window's items go over a
        hop in a round trip, and a program takes one message after the other."""
        drawn, settings = self.weather, self.weather.settings
        room = min(settings.window, max(1, settings.window_bytes // max(1, drawn.payload_bytes)))
        round_us = 2 * (drawn.air.latency_us + drawn.air.jitter_us) + settings.status_us
        return PATIENCE_US + self._sent * (round_us // room + drawn.take_us)

    def _plan_sends(self, name: str) -> None:
        world, random, weather = self.world, self._random, self.weather
        until = world.now + weather.span_us

        def send() -> None:
            process = world.processes[name]
            own = list(process.groups)
            if not process.leaves:
                groups: list[str] = []
                for _ in range(random.randint(1, weather.run) if weather.run > 1 else 1):
                    if not groups or random.random() < 0.3:
                        at_home = own and random.random() < 0.8
                        group = random.choice(own) if at_home else random.choice(self.groups)
                    groups.append(group)
                self._sent += len(groups)
                world.send(name, *groups, payload=b"." * weather.payload_bytes)
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
        3 of docs/protocols/edge.md): such deaths were not for good. What was lost with a disk then does not
        come back: the node has to begin as another. And a crash in the middle of a step may have come after
        the boot that was to follow it."""
        world = self.world
        for name in list(world.processes):
            world.boot(name)
        for name, node in world.nodes().items():
            if node.tree.parent is None and name != world.root:
                for who in node.book.chain:
                    process = world.processes[process_of(who)]
                    if process.dead and not process.left and who == self._identity(process_of(who)):
                        process.dead = False
                        self.revived += 1
                        world.boot(process_of(who))
                if name in self._short and not any(map(self._is_there, node.book.chain)):
                    self.given_up += 1
                    world.forget(name)
                    world.boot(name)

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
        world.at(world.now + random.randrange(self.weather.lasts_us), lambda: world.boot(name))

    def _neighbours(self) -> None:
        """A node goes down, and those that it may attach to."""
        name = self._some()
        for who in (*self.world.processes[name].chain, incarnation(name, 1)):
            if self._random.random() < 0.7:
                self._down(process_of(who))

    def _survives(self, gone: set[str]) -> bool:
        """Has each node that stays, or is still to leave, one of its chain that stays? Else it would wait for
        ever (limit 3)."""
        world = self.world
        dead = {name for name, one in world.processes.items() if one.dead or one.leaves or one.retired} | gone
        for name, process in world.processes.items():
            ended = process.dead or process.left or process.retired or name in gone
            if ended or name == world.root or not process.chain:
                continue
            if not any(process_of(who) not in dead and self._is_there(who) for who in process.chain):
                return False
        return True

    def _is_there(self, who: str) -> bool:
        """Is this the identity of its process?"""
        return who == self._identity(process_of(who))

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
        if (node := world.processes[name].node) is not None:  # a disk tells of the chain only when it came
            told = [child for child, one in node.tree.children.items() if one.chain == (node.me,)]
            self._short.update(map(process_of, told))
        if self.weather.sync != "always" and random.random() < 0.5:
            world.crash(name)
            world.processes[name].retired = True  # as its shelf will say
        else:
            (world.lose_disk if random.random() < 0.5 else world.forget)(name)
        world.at(world.now + random.randrange(self.weather.lasts_us // 2), lambda: world.boot(name))

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
        world.at(
            world.now + random.randrange(self.weather.lasts_us), lambda: world.cut.difference_update(pairs)
        )

    def _pause(self) -> None:
        world = self.world
        world.processes[self._some(root=True)].paused = world.now + self._random.randrange(
            self.weather.lasts_us // 2
        )

    def _spoil(self) -> None:
        """A disk is full, or one of its next operations fails."""
        world, random, name = self.world, self._random, self._some(root=True)
        shelf = world.processes[name].shelf
        self.spoilt += 1
        worsen(shelf, random.choice(KINDS_OF_DISKS), random)
        world.at(world.now + random.randrange(self.weather.lasts_us), shelf.heal)

    def _change_group(self) -> None:
        world, random = self.world, self._random
        name, group = self._some(), random.choice(self.groups)
        if name == world.root:
            return
        if group in world.processes[name].groups:
            world.leave(name, group)
            if random.random() < 0.4:
                world.at(
                    world.now + random.randrange(self.weather.lasts_us // 2), lambda: world.join(name, group)
                )
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
