"""Schedules over changing groups in which a process's disk is put back to an earlier state.

Each returns what is wrong, nothing if all is well.
"""

from support.schedules_groups import Play, without
from thence.core.groups import Lineage, Notice, Offer, Receipt
from thence.sim.air import Air
from thence.sim.groups_verdicts import lost_operations
from thence.trace.recorder import CRASH


def rolling(names: str, together: str = "") -> Play:
    return Play(names, air=Air(jitter_us=0, links=True), numbered=True).together(together or names)


def sends(play: Play, name: str, count: int) -> None:
    for _ in range(count):
        play.send(name)


def put_back(play: Play, name: str) -> None:
    play.restore(name)
    play.boot(name)


def returned(play: Play, name: str) -> str:
    """It is a new incarnation, and all is well."""
    why = play.ends_well()
    return why or ("" if play.me(name) not in ("", name) else f"{name} goes on as whom it was")


def noticed(play: Play, name: str) -> str:
    """The same, and it knows why."""
    return returned(play, name) or ("" if play.rollbacks else f"{name} has not noticed")


def fewer() -> str:
    """c has sent more than it remembers, and the others have it."""
    play = rolling("abc")
    sends(play, "c", 2)
    play.passes(1)
    play.save("c")
    sends(play, "c", 3)
    play.passes(1)
    put_back(play, "c")
    return returned(play, "c")


def as_many_others() -> str:
    """c has sent other messages under the same counters before any member can tell it."""
    play = rolling("abc")
    sends(play, "c", 2)
    play.passes(1)
    play.save("c")
    sends(play, "c", 3)
    play.passes(1)
    play.cuts("ac", "bc")
    put_back(play, "c")
    sends(play, "c", 3)
    play.passes(1)
    return returned(play, "c")


def more_of_others() -> str:
    """The same, and more than those, over two starts."""
    play = rolling("abc")
    sends(play, "c", 2)
    play.passes(1)
    play.save("c")
    sends(play, "c", 3)
    play.passes(1)
    play.cuts("ac", "bc")
    put_back(play, "c")
    sends(play, "c", 2)
    play.crash("c")
    play.boot("c")
    sends(play, "c", 5)
    play.passes(1)
    return returned(play, "c")


def one_is_misled() -> str:
    """b lacks what c sent before its disk was put back, and hears first what c sends then."""
    play = rolling("abc")
    sends(play, "c", 2)
    play.passes(1)
    play.save("c")
    play.cuts("ab", "bc")
    sends(play, "c", 3)
    play.passes(1)
    put_back(play, "c")
    play.cut.clear()
    play.cuts("ab", "ac")
    sends(play, "c", 2)
    play.passes(2)
    sends(play, "b", 1)
    play.passes(2)
    return returned(play, "c")


def two_at_once() -> str:
    """Both members were put back, and each has less than the other knows of it."""
    play = rolling("ab")
    sends(play, "a", 2)
    sends(play, "b", 2)
    play.passes(1)
    play.save("a")
    play.save("b")
    sends(play, "a", 3)
    sends(play, "b", 3)
    play.passes(1)
    sends(play, "a", 1)
    play.passes(1)
    play.restore("a")
    play.boot("a")
    play.passes(3)
    sends(play, "a", 2)
    play.passes(2)
    put_back(play, "b")
    return returned(play, "b")


def all_to_the_same_moment() -> str:
    """No member has more of another than that one has of itself: they go on as the same incarnations."""
    play = rolling("ab")
    sends(play, "a", 2)
    sends(play, "b", 2)
    play.passes(1)
    play.save("a")
    play.save("b")
    sends(play, "a", 3)
    sends(play, "b", 3)
    play.passes(1)
    play.restore("a")
    play.restore("b")
    play.boot("a")
    sends(play, "a", 1)
    play.boot("b")
    sends(play, "b", 4)
    play.passes(5)
    names = play.me("a"), play.me("b")
    return play.unsettled() or ("" if names == ("a", "b") else f"they are {names}")


def a_number_that_was_used() -> str:
    """c has come back as another since, of whom its disk knows nothing."""
    play = rolling("abc")
    sends(play, "c", 2)
    play.passes(1)
    play.save("c")
    for _ in range(3):
        play.evicts("a", "c")
        play.passes(4)
    sends(play, "c", 2)
    play.passes(1)
    before = play.me("c")
    put_back(play, "c")
    sends(play, "c", 2)
    why = returned(play, "c")
    return why or ("" if play.me("c") > before else f"{play.me('c')} after {before}")


