"""Named scenarios of overlays: what happens to nodes and links while they send.

The first four are the document's (section 5.2). To add one, write a function from settings and a seeded
Random to an `OverlayPlan`, and register it with the settings that suit it (`sim.registry`).
"""

from dataclasses import fields
from random import Random

from thence.core.errors import UsageError
from thence.sim.faults import Crash, Cut, Pause, apart
from thence.sim.overlay_plan import Arrive, Depart, Happening, OverlayPlan, Reset
from thence.sim.overlay_settings import OverlaySettings
from thence.sim.registry import VIEWS, Scenarios

OVERLAY_SCENARIOS = scenario = Scenarios[OverlaySettings, OverlayPlan](VIEWS)


def configure(name: str, **given: object) -> OverlaySettings:
    """The settings of a run: what was given, else the scenario's defaults, else those of all runs."""
    given = {key: value for key, value in given.items() if value is not None}
    known = {field.name for field in fields(OverlaySettings)}
    for key in given:
        if key not in known:
            raise UsageError(f"--{key.replace('_', '-')} has no meaning for spreads over partial views")
    defaults = OVERLAY_SCENARIOS.defaults(name, given.get("seed", 1))
    return OverlaySettings(scenario=name, **{**defaults, **given})  # type: ignore[arg-type]  # checked there


def _plan(
    settings: OverlaySettings, happenings: list[Happening], first: int, size: int, *marks: int
) -> OverlayPlan:
    """With `first` nodes that arrive one after the other."""
    every = round(settings.arrive_every_ms * 1000)
    arrivals = [Arrive(node * every, node) for node in range(first)]
    return OverlayPlan(size, (*arrivals, *happenings), settings.sending_us, settings.until_us, marks)


def _middle(settings: OverlaySettings) -> int:
    return (settings.sending_us + settings.until_us) // 2


@scenario("steady", "nothing happens")
def steady(settings: OverlaySettings, random: Random) -> OverlayPlan:  # noqa: ARG001
    return _plan(settings, [], settings.nodes, settings.nodes)


@scenario("stable", "the document's stable scenario: nothing happens", nodes=50, messages=60)
def stable(settings: OverlaySettings, random: Random) -> OverlayPlan:  # noqa: ARG001
    return _plan(settings, [], settings.nodes, settings.nodes)


CHURN_US = 30_000_000


@scenario("churn", "every 30 s, 4 % of the nodes are killed and as many join", nodes=50, messages=120)
def churn(settings: OverlaySettings, random: Random) -> OverlayPlan:
    share = max(1, round(0.04 * settings.nodes))
    there = list(range(settings.nodes))
    size, happenings, marks = settings.nodes, list[Happening](), []
    at = settings.sending_us + CHURN_US // 2
    while at + CHURN_US // 2 <= settings.until_us:
        marks.append(at)
        for node in random.sample(there, share):
            there.remove(node)
            happenings.append(Depart(at, node))
        for _ in range(share):
            happenings.append(Arrive(at, size))
            there.append(size)
            size += 1
        at += CHURN_US
    return _plan(settings, happenings, settings.nodes, size, *marks)


@scenario("massive-join", "midway, 30 % of the nodes join at once", nodes=50, messages=40)
def massive_join(settings: OverlaySettings, random: Random) -> OverlayPlan:  # noqa: ARG001
    first = settings.nodes - max(1, round(0.3 * settings.nodes))
    at = _middle(settings)
    joins: list[Happening] = [Arrive(at, node) for node in range(max(1, first), settings.nodes)]
    return _plan(settings, joins, max(1, first), settings.nodes, at)


@scenario("catastrophe", "midway, 30 % of the nodes are killed at once", nodes=50, messages=40)
def catastrophe(settings: OverlaySettings, random: Random) -> OverlayPlan:
    at = _middle(settings)
    gone = random.sample(range(settings.nodes), round(0.3 * settings.nodes))
    return _plan(settings, [Depart(at, node) for node in gone], settings.nodes, settings.nodes, at)


