"""Storms over a changing group: everything that can happen to members, drawn from a seed; then calm.

Safety while it lasts: the trace is judged afterwards, and an invariant that breaks ends the run. Liveness
after: once faults have stopped, the dead were evicted and the others left alone, all members must have the
same view, have delivered and applied the same, with everything stable and nothing kept.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from thence.core.groups import number_of, process_of
from thence.replica.group.process.node import GroupNode
from thence.sim.air import Air
from thence.sim.groups import GroupWorld
from thence.sim.groups_disks import BadDisk, worsen, written_down
from thence.sim.groups_fakes import sized
from thence.sim.groups_lies import Guest
from thence.sim.groups_partings import Parting
from thence.sim.groups_restores import Restore
from thence.sim.groups_verdicts import differing_stores, lost_operations, out_of_order, silent_losses
from thence.sim.groups_weather import (
    BESIDE_BYTES,
    PATIENCE_US,
    SECOND,
    StormSettings,
    draw,
    leave_us,
    steps_max,
    travel_us,
)
from thence.sim.step_process import POINTS
from thence.trace.recorder import KINDS
from thence.trace.schema import Dot, Event


class GroupStorm:
    def __init__(self, seed: int, weather: StormSettings | None = None) -> None:
        self._random = Random(f"{seed}/plan")
        self.seed = seed
        drawn = self.weather = weather or draw(seed)
        names = [f"p{number}" for number in range(drawn.processes)]
        guest, numbered, settings = drawn.lies_us > 0, bool(drawn.restores), drawn.settings
        numbered = numbered or (drawn.closed and not drawn.reads)
        if drawn.partings:
            settings = replace(settings, leave_timeout_us=leave_us(drawn))
        self.world = GroupWorld(
            seed, names, drawn.air, settings, drawn.take_us, drawn.sync, guest, numbered,
            starts=drawn.air.links, closed=drawn.closed, turn_us=drawn.turn_us,
            store=drawn.store, strangers=drawn.strangers, sync_us=drawn.sync_us,
        )  # fmt: skip
        if guest:
            Guest(self.world, Random(f"{seed}/guest"), drawn.span_us, drawn.lies_us)
        for process in self.world.processes.values():
            process.application.reads = drawn.reads
            process.application.sized = drawn.large > 0 and not drawn.store
        self._sending = Random(f"{seed}/sending")
        self._runs = Random(f"{seed}/lengths")
        self._sizes = Random(f"{seed}/sizes")
        self._points = Random(f"{seed}/points")
        self._operations = self._bytes = 0
        """Asked for so far, and what they take in a state."""
        self._told: dict[str, int] = {}
        """Processes that were told to leave, and in which of their lives."""
        self._plan(names)

    def _plan(self, names: list[str]) -> None:
        world, random, span = self.world, self._random, self.weather.span_us
        if self.weather.closed:
            for name in names:
                at = random.choice((0, 0, random.randrange(span // 4)))
                world.at(at, lambda name=name: world.boot(name))  # type: ignore[misc]
        else:
            self._plan_joins(names)
        for name in names:
            world.at(self._gap(), lambda name=name: self._send(name))  # type: ignore[misc]
        writing = Random(f"{self.seed}/checkpoints")
        for name in names:
            if writing.random() < 0.5:
                self._write_down(name, writing.randrange(300_000, 3 * SECOND))
        troubles: list[Callable[[str, int], None]] = [
            self._leave, self._leave, self._crash, self._crash, self._die, self._lose_disk, self._evict,
            self._evict, self._evict, self._split, self._split, self._isolate, self._part_two, self._rejoin,
        ]  # fmt: skip
        if self.weather.rough:
            troubles += [self._pause, self._pause]
        if self.weather.gentle:
            troubles = [self._leave, self._rejoin, self._rejoin, self._crash]
        if self.weather.crashes:
            troubles = [self._crash]
        if self.weather.closed:
            # What a program had seen is for it to know, where it has no state and its disk is lost.
            lost = self._crash if self.weather.reads else self._lose_disk
            troubles = [
                lost, self._crash, self._crash, self._crash, self._lose_power, self._split, self._isolate,
                self._part_two, self._pause,
            ]  # fmt: skip
        if self.weather.partings:
            lasting = (self._leave, self._rejoin, self._die, self._lose_disk)
            troubles = [trouble for trouble in troubles if trouble not in lasting]
        for _ in range(3 * self.weather.troubles if self.weather.crashes else self.weather.troubles):
            trouble, name = random.choice(troubles), random.choice(names)
            trouble(name, random.randrange(span // 8, span))
        failing = Random(f"{self.seed}/failing")
        for fault in self.weather.disks:
            self._spoil(names[fault.process % len(names)], fault, failing)
        for restore in self.weather.restores:
            self._put_back(names[restore.process % len(names)], restore)
        for parting in self.weather.partings:
            self._part(parting)

    def _part(self, parting: Parting) -> None:
        world, names = self.world, self.world.names
        leaver, away = names[parting.leaver], names[parting.away]
        for when, by, who in parting.evictions:
            self._evict_later(names[by], names[who], when)
        rest = [name for name in names if name not in (leaver, away)]
        self._cut([leaver, away], rest, parting.cut_us, parting.heal_us)
        world.at(parting.at_us, lambda: self._tell_to_leave(leaver))

        def comes_back() -> None:
            node = world.processes[leaver].node
            if node is not None and node.status == "outside":
                self._told.pop(leaver, None)
                world.join(leaver)

        world.at(parting.back_us, comes_back)

        def goes_down() -> None:
            world.crash(away, power=False)
            world.processes[away].dead = parting.dies

        world.at(parting.down_us, goes_down)
        world.at(parting.up_us, lambda: world.boot(away))

    def _tell_to_leave(self, name: str) -> None:
        """Unless it is alone on its side, and would say so."""
        world, process = self.world, self.world.processes[name]
        node = process.node
        if node is not None and node.member is not None and len(node.member.view.side) > 1:
            self._told[name] = process.life
            world.call(name, lambda node: node.leave(world.now))

    def _plan_joins(self, names: list[str]) -> None:
        world, random, span = self.world, self._random, self.weather.span_us
        for name in names:
            world.boot(name)
        world.call(names[0], lambda node: node.found(0))
        for number, name in enumerate(names[1:], 1):
            at = random.randrange(100_000) if number < self.weather.founders else random.randrange(span)
            world.at(at, lambda name=name: world.join(name))  # type: ignore[misc]

    def _put_back(self, name: str, restore: Restore) -> None:
        world = self.world
        world.at(restore.saved_us, lambda: world.save(name))
        world.at(restore.down_us, lambda: world.restore(name))
        world.at(restore.up_us, lambda: world.boot(name))

    def _spoil(self, name: str, fault: BadDisk, random: Random) -> None:
        world = self.world
        if fault.what == "power":
            world.at(fault.at_us, lambda: world.crash(name))
            world.at(fault.until_us, lambda: world.boot(name))
            return
        world.at(fault.at_us, lambda: worsen(world.processes[name].shelf, fault.what, random))
        world.at(fault.until_us, lambda: world.processes[name].shelf.heal())

    def _gap(self) -> int:
        return int(self._sending.expovariate(1) * self.weather.interval_us)

    def _send(self, name: str) -> None:
        world = self.world
        node = world.processes[name].node
        if node is not None and node.status in ("member", "returning"):
            count = self._runs.randint(1, self.weather.runs)
            large = self.weather.large
            payload = sized(self._sizes.randint(0, large)) if large else bytes(self.weather.payload_bytes)
            self._operations += count
            self._bytes += count * (len(payload) + BESIDE_BYTES)
            world.steps_max = steps_max(self.weather, self._bytes)
            world.send(name, payload, count)
        if world.now < self.weather.span_us:
            world.at(world.now + self._gap(), lambda: self._send(name))

    def _write_down(self, name: str, every: int) -> None:
        world = self.world

        in_steps = Random(f"{self.seed}/checkpoints of {name}")

        def checkpoint() -> None:
            at_once = in_steps.random() < 0.5
            world.call(name, lambda node: written_down(node, at_once, world.now))
            if world.now < self.weather.span_us:
                world.at(world.now + every, checkpoint)

        world.at(every, checkpoint)

    # Troubles

    def _leave(self, name: str, at: int) -> None:
        self.world.at(at, lambda: self.world.call(name, lambda node: node.leave(self.world.now)))

    def _rejoin(self, name: str, at: int) -> None:
        self._leave(name, at)
        self.world.at(at + self._random.randrange(5 * SECOND), lambda: self.world.join(name))

    def _crash(self, name: str, at: int) -> None:
        cut, power = self._random.random() < 0.5, self._random.random() < 0.7
        torn = (self._points.choice(POINTS) if self.weather.points else "written") if cut else None
        self.world.at(at, lambda: self.world.crash(name, torn, power))
        again = at + self._random.randrange(1, 6 * SECOND)
        self.world.at(again, lambda: self.world.boot(name))

    def _lose_power(self, name: str, at: int) -> None:  # noqa: ARG002
        """All machines together."""
        for each in self.world.names:
            self._crash(each, at)

    def _pause(self, name: str, at: int) -> None:
        """Nothing is lost, but processes that wait for it wait."""
        process, until = self.world.processes[name], at + self._random.randrange(1, 5 * SECOND)

        def pause() -> None:
            if process.paused <= at:  # or what waits would not go on in order
                process.paused = until

        self.world.at(at, pause)

    def _die(self, name: str, at: int) -> None:
        def die() -> None:
            self.world.crash(name)
            self.world.processes[name].dead = True

        self.world.at(at, die)

    def _lose_disk(self, name: str, at: int) -> None:
        again = at + self._random.randrange(1, 4 * SECOND)
        self.world.at(at, lambda: self.world.lose_disk(name))
        self.world.at(again, lambda: self.world.boot(name))
        self.world.at(again, lambda: self.world.join(name))

    def _evict(self, name: str, at: int) -> None:
        target = self._random.choice(self.world.names)
        self.world.at(at, lambda: self.world.call(name, lambda node: node.evict(target, self.world.now)))

    def _halves(self) -> tuple[list[str], list[str]]:
        names = self.world.names
        one = self._random.sample(names, self._random.randint(1, len(names) - 1))
        return one, [name for name in names if name not in one]

    def _cut(self, one: list[str], other: list[str], at: int, until: int, both: bool = True) -> None:
        links = {(a, b) for a in one for b in other}
        if both:
            links |= {(b, a) for a, b in links}
        self.world.at(at, lambda: self.world.cut.update(links))
        self.world.at(until, lambda: self.world.cut.difference_update(links))

    def _split(self, name: str, at: int) -> None:  # noqa: ARG002
        """Two sides that cannot see each other; often each is told to go on without the other."""
        one, other = self._halves()
        until = at + self._random.randrange(SECOND, 6 * SECOND)
        self._cut(one, other, at, until)
        for side, rest in ((one, other), (other, one)):
            if self._random.random() < 0.6:
                when = self._random.randrange(at, until)
                caller = self._random.choice(side)
                for target in rest:
                    self._evict_later(caller, target, when)

    def _evict_later(self, caller: str, target: str, at: int) -> None:
        self.world.at(at, lambda: self.world.call(caller, lambda node: node.evict(target, self.world.now)))

    def _isolate(self, name: str, at: int) -> None:
        """One process hears and is not heard, or the other way round."""
        others = [other for other in self.world.names if other != name]
        until = at + self._random.randrange(SECOND, 6 * SECOND)
        one, other = ([name], others) if self._random.random() < 0.5 else (others, [name])
        self._cut(one, other, at, until, both=False)

    def _part_two(self, name: str, at: int) -> None:
        """Two processes cannot see each other, while all others see both."""
        other = self._random.choice(self.world.names)
        if other != name:
            self._cut([name], [other], at, at + self._random.randrange(SECOND, 8 * SECOND))

    # The run

    def __call__(self) -> str:
        """What went wrong, if anything."""
        world = self.world
        world.run(self.weather.span_us + 8 * SECOND)
        self._calm()
        settled = world.run(world.now + self.calm_us, lambda: not world.unsettled())
        world.close_diaries()
        if world.problem:
            return world.problem
        if not settled:
            return f"never came to rest: {world.unsettled()}"
        if world.packets["garbage"]:
            return f"{world.packets['garbage']} packets that made no sense to their receivers"
        if self.weather.partings and world.disorderly:
            return f"did not leave in order: {world.disorderly}"
        if lost := lost_operations(world):
            return f"lost operations: {sorted(lost)[:5]}"
        if inverted := out_of_order(world):
            return f"operations of one process in disorder: {inverted[:5]}"
        if silent := silent_losses(world):
            return f"programs never heard of: {silent[:5]}"
        if differ := differing_stores(world):
            return f"stores differ: {differ}"
        return ""

    @property
    def calm_us(self) -> int:
        """Virtual time after the last fault, within which all must come to rest."""
        return max(PATIENCE_US, travel_us(self.weather, self._operations, self._bytes))

    def _calm(self) -> None:
        world, air = self.world, self.weather.air
        world.cut.clear()
        world.air = Air(
            latency_us=air.latency_us,
            jitter_us=air.jitter_us,
            sessions=air.sessions,
            links=air.links,
            wire=air.wire,
        )
        for name, process in world.processes.items():
            process.torn, process.paused = None, 0
            process.shelf.go_on()
            process.shelf.heal()
            if process.node is None and not process.dead:
                world.boot(name)
        self._tidy()

    def _tidy(self) -> None:
        """An operator evicts members that will not return, calls off joins that no member can answer, and
        names another contact to a process all of whose contacts are gone."""
        world = self.world
        nodes = {name: process.node for name, process in world.processes.items()}
        running = [node for node in nodes.values() if node is not None and node.member is not None]
        waiting = [node for node in nodes.values() if node is not None and node.status == "joining"]
        if waiting and not running:
            self._begin_again(waiting)
        members = {node.name for node in running}
        for node in waiting if members else ():
            if node.former is None and not any(world.is_wanted(node.name, other) for other in members):
                world.crash(node.name, power=False)
                world.boot(node.name)
                world.join(node.name)
        for node in running:
            assert node.member is not None
            if self._told.get(node.name) == world.processes[node.name].life:
                continue  # a person asks those that stay
            for member in sorted(node.member.view.side):
                other = nodes[process_of(member)]
                if other is None or other.status == "outside":
                    world.call(node.name, lambda node, member=member: node.evict(member, world.now))  # type: ignore[misc]
        world.at(world.now + 3 * SECOND, self._tidy)

    def _begin_again(self, waiting: list[GroupNode]) -> None:
        """There is no member to join. Of the processes that have forgotten something, the one that knows most
        founds the group again, and the others come back to it; if there are none, joining is called off."""
        world = self.world
        former = [node for node in waiting if node.former is not None]
        best = max(former, key=lambda node: (_known(node), node.name), default=None)
        for node in waiting if best is None else [best]:
            world.call(node.name, lambda node: node.leave(world.now))
        if best is not None:
            world.refound(best.name)

    def events(self, run: str = "") -> list[Event]:
        return events_of(self.world, run)


def _known(node: GroupNode) -> int:
    return sum(node.former.ledger.vector().values()) if node.former is not None else 0


def events_of(world: GroupWorld, run: str = "") -> list[Event]:
    """The trace, for the oracle."""
    return [
        Event(
            run=run,
            node=member,
            pos=pos,
            kind=KINDS[kind],
            origin=about[0] if about else None,
            seq=about[1] if about else None,
            at_us=at,
            deps=None if deps is None else [Dot(*place) for place in deps],
            process=process_of(member),
            incarnation=number_of(member),
            carries=[Dot(*place) for place in carries] or None,
        )
        for member, diary in world.diaries.items()
        for pos, (kind, about, deps, at, carries) in enumerate(diary.rows)
    ]