def it_hears_of_it_late() -> str:
    """c does not hear yet that it was put back, goes on without a, and tells it so. a must not begin from c's
    state, which lacks what all had: no log keeps that."""
    play = rolling("ac")
    sends(play, "c", 2)
    play.passes(1)
    play.save("c")
    sends(play, "a", 3)
    sends(play, "c", 3)
    play.passes(5)
    play.cuts("ac")
    put_back(play, "c")
    sends(play, "c", 6)
    play.evicts("c", "a")
    play.passes(1)
    play.filter = without(Lineage, only="ac")
    play.cut -= {("a", "c"), ("c", "a")}
    play.passes(8)
    return returned(play, "c")


def a_checkpoint() -> str:
    """Starts are known after a restart, though the messages that named them are not in the log any more."""
    play = rolling("abc")
    sends(play, "c", 2)
    play.passes(1)
    play.save("c")
    sends(play, "c", 3)
    play.passes(5)
    for name in "ab":
        play.call(name, lambda node: node.checkpoint(play.now))
        play.crash(name)
        play.boot(name)
    play.passes(2)
    play.cuts("ac", "bc")
    put_back(play, "c")
    sends(play, "c", 6)
    play.passes(1)
    return returned(play, "c")


def both_to_one_who_knows_neither() -> str:
    """a has what c sent before its disk was put back, and after. d, e and f have never heard of c when a and
    c return to them."""
    play = rolling("acdef", "adef")
    play.cuts("ad", "ae", "af", "cd", "ce", "cf")
    play.join("c")
    play.passes(2)
    sends(play, "c", 2)
    play.passes(1)
    play.save("c")
    sends(play, "c", 3)
    play.passes(1)
    play.cuts("ac")
    put_back(play, "c")
    sends(play, "c", 2)
    play.passes(1)
    play.cut -= {("a", "c"), ("c", "a")}
    play.passes(8)
    sends(play, "a", 1)
    for whom in "def":
        play.evicts("a", whom)
    play.evicts("d", "a")
    play.passes(3)
    return returned(play, "c")


def one_that_it_let_in() -> str:
    """c has let d in, and does not remember. d is the only one who has what c sent then, and the others have
    forgotten c by the time that d is heard."""
    play = rolling("abcd", "abc")
    sends(play, "c", 2)
    play.passes(1)
    play.save("c")
    play.cuts("ac", "bc", "ad", "bd")
    play.join("d")
    play.passes(2)
    sends(play, "c", 3)
    play.passes(1)
    sends(play, "d", 1)
    play.passes(1)
    play.crash("d")
    put_back(play, "c")
    play.heals()
    play.evicts("a", "c")
    play.passes(20)
    play.boot("d")
    return returned(play, "c")


def alone() -> str:
    """a knows no other member, so that what it sends is stable at once, and is in no other log."""
    play = rolling("ab", "a")
    sends(play, "a", 2)
    play.passes(1)
    play.save("a")
    play.join("b")
    play.passes(2)
    sends(play, "a", 3)
    play.passes(2)
    play.cuts("ab")
    put_back(play, "a")
    sends(play, "a", 2)
    play.passes(5)
    return returned(play, "a")


def before_its_first_message() -> str:
    """a had let b in, and does not remember: its disk is from before it sent anything. It lets c in, and has
    nothing by which it would know b but the start that it began under."""
    play = rolling("abc", "a")
    play.save("a")
    play.join("b")
    play.passes(2)
    sends(play, "a", 2)
    play.passes(1)
    play.cuts("ab", "bc")
    put_back(play, "a")
    play.join("c")
    play.passes(2)
    sends(play, "a", 2)
    play.passes(1)
    return returned(play, "a")


def before_its_first_message_and_start() -> str:
    """a sent its first message under another start than that it began under. c was let in by b, which is
    gone, so that c knows a from its messages, and a does not know c."""
    play = rolling("abc", "ba")
    play.save("a")
    play.crash("a")
    play.boot("a")
    play.passes(1)
    sends(play, "a", 2)
    play.passes(1)
    play.cuts("ac")
    play.join("c")
    play.passes(2)
    play.leaves("b")
    play.passes(2)
    play.cuts("ab", "bc")
    put_back(play, "a")
    play.evicts("a", "b")
    sends(play, "a", 2)
    play.passes(1)
    return returned(play, "a")


