"""The report's own case of a parent that fails, and dead regions: no repair waits for what it cannot see; and
what a restart must not forget where all of a chain is gone."""

from functools import partial

from support.edges import Grove


def doc62() -> None:
    """The case of the report's section 6.2: a sends m1 to c and d through b, which gets it to c alone and
    dies; c's m2, which follows from it, must not be at d before it."""
    grove = Grove({"r": "", "a": "r", "b": "a", "c": "b", "d": "b"}, 1, {"g": ["a", "c", "d"]})
    grove.hold(("b", "d"))
    grove.send("a", "g")
    grove.until(lambda: grove.got("c", "g") == [("a", 1)])
    assert grove.got("d", "g") == [], "held: it got through"
    grove.die("b")
    grove.send("c", "g")
    grove.run(1500)
    assert grove.got("d", "g") == [("a", 1), ("c", 1)], "late, or out of order"
    grove.finish()


def two_regions() -> None:
    """Two regions of δ nodes each die at once, with one that lives between them: each orphan passes its own
    region by, and nothing counts both together."""
    line = ["r", "n1", "n2", "n3", "n8", "n11", "n12", "n14", "n15"]
    parents = dict(zip(line, ["", *line], strict=False)) | {"x": "r", "n9": "n8"}
    grove = Grove(parents, 3, {"g": ["n9", "n15", "x"], "h": ["n15", "x"]})
    assert grove.chain("n15") == ("n14", "n12", "n11", "n8"), "chain: not whole"
    grove.hold(("n3", "n2"), ("n12", "n11"))
    grove.send("n15", "g")
    grove.send("n8", "h")
    grove.send("n9", "g")
    grove.run(100)
    grove.die("n1", "n2", "n3", "n11", "n12", "n14")
    grove.send("n15", "h")
    grove.send("x", "g")
    grove.run(3000)
    assert grove.node("n8").tree.parent.who == "r", "parent: not past the upper region"
    assert grove.node("n15").tree.parent.who == "n8", "parent: not past the lower region"
    assert len(grove.got("x", "g")) == len(grove.got("n15", "g")) == 3, "lost: something"
    grove.finish()


def unseen_leaf() -> None:
    """A leaf three levels below the node that dies is dead as well: no repair waits for it."""
    parents = {"r": "", "n1": "r", "n2": "n1", "n4": "n2", "n6": "n4", "n5": "n1", "x": "r"}
    grove = Grove(parents, 1, {"g": ["n4", "n5", "n6", "x"]})
    grove.die("n6")
    grove.send("n4", "g")
    grove.die("n1")
    grove.send("n5", "g")
    grove.run(1500)
    assert len(grove.got("n4", "g")) == len(grove.got("x", "g")) == 2, "late: it waits for a dead leaf"
    assert {grove.node(name).tree.parent.who for name in ("n2", "n5")} == {"r"}, (
        "parent: not the next that lives"
    )
    grove.finish()


def _is_attached(grove: Grove, name: str) -> bool:
    return grove.node(name).tree.parent is not None


def _newcomers(**parents: str) -> Grove:
    """Nodes that are new below b, which is cut off from the root: it is the last of their chains."""
    grove = Grove({"r": "", "b": "r", "x": "r"}, 1, {"g": ["x"], "h": ["b", "x"]})
    grove.world.cut |= {("b", "r"), ("r", "b")}
    grove.until(lambda: grove.node("b").tree.parent is None)
    for name, parent in parents.items():
        grove.world.add(name, parent)
        grove.world.boot(name)
        grove.until(partial(_is_attached, grove, name))
    return grove


def _may_not_use_the_root(grove: Grove, name: str) -> None:
    grove.world.cut.clear()
    grove.run(3000)
    assert grove.node(name).tree.parent is None, "attached: to a root that lacks a cause"
    grove.finish()


def _beyond_restart(tidies: bool) -> None:
    grove = _newcomers(c="b")
    grove.send("b", "g")
    grove.send("b", "h")
    grove.world.join("c", "h")
    grove.until(lambda: grove.got("c", "h") == [("b", 2)])
    assert grove.chain("c") == ("b",), "chain: b has let c rely on more"
    if tidies:
        grove.node("c").tidy(grove.world.now)
    grove.crash("b", "c")
    grove.world.boot("c")
    grove.send("c", "h")
    _may_not_use_the_root(grove, "c")


def beyond_restart() -> None:
    """All of the chain is gone, and a state from it, whose causes the root lacks, came before a restart."""
    _beyond_restart(tidies=False)


def beyond_tidy() -> None:
    """The same where the log begins anew in between."""
    _beyond_restart(tidies=True)


def beyond_invitation() -> None:
    """The same with an invitation: what the guest has seen may follow from what b alone has."""
    grove = _newcomers(c="b", d="c")
    grove.until(lambda: grove.chain("d") == ("c", "b"))
    grove.crash("c")
    grove.until(lambda: grove.chain("d") == ("b",))
    grove.world.join("d", "h")
    grove.world.boot("c")
    grove.run(300)
    grove.send("b", "g")
    grove.send("b", "h")
    grove.until(lambda: grove.got("d", "h") == [("b", 2)])
    grove.world.rehome("d", "c")
    grove.until(lambda: grove.node("d").tree.parent is not None)
    assert grove.chain("d") == ("c", "b"), "parent: has not moved"
    grove.crash("b", "c")
    grove.world.boot("c")
    grove.run(500)
    grove.send("d", "h")
    _may_not_use_the_root(grove, "c")
