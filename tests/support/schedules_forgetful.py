"""Schedules over changing groups whose disks do not sync everything: who loses power forgets its end.

Each returns what is wrong, nothing if all is well.
"""

from collections.abc import Callable

from support.schedules_groups import Play, without
from thence.core.groups import Piece
from thence.replica.group.member.member import Member
from thence.sim.air import Air


def forgetful(names: str, together: str) -> Play:
    return Play(names, air=Air(jitter_us=0, links=True), sync="no").together(together)


def forgets(play: Play, names: str) -> None:
    for name in names:
        play.crash(name, power=True)
    for name in names:
        play.boot(name)


def member_of(play: Play, name: str) -> Member:
    node = play.processes[name].node
    assert node is not None
    assert node.member is not None
    return node.member


def _named(play: Play, name: str) -> list[str]:
    """Of whom this one still has to speak."""
    view = member_of(play, name).view
    return sorted(view.suspects | view.strangers | view.gone.keys())


def ends_with_none_named(play: Play, name: str) -> str:
    if why := play.ends_well():
        return why
    if named := _named(play, name):
        return f"spoken of for ever: {named}"
    member = member_of(play, name)
    return "" if member.ledger.retain_from == member.ledger.stables() else "operations are kept for no member"


def _lets_in_and_talks(play: Play) -> None:
    """a lets c in, says something, and c answers."""
    play.join("c")
    play.passes(3)
    play.send("a")
    play.passes(1)
    play.send("c")
    play.passes(1)


def whom_it_let_in() -> str:
    """a lets c in, of which b has not heard, says something to it, loses power, and returns to b. Only c has
    what a said last, and the answer to it: b must wait for c."""
    play = forgetful("abc", "ab")
    play.cuts("ab", "bc")
    _lets_in_and_talks(play)
    play.cuts("ac")
    forgets(play, "a")
    play.cut -= {("a", "b"), ("b", "a")}
    play.passes(15)
    if play.me("a") in ("", "a"):
        return "a has not come back"
    if "c" not in _named(play, "b"):
        return "no member looks for c"
    return ends_with_none_named(play, "b")


def all_forget() -> str:
    """The power goes everywhere. One founds the group again, the others come back: each of them may have
    forgotten something that another has, and when all have brought what they remember that is all."""
    play = forgetful("abc", "abc")
    for name in "abc":
        play.send(name)
    play.passes(1)
    forgets(play, "abc")
    play.passes(3)
    play.call("b", lambda node: node.leave(play.now))
    play.refound("b")
    play.passes(20)
    if "" in map(play.me, "abc"):
        return "a member has not come back"
    return ends_with_none_named(play, "b")


def forgets_and_leaves() -> str:
    """b and then a lose power while c is cut off and evicted, and come back. b leaves; then c comes back.
    What is true of a is true of b, of which no member is left that could say so."""
    play = forgetful("abcd", "abcd")
    play.cuts("ca", "cb", "cd")
    play.evicts("d", "c")
    for name in "abd":
        play.evicts("c", name)
    play.passes(1)
    for name in "abd":
        play.send(name)
    play.passes(1)
    for name in "ba":
        forgets(play, name)
        play.passes(10)
        if play.me(name) in ("", name):
            return f"{name} has not come back"
    play.leaves("b")
    play.passes(3)
    if why := play.not_out("b"):
        return why
    if not {"a", "b", "c"} <= {*_named(play, "d")}:
        return "c may have what a and b have forgotten, and no member waits for it"
    return ends_with_none_named(play, "d")


def _forgets_and_leaves(play: Play) -> str:
    """b does, beside d."""
    play.passes(1)
    for name in "bd":
        play.send(name)
    play.passes(1)
    forgets(play, "b")
    play.passes(10)
    play.leaves("b")
    play.passes(3)
    return play.not_out("b")


def the_forgetful_one_leaves() -> str:
    """b loses power while c is cut off and evicted, comes back, brings what it remembers, and leaves. Then c
    comes back with everything: no member is left that had forgotten something."""
    play = forgetful("bcd", "bcd")
    play.cuts("cb", "cd")
    play.evicts("d", "c")
    play.evicts("c", "b")
    play.evicts("c", "d")
    return _forgets_and_leaves(play) or ends_with_none_named(play, "d")


def told_on_a_side_that_is_given_up() -> str:
    """The same, but c has gone on with e and f, and d returns to them. It knows that b brought everything."""
    play = forgetful("bcdef", "bcdef")
    play.cuts(*[one + other for one in "bd" for other in "cef"])
    for whom in "cef":
        play.evicts("d", whom)
    for whom in "bd":
        play.evicts("c", whom)
    return _forgets_and_leaves(play) or ends_with_none_named(play, "c")


