"""The scenarios of a mesh: settings that suit them, and a plan of faults.

To add one, write a function from settings and a seeded Random to a `Plan`, and register it with its defaults
(`sim.registry`). `sending_us` says how long the senders are busy, so that faults fall into that time.
"""

from random import Random

from thence.core.errors import UsageError
from thence.order.engine import SEPARATOR
from thence.order.topology import Topology
from thence.sim.faults import Crash, Cut, Death, Fault, Pause, Plan, PlannedJoin, apart, between
from thence.sim.registry import MESH, Scenarios
from thence.sim.settings import SimSettings
from thence.sim.topologies import named

SCENARIOS = scenario = Scenarios[SimSettings, Plan](MESH)


def configure(name: str, **given: object) -> SimSettings:
    """The settings of a run: what was given, else the scenario's defaults, else those of all runs."""
    given = {key: value for key, value in given.items() if value is not None}
    chosen = {**SCENARIOS.defaults(name, given.get("seed", 1)), **given}
    if chosen.get("order") == SEPARATOR and "batch_ms" not in given:
        chosen.pop("batch_ms", None)  # a storm's draw: addressed links do not batch
    return SimSettings(scenario=name, **chosen)  # type: ignore[arg-type]  # checked by Settings itself


def sending_us(settings: SimSettings) -> int:
    """About how long a node takes to send all its messages."""
    return round(settings.messages * settings.interval_ms * 1000)


def halves(settings: SimSettings) -> tuple[range, range]:
    middle = settings.nodes // 2
    return range(middle), range(middle, settings.nodes)


@scenario("steady", "nothing goes wrong beyond what the settings say")
def steady(settings: SimSettings, random: Random) -> Plan:  # noqa: ARG001
    return Plan()


@scenario(
    "slow-link", "the link between the first two nodes is ten times slower, or --slow-factor (section 8.1.3)"
)
def slow_link(settings: SimSettings, random: Random) -> Plan:  # noqa: ARG001
    return Plan(slow=apart([0], [1]) if settings.nodes > 1 else frozenset())


