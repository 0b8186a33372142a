"""What must hold of the programs of a changing group once it has come to rest (`GroupWorld.unsettled`)."""

from thence.core.groups import Place
from thence.sim.groups import GroupWorld
from thence.sim.groups_store import SimStore


def lost_operations(world: GroupWorld) -> set[Place]:
    """Operations that some process, still running with the disk that it always had, had once applied,
    and that are in no state any more, although none declined them."""
    members = [
        process
        for process in world.processes.values()
        if process.node is not None and process.node.status == "member"
    ]
    had = set[Place]().union(*[process.application.ever for process in members])
    had.difference_update(*[process.application.declined for process in world.processes.values()])
    have = [process.application.applied for process in members]
    return {place for place in had if not all(place in applied for applied in have)}


def differing_stores(world: GroupWorld) -> str:
    """What stores hold is a function of the operations that took effect; at rest nothing else is kept."""
    first: tuple[str, SimStore] | None = None
    for name, process in world.processes.items():
        store = process.application
        if process.node is None or process.node.status != "member" or not isinstance(store, SimStore):
            continue
        first = first or (name, store)
        if store.holds() != first[1].holds():
            return f"{first[0]} holds {first[1].holds()}, {name} {store.holds()}"
        if store.keeps():
            return f"{name} keeps what {store.keeps()} operations saw"
    return ""


def silent_losses(world: GroupWorld) -> list[tuple[str, Place]]:
    """What took effect, and a program without a state neither got nor was told that it has missed."""
    return [
        (name, place)
        for name, process in world.processes.items()
        if process.application.reads and process.node is not None and process.node.status == "member"
        for place in process.application.reader.silent(process.application.applied)
    ]


def out_of_order(world: GroupWorld) -> list[tuple[Place, Place]]:
    """Operations of one process that took effect somewhere after a later one of the same process: rule 32
    of docs/protocols/membership.md. What the process had forgotten or declined before that may come late."""
    orders = [process.application.order for process in world.processes.values()]
    return [found for order in orders for found in world.forgotten.inversions(order)]
