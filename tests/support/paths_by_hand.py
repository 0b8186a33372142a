"""Nodes that number paths, with copies brought by hand: what storms cannot show."""

from collections.abc import Callable

from thence.spread.edge_map import PathMap
from thence.spread.edge_paths import PathCopy, PathNode, PathSettings

LINE = PathMap({"x": "", "y": "x", "u": "y"}, {"g": ["u"]})


def node(name: str) -> PathNode:
    made = PathNode(name, LINE, PathSettings())
    made.restart(0)
    return made


def accepted(made: PathNode) -> list[int]:
    return [record.place[1] for record in made.box]


def a_number_is_the_next() -> None:
    """The node that numbers a message knows the number before it, and tells it as a barrier unless it is
    acknowledged: so copies of correct nodes never need this. Whatever comes must wait all the same."""
    u = node("u")
    u.receive("y", PathCopy(("x", 2), "g", {"u": {"x": 2}}, {}, b""), 0)
    assert accepted(u) == [], "order: a number was skipped"
    u.receive("y", PathCopy(("x", 1), "g", {"u": {"x": 1}}, {}, b""), 0)
    assert accepted(u) == [1, 2]


def a_barrier_above_the_own_number_is_left_out() -> None:
    """Else the copy could be accepted only after another one of the same message, straight from the node
    that numbered it: the receiver would wait for that node for as long as it is down."""
    y, u = node("y"), node("u")
    y.receive("x", PathCopy(("x", 1), "g", {"y": {"x": 1}, "u": {"x": 1}}, {("x", "u"): 2}, b""), 0)
    [copy] = [packet for to, packet in y.outbox if to == "u" and isinstance(packet, PathCopy)]
    u.receive("y", copy, 0)
    assert accepted(u) == [1], "held: it waits for what follows it"


BY_HAND: dict[str, Callable[[], None]] = {
    "next": a_number_is_the_next,
    "above": a_barrier_above_the_own_number_is_left_out,
}
