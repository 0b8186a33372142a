"""The edge report's own scheme under the load of `sim.edge_steady`: the same trees, the same groups."""

from random import Random
from statistics import fmean
from typing import Any

from thence.sim.edge_paths import ENTRY_BYTES, HEAD_BYTES, PathWorld
from thence.sim.edge_steady import STEPS_MAX, EdgeLoad, delays_of, members_of, percentile
from thence.sim.edge_storm import MS, SECOND, tree_of
from thence.sim.step_world import Air
from thence.spread.edge_paths import PathSettings


class SteadyPaths:
    def __init__(self, load: EdgeLoad) -> None:
        self.load = load
        self._random = Random(f"{load.seed}/steady")
        parents = tree_of(load.nodes, load.degree, self._random, load.deep)
        self.members = members_of(load, parents, self._random)
        settings = PathSettings(beat_us=SECOND, suspect_us=3500 * MS, again_us=500 * MS)
        air = Air(latency_us=10 * MS, jitter_us=10 * MS, sessions=True, wire=False)
        self.world = PathWorld(load.seed, parents, self.members, air, settings)
        self.world.steps_max = STEPS_MAX
        self.log_sizes: list[int] = []

    def __call__(self) -> dict[str, Any]:
        """What was measured; `why` says what did not end well. A header is counted, not encoded."""
        world, load = self.world, self.load
        for name in world.names:
            world.boot(name)
        for group, names in self.members.items():
            for name in names:
                self._publish(name, group)
        for at in range(0, load.span_us, 200 * MS):
            world.at(at, self._look)
        world.run(load.span_us)
        rests = world.run(world.now + 60 * SECOND, lambda: not world.unsettled(), SECOND)
        found = delays_of(world.diaries, 0)
        copies = max(1, len(world.entries))
        why = "" if rests else world.problem or world.unsettled()
        return {
            "complete": not why, "why": why, "deliveries": len(found),
            "messages": sum(process.memory.number for process in world.processes.values()),
            "delay_ms": fmean(found) / MS if found else 0.0, "delay_p99_ms": percentile(found, 0.99) / MS,
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

    def _look(self) -> None:
        self.log_sizes += [len(process.memory.log) for process in self.world.processes.values()]
