"""Schedules over changing groups whose programs have no state: what they miss is told, or said to be missing.

Each returns what is wrong, nothing if all is well.
"""

from collections.abc import Callable
from copy import deepcopy
from random import Random

from support.schedules_groups import Play
from thence.replica.group.settings import GroupSettings
from thence.sim.air import Air
from thence.sim.groups_weather import SECOND


def _readers(play: Play) -> Play:
    for process in play.processes.values():
        process.application.reads = True
    return play


def _heard(play: Play, name: str) -> list[tuple[str, int]]:
    return sorted(play.processes[name].application.reader.told)


def missed_while_evicted() -> str:
    """c reads, and is evicted. All others have what a says meanwhile, and it is in no process's memory."""
    play = _readers(Play("abc", air=Air(jitter_us=0, links=True))).together("abc")
    play.send("a")
    play.passes(1)
    play.cuts("ca", "cb")
    play.evicts("a", "c")
    for _ in range(5):
        play.passes(1)
        play.send("a")
        play.call("a", lambda node: node.checkpoint(play.now))
    play.passes(1)
    play.heals()
    play.passes(5)
    if play.me("c") == "c":
        return "c has not come back"
    if _heard(play, "c") != _heard(play, "b") or play.processes["c"].application.reader.gaps:
        return f"c has heard {_heard(play, 'c')}, b {_heard(play, 'b')}"
    return play.ends_well()


def missed_from_one_who_came_later() -> str:
    """The same, but c comes back through d or e, which joined when all of it was stable."""
    play = _readers(Play("abcde", air=Air(jitter_us=0, links=True))).together("abc")
    play.cuts("ca", "cb")
    play.evicts("a", "c")
    play.passes(1)
    for _ in range(5):
        play.send("a")
    play.passes(2)
    for name in "de":
        play.join(name)
        play.passes(3)
    play.passes(8)
    if play.me("c") == "c":
        return "c has not come back"
    if not set(_heard(play, "b")) <= set(_heard(play, "c")) or play.processes["c"].application.reader.gaps:
        return f"c has heard {_heard(play, 'c')}, b {_heard(play, 'b')}"
    return play.ends_well()


def _forgets_what_all_have(history: int) -> Play:
    """c reads what a says, all have it, and c forgets it with its power; a has written a checkpoint."""
    play = Play("abc", GroupSettings(history_bytes=history), air=Air(jitter_us=0, links=True), sync="no")
    _readers(play).together("abc")
    left = deepcopy(play.processes["c"].shelf)
    left.forgetful = True
    for _ in range(60):
        play.send("a", bytes(1000))
    play.passes(2)
    for _ in range(3):
        for name in "ab":
            play.call(name, lambda node: node.checkpoint(play.now))
        play.send("a", bytes(20_000))
        play.passes(1)
    play.crash("c")
    play.processes["c"].shelf = left
    play.boot("c")
    play.passes(8)
    return play


def forgotten_and_kept() -> str:
    """Then it comes again, out of a log."""
    play = _forgets_what_all_have(1 << 20)
    if play.me("c") == "c":
        return "c has not come back"
    if _heard(play, "c") != _heard(play, "b") or play.processes["c"].application.reader.gaps:
        return f"c has heard {len(_heard(play, 'c'))}, b {len(_heard(play, 'b'))}"
    return play.ends_well()


def forgotten_and_gone() -> str:
    """Or it is said to be missing, if no log holds it any more."""
    play = _forgets_what_all_have(1)
    if play.me("c") == "c":
        return "c has not come back"
    if not play.processes["c"].application.reader.gaps:
        return "a log was kept that no member needs"
    return play.ends_well()


def missed_twice() -> str:
    """c takes its time, and is evicted again before it has read what it missed the first time."""
    play = _readers(Play("abc", air=Air(jitter_us=0, links=True))).together("abc")
    play.slow(Random(1), 1000 * SECOND)
    for _ in range(2):
        play.cuts("ca", "cb")
        play.evicts("a", "c")
        play.passes(1)
        for _ in range(3):
            play.send("a")
        play.passes(2)
        play.heals()
        play.passes(5)
    node = play.processes["c"].node
    if play.me("c") != "c~3" or node is None or node.unread != 6:
        return "c has not come back twice, or does not know what it missed"
    play.slow(Random(1), 0)
    return play.ends_well()


