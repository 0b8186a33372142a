"""Schedules over changing groups whose disks do not sync everything: who loses power forgets its end.

Each returns what is wrong, nothing if all is well.
"""

from collections.abc import Callable

from support.schedules_groups import Play
from thence.sim.groups import Air


def _play(names: str, together: str) -> Play:
    return Play(names, air=Air(jitter_us=0, links=True), sync="no").together(together)


def _forgets(play: Play, names: str) -> None:
    for name in names:
        play.crash(name, power=True)
    for name in names:
        play.boot(name)


def _named(play: Play, name: str) -> list[str]:
    """Of whom this one still has to speak."""
    member = play.processes[name].node.member  # type: ignore[union-attr]
    assert member is not None
    return sorted(member.view.suspects | member.view.strangers | member.view.gone.keys())


def _ends_with_nobody_named(play: Play, name: str) -> str:
    if why := play.ends_well():
        return why
    if named := _named(play, name):
        return f"spoken of for ever: {named}"
    member = play.processes[name].node.member  # type: ignore[union-attr]
    assert member is not None
    return "" if member.ledger.floor == member.ledger.stables() else "operations are kept for nobody"


def whom_it_let_in() -> str:
    """a lets c in, of which b has not heard, says something to it, loses power, and returns to b. Only c has
    what a said last, and the answer to it: b must wait for c."""
    play = _play("abc", "ab")
    play.cuts("ab", "bc")
    play.join("c")
    play.passes(3)
    play.send("a")
    play.passes(1)
    play.send("c")
    play.passes(1)
    play.cuts("ac")
    _forgets(play, "a")
    play.cut -= {("a", "b"), ("b", "a")}
    play.passes(15)
    if play.me("a") in ("", "a"):
        return "a has not come back"
    if "c" not in _named(play, "b"):
        return "nobody looks for c"
    return _ends_with_nobody_named(play, "b")


def all_forget() -> str:
    """The power goes everywhere. One founds the group again, the others come back: each of them may have
    forgotten something that another has, and when all have brought what they remember that is all."""
    play = _play("abc", "abc")
    for name in "abc":
        play.send(name)
    play.passes(1)
    _forgets(play, "abc")
    play.passes(3)
    play.call("b", lambda node: node.leave(play.now))
    play.refound("b")
    play.passes(20)
    if "" in map(play.me, "abc"):
        return "somebody has not come back"
    return _ends_with_nobody_named(play, "b")


def forgets_and_leaves() -> str:
    """b and then a lose power while c is cut off and evicted, and come back. b leaves; then c comes back.
    What is true of a is true of b, of which nobody is left who could say so."""
    play = _play("abcd", "abcd")
    play.cuts("ca", "cb", "cd")
    play.evicts("d", "c")
    for name in "abd":
        play.evicts("c", name)
    play.passes(1)
    for name in "abd":
        play.send(name)
    play.passes(1)
    for name in "ba":
        _forgets(play, name)
        play.passes(10)
        if play.me(name) in ("", name):
            return f"{name} has not come back"
    play.leaves("b")
    play.passes(3)
    if why := play.not_out("b"):
        return why
    if not {"a", "b", "c"} <= {*_named(play, "d")}:
        return "c may have what a and b have forgotten, and nobody waits for it"
    return _ends_with_nobody_named(play, "d")


FORGETFUL: dict[str, Callable[[], str]] = {
    schedule.__name__: schedule for schedule in (whom_it_let_in, all_forget, forgets_and_leaves)
}