@scenario("partition", "two halves lose sight of each other for the middle third of the run", nodes=16)
def partition(settings: SimSettings, random: Random) -> Plan:  # noqa: ARG001
    whole = sending_us(settings)
    return Plan((Cut(whole // 3, 2 * whole // 3, apart(*halves(settings))),))


@scenario("one-way", "one half hears the other, but is not heard, for the middle third of the run")
def one_way(settings: SimSettings, random: Random) -> Plan:  # noqa: ARG001
    whole = sending_us(settings)
    return Plan((Cut(whole // 3, 2 * whole // 3, between(*halves(settings))),))


@scenario("pause", "a third of the nodes stop for a while and go on, one after another")
def pause(settings: SimSettings, random: Random) -> Plan:
    whole = sending_us(settings)
    sleepers = random.sample(range(settings.nodes), max(1, settings.nodes // 3))
    return Plan(
        tuple(
            Pause(at, at + whole // 4, node)
            for node in sleepers
            for at in [random.randrange(max(1, whole // 2))]
        )
    )


@scenario(
    "flaky",
    "lossy, repeating, reordering links, with short cuts of random links and late clients",
    loss=0.1,
    duplicate=0.1,
    reorder=0.2,
    take_ms=50.0,
)
def flaky(settings: SimSettings, random: Random) -> Plan:
    whole = sending_us(settings)
    if settings.nodes < 2:
        return Plan()
    cuts = []
    for _ in range(settings.nodes):
        sender, receiver = random.sample(range(settings.nodes), 2)
        at = random.randrange(max(1, whole))
        cuts.append(Cut(at, at + random.randrange(1, max(2, whole // 5)), between([sender], [receiver])))
    return Plan(tuple(cuts))


def draw_storm(random: Random) -> dict[str, object]:
    """A group, a load and a network, none of them kind."""
    return {
        "nodes": random.choice((2, 3, 3, 4, 5, 6, 8)),
        "messages": random.randint(5, 40),
        "interval_ms": random.choice((2.0, 20.0, 100.0, 500.0)),
        "interval": random.choice(("fixed", "poisson", "poisson")),
        "latency_ms": random.choice((1.0, 10.0, 50.0, 200.0)),
        "latency": random.choice(("fixed", "weibull")),
        "weibull_scale": random.choice((0.15, 1.0, 3.0)),
        "loss": random.choice((0.0, 0.05, 0.3)),
        "duplicate": random.choice((0.0, 0.1, 0.5)),
        "reorder": random.choice((0.0, 0.2, 0.5)),
        "take_ms": random.choice((0.0, 0.0, 10.0, 500.0)),
        "batch_ms": random.choice((0.0, 0.0, 5.0)),
    }


@scenario("storm", "everything at once, drawn from the seed; then calm, and all must come right", draw_storm)
def storm(settings: SimSettings, random: Random) -> Plan:
    whole = max(2_000_000, sending_us(settings))
    faults: list[Fault] = []
    for _ in range(random.randint(0, 4)):
        at, until = _span(random, whole)
        one = random.sample(range(settings.nodes), random.randint(1, settings.nodes))
        other = [node for node in range(settings.nodes) if node not in one]
        links = apart(one, other) if random.random() < 0.5 else between(one, other)
        faults.append(Cut(at, until, links))
    for node in range(settings.nodes):
        if random.random() < 0.5:  # one fault of a node itself at a time, or none
            at, until = _span(random, whole)
            faults.append(random.choice((Pause, Crash, Crash))(at, until, node))
    if settings.order == SEPARATOR:
        busy = {fault.node for fault in faults if isinstance(fault, Pause | Crash)}
        topology = zones_of(settings)
        faults += deaths(topology, random, whole, busy)
        mortal = [process for process in topology.applications if process not in busy]
        faults += [_death(process, random, whole) for process in mortal if random.random() < 0.15]
    return Plan(tuple(faults))


ROUTERS = "routers"


@scenario(
    ROUTERS,
    "gateways die, all but one of each separator (--order separator)",
    order=SEPARATOR,
    topology="2x3x4",
    gateways=3,
)
def routers(settings: SimSettings, random: Random) -> Plan:
    whole = max(1, sending_us(settings))
    return Plan(tuple(deaths(zones_of(settings), random, whole, set(), chance=1.0)))


JOINS = "joins"


@scenario(
    JOINS,
    "applications, a zone and a gateway of each separator join; then gateways die (--order separator)",
    order=SEPARATOR,
    topology="2x3x4",
    gateways=3,
)
def joins(settings: SimSettings, random: Random) -> Plan:
    """Section 4.4. All is joined in the middle third; in the last one any gateway may die that another can
    stand in for. A new zone is one at the end of the tree of which all applications are new."""
    topology, whole = zones_of(settings), max(3, sending_us(settings))
    newcomers = [separator.members[-1] for separator in topology.separators if len(separator.members) > 1]
    fresh = random.choice([zone.members for zone in topology.zones if len(zone.separators) == 1] or [[]])
    several = topology.applications[1:]
    newcomers += [each for each in several if each in fresh or random.random() < 0.2]
    faults: list[Fault] = []
    for node in newcomers:
        at = random.randrange(whole // 3, whole // 2)
        faults.append(PlannedJoin(at, at + random.randrange(1, max(2, whole // 6)), node))
    for separator in topology.separators:
        members = random.sample(separator.members, random.randrange(len(separator.members)))
        for node in members:
            at = random.randrange(2 * whole // 3, whole)
            faults.append(Death(at, at + random.randrange(1, max(2, whole // 6)), node))
    return Plan(tuple(faults))


def zones_of(settings: SimSettings) -> Topology:
    if settings.order != SEPARATOR:
        raise UsageError(f"scenario {settings.scenario} is for --order {SEPARATOR}")
    return named(settings.topology, settings.seed, settings.gateways).topology


def deaths(
    topology: Topology, random: Random, whole: int, busy: set[int], chance: float = 0.6
) -> list[Fault]:
    """Of each separator all members but one may die, at any moment, and are missed after a while."""
    mortal = []
    for separator in topology.separators:
        spared = random.choice(separator.members)
        mortal += [node for node in separator.members if node != spared and node not in busy]
    return [_death(node, random, whole) for node in mortal if random.random() < chance]


def _death(node: int, random: Random, whole: int) -> Death:
    at = random.randrange(whole)
    return Death(at, at + random.randrange(1, max(2, whole // 4)), node)


def _span(random: Random, whole: int) -> tuple[int, int]:
    at = random.randrange(whole)
    return at, at + random.randrange(1, whole)
