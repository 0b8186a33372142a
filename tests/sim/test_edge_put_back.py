"""A disk of an edge tree that is put back without its process knowing, where nothing was published since: the
limit that docs/protocols/edge.md names, exactly as far as it goes."""

from support.edges import Grove

from thence.check import judge

CUT = {(child, "r") for child in "cd"} | {("r", child) for child in "cd"}


def grove() -> Grove:
    """The children of v cannot reach the root."""
    made = Grove({"r": "", "v": "r", "c": "v", "d": "v"}, 1, {"m": "vcd", "e": "vcd"})
    made.world.cut |= CUT
    return made


def story(made: Grove, forgets: bool) -> dict[str, int]:
    """While d is away, c tells of a cause, and lets go of it once v and the root have it. Then v comes back
    without it, or as another, and c tells of the effect before the root can tell v of the cause."""
    world = made.world
    earlier = world.processes["v"].shelf.copy()
    made.crash("d")
    made.send("c", "m")
    made.run(3000)
    assert made.got("v", "m") == [("c", 1)]
    assert not made.node("c").book.entries
    if forgets:
        world.forget("v")
    else:
        world.crash("v")
        world.processes["v"].shelf = earlier
    made.hold_session(("r", "v"))
    made.send("c", "e")
    world.boot("v")
    world.boot("d")
    made.run(3000)
    made.release()
    world.cut.clear()
    made.settle()
    for name in "vcd":
        assert made.got(name, "m") == [("c", 1)]
        assert made.got(name, "e") == [("c", 2)]
    world.close_diaries()
    [verdict] = judge(world.events())
    return {name: count for name, count in verdict.violations.items() if count}


def test_a_child_may_be_shown_an_effect_before_its_cause_and_nothing_is_lost() -> None:
    assert story(grove(), forgets=False) == {"order": 1}


def test_one_that_knows_of_it_is_another_and_no_harm_is_done() -> None:
    assert story(grove(), forgets=True) == {}