def founds_again_before_it_has_told() -> str:
    """a lets c in and says something to it, loses power and returns to b; while an orphan keeps it from
    telling of c, the power goes again, and a founds the group again. It must still know of c."""
    play = forgetful("abdc", "abd")
    play.cuts("ab", "ad", "bc", "dc")
    play.send("a")
    _lets_in_and_talks(play)
    had = set(play.processes["c"].application.applied)
    play.cuts("ac", "bd")  # d cannot flush a, so that its orphan waits
    forgets(play, "a")
    play.cut -= {("a", "b"), ("b", "a")}
    play.passes(8)
    forgets(play, "ab")
    play.passes(1)
    play.call("a", lambda node: node.leave(play.now))
    play.refound("a")
    play.passes(3)
    play.cut = {link for link in play.cut if "c" in link}
    play.passes(20)
    why = ends_with_none_named(play, "d")
    lacks = [name for name in "abd" if not had <= play.processes[name].application.applied]
    return why or (f"{lacks} lack what c had" if lacks else "")


def only_a_leaver_has_it() -> str:
    """a lets c in, of which b and e have not heard; c says that it leaves, which a writes down. Then a says
    something, which only c gets, loses power, and returns to the others: c must return, too."""
    play = forgetful("abec", "abe")
    play.cuts("ab", "ae", "bc", "ec")
    play.join("c")
    play.passes(3)
    play.leaves("c")
    play.passes(1)
    play.call("a", lambda node: node.checkpoint(play.now))
    play.send("a")
    play.passes(0.5)
    last = max(play.processes["a"].application.applied)
    play.cuts("ac")
    forgets(play, "a")
    if last in play.processes["a"].application.applied:
        return "a has not forgotten it"
    play.cut = {link for link in play.cut if "c" in link}
    play.passes(10)
    why = ends_with_none_named(play, "b")
    return why or ("" if last in play.processes["b"].application.applied else "what only c had is lost")


def two_found_again() -> str:
    """The power goes everywhere, and two who remember the same found the group again, each alone."""
    play = forgetful("abc", "abc")
    for name in "ab":
        play.send(name)
    play.passes(3)
    for name in "abc":
        play.call(name, lambda node: node.checkpoint(play.now))
    play.cuts("ab", "ac", "bc")
    forgets(play, "abc")
    play.passes(1)
    for name in "ab":
        play.call(name, lambda node: node.leave(play.now))
        play.refound(name)
    play.passes(5)
    return ends_with_none_named(play, "a")


def attempt_that_was_called_off() -> str:
    """c, on its way back to a, b and d as c~2, is asked to let y in, whose rank is worse, and stays. Later
    a, b and d return to c: they have known a c~2, which c knows never was."""
    play = Play("abcdxyz", air=Air(jitter_us=0, links=True)).together("abcdx")
    here, there = "abd", "cxyz"
    play.cuts(*[one + other for one in here for other in there])
    for whom in "cx":
        play.evicts("a", whom)
    for whom in here:
        play.evicts("c", whom)
    play.passes(2)
    play.filter = without(Piece)
    play.cut -= {("a", "c"), ("c", "a")}
    for _ in range(500):
        play.passes(0.02)
        if "c~2" in member_of(play, "a").view.view:
            break
    else:
        return "no contact lets c~2 in"
    play.cuts("ac")
    play.filter = without()
    play.join("y")
    play.passes(13)
    if play.me("c") != "c":
        return "c has not given up its attempt"
    play.join("z")
    play.passes(2)
    return ends_with_none_named(play, "c")


def attempt_before_a_restart() -> str:
    """a lets c in, which is started again before it has its state, and joins through b; a loses power, and
    returns. It looks for a c that came to nothing, as the next one knows."""
    play = forgetful("abec", "abe")
    play.cuts("ab", "ae", "bc", "ec")
    play.filter = without(Piece)
    play.join("c")
    play.passes(0.5)
    if "c" not in member_of(play, "a").view.view:
        return "no contact lets c in"
    play.crash("c", power=False)
    play.boot("c")
    forgets(play, "a")
    play.heals()
    play.join("c")
    play.passes(20)
    return ends_with_none_named(play, "b")


FORGETFUL: dict[str, Callable[[], str]] = {
    schedule.__name__: schedule
    for schedule in (
        whom_it_let_in, all_forget, forgets_and_leaves, the_forgetful_one_leaves,
        told_on_a_side_that_is_given_up, founds_again_before_it_has_told, only_a_leaver_has_it,
        two_found_again, attempt_that_was_called_off, attempt_before_a_restart,
    )
}  # fmt: skip
