"""Storms and schedules over changing groups, and what is wrong with them."""

from dataclasses import replace
from random import Random

from thence.check import Flag, judge
from thence.check.forgotten import Forgotten
from thence.core.groups import number_of
from thence.oplog.policy import Policy
from thence.sim.groups import GroupWorld
from thence.sim.groups_disks import BadDisk, draw_disks
from thence.sim.groups_lies import Traitor
from thence.sim.groups_partings import draw_partings
from thence.sim.groups_restores import draw_restores
from thence.sim.groups_storm import GroupStorm, events_of
from thence.sim.groups_weather import SECOND, STRANGERS_FROM, StormSettings, draw, draw_all, draw_large


def judged(why: str, world: GroupWorld) -> str:
    """What is wrong with a run that says `why` of itself; if nothing, the trace has the last word."""
    forgotten = world.forgotten_in_trace()
    for verdict in judge(events_of(world)) if not why else ():
        flagged = [flag for flag in verdict.flagged if not excused(flag, forgotten)]
        if flagged:
            why = why or f"{', '.join(sorted({flag.verdict for flag in flagged}))}: {flagged[:3]}"
    return why


def excused(flag: Flag, forgotten: Forgotten) -> bool:
    """Does a row bring late what may come late, and nothing else?"""
    pairs = [tuple((dot.origin, dot.seq) for dot in pair) for pair in flag.overtaken]
    return bool(pairs) and all(forgotten.may_follow(late, early) for late, early in pairs)


def trouble(seed: int) -> str:
    """What is wrong with the storm of a seed, if anything."""
    storm = GroupStorm(seed)
    return judged(storm(), storm.world)


def trouble_in_full(seed: int) -> str:
    """The same with all that a storm may have."""
    storm = GroupStorm(seed, draw_all(seed))
    why = storm()
    return why if storm.world.misled else judged(why, storm.world)


def glass(seed: int) -> StormSettings:
    """A short storm with few messages and much trouble: many of these fit into a second."""
    random = Random(f"{seed}/glass")
    weather = draw(seed)
    return replace(
        weather,
        processes=random.choice((3, 4, 5)),
        founders=4,
        span_us=5 * SECOND,
        interval_us=random.choice((300_000, 700_000)),
        troubles=random.randint(4, 9),
        air=replace(weather.air, wire=False, latency_us=10_000, jitter_us=10_000),
    )


def trouble_in_a_glass(seed: int) -> str:
    storm = GroupStorm(seed, glass(seed))
    return judged(storm(), storm.world)


def trouble_in_a_tree(seed: int) -> str:
    """The same over a tree: few links, a member between most others."""
    weather, random = glass(seed), Random(f"{seed}/tree")
    settings = replace(weather.settings, rings=random.choice((1, 1, 2)))
    weather = replace(weather, settings=settings, processes=random.choice((4, 5, 6)), founders=6)
    storm = GroupStorm(seed, replace(weather, air=replace(weather.air, links=True, sessions=False)))
    return judged(storm(), storm.world)


def trouble_on_a_trunk(seed: int) -> str:
    """The same where receipts go over one tree for all."""
    weather, random = glass(seed), Random(f"{seed}/trunk")
    settings = replace(
        weather.settings, rings=random.choice((1, 1, 2)), collect_from=random.choice((2, 3, 4))
    )
    air = replace(weather.air, links=True, sessions=False)
    processes = max(weather.processes, random.choice((5, 6, 8)))
    storm = GroupStorm(seed, replace(weather, air=air, settings=settings, processes=processes))
    return judged(storm(), storm.world)


def trouble_in_runs(seed: int) -> str:
    """A short storm in which programs send several operations at a time; every third over a tree."""
    random = Random(f"{seed}/in runs")
    weather = replace(glass(seed), runs=random.choice((3, 20)))
    air, settings = weather.air, replace(weather.settings, tags_max=random.choice((4, 32_768)))
    if seed % 3 == 0:
        air, settings = replace(air, links=True, sessions=False), replace(settings, rings=1)
    storm = GroupStorm(seed, replace(weather, air=air, settings=settings))
    return judged(storm(), storm.world)


def trouble_with_large(seed: int) -> str:
    """A short storm over session links with operations that are larger than a packet; every third over a
    tree, and every fourth in runs."""
    weather, settings = draw_large(seed, glass(seed), glass(seed).settings)
    air = replace(weather.air, links=True)
    if seed % 3 == 0:
        air, settings = replace(air, sessions=False), replace(settings, rings=1)
    runs = 5 if seed % 4 == 0 else 1
    weather = replace(weather, air=air, settings=settings, large=weather.large or 900, runs=runs)
    weather = replace(weather, points=False, sync_us=0)
    storm = GroupStorm(seed, weather)
    return judged(storm(), storm.world)


def at_points(seed: int) -> GroupStorm:
    """A short storm in which processes go down in the middle of steps, at any point of them, and syncs take a
    while; mostly over session links, and in runs. Nothing else happens, and no member evicts another."""
    weather, random = glass(seed), Random(f"{seed}/at points")
    air = replace(weather.air, links=random.random() < 0.8)
    weather = replace(weather, settings=replace(weather.settings, silence_us=None))
    sync_us = random.choice((0, 5_000, 80_000))
    storm = replace(weather, air=air, points=True, sync_us=sync_us, runs=random.choice((1, 5)), crashes=True)
    return GroupStorm(seed, storm)