def a_newcomer_under_another_name() -> str:
    """c had sent nothing, so that no start is known of it, and has come back as another since; a and b, too.
    c knows their processes, if not them."""
    play = rolling("abc")
    play.save("c")
    for who, whom in ("ac", "ba", "ab", "ac"):
        play.evicts(who, whom)
        play.passes(6)
    put_back(play, "c")
    return noticed(play, "c")


def a_group_that_knows_less() -> str:
    """a was put back, c has lost its disk, and a founds the group again from what it has. Then c's disk turns
    up, which knows more of a than there is by now: a group that has settled that will not go back on it."""
    play = rolling("ac")
    sends(play, "a", 2)
    play.passes(1)
    play.save("a")
    sends(play, "a", 3)
    play.passes(1)
    play.save("c")
    play.cuts("ac")
    put_back(play, "a")
    sends(play, "a", 1)
    play.passes(1)
    play.cut.clear()
    play.filter = without(Offer)
    play.passes(1)
    play.lose_disk("c")
    play.leaves("a")
    play.refound("a")
    play.filter = without()
    play.boot("c")
    play.join("c")
    play.passes(3)
    put_back(play, "c")
    return returned(play, "c")


def before_it_left() -> str:
    """c has come back as another, and left; then its disk is put back to before that. It lacks what all had,
    and others may return to it."""
    play = rolling("abc")
    sends(play, "c", 2)
    play.passes(1)
    play.save("c")
    sends(play, "a", 2)
    play.passes(5)
    play.evicts("a", "c")
    play.passes(6)
    play.leaves("c")
    play.passes(5)
    put_back(play, "c")
    return noticed(play, "c")


def a_message_tells() -> str:
    """d, which lags behind, has heard c since that was put back. The next word of b is a message that follows
    from what c had sent before, under the same counter; b had told nothing of that."""
    play = rolling("bcd")
    sends(play, "c", 2)
    play.passes(1)
    play.save("c")
    play.cuts("cd")
    play.filter = lambda one, other, packet: (
        None if isinstance(packet, Receipt) and one + other == "bd" else packet
    )
    sends(play, "c", 1)
    play.passes(0.1)
    play.cuts("bc")
    put_back(play, "c")
    play.cut -= {("c", "d"), ("d", "c")}
    play.passes(0.3)
    sends(play, "c", 1)
    play.passes(0.012)
    sends(play, "b", 1)
    play.passes(0.1)
    return returned(play, "c")


def before_it_left_another_side(speaks_first: bool = False) -> str:
    """a goes on without b and c, c leaves, and b brings a all that they had: nothing is kept for c any more.
    Then c's disk is put back to when there were five of them. a knows of no message that c lacks of itself;
    it must not return to the larger side, whichever of the two hears of the other first."""
    play = rolling("abcde")
    sends(play, "c", 2)
    play.passes(5)
    play.save("c")
    for name in "de":
        play.leaves(name)
    play.passes(5)
    play.cuts("ab", "ac")
    play.evicts("c", "a")
    play.evicts("a", "c")
    play.evicts("a", "b")
    play.passes(2)
    play.leaves("c")
    play.passes(5)
    play.heals()
    play.passes(10)
    sends(play, "a", 2)
    sends(play, "b", 2)
    play.passes(10)
    member = play.processes["a"].node.member  # type: ignore[union-attr]
    if member is None or "c" not in member.view.past:
        return "c is missed"
    if speaks_first:
        play.filter = without(Notice)
    put_back(play, "c")
    if speaks_first:
        play.evicts("c", "a")
        play.passes(0.5)
        play.filter = without(Notice, only="ac")
    play.passes(10)
    if play.me("a") != "a":
        return f"a has returned, and is {play.me('a')}"
    return returned(play, "c")


def before_its_leave() -> str:
    """c has left, and is past; then its disk is put back to before that."""
    play = rolling("abc")
    sends(play, "c", 2)
    play.passes(1)
    play.save("c")
    play.leaves("c")
    play.passes(5)
    put_back(play, "c")
    return noticed(play, "c")


