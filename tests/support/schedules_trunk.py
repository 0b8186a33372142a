"""Schedules over trees in which the receipts of all go over one trunk; each returns what went wrong."""

from dataclasses import replace

from support.linked import Linked
from thence.core.groups import Passed, Receipt, Running
from thence.replica.group.settings import GroupSettings

SIXTEEN = "abcdefghijklmnop"
TRUNK = GroupSettings(rings=2, collect_from=3)


def told_over_one_tree() -> str:
    """What a message costs until it is stable everywhere: less than where each origin has a tree of its own,
    and no link but a branch carries receipts of others."""
    told = []
    for settings in (TRUNK, replace(TRUNK, collect_from=99)):
        play = Linked(SIXTEEN, settings).together(SIXTEEN)
        play.passes(8)
        before = play.packets["receipt"] + play.packets["passed"]
        play.seen.clear()
        play.send("p")
        play.passes(1.5)
        told.append(play.packets["receipt"] + play.packets["passed"] - before)
        if unsettled := play.unsettled():
            return f"after a second and a half: {unsettled}"
        if settings is TRUNK:
            used = {(s, r) for s, r, packet in play.seen if isinstance(packet, Passed) and packet.receipts}
            if len(used) > 2 * (len(SIXTEEN) - 1):
                return f"receipts are passed on over {len(used)} ways"
    return f"{told[0]} packets, {told[1]} without a trunk" if 5 * told[0] > 4 * told[1] else ""


def a_branch_breaks() -> str:
    """Two neighbours of the first member, in turn, do not reach it: the trunk goes another way."""
    play = Linked(SIXTEEN, TRUNK).together(SIXTEEN)
    play.passes(5)
    near = sorted(play.member("a").links.audible())[:2]
    for other in near:
        play.cuts(f"a{other}")
        play.passes(3)
        for name in SIXTEEN:
            play.send(name)
        play.passes(4)
        if behind := [name for name in SIXTEEN if not play.member(name).drained]:
            return f"without a link from a to {other} {behind} lack receipts"
        play.heals()
    play.passes(3)
    return play.unsettled() or play.ends_well()


def the_first_is_evicted() -> str:
    """The member that the trunk leads to is gone: it leads to the next one."""
    play = Linked(SIXTEEN, TRUNK).together(SIXTEEN)
    play.passes(5)
    play.cuts(*[f"a{name}" for name in SIXTEEN[1:]])
    for name in SIXTEEN[1:]:
        play.send(name)
    play.passes(4)
    play.evicts("d", "a")
    play.passes(5)
    if behind := [name for name in SIXTEEN[1:] if not play.member(name).drained]:
        return f"{behind} lack receipts"
    return play.ends_well()


def a_receipt_before_the_join() -> str:
    """A receipt of a joiner is passed on to a member that has not heard of the JOIN; the next says only what
    has grown. Both count once it is a member."""
    play = Linked("abc", GroupSettings(rings=1, collect_from=2)).together("abc")
    play.passes(5)
    member, passing = play.member("c"), play.member("c")._passing
    first = Receipt("z", {"a": 3, "b": 2}, (), (), Running("z", "z", "", 1), number=7)
    member.receiving.receipt(first, "a", play.now)
    member.receiving.receipt(first._replace(counts={"a": 4}, number=8), "a", play.now)
    member.receiving.receipt(first._replace(counts={"b": 1}, number=6), "a", play.now)
    kept = passing.kept("z")
    return "" if kept and kept[0].counts == {"a": 4, "b": 2} and kept[1] == "a" else f"kept: {kept}"


TRUNK_SCHEDULES = {
    "told_over_one_tree": told_over_one_tree,
    "a_branch_breaks": a_branch_breaks,
    "the_first_is_evicted": the_first_is_evicted,
    "a_receipt_before_the_join": a_receipt_before_the_join,
}
