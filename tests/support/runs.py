"""Random small runs, correct ones and broken ones, for whatever judges traces.

`random_run` gives a run of a correct system, which every verifier must find faultless. `sabotage`
breaks a run in one to three of the ways that verdicts exist for; what verifiers make of that has no
known answer, but they must agree on it row by row.
"""

from random import Random

from support.run_model import Member, World
from support.run_rows import placed, with_lives, with_metrics, with_stables, without_beginning
from support.run_sabotage import sabotage
from thence.trace.schema import Event

__all__ = ["random_run", "sabotage"]

RARE = (
    "install", "join", "restart", "leave", "crash", "evict", "evict", "write_evictions",
    "come_back", "come_back", "carry", "say_nothing",
)  # fmt: skip


def random_run(rng: Random, run: str, group: str = "") -> list[Event]:
    """The rows of a correct run of two to six nodes, five to about sixty rows."""
    while True:
        rows = _any_run(rng, run, group)
        if len(rows) >= 5:
            return rows


def _any_run(rng: Random, run: str, group: str) -> list[Event]:
    world = World(rng)
    rare = [kind for kind in RARE if rng.random() < 0.5]
    budget = rng.randint(5, 45)
    for _ in range(4 * budget):
        here = [member for member in world.members.values() if member.here()]
        to_come = sum(len(world.open_for(member)) for member in here)
        if not here or len(world.log) + to_come >= budget:
            break
        _act(world, rng.choice(here), rare)
    world.finish()
    if world.stuck():
        return []
    log = with_stables(world)
    midway = log and rng.random() < 0.3
    events = without_beginning(world, log) if midway else [record.event for record in log]
    return placed(rng, with_lives(rng, world, with_metrics(rng, world, events)), run, group)


def _act(world: World, member: Member, rare: list[str]) -> None:
    dice = world.rng.random()
    if member.orphans and dice < 0.6:
        world.carry(member)
    elif dice < 0.3:
        world.send(member)
    elif dice < 0.8 or not rare:
        world.deliver(member)
    else:
        kind = world.rng.choice(rare)
        # The dead are evicted too, which is why this one looks beyond those who are here.
        chosen = world.rng.choice(sorted(world.members.values(), key=lambda member: member.name))
        if kind == "join":
            world.join()
        elif kind in ("evict", "come_back"):
            getattr(world, kind)(chosen)
        elif kind in ("crash", "leave") and sum(other.here() for other in world.members.values()) < 2:
            return
        else:
            getattr(world, kind)(member)
