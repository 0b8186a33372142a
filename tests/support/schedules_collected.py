"""Schedules over meshes in which receipts go by way of a collector; each returns what went wrong."""

from support.linked import Linked
from thence.replica.group.settings import GroupSettings

EIGHT = "abcdefgh"
COLLECTED = GroupSettings(collect_from=3)


def few_receipts() -> str:
    """a is the collector. A message is stable everywhere though few receipts were sent: below the square of
    the group's size."""
    play = Linked(EIGHT, COLLECTED).together(EIGHT)
    play.passes(5)
    before = play.packets["receipt"] + play.packets["passed"]
    play.send("h")
    play.passes(0.5)
    told = play.packets["receipt"] + play.packets["passed"] - before
    if unsettled := play.unsettled():
        return f"after half a second: {unsettled}"
    return f"{told} receipts" if told >= len(EIGHT) * (len(EIGHT) - 1) else ""


def one_without_the_collector() -> str:
    """e has no link to a, which passes receipts on: it hears of the others from themselves, and they do."""
    play = Linked(EIGHT, COLLECTED).together(EIGHT)
    play.passes(5)
    play.cuts("ae")
    play.passes(5)
    for name in EIGHT:
        play.send(name)
    play.passes(2)  # before others are asked for the last receipt of one that is unheard
    if behind := [name for name in "bcdfgh" if not play.member(name).drained]:
        return f"{behind} lack receipts"
    play.passes(3)
    return play.unsettled() or play.ends_well()


def collector_is_evicted() -> str:
    """No member hears the collector any more. The others hear each other, go on without it, and it
    returns."""
    play = Linked(EIGHT, COLLECTED).together(EIGHT)
    play.passes(5)
    play.cuts(*[f"a{name}" for name in EIGHT[1:]])
    play.passes(1)
    for name in EIGHT[1:]:
        play.send(name)
    play.passes(4)
    play.evicts("d", "a")
    play.passes(4)
    if behind := [name for name in EIGHT[1:] if play.me("a") in play.member(name).view.view]:
        return f"{behind} still count on it"
    return play.ends_well()


def leaver_hears_by_the_collector() -> str:
    """It gets no receipts from others than the collector, and leaves in good order, as does the collector."""
    play = Linked(EIGHT, COLLECTED).together(EIGHT)
    play.passes(5)
    play.send("h")
    play.leaves("d")
    play.passes(3)
    play.leaves("a")
    play.passes(3)
    return play.not_out("ad") or play.ends_well()


COLLECTED_SCHEDULES = {
    "few_receipts": few_receipts,
    "one_without_the_collector": one_without_the_collector,
    "collector_is_evicted": collector_is_evicted,
    "leaver_hears_by_the_collector": leaver_hears_by_the_collector,
}
