"""A replicated set in which adding wins over removing at the same time (section 3.4.2).

Every replica keeps the additions that it has seen, with their tags. A removal takes away the additions
that happened before it, and no others: one that is concurrent survives, at every replica and in whatever
order the two arrive.
"""

from thence.core.tag import Tag
from thence.sim.by_hand import ByHand

REPLICAS = ("P", "Q", "R")
group = ByHand(*REPLICAS)
additions: dict[str, list[tuple[str, Tag]]] = {name: [] for name in REPLICAS}


def apply(at: str, operation: str, tag: Tag) -> None:
    verb, element = operation.split()
    if verb == "add":
        additions[at].append((element, tag))
    else:
        additions[at] = [(e, added) for e, added in additions[at] if e != element or not added.before(tag)]


def do(at: str, operation: str) -> None:
    apply(at, operation, group.send(at, operation))
    print(f"{at}: {operation}")


def carry(sender: str, receiver: str) -> None:
    for delivered in group.carry(sender, receiver):
        assert delivered.tag is not None
        apply(receiver, delivered.message.payload.decode(), delivered.tag)


def show() -> None:
    for name in REPLICAS:
        print(f"    {name} has {sorted({element for element, _ in additions[name]}) or 'nothing'}")


do("P", "add a")
carry("P", "Q")
carry("P", "R")
do("Q", "remove a")  # after the addition: it goes
carry("Q", "P")
carry("Q", "R")
show()

do("P", "add a")  # these two do not know of each other
do("R", "remove a")
carry("P", "Q")
carry("R", "Q")
carry("R", "P")
carry("P", "R")
show()

group.settle()
print(f"stable everywhere: {[len(group.stable(name)) for name in REPLICAS]} of 4 operations")