def a_number_that_newcomers_know() -> str:
    """All have come back as others; then c's disk is put back to before that. It has sent nothing since, and
    knows none of those who know its number."""
    play = rolling("abc")
    sends(play, "c", 2)
    play.passes(1)
    play.save("c")
    for who, whom in ("ac", "ab", "ba"):
        play.evicts(who, whom)
        play.passes(6)
    if not all(play.me(name).endswith("~2") for name in "abc"):
        return "not all have come back"
    put_back(play, "c")
    return noticed(play, "c")


def lost_after_that() -> str:
    """c has come back under a number that it drew, since its disk was put back; then it loses that disk. Time
    has not come so far: the next number must be above all the same, or no member lets it in."""
    play = rolling("abc")
    sends(play, "c", 2)
    play.passes(1)
    play.save("c")
    sends(play, "c", 3)
    play.passes(1)
    put_back(play, "c")
    play.passes(6)
    play.lose_disk("c")
    play.boot("c")
    play.join("c")
    return noticed(play, "c")


def a_larger_side() -> str:
    """b and c were put back, have come back as others and forgotten who they were, and a is alone. All had
    more than these two remember, so that no log keeps it: they return to a, though they are two."""
    play = rolling("abc")
    for name in "abc":
        sends(play, name, 2)
    play.passes(1)
    play.save("b")
    sends(play, "b", 1)
    play.passes(1)
    play.save("c")
    for name in "abc":
        sends(play, name, 3)
    play.passes(5)
    play.cuts("ab", "ac")
    for name in "bc":
        play.restore(name)
    for whom in "bc":
        play.evicts("a", whom)
    play.boot("c")
    sends(play, "c", 2)
    play.boot("b")
    play.passes(3)
    play.evicts("b", "a")
    play.evicts("b", "c")
    play.passes(10)
    member = play.processes["b"].node.member  # type: ignore[union-attr]
    if member is None or "c" not in member.view.past:
        return "c is missed"
    play.heals()
    play.passes(20)
    if play.me("a") != "a":
        return f"a has returned, and is {play.me('a')}"
    lost = sorted(lost_operations(play))  # of c's messages the trace has two under one dot, as b has heard
    return play.problem or play.unsettled() or (f"lost operations: {lost}" if lost else "")


def before_its_eviction(through: str = "a") -> str:
    """c was evicted, and its disk is from before others sent what all had by then. It has not sent anything
    since, so that no member has more of it; and b, which has left, is on its side. a must not return to it.
    The same where d tells it so, which never was with it."""
    play = rolling("abcd", "abc")
    play.send("c")
    play.passes(2)
    play.save("c")
    for name in "ab":
        sends(play, name, 3)
    play.passes(5)
    play.leaves("b")
    play.cuts("ac", "bc", "cd")
    play.evicts("a", "c")
    play.passes(5)
    if through == "d":
        play.join("d")
        play.passes(3)
        play.leaves("a")
        play.passes(3)
    play.restore("c")
    play.boot("c")
    play.passes(1)
    play.heals()
    play.passes(10)
    if play.me(through) != through:
        return f"{through} has returned, and is {play.me(through)}"
    return noticed(play, "c")


def twice_to_before_it_left() -> str:
    """a and c have left b alone. a is put back to before it let b in, and lets d in; then again, of which d
    tells it. b knows neither of the two by the names that they have now."""
    play = rolling("abcd", "ac")
    sends(play, "a", 3)
    play.passes(1)
    play.save("a")
    play.leaves("c")
    play.passes(5)
    play.join("b")
    play.passes(2)
    sends(play, "a", 3)
    play.leaves("a")
    play.passes(5)
    if (why := play.not_out("ac")) or play.me("b") != "b":
        return why or "b is no member"
    play.cuts("ab", "bd")
    put_back(play, "a")
    play.join("d")
    play.passes(2)
    put_back(play, "a")
    play.passes(5)
    play.evicts("a", "c")
    play.passes(5)
    return returned(play, "a")


def a_guest_knows_a_start() -> str:
    """It tells c, which has run all the time, of a number that c never used."""
    play = rolling("abc")
    sends(play, "c", 2)
    play.passes(1)
    node = play.processes["c"].node
    assert node is not None
    assert node.member is not None
    starts = node.member.ledger.timelines.starts["c"]
    node.receive("g", Lineage("g", {"c": 2}, {"c": starts}, "c~2", {}), play.now)
    return "" if node.rollback is None else "c believes a guest"


