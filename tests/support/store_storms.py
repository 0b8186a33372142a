"""Storms over groups whose programs are stores, compared with the specification.

python -m support.store_storms FIRST LAST       # with tests/ on the path: more seeds than the suite runs
"""

import sys
from dataclasses import replace
from random import Random
from typing import Any

from support.groups import glass, in_turns, judged, with_bad_disks
from support.store_model import Model, Op
from thence.oplog.policy import Policy
from thence.sim.groups_store import SimStore
from thence.sim.groups_storm import GroupStorm
from thence.store import ops
from thence.store.state import decode

SYNCS_FROM = 1000
"""From this seed on syncs take their time, or are not waited for."""


def store_storm(seed: int) -> GroupStorm:
    """A short one. In turn a plain one, one with bad disks, one over a tree, one in which much takes many
    steps, one over a closed group (of which the states are judged, not the trace)."""
    kind, random = seed % 5, Random(f"{seed}/stores")
    weather = with_bad_disks(seed).weather if kind == 1 else glass(seed)
    if kind == 2:
        air, settings = replace(weather.air, links=True, sessions=False), replace(weather.settings, rings=1)
        weather = replace(weather, air=air, settings=settings, processes=5, founders=6)
    if kind == 4:
        air, settings = replace(weather.air, links=True), replace(weather.settings, silence_us=None)
        weather = replace(weather, air=air, settings=settings, closed=True)
    interval, runs = random.choice((60_000, 250_000)), random.choice((1, 1, 4))
    weather = replace(weather, store=True, reads=False, interval_us=interval, runs=runs)
    if seed >= SYNCS_FROM:
        syncs = Random(f"{seed}/syncs")
        policies: tuple[Policy, ...] = ("always", "always", "everysec", "no")
        weather = replace(weather, sync=syncs.choice(policies), sync_us=syncs.choice((0, 3_000, 60_000)))
    storm = GroupStorm(seed, weather)
    return in_turns(storm) if kind == 3 else storm


def trouble_with_stores(seed: int) -> str:
    storm = store_storm(seed)
    why = storm() or _unlike_the_model(storm)
    return why if storm.weather.closed else judged(why, storm.world)


def _unlike_the_model(storm: GroupStorm) -> str:
    """Every store has applied the same, and holds the same: one is looked at."""
    world = storm.world
    stores = [process.application for process in world.processes.values()]
    payloads = {
        place: one for store in stores if isinstance(store, SimStore) for place, one in store.payloads.items()
    }
    for process in world.processes.values():
        store = process.application
        if process.node is None or process.node.status != "member" or not isinstance(store, SimStore):
            continue
        delivered = []
        for place in store.order:
            time, parts = decode(payloads[place])
            order, size = world.operations[place]
            delivered.append(Op(place, time, frozenset(order[:size]), parts))
        return _differs(store, delivered)
    return ""


def _differs(store: SimStore, delivered: list[Op]) -> str:
    held = {(number, key): (deadline, kinds) for number, key, deadline, kinds in store.holds()}
    parts = [part for op in delivered for part in op.parts if part[0] < ops.FLUSH]
    for place in sorted({(part[1], part[2]) for part in parts}):
        model = Model(delivered, *place, store.store.space.remove_wins)
        kinds: dict[str, Any] = {
            "string": model.string(), "hash": model.cells(ops.FIELD_SET),
            "zset": model.cells(ops.SCORE_SET), "set": sorted(model.elements()),
        }  # fmt: skip
        kinds = {kind: value for kind, value in kinds.items() if value not in (None, {}, [])}
        found = held.pop(place, (model.deadline(), {}))
        if found != (model.deadline(), kinds):
            return f"{place} is {found}, and is to be {(model.deadline(), kinds)}"
    return f"{held}, of which no operation tells" if held else ""


if __name__ == "__main__":
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        if why := trouble_with_stores(seed):
            print(seed, why, flush=True)
