"""Storms over a tree whose nodes number paths: crashes, cuts and pauses, one after the other; then calm."""

from random import Random

from thence.sim.air import Air
from thence.sim.edge_paths import PathWorld
from thence.sim.edge_storm import PATIENCE_US
from thence.sim.edge_weather import SECOND, EdgeWeather, tree_of
from thence.spread.edge_paths import PathSettings


class PathStorm:
    """In the weather of an edge tree, as far as it concerns this scheme."""

    deaths = losses = moves = 0

    def __init__(self, seed: int, weather: EdgeWeather) -> None:
        self.weather = weather
        self.crashes = 0
        self._random = random = Random(f"{seed}/paths")
        parents = tree_of(weather.nodes, weather.degree, random)
        names = list(parents)
        self.groups = {
            f"g{number}": random.sample(names, random.randint(1, min(4, len(names))))
            for number in range(weather.groups)
        }
        drawn = weather.settings
        settings = PathSettings(
            beat_us=drawn.heartbeat_us, suspect_us=drawn.suspect_us, again_us=2 * drawn.heartbeat_us
        )
        air = Air(
            latency_us=weather.air.latency_us, jitter_us=weather.air.jitter_us, sessions=True, wire=False
        )
        self.world = PathWorld(seed, parents, self.groups, air, settings)

    def __call__(self) -> str:
        """Why it did not end well; empty: it did."""
        world, weather, random = self.world, self.weather, self._random
        for name in world.names:
            world.boot(name)
        end = weather.span_us
        for name in world.names:
            self._plan_sends(name, end)
        for _ in range(weather.troubles):
            world.at(random.randrange(end), random.choice((self._crash, self._crash, self._cut, self._pause)))
        world.run(end)
        world.cut.clear()
        for name in world.names:
            world.boot(name)
        settled = world.run(world.now + PATIENCE_US, lambda: not world.unsettled())
        return world.problem or ("" if settled else world.unsettled())

    def _plan_sends(self, name: str, until: int) -> None:
        world, random, weather = self.world, self._random, self.weather
        own = [group for group, members in self.groups.items() if name in members]

        def send() -> None:
            group = random.choice(own) if own and random.random() < 0.8 else random.choice([*self.groups])
            world.send(name, group, payload=b"." * weather.payload_bytes)
            if world.now < until:
                world.at(world.now + int(2 * random.random() * weather.interval_us), send)

        world.at(random.randrange(weather.interval_us), send)

    def _crash(self) -> None:
        world, random = self.world, self._random
        name = random.choice(world.names)
        self.crashes += 1
        world.crash(name, torn="written" if random.random() < 0.3 else None)
        world.at(world.now + random.randrange(2 * SECOND), lambda: world.boot(name))

    def _cut(self) -> None:
        world, random = self.world, self._random
        one = random.choice(world.names)
        other = random.choice([name for name in world.map.ball(one, 2) if name != one] or [one])
        pairs = {(one, other), (other, one)} if random.random() < 0.7 else {(one, other)}
        world.cut |= pairs
        world.at(world.now + random.randrange(2 * SECOND), lambda: world.cut.difference_update(pairs))

    def _pause(self) -> None:
        world, random = self.world, self._random
        world.processes[random.choice(world.names)].paused = world.now + random.randrange(SECOND)
