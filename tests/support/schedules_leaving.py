"""Schedules over changing groups, written by hand: who is told to leave while others evict each other."""

from collections.abc import Callable

from support.schedules_groups import Play, without
from thence.core.groups import GroupPacket, Notice, Piece, Receipt
from thence.replica.group.settings import GroupSettings
from thence.sim.air import Air
from thence.sim.groups import Process
from thence.sim.groups_weather import SECOND


def _moved_on() -> Play:
    """b has evicted the others but d, which is dead, while it was cut off from all of them. They have evicted
    each other, and come back through each other, as incarnations that b has never heard of. They go on
    without d, and take b for one of them."""
    play = Play("abcd", air=Air(jitter_us=0, links=True)).together("abcd")
    play.cuts("ba", "bc")
    play.crash("d")
    play.processes["d"].dead = True
    for whom in "ac":
        play.evicts("b", whom)
    play.send("b")
    for who, whom in ("ac", "ca"):
        play.evicts(who, whom)
        play.passes(4)
    play.evicts("a", "d")
    play.passes(1)
    return play


def suspects_have_moved_on() -> str:
    """No suspect of b runs any more, and b does not settle that, for want of d: it must tell their next
    incarnations, or each waits for the other."""
    play = _moved_on()
    if (play.me("a"), play.me("c")) != ("a~2", "c~2"):
        return "not all have come back"
    play.heals()
    play.passes(15)
    play.evicts("a", "d")
    return play.ends_well()


def leaver_whose_suspects_have_moved_on() -> str:
    """The same when b is to leave."""
    play = _moved_on()
    play.leaves("b")
    play.heals()
    play.passes(30)
    return play.not_out("b") or play.ends_well()


def leaver_that_has_to_be_returned_to() -> str:
    """a has come back to d, which dies before a can bring what it had. Others, which have evicted each other,
    have to return to a: it is to leave, and must let them in, since it cannot leave before d is evicted."""
    play = Play("abcd", air=Air(jitter_us=0, links=True)).together("abcd")
    play.cuts("ab", "ac", "ad", "db", "dc")
    play.send("a")
    play.evicts("d", "a")
    play.passes(0.5)
    play.cut -= {("a", "d"), ("d", "a")}
    play.passes(4)
    play.crash("d")
    play.processes["d"].dead = True
    for who, whom in ("ab", "ac", "bc", "cb"):
        play.evicts(who, whom)
        play.passes(4)
    play.evicts("b", "d")
    play.passes(1)
    play.leaves("a")
    if play.processes["a"].node.status != "member":  # type: ignore[union-attr]
        return "a has nothing to bring"
    play.heals()
    play.passes(15)
    play.evicts("b", "d")
    play.passes(15)
    return play.not_out("a") or play.ends_well()


class _SlowProgram(Play):
    """One process takes nothing."""

    slow_one = ""

    def _to_take(self, name: str, process: Process) -> None:
        if name != self.slow_one:
            super()._to_take(name, process)


def joiner_behind_a_slow_program() -> str:
    """b has evicted x, which no member settles, since d is down. Its program takes nothing for a while,
    neither x's last message nor what comes after it, the JOIN of e among that: b must not send e back."""
    play = _SlowProgram("abcdex", air=Air(jitter_us=0, links=True)).together("abcdx")
    play.crash("d", power=False)
    play.slow_one = "b"
    play.send("x")
    play.passes(0.02)
    play.evicts("b", "x")
    play.passes(1)
    play.cuts("be")
    play.join("e")
    play.passes(1)
    play.heals()
    play.passes(12)
    if play.me("e") != "e":
        return f"e was sent back, and is {play.me('e')}"
    play.slow_one = ""
    play.boot("d")
    return play.ends_well()


def _unsought(sender: str, receiver: str, packet: GroupPacket) -> GroupPacket | None:
    """b was never told where c is."""
    probe = isinstance(packet, Receipt) and not packet.target
    return None if probe and (sender, receiver) == ("b", "c") else packet


def joiner_whose_side_has_left() -> str:
    """b has evicted a while it was cut off. Before a hears of it, it lets c in; both evict b, and a leaves.
    To c its side has left in order, and only b is missed; b has never heard of c, does not look for it, and
    misses only a. It must tell c so, or each goes on alone."""
    play = Play("abc", air=Air(jitter_us=0, links=True)).together("ab")
    play.send("b")
    play.passes(1)
    play.cuts("ab", "bc")
    play.evicts("b", "a")
    play.passes(1)
    play.join("c")
    play.passes(2)
    play.evicts("a", "b")
    play.passes(1)
    play.leaves("a")
    play.passes(5)
    if (why := play.not_out("a")) or play.me("c") != "c":
        return why or "c is no member"
    play.send("c")
    play.heals()
    play.filter = _unsought
    play.passes(20)
    return play.ends_well() if play.me("c") == "c~2" else "b and c go on without each other"


