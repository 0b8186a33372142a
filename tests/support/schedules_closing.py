"""Schedules over changing groups: who may be counted whole, who is missed, and who has to return.

Each returns what is wrong, nothing if all is well.
"""

from collections.abc import Callable
from random import Random

from support.schedules_forgetful import ends_with_none_named, forgetful, forgets, member_of
from support.schedules_groups import Play, without
from thence.core.groups import Piece, Place
from thence.sim.air import Air

SESSIONS = Air(jitter_us=0, links=True)


def _between(one: str, other: str) -> list[str]:
    return [a + b for a in one for b in other]


def _until_in(play: Play, name: str, not_as: str = "") -> None:
    for _ in range(300):
        play.passes(0.2)
        if play.me(name) not in ("", not_as):
            return


def _last_of(play: Play, name: str, at: str) -> Place:
    return max(place for place in play.processes[at].application.applied if place[0] == name)


def _lacking(play: Play, names: str, place: Place) -> str:
    lack = [name for name in names if place not in play.processes[name].application.applied]
    return f"{lack} lack {place}" if lack else ""


def a_later_life_has_it() -> str:
    """r saw x return as x~2, and goes over to the others without an operation of x that it does not want. x~2
    wants it: no member may count x as whole before x~2 has come."""
    play = Play("mnorx", air=Air(jitter_us=0)).together("mnorx")
    play.cuts(*_between("rx", "mno"))
    for whom in "rx":
        play.evicts("m", whom)
    play.passes(1)
    for whom in "mno":
        play.evicts("r", whom)
    play.passes(2)
    play.send("x")
    play.passes(1)
    last = _last_of(play, "x", "r")
    play.evicts("r", "x")
    play.passes(6)
    play.send("x")
    play.passes(2)
    play.processes["r"].application.declines = lambda place: place == last
    play.cuts("rx")
    play.cut = {link for link in play.cut if "x" in link}
    play.passes(10)
    if last not in play.processes["r"].application.declined:
        return "r has not declined it"
    return play.ends_well() or _lacking(play, "mnorx", last)


def carries_before_it_closes() -> str:
    """a forgot something and came back to h, then both go over to the others. There nothing can be carried
    until n is back: nor may any member close a before that, however slow applications are."""
    play = forgetful("amnyh", "amny")
    play.cuts("am", "an", "ay", "hm", "hn", "hy")
    play.crash("n", power=False)
    play.passes(1)
    play.evicts("m", "a")
    for whom in "mny":
        play.evicts("a", whom)
    play.passes(1)
    play.join("h")
    _until_in(play, "h")
    play.send("a")
    play.passes(0.3)
    last = _last_of(play, "a", "h")
    play.cuts("ah")
    play.passes(1)
    forgets(play, "a")
    play.cut -= {("a", "h"), ("h", "a")}
    _until_in(play, "a", "a")
    play.passes(3)
    before = play.me("a")
    play.cuts("ah")
    play.cut = {link for link in play.cut if "h" in link}
    _until_in(play, "a", before)
    play.passes(2)
    play.slow(Random(0), 1_000_000)
    play.boot("n")
    play.passes(16)
    play.slow(Random(0), 0)
    return play.ends_well() or _lacking(play, "amny", last)


def heard_by_two_who_do_not_hear_each_other() -> str:
    """m and q cannot see each other, p sees both. It was evicted, and comes back through q: m cannot hear of
    that, and must not send it back and forth."""
    play = Play("mqp", air=SESSIONS).together("mqp")
    play.crash("p")
    play.evicts("m", "p")
    play.passes(3)
    play.cuts("mq", "pm")
    play.boot("p")
    play.passes(30)
    play.cut -= {("p", "m"), ("m", "p")}
    came = {play.me("p")}
    for _ in range(60):
        play.passes(1)
        came.add(play.me("p"))
    return f"p was {sorted(came)}" if len(came) > 2 else play.ends_well()


def an_attempt_is_no_return() -> str:
    """c tried to return as c~3 and did not. The members that have evicted c, and know that c~3 never was, may
    not take that for its return and leave no member behind."""
    play = Play("abcz", air=Air(jitter_us=0)).together("abc")
    play.cuts("ab", "az", "bz")
    play.filter = without(Piece)
    play.evicts("a", "c")
    play.passes(14)
    play.cuts("ca", "cb")
    play.filter = without()
    play.passes(20)
    for name in sorted({"a", "b", *member_of(play, "c").view.side} - {"c"}):
        play.evicts("c", name)
    play.passes(3)
    play.cut -= {("a", "b"), ("b", "a")}
    play.passes(10)
    play.join("z")
    _until_in(play, "z")
    play.passes(3)
    play.cuts("cz")
    play.cut = {link for link in play.cut if "c" in link}
    play.passes(15)
    play.send("a")
    play.passes(2)
    last = _last_of(play, "a", "a")
    for name in "zba":
        play.leaves(name)
        play.passes(6)
    play.heals()
    play.passes(30)
    return _lacking(play, "c", last)


def founds_again_what_was_settled() -> str:
    """x leaves r in good order on a side that is given up. r has not been able to say so when the power goes;
    then it founds the group again."""
    play = forgetful("bdrx", "bdrx")
    play.cuts("rb", "rd", "xb", "xd", "bd")
    for whom in "rx":
        play.evicts("b", whom)
    for whom in "bd":
        play.evicts("r", whom)
    play.passes(2)
    play.send("r")
    play.passes(1)
    play.leaves("x")
    play.passes(6)
    if why := play.not_out("x"):
        return why
    play.cut -= {("r", "b"), ("b", "r")}
    _until_in(play, "r", "r")
    play.passes(1)
    forgets(play, "rb")
    play.passes(1)
    play.call("r", lambda node: node.leave(play.now))
    play.refound("r")
    play.passes(3)
    play.cut.clear()
    play.passes(20)
    play.join("x")
    play.passes(20)
    return ends_with_none_named(play, "r")


def stranger_of_long_ago() -> str:
    """r lets x in, goes over to b and s with it, where x leaves in good order; then all of them go over to a,
    u and v. No member has to look for x there."""
    first, second, third = "rx", "bs", "auv"
    play = Play("auvbsrx", air=SESSIONS).together("auvbsr")
    play.cuts(*_between(first, second + third), *_between(second, third))
    for who, whom in (("a", "bsr"), ("b", "auvr"), ("r", "auvbs")):
        for name in whom:
            play.evicts(who, name)
    play.passes(3)
    play.join("x")
    _until_in(play, "x")
    play.passes(3)
    play.cut = {link for link in play.cut if {*link} & {*third}}
    play.passes(20)
    play.leaves("x")
    play.passes(6)
    if why := play.not_out("x"):
        return why
    play.cut = {link for link in play.cut if "x" in link}
    play.passes(20)
    return ends_with_none_named(play, "a")


CLOSING: dict[str, Callable[[], str]] = {
    schedule.__name__: schedule
    for schedule in (
        a_later_life_has_it, carries_before_it_closes, heard_by_two_who_do_not_hear_each_other,
        an_attempt_is_no_return, founds_again_what_was_settled, stranger_of_long_ago,
    )
}  # fmt: skip