@scenario("root", "midway, the root of the tree is killed", nodes=6, messages=20)
def root(settings: OverlaySettings, random: Random) -> OverlayPlan:  # noqa: ARG001
    at = _middle(settings)
    return _plan(settings, [Depart(at, 0)], settings.nodes, settings.nodes, at)


@scenario("partition", "two halves lose sight of each other for the middle third of the run", messages=45)
def partition(settings: OverlaySettings, random: Random) -> OverlayPlan:
    third = (settings.until_us - settings.sending_us) // 3
    one = random.sample(range(settings.nodes), settings.nodes // 2)
    other = [node for node in range(settings.nodes) if node not in one]
    cut = Cut(settings.sending_us + third, settings.sending_us + 2 * third, apart(one, other))
    return _plan(settings, [cut], settings.nodes, settings.nodes, cut.until_us)


@scenario(
    "long-partition",
    "two halves lose sight of each other for longer than their logs remember",
    spread="eco-sync-tree",
    messages=60,
    ttl_ms=5000.0,
)
def long_partition(settings: OverlaySettings, random: Random) -> OverlayPlan:
    return partition(settings, random)


def draw_storm(random: Random) -> dict[str, object]:
    """A group, a load and a network, none of them kind."""
    return {
        "nodes": random.choice((2, 3, 3, 4, 5, 6, 8, 12)),
        "messages": random.randint(10, 40),
        "interval_ms": random.choice((50.0, 200.0, 500.0)),
        "latency": random.choice(("grid", "fixed", "weibull")),
        "latency_ms": random.choice((1.0, 10.0, 50.0)),
        "payload_bytes": random.choice((16, 1024)),
        "warmup_ms": random.choice((0.0, 500.0, 3000.0)),
        "silence_ms": random.choice((300.0, 1000.0, 3000.0)),
        "ttl_ms": random.choice((300.0, 1000.0, 3000.0)),
        "durable": random.random() < 0.5,
    }


@scenario(
    "tree-storm", "everything at once, drawn from the seed; then calm, and all must come right", draw_storm
)
def tree_storm(settings: OverlaySettings, random: Random) -> OverlayPlan:
    first, last = settings.sending_us // 2, settings.until_us
    nodes = settings.nodes
    late = random.randint(0, 3)
    happenings: list[Happening] = [Arrive(random.randint(first, last), nodes + k) for k in range(late)]

    def span() -> tuple[int, int]:
        at = random.randint(first, last)
        return at, at + random.choice((200_000, 1_000_000, 4_000_000, 10_000_000)) + random.randrange(500_000)

    for _ in range(random.randint(0, 3)):
        one = random.sample(range(nodes), random.randint(1, nodes))
        other = [node for node in range(nodes + late) if node not in one]
        happenings.append(Cut(*span(), apart(one, other)))
    for _ in range(random.randint(0, 4)):
        pair = random.sample(range(nodes), 2)
        happenings.append(Reset(random.randint(first, last), *pair))
    for node in range(nodes):
        if random.random() < 0.5:  # one fault of a node itself at a time, or none
            happenings.append(random.choice((Pause, Crash, Crash))(*span(), node))
        elif node > 1 and random.random() < 0.15:
            happenings.append(Depart(random.randint(first, last), node))
    happenings.sort(key=lambda one: one.at_us)
    return _plan(settings, happenings, nodes, nodes + late)


def draw_live(random: Random) -> dict[str, object]:
    """The same of nodes that are made like live ones: their disks fill up, and may be slow."""
    drawn = draw_storm(random)
    spread, slow = random.choice(("sync-tree", "eco-sync-tree")), random.random() < 0.5
    return {**drawn, "durable": False, "live": True, "slow": slow, "spread": spread}


@scenario("live-storm", "the same, of nodes that are made like live ones, on disks of their own", draw_live)
def live_storm(settings: OverlaySettings, random: Random) -> OverlayPlan:
    return tree_storm(settings, random)
