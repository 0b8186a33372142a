"""What is drawn from a seed before a storm over a changing group begins (`sim.groups_storm`), and what that
costs: how long all that is sent is under way, and in how many steps.

What is drawn for a range of seeds stays as it is, since some are kept as tests: where storms learn something
new, it is for seeds from another number on.
"""

from dataclasses import dataclass, replace
from random import Random

from thence.oplog.policy import Policy
from thence.replica.group.settings import GroupSettings, Order
from thence.sim.air import Air
from thence.sim.groups_disks import BadDisk, draw_disks
from thence.sim.groups_partings import Parting, draw_partings
from thence.sim.groups_restores import Restore, draw_restores
from thence.sim.step_world import STEPS_MAX

SECOND = 1_000_000

LEAVE_US = 60 * SECOND
"""How long a leaver waits where all must leave in order: no trouble lasts as long."""

ORDERS: tuple[Order, ...] = ("graph", "graph", "vector")

RUNS_FROM = 10_000_000
"""From this seed on operations are sent several at a time in some storms. Those below were drawn, and some of
them kept, when a message held one."""

STRANGERS_FROM = 12_000_000
"""The same for storms in which processes do not know all others."""

LARGE_FROM = 14_000_000
"""The same for storms with operations that are larger than a packet."""

COLLECTED_FROM = 16_000_000
"""The same for storms over session links in which receipts go by way of a collector, also in small groups."""

PATIENCE_US = 180 * SECOND
"""Virtual time after the last fault: attempts to join take seconds each, and a few may fail. Longer where
what was sent cannot travel in that time (`GroupStorm.calm_us`)."""

RATIONED_FROM = 32_000_000
"""From this seed on no storm sends more than travels in `RATION` packets or so. One in sixteen of those below
sends more, up to 85 MB with 100 bytes in a packet, and takes up to an hour of CPU."""

RATION = 1_000_000
"""Packets of a storm, were each operation as large as may be, and each turn as long."""