def lets_one_in_and_dies() -> str:
    """c knows what b sent before its disk was put back, and hears nothing of it since. b lets a in, sends
    more than c knows, and dies. a takes c for a member, and has more of b: but not what follows for c."""
    play = rolling("abc", "bc")
    sends(play, "b", 2)
    play.passes(1)
    play.save("b")
    sends(play, "b", 3)
    play.passes(1)
    play.cuts("ca", "cb")
    put_back(play, "b")
    play.join("a")
    play.passes(3)
    sends(play, "b", 9)
    play.passes(1)
    if play.me("a") != "a":
        return "a is no member"
    play.crash("b")
    play.processes["b"].dead = True
    play.heals()
    play.passes(10)
    play.evicts("a", "b")
    if play.me("c") != "c":
        return "c believed what it should not"
    return play.ends_well(trace=False) or ("a goes on as it was" if play.me("a") == "a" else "")


def its_joiner_knows_it_longer() -> str:
    """The other way round: b lets a in, and sends what c never hears of. Then its disk is put back to before
    that, c hears what it sends now, and it dies. a has more of b, and must not pass that on to c. Nor can it
    tell c that it is behind, since c does not know it: an operator has to."""
    play = rolling("abc", "bc")
    sends(play, "b", 3)
    play.passes(1)
    play.save("b")
    play.cuts("ca", "cb")
    play.join("a")
    play.passes(3)
    sends(play, "b", 9)
    play.passes(1)
    play.cut.clear()
    play.cuts("ca", "ba")
    put_back(play, "b")
    sends(play, "b", 2)
    play.passes(2)
    play.crash("b")
    play.processes["b"].dead = True
    sends(play, "c", 1)
    play.heals()
    play.passes(10)
    play.evicts("a", "b")
    play.passes(5)
    if play.me("c") != "c":
        return "c has returned by itself: the limit in docs/protocols/membership.md is none any more"
    play.evicts("a", "c")
    return play.ends_well(trace=False)


def killed_after_its_trace_has_ended() -> str:
    """c has come back as another incarnation, which ended its trace. Put back to before that, it sends more
    than it had, is killed before any member tells it, and starts again: the trace of c stays as it was."""
    play = rolling("abc")
    sends(play, "c", 2)
    play.passes(1)
    play.save("c")
    play.cuts("ca", "cb")
    play.evicts("a", "c")
    play.passes(2)
    play.heals()
    play.passes(5)
    if play.me("c") != "c~2":
        return "c has not come back"
    play.cuts("ca", "cb")
    put_back(play, "c")
    sends(play, "c", 3)
    play.passes(1)
    play.crash("c", power=False)
    play.boot("c")
    play.passes(1)
    if play.diaries["c"].rows[-1][0] != CRASH:
        return "rows follow the last one"
    return returned(play, "c")


ROLLBACK = {
    "fewer own messages than others have": fewer,
    "other messages under the same counters": as_many_others,
    "other messages, and more, over two starts": more_of_others,
    "one who lags behind is misled": one_is_misled,
    "two are put back": two_at_once,
    "it lets one in, and dies": lets_one_in_and_dies,
    "its joiner knows it longer": its_joiner_knows_it_longer,
    "it is killed after its trace has ended": killed_after_its_trace_has_ended,
    "all are put back to the same moment": all_to_the_same_moment,
    "a number that was used": a_number_that_was_used,
    "it hears of it late": it_hears_of_it_late,
    "after a checkpoint": a_checkpoint,
    "both timelines come to one who knows neither": both_to_one_who_knows_neither,
    "it has let one in that it does not remember": one_that_it_let_in,
    "it is alone": alone,
    "the next word is a message": a_message_tells,
    "to before it came back and left": before_it_left,
    "to before it left another side": before_it_left_another_side,
    "to before it left another side, which it goes on without": lambda: before_it_left_another_side(True),
    "to before its leave": before_its_leave,
    "a number that newcomers know": a_number_that_newcomers_know,
    "it loses the disk after that": lost_after_that,
    "a newcomer under another name": a_newcomer_under_another_name,
    "a group that knows less": a_group_that_knows_less,
    "to before its first message": before_its_first_message,
    "to before its first message, which names another start": before_its_first_message_and_start,
    "a larger side": a_larger_side,
    "to before its eviction": before_its_eviction,
    "to before its eviction, as a newcomer knows": lambda: before_its_eviction("d"),
    "twice to before it left, when others have come": twice_to_before_it_left,
    "a guest knows a start": a_guest_knows_a_start,
}