def heard_before_its_return() -> str:
    """c and b hear each other and are evicted together: what they carry is not told to them again."""
    play = _readers(Play("abcd", air=Air(jitter_us=0, links=True))).together("abcd")
    play.cuts("ab", "ac", "db", "dc")
    play.send("b")
    play.passes(0.5)
    play.send("c")
    play.passes(0.5)
    for who in "bc":
        play.evicts("a", who)
    play.passes(1)
    play.send("d")
    play.passes(1)
    return play.ends_well()


def heard_under_another_start() -> str:
    """b has been started again, no other member has heard of that, and it and c are evicted: what they carry
    is named after the start, and is neither told again to c, which had it, nor to b, which sent it."""
    air = Air(jitter_us=0, links=True)
    play = _readers(Play("abcd", air=air, numbered=True)).together("abcd")
    play.send("b")
    play.passes(1)
    play.cuts("ab", "ac", "db", "dc")
    play.crash("b", power=False)
    play.boot("b")
    play.passes(1)
    play.send("b")
    play.passes(0.5)
    play.send("c")
    play.passes(0.5)
    for who in "bc":
        play.evicts("a", who)
    play.passes(1)
    play.send("d")
    play.passes(1)
    return play.ends_well()


def carried_to_it_under_another_start() -> str:
    """b is started again, only c hears of it, and d hears it from c, which comes back to a and d. Then d is
    evicted by a and c, and returns: it has had what b said."""
    air = Air(jitter_us=0, links=True)
    play = _readers(Play("abcd", air=air, numbered=True)).together("abcd")
    play.send("b")
    play.passes(1)
    play.cuts("ab", "ac", "db", "dc")
    play.crash("b", power=False)
    play.boot("b")
    play.passes(1)
    for _ in range(3):
        play.send("b")
    play.passes(0.5)
    for who in "bc":
        play.evicts("a", who)
    play.passes(1)
    play.heals()
    play.cuts("ab", "bc", "bd")
    play.passes(5)
    if not any(place[0] == "b" and place[1] > 1 for place in _heard(play, "d")):
        return "d has not heard of it"
    play.heals()
    play.cuts("ad", "cd", "bd")
    for who in "ac":
        play.evicts(who, "d")
    play.passes(2)
    return play.ends_well()


def other_timeline_of_one_that_is_past() -> str:
    """d came back as d~2, so that d is past. While a is away, d's disk is put back to when it was d; it
    sends, and comes back with that. a comes back, and has had nothing of what d sent the second time."""
    play = _readers(Play("abcd", air=Air(jitter_us=0, links=True), numbered=True)).together("abcd")
    for _ in range(3):
        play.send("d")
    play.passes(2)
    play.save("d")
    play.cuts("da", "db", "dc")
    play.evicts("a", "d")
    play.passes(3)
    play.heals()
    play.passes(8)
    node = play.processes["a"].node
    if node is None or node.member is None or "d" not in node.member.view.past:
        return "d is not past"
    play.cuts("ab", "ac", "ad", "db", "dc")
    play.evicts("b", "a")
    play.passes(2)
    play.restore("d")
    play.boot("d")
    for _ in range(2):
        play.send("d")
    play.passes(2)
    play.heals()
    play.passes(15)
    if play.me("a") == "a" or play.me("d") in ("d", "d~2"):
        return "a or d has not come back"
    if _heard(play, "a") != _heard(play, "b") or play.processes["a"].application.reader.gaps:
        return f"a has heard {_heard(play, 'a')}, b {_heard(play, 'b')}"
    return play.ends_well(trace=False)


READING: dict[str, Callable[[], str]] = {
    schedule.__name__: schedule
    for schedule in (
        missed_while_evicted, missed_from_one_who_came_later, forgotten_and_kept, forgotten_and_gone,
        missed_twice, heard_before_its_return, heard_under_another_start,
        carried_to_it_under_another_start, other_timeline_of_one_that_is_past,
    )
}  # fmt: skip