BESIDE_BYTES = 100
"""Of an operation in a state or a packet, beside its payload: names, context, what programs note of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StormSettings:
    """What is drawn before a storm begins."""

    processes: int
    founders: int
    span_us: int
    interval_us: int
    troubles: int
    take_us: int
    payload_bytes: int
    rough: bool = False
    """Processes stop for a while and go on, too."""
    gentle: bool = False
    """Members only join, leave, and crash and come back: in a large group everything else takes for ever."""
    air: Air
    settings: GroupSettings
    disks: tuple[BadDisk, ...] = ()
    """What becomes of disks."""
    sync: Policy = "always"
    lies_us: int = 0
    """How often a guest that never joins says something untrue; 0: there is none."""
    restores: tuple[Restore, ...] = ()
    """Disks that are put back to an earlier state."""
    partings: tuple[Parting, ...] = ()
    """Members that are told to leave in the midst of other trouble. Then no other process leaves or loses
    anything for good, and all of them must leave in order."""
    reads: bool = False
    """Programs have no state."""
    closed: bool = False
    """All processes are members from the start, and none joins, leaves or is evicted."""
    runs: int = 1
    """Up to so many operations are sent at a time."""
    turn_us: int = 0
    """How long a process waits between two steps if it has more to do than one may."""
    large: int = 0
    """Operations have up to so many bytes, and tell how many; 0: all are alike."""
    crashes: bool = False
    """All trouble are crashes."""
    points: bool = False
    """Crashes in the middle of a step come at any point of it."""
    sync_us: int = 0
    """How long a sync takes at most, while other steps are taken."""
    store: bool = False
    """Programs are stores, and what they send are commands."""
    strangers: bool = False
    """Processes know no others but those that they have met, or were told of."""


def draw_all(seed: int) -> StormSettings:
    """The storm of a seed, how little a step does in it, what becomes of disks meanwhile, and who else is
    linked."""
    weather, random = draw(seed), Random(f"{seed}/steps")
    settings = replace(
        weather.settings,
        step_max=random.choice((1, 5, 256)),
        joins_max=random.choice((1, 2, 8)),
        states_bytes=random.choice((1, 16 << 20)),
    )
    disks, sync = draw_disks(seed, weather.processes, weather.span_us)
    restores = draw_restores(seed, weather.processes, weather.span_us) if _puts_back(seed, weather) else ()
    lies = Random(f"{seed}/lies").choice((0, 0, 0, 0, 10_000, 100_000))
    reads = weather.reads and not restores  # what a restored program has seen is for it to know
    partings: tuple[Parting, ...] = ()
    if not (disks or restores) and Random(f"{seed}/parts").random() < 0.4:
        partings = draw_partings(seed, weather.processes, weather.span_us)
    runs = Random(f"{seed}/runs").choice((1, 1, 5, 50)) if seed >= RUNS_FROM else 1
    strangers = seed >= STRANGERS_FROM and weather.air.links and Random(f"{seed}/strangers").random() < 0.75
    if seed >= LARGE_FROM:
        weather, settings = draw_large(seed, weather, settings)
    if seed >= COLLECTED_FROM:
        settings = replace(settings, collect_from=Random(f"{seed}/collected").choice((3, 4, 17)))
        weather = replace(weather, air=replace(weather.air, links=True))
    drawn = replace(
        weather, settings=settings, disks=disks, sync=sync, lies_us=lies, restores=restores, reads=reads,
        partings=partings, runs=runs, strangers=strangers,
    )  # fmt: skip
    return rationed(drawn) if seed >= RATIONED_FROM else drawn


def rationed(drawn: StormSettings) -> StormSettings:
    """With shorter turns, and then smaller operations, if it were to send too much."""
    while packets_of(drawn, most_sent(drawn)[1]) > RATION and (drawn.runs > 1 or drawn.large > 1):
        drawn = (
            replace(drawn, runs=drawn.runs // 2) if drawn.runs > 1 else replace(drawn, large=drawn.large // 2)
        )
    return drawn


def draw_large(
    seed: int, weather: StormSettings, settings: GroupSettings
) -> tuple[StormSettings, GroupSettings]:
    """Packets that hold little, and operations that need several; crashes at any point of a step."""
    random = Random(f"{seed}/large")
    settings = replace(
        settings, packet_bytes=random.choice((100, 700)), window_bytes=random.choice((900, 4 << 20))
    )
    large, points, sync_us = random.choice((0, 300, 3000)), random.random() < 0.7, (0, 3_000, 60_000)
    return replace(weather, large=large, points=points, sync_us=random.choice(sync_us)), settings


def draw_closed(seed: int) -> StormSettings:
    """The same over a closed group, which live nodes have with session links only."""
    weather, order = draw_all(seed), Random(f"{seed}/order").choice(ORDERS)
    restores = draw_restores(seed, weather.processes, weather.span_us) if seed % 2 else ()
    return replace(
        weather,
        closed=True,
        air=replace(weather.air, links=True),
        settings=replace(weather.settings, silence_us=None, order=order),
        partings=(),
        restores=restores,
        reads=draw(seed).reads and not restores,
    )


def draw_tree(seed: int) -> StormSettings:
    """The same over a tree, closed or not: few links each, so that most messages are passed on."""
    weather, random = draw_closed(seed) if seed % 3 == 0 else draw_all(seed), Random(f"{seed}/tree")
    settings = replace(weather.settings, rings=random.choice((1, 1, 2)))
    processes = max(weather.processes, random.choice((3, 5, 6, 8)))
    air = replace(weather.air, links=True, sessions=False)
    return replace(weather, air=air, settings=settings, processes=processes)


def draw_store(seed: int) -> StormSettings:
    """The same over a changing group whose programs are stores: commands come several at a time, also while
    earlier ones are being synced."""
    weather, random = draw_all(seed), Random(f"{seed}/commands")
    weather = replace(weather, store=True, reads=False, runs=random.choice((1, 1, 5)))
    return replace(weather, sync_us=random.choice((0, 3_000, 60_000)))


def _puts_back(seed: int, weather: StormSettings) -> bool:
    """Every other storm with session links, without which members are not told of starts."""
    return weather.air.links and Random(f"{seed}/puts back").random() < 0.5


def draw(seed: int) -> StormSettings:
    """The storm of a seed. Two in five have session links whose ends hear when they come and go."""
    weather, random = _draw(Random(f"{seed}/weather")), Random(f"{seed}/sessions")
    settings = replace(
        weather.settings,
        window=random.choice((1, 3, 8192)),
        window_bytes=random.choice((900, 4 << 20)),
        tags_max=random.choice((4, 32_768)),
    )
    air = replace(weather.air, links=random.random() < 0.4)
    patience = Random(f"{seed}/backlog")
    settings = replace(
        settings,
        settle_timeout_us=patience.choice((300_000, 30 * SECOND)),
        backlog=patience.choice((2, 4096)),
    )
    reading = Random(f"{seed}/reading")
    settings = replace(settings, history_bytes=reading.choice((1, 1 << 14, 16 << 20)))
    return replace(weather, settings=settings, air=air, reads=reading.random() < 0.5)


def _draw(random: Random) -> StormSettings:
    latency = random.choice((1_000, 10_000, 60_000))
    silence = random.choice((None, None, None, None, 2_500_000))
    return StormSettings(
        processes=random.choice((3, 3, 4, 4, 5, 6, 8)),
        founders=random.choice((1, 3, 4, 6)),
        span_us=random.randint(4, 16) * SECOND,
        interval_us=random.choice((60_000, 250_000, 900_000)),
        troubles=random.randint(0, 9),
        take_us=random.choice((0, 0, 20_000, 300_000)),
        payload_bytes=1,
        air=Air(
            latency_us=latency,
            jitter_us=latency,
            loss=random.choice((0.0, 0.05, 0.25)),
            duplicate=random.choice((0.0, 0.1, 0.3)),
            reorder=random.choice((0.0, 0.2, 0.5)),
            sessions=random.random() < 0.2,
            wire=random.random() < 0.2,
        ),
        settings=GroupSettings(
            receipt_every_us=random.choice((50_000, 100_000, 200_000)),
            join_timeout_us=random.choice((1_500_000, 3_000_000)),
            leave_timeout_us=random.choice((4_000_000, 20_000_000)),
            relay_us=random.choice((400_000, 800_000, 1_600_000)),
            piece_bytes=random.choice((100, 1 << 18)),
            silence_us=silence,
        ),
    )


def travel_us(drawn: StormSettings, operations: int, size: int) -> int:
    """How long so many operations, of so many bytes together, are under way at worst. A window of a state, or
    of messages, takes a round trip, and a sync before it is acknowledged. One process after the other is sent
    a state with everything in it; then all get everything once, and their programs take it."""
    settings = drawn.settings
    round_us = 2 * (drawn.air.latency_us + drawn.air.jitter_us) + drawn.sync_us
    states = drawn.processes * size // (settings.pieces * settings.piece_bytes)
    messages = max(size // settings.window_bytes, operations // settings.window)
    return (states + messages) * round_us + operations * drawn.take_us


def most_sent(drawn: StormSettings) -> tuple[int, int]:
    """Operations that a storm sends at most, or nearly so, and their bytes."""
    operations = drawn.processes * drawn.runs * (drawn.span_us // drawn.interval_us + 1)
    return operations, operations * ((drawn.large or drawn.payload_bytes) + BESIDE_BYTES)


def leave_us(drawn: StormSettings) -> int:
    """How long a leaver waits until all that it leaves have what it has: what all are likely to send must
    travel to them first."""
    return max(LEAVE_US, travel_us(drawn, *most_sent(drawn)))


def packets_of(drawn: StormSettings, size: int) -> int:
    """How many packets bring operations of so many bytes together to all, in a message and in a state."""
    settings = drawn.settings
    return drawn.processes * (size // settings.packet_bytes + size // settings.piece_bytes)


def steps_max(drawn: StormSettings, size: int) -> int:
    """More steps than a storm takes that ends. Each packet is one, and so is its receipt; what travels when
    members return comes once more."""
    return STEPS_MAX + 8 * packets_of(drawn, size)