def _is_answered_late(says_leave: bool) -> str:
    """b is told to leave where it is cut off from all others. They have evicted it, and can tell it so
    shortly before it would go without an answer; the state that it has to return with takes until after that.
    `says_leave`: its LEAVE is out by then, else it has evicted them, and is alone."""
    play = Play("abcd", GroupSettings(leave_timeout_us=20 * SECOND), air=Air(jitter_us=0, links=True))
    play.together("abcd")
    play.cuts("ba", "bc", "bd")
    play.send("b")
    for whom in "" if says_leave else "acd":
        play.evicts("b", whom)
    play.passes(1)
    play.leaves("b")
    play.evicts("a", "b")
    play.passes(17)
    play.cut.clear()
    play.filter = without(Piece)
    play.passes(4)
    if play.me("b") != "b":
        return "b has gone" if not play.me("b") else "b has returned already"
    play.filter = without()
    play.passes(30)
    return play.not_out("b") or play.ends_well()


def leaver_that_is_answered_late() -> str:
    return _is_answered_late(says_leave=True)


def leaver_that_is_alone_until_late() -> str:
    return _is_answered_late(says_leave=False)


def _let_in_by_the_dead(says_leave: bool, rings: int = 0) -> str:
    """b has let a in while c was cut off from both, and is dead. a takes c for a member, and cannot settle
    that b is evicted without c; c has never heard of a, and waits for b. What b said last is at a."""
    play = Play("abc", GroupSettings(rings=rings), air=Air(jitter_us=0, links=True)).together("bc")
    play.cuts("ca", "cb")
    play.join("a")
    play.passes(3)
    if play.me("a") != "a":
        return "a is no member"
    play.send("a")
    play.send("b")
    play.passes(1)
    play.crash("b")
    play.processes["b"].dead = True
    if says_leave:
        play.leaves("c")
    else:
        play.send("c")
    play.heals()
    play.passes(6)
    if not says_leave and "a" not in [place[0] for place in play.processes["c"].application.order]:
        return "c has not heard what a sent"
    play.evicts("a", "b")
    play.passes(15)
    if says_leave and (why := play.not_out("c")):
        return why
    if not says_leave and (play.me("a"), play.me("c")) != ("a", "c"):
        return f"they are {play.me('a')} and {play.me('c')}"
    return play.ends_well()


def member_without_the_join_of_another() -> str:
    return _let_in_by_the_dead(says_leave=False)


def leaver_without_the_join_of_another() -> str:
    return _let_in_by_the_dead(says_leave=True)


def leaver_without_the_join_of_another_in_a_tree() -> str:
    return _let_in_by_the_dead(says_leave=True, rings=2)


def two_without_each_others_joins() -> str:
    """c's program takes nothing for a while, neither what b has sent nor the JOIN of d behind it. So c, which
    is cut off from b by now, asks d for it. d lacks what c has sent to b, and must ask b: c sends none."""
    play = _SlowProgram("bcd", air=Air(jitter_us=0, links=True)).together("bc")
    play.slow_one = "c"
    play.send("b")
    play.cuts("cd")
    play.join("d")
    play.passes(3)
    play.cuts("bd")
    play.send("c")
    play.passes(0.1)
    play.cut.clear()
    play.cuts("bc", "bd")
    play.passes(5)
    play.cut -= {("b", "d"), ("d", "b")}
    play.passes(5)
    if "c" not in [place[0] for place in play.processes["d"].application.order]:
        return "d waits for c"
    play.slow_one = ""
    play.boot("c")
    return play.ends_well()


def suspect_of_which_a_stranger_has_more() -> str:
    """The same, but c has flushed b before it hears a, and d settles b's last message by that. What a has
    beyond it must not come to c."""
    play = Play("abcd", air=Air(jitter_us=0, links=True)).together("bcd")
    play.cuts("ca", "cb", "da", "db")
    play.join("a")
    play.passes(3)
    play.send("b")
    play.passes(1)
    play.crash("b")
    play.processes["b"].dead = True
    play.filter = without(Notice)
    play.cut.clear()
    play.cut |= {("d", "c"), ("d", "a"), ("a", "d")}
    play.evicts("c", "b")
    play.passes(6)
    return play.ends_well() or ("" if play.me("c") == "c" else "c went beyond what d had settled")


LEAVING: dict[str, Callable[[], str]] = {
    schedule.__name__: schedule
    for schedule in (
        suspects_have_moved_on, leaver_whose_suspects_have_moved_on, leaver_that_has_to_be_returned_to,
        joiner_behind_a_slow_program, joiner_whose_side_has_left, leaver_that_is_answered_late,
        leaver_that_is_alone_until_late, member_without_the_join_of_another,
        leaver_without_the_join_of_another, leaver_without_the_join_of_another_in_a_tree,
        two_without_each_others_joins, suspect_of_which_a_stranger_has_more,
    )
}  # fmt: skip
