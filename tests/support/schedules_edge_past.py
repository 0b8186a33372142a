"""What a message may follow from, as far as a node can tell: the gate waits for that, and for no less.

In each d gets messages of h and none of g, and its node v, or c, is cut off upwards when g's m is in its log.
"""

from support.edges import Grove

BELOW = {"r": "", "a": "r", "v": "a", "c": "v", "d": "v", "x": "r"}
"""c and d are siblings, v's chain is a."""
LINE = {"r": "", "a": "r", "b": "a", "c": "b", "d": "c", "e": "c", "x": "r"}
"""d and e are siblings below c."""


def _stays(grove: Grove, *lost: str) -> None:
    """d has nothing of h, and v is lost with all that came to it: what d may say does not hurt."""
    assert grove.got("d", "h") == [], "order: through the gate"
    _without(grove, *lost)


def _without(grove: Grove, *lost: str) -> None:
    grove.crash(*lost)
    grove.run(2000)
    grove.finish()


def _parent(grove: Grove, name: str) -> str:
    parent = grove.node(name).tree.parent
    return parent.peer if parent is not None else ""


def gate_apart() -> None:
    """What does not follow from m waits for nothing: c's message, and one that comes down from a."""
    grove = Grove({**BELOW, "y": "v"}, 1, {"g": ["x"], "h": ["a", "d", "x"]})
    grove.hold(("v", "a"))
    grove.send("y", "g")
    grove.run(50)
    grove.send("c", "h")
    grove.send("a", "h")
    grove.send("v", "h")  # whose program has not been told of m
    grove.run(50)
    assert len(grove.got("d", "h")) == 3, "late: held for what it does not follow from"
    grove.send("y", "h")
    grove.run(50)
    assert len(grove.got("d", "h")) == 3, "order: through the gate"
    _without(grove, "v", "y")


def gate_from_one() -> None:
    """c sends m and what follows from it."""
    grove = Grove(BELOW, 1, {"g": ["x"], "h": ["d", "x"]})
    grove.hold(("v", "a"))
    grove.send("c", "g")
    grove.send("c", "h")
    grove.run(200)
    _stays(grove, "v", "c")


def gate_told() -> None:
    """m went down to c, whose message follows from it."""
    grove = Grove(BELOW, 1, {"g": ["c", "x"], "h": ["d", "x"]})
    grove.hold(("v", "a"))
    grove.send("v", "g")
    grove.run(100)
    assert grove.got("c", "g") == [("v", 1)], "held: nothing is before it"
    grove.send("c", "h")
    grove.run(200)
    _stays(grove, "v", "c")


def gate_again() -> None:
    """The same, and c attached once more, since a packet was lost: what it had then counts."""
    grove = Grove(BELOW, 1, {"g": ["c", "x"], "h": ["d", "x"]})
    grove.hold_session(("v", "a"))
    grove.send("v", "g")
    grove.run(50)
    grove.hold_session(("c", "v"))
    grove.run(120)
    grove.lose(("c", "v"))
    session = grove.node("c").book.session
    grove.until(lambda: grove.node("c").book.session > session and _parent(grove, "c") == "v")
    grove.send("c", "h")
    grove.run(100)
    _stays(grove, "v", "c")


def gate_twice() -> None:
    """m comes to v from k, and then from c, which had it from k as well: c's message follows from it. v does
    not send it to c, since u's is before it."""
    grove = Grove({**BELOW, "k": "c"}, 1, {"g": ["c", "x"], "h": ["d", "x"], "u": ["x"]})
    grove.hold_session(("v", "a"))
    grove.send("d", "u")
    grove.hold(("k", "c"), ("c", "k"))
    grove.send("k", "g")
    grove.until(lambda: not _parent(grove, "k"))
    grove.until(lambda: ("k", "g") in grove.node("v").book.have)
    assert grove.got("c", "g") == [], "held: it was let through"
    grove.hand("k", "c")
    grove.until(lambda: grove.got("c", "g") == [("k", 1)])
    grove.send("c", "h")
    grove.run(100)
    _stays(grove, "v", "c", "k")


def gate_joined() -> None:
    """v's program begins from a state, and m on top of it: then it was told of m."""
    grove = Grove(BELOW, 1, {"g": ["x"], "h": ["d", "x"]})
    grove.hold(("a", "v"))
    grove.world.join("v", "g")
    grove.run(100)
    grove.hold(("v", "a"))
    grove.send("c", "g")
    grove.run(50)
    grove.release(("a", "v"))
    grove.until(lambda: grove.got("v", "g") == [("c", 1)])
    grove.send("v", "h")
    grove.run(100)
    _stays(grove, "v", "c")


def gate_second() -> None:
    """δ = 2: m and what follows from it come to c from b, which alone of c's chain has m: d's may lack it."""
    grove = Grove(LINE, 2, {"g": ["e", "x"], "h": ["d", "x"]})
    grove.hold(("b", "a"))
    grove.send("b", "g")
    grove.send("b", "h")
    grove.run(200)
    _stays(grove, "c", "b", "e")


def _passed_on(window: int = 1024) -> Grove:
    """δ = 1: the same, and d may have it, since its chain is c and b. Then b is lost."""
    grove = Grove(LINE, 1, {"g": ["e", "x"], "h": ["d", "x"]}, window=window)
    grove.hold(("b", "a"))
    if window == 1:
        grove.hold(("d", "c"))
        grove.send("b", "h")
        grove.run(50)
    grove.send("b", "g")
    grove.send("b", "h")
    grove.run(100)
    grove.hold_session(("c", "a"))
    grove.crash("b")
    grove.until(lambda: _parent(grove, "c") == "a")
    return grove


def passed_first() -> None:
    """c is below a, which has not got m: d's chain may not grow by a."""
    grove = _passed_on()
    assert grove.got("d", "h") == [("b", 2)], "late: held for what the parent had"
    grove.run(200)
    assert grove.chain("d") == ("c",), "chain: over what was passed over"
    _without(grove, "c", "e")


def passed_late() -> None:
    """The same where d has room for what follows from m only when c is below a."""
    grove = _passed_on(window=1)
    assert grove.got("d", "h") == [("b", 1)], "window: too large"
    grove.release(("d", "c"))
    grove.run(200)
    assert len(grove.got("d", "h")) == 1 or grove.chain("d") == ("c",), "order: through the gate"
    _without(grove, "c", "e")


def passed_second() -> None:
    """b had gone on by itself, and c's chain was b alone. When that grows by a, d's may not: a lacks m."""
    grove = Grove(LINE, 2, {"g": ["e", "x"], "h": ["d", "x"]}, alone_us=1_000_000)
    up = [(one, other) for one in "ra" for other in "bcde"]
    grove.world.cut |= {*up, *[(other, one) for one, other in up]}
    grove.run(2500)
    grove.send("b", "g")
    grove.send("b", "h")
    grove.run(200)
    assert grove.got("d", "h") == [("b", 2)], "late: the subtree does not go on"
    grove.hold_session(("b", "a"), ("b", "r"))
    grove.world.cut.clear()
    grove.until(lambda: len(grove.chain("c")) > 1)
    grove.run(200)
    assert grove.chain("d") == ("c", "b"), "chain: over what was passed over"
    _without(grove, "c", "b", "e")


PASTS = (
    gate_apart, gate_from_one, gate_told, gate_again, gate_twice, gate_joined, gate_second,
    passed_first, passed_late, passed_second,
)  # fmt: skip
