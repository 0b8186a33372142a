"""The edge report's own scheme under the load of `sim.edge_steady`: the same trees, the same groups.

With `kills` inner nodes stop to answer, until the load is over: what they alone have numbered waits for them.
"""

from random import Random
from statistics import fmean
from typing import Any

from thence.sim.air import Air
from thence.sim.edge_paths import ENTRY_BYTES, HEAD_BYTES, PathWorld
from thence.sim.edge_steady import STEPS_MAX, EdgeLoad, delays_of, errors_of, members_of, spread_of
from thence.sim.edge_weather import MS, SECOND, tree_of
from thence.spread.edge_paths import PathSettings


class SteadyPaths:
    def __init__(self, load: EdgeLoad) -> None:
        self.load = load
        self._random = Random(f"{load.seed}/steady")
        parents = tree_of(load.nodes, load.degree, self._random, load.deep)
        self.members = members_of(load, parents, self._random)
        settings = PathSettings(
            beat_us=load.suspect_us * 2 // 7, suspect_us=load.suspect_us, again_us=500 * MS,
            barriers=load.barriers,
        )  # fmt: skip
        air = Air(latency_us=10 * MS, jitter_us=10 * MS, sessions=True, wire=False)
        self.world = PathWorld(load.seed, parents, self.members, air, settings)
        self.world.steps_max = STEPS_MAX
        self.log_sizes: list[int] = []
        self.silent: set[str] = set()

    def __call__(self) -> dict[str, Any]:
        """What was measured; `why` says what did not end well. A header is counted, not encoded."""
        world, load = self.world, self.load
        for name in world.names:
            world.boot(name)
        for group, names in self.members.items():
            for name in names:
                self._publish(name, group)
        for number in range(load.kills):
            world.at(load.span_us * (number + 1) // (load.kills + 2), self._silence)
        for at in range(0, load.span_us, 200 * MS):
            world.at(at, self._look)
        world.run(load.span_us)
        rests = world.run(world.now + 60 * SECOND, lambda: not world.unsettled(), SECOND)
        found = delays_of(world.diaries, 0, self.silent)
        copies = max(1, len(world.entries))
        why = "" if rests else world.problem or world.unsettled()
        return {
            "complete": not why, "why": why, "deliveries": len(found),
            "messages": sum(process.memory.number for process in world.processes.values()),
            **spread_of(found), **errors_of(world, load),
            "head_bytes": HEAD_BYTES + ENTRY_BYTES * sum(world.entries) / copies, "items": len(world.entries),
            "statuses_alone": world.packets["pathack"] / copies,
            "log_mean": fmean(self.log_sizes) if self.log_sizes else 0.0,
            "log_max": max(self.log_sizes, default=0),
        }  # fmt: skip

    def _publish(self, name: str, group: str) -> None:
        world, every = self.world, self.load.interval_us

        def send() -> None:
            world.send(name, group)
            if world.now + every < self.load.span_us:
                world.at(world.now + every, send)

        world.at(self._random.randrange(every), send)

    def _silence(self) -> None:
        world, tree = self.world, self.world.map
        names = [
            name
            for name in world.names
            if name != tree.root and len(tree.near[name]) > 1 and self.silent.isdisjoint(tree.ball(name, 2))
        ]
        if names:
            name = self._random.choice(names)
            self.silent.add(name)
            world.processes[name].paused = self.load.span_us

    def _look(self) -> None:
        self.log_sizes += [len(process.memory.log) for process in self.world.processes.values()]