def trouble_at_points(seed: int) -> str:
    """All is synced before it has consequences, so that no process can have forgotten anything that others
    know: then it would come back as another incarnation."""
    storm = at_points(seed)
    why = storm()
    if again := [name for name in storm.world.diaries if number_of(name) > 1]:
        why = why or f"forgot what others know: {', '.join(again)}"
    return judged(why, storm.world)


def trouble_with_declining(seed: int) -> str:
    """A short storm whose applications do not want all of their orphans back."""
    storm, random = GroupStorm(seed, glass(seed)), Random(f"{seed}/declining")
    for process in storm.world.processes.values():
        share = random.choice((0.0, 0.1, 0.5))
        unwanted: dict[tuple[str, int], bool] = {}
        process.application.declines = lambda place, share=share, unwanted=unwanted: unwanted.setdefault(  # type: ignore[misc]
            place, random.random() < share
        )
    return judged(storm(), storm.world)


def with_bad_disks(seed: int) -> GroupStorm:
    """The same with less other trouble, and disks that fail, are full, and lose what was not synced."""
    weather, random = glass(seed), Random(f"{seed}/bad glass")
    disks: tuple[BadDisk, ...] = ()
    sync: Policy = "always"
    while not disks:
        disks, sync = draw_disks(random.randrange(1 << 32), weather.processes, weather.span_us)
    return GroupStorm(seed, replace(weather, troubles=random.randint(0, 5), disks=disks, sync=sync))


def trouble_among_strangers(seed: int) -> str:
    """A storm in which most know only whom they have met. Where counters were given twice the trace, which
    names messages by them, has no say."""
    storm = GroupStorm(STRANGERS_FROM + seed, draw_all(STRANGERS_FROM + seed))
    why = storm()
    return why if storm.world.misled else judged(why, storm.world)


def trouble_collected(seed: int) -> str:
    """A short storm over session links in which receipts go by way of a collector."""
    weather = glass(seed)
    settings, air = replace(weather.settings, collect_from=3), replace(weather.air, links=True)
    storm = GroupStorm(seed, replace(weather, settings=settings, air=air))
    return judged(storm(), storm.world)


def trouble_with_disks(seed: int) -> str:
    storm = with_bad_disks(seed)
    return judged(storm(), storm.world)


def trouble_with_a_guest(seed: int) -> str:
    """A short storm in which a guest lies all the time; mostly over session links, as live nodes have."""
    weather, random = glass(seed), Random(f"{seed}/guest glass")
    air = replace(weather.air, links=random.random() < 0.8)
    storm = GroupStorm(seed, replace(weather, air=air, lies_us=random.choice((5_000, 20_000))))
    return judged(storm(), storm.world)


def trouble_with_a_traitor(seed: int) -> str:
    """A short storm in which a member lies: what broke, if anything did but the truth."""
    weather, random = glass(seed), Random(f"{seed}/traitor")
    storm = GroupStorm(seed, replace(weather, air=replace(weather.air, links=random.random() < 0.8)))
    world = storm.world
    for process in world.processes.values():
        process.application.believe()
    Traitor(world, random.choice(world.names), random, share=0.05)
    world.run(weather.span_us + 8 * SECOND)
    return "" if world.problem.startswith("no end") else world.problem


def in_turns(storm: GroupStorm) -> GroupStorm:
    """The same, and much takes many steps, between which time passes and anything may happen."""
    seed, weather, random = storm.seed, storm.weather, Random(f"{storm.seed}/turns")
    settings = replace(weather.settings, step_max=random.choice((2, 9)))
    return GroupStorm(seed, replace(weather, settings=settings, turn_us=random.choice((1_000, 8_000))))


def trouble_in_turns(seed: int) -> str:
    """In turn a plain storm, one with bad disks and one with disks that are put back."""
    storm = in_turns(
        (lambda seed: GroupStorm(seed, glass(seed)), with_bad_disks, with_restores)[seed % 3](seed)
    )
    why = storm()
    return why if storm.world.misled else judged(why, storm.world)


def with_restores(seed: int) -> GroupStorm:
    """The same over session links, with disks that are put back to an earlier state."""
    weather, random = glass(seed), Random(f"{seed}/restored glass")
    restores = draw_restores(f"{seed}/glass", weather.processes, weather.span_us)
    air = replace(weather.air, links=True)
    storm = replace(weather, troubles=random.randint(0, 5), air=air, restores=restores, reads=False)
    return GroupStorm(seed, storm)


def trouble_with_restores(seed: int) -> str:
    """Where a member has listened to a process that was put back, its trace speaks of two messages as of one:
    then the states have the last word."""
    storm = with_restores(seed)
    why = storm()
    return why if storm.world.misled else judged(why, storm.world)


def with_partings(seed: int) -> GroupStorm:
    """A short storm, mostly over session links, in which some are told to leave while others evict each
    other."""
    weather, random = glass(seed), Random(f"{seed}/parting glass")
    processes = random.choice((4, 5, 5, 6))
    return GroupStorm(
        seed,
        replace(
            weather,
            processes=processes,
            founders=processes,
            troubles=random.choice((0, 0, 3)),
            air=replace(weather.air, links=random.random() < 0.8),
            partings=draw_partings(f"{seed}/glass", processes, weather.span_us),
        ),
    )


def trouble_with_partings(seed: int) -> str:
    storm = with_partings(seed)
    return judged(storm(), storm.world)
