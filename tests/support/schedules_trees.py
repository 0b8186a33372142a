"""Schedules over trees: what a group does whose members have few links; each returns what went wrong."""

from support.linked import Linked
from thence.core.groups import Flow
from thence.replica.group.settings import GroupSettings

EIGHT = "abcdefgh"
ONE_RING = GroupSettings(rings=1)
TWO_RINGS = GroupSettings(rings=2)


class Tree(Linked):
    """The same over a tree."""

    def __init__(self, names: str, settings: GroupSettings = ONE_RING) -> None:
        super().__init__(names, settings)

    def links(self, name: str) -> list[str]:
        node = self.processes[name].node
        assert node is not None
        return sorted(node._wires.up)

    def lacking(self, origin: str, names: set[str]) -> list[str]:
        """Who has not everything of an origin."""
        sent = self.member(origin).ledger.sent
        return [name for name in sorted(names) if self.member(name).ledger.count(origin) < sent]


def sleeper_in_between() -> str:
    """A neighbour whose program takes nothing passes nothing on: others do, and from then on without a
    wait."""
    play = Tree(EIGHT, TWO_RINGS).together(EIGHT)
    play.passes(5)
    asleep, others = "c", set(EIGHT) - {"c"}
    play.processes[asleep].taking = play.processes[asleep].node
    for _ in range(5):
        play.send("a")
    play.passes(3)
    if lacking := play.lacking("a", others):
        return f"{lacking} wait for what {asleep} does not pass on"
    play.seen.clear()
    play.send("a")
    play.passes(0.1)
    if lacking := play.lacking("a", others):
        return f"{lacking} wait again"
    flows = [one for one, _, packet in play.seen if one == asleep and isinstance(packet, Flow)]
    return "it passes on what it has not taken" if flows else ""


def dead_neighbours() -> str:
    """Both neighbours of a member die: the next ones on its ring take their places."""
    play = Tree(EIGHT).together(EIGHT)
    play.passes(5)
    dead = play.links("a")
    for name in dead:
        play.crash(name)
    play.passes(10)
    play.send("a")
    play.passes(2)
    return f"{lacking} were not reached" if (lacking := play.lacking("a", set(EIGHT) - {*dead})) else ""


def returner_hears_all() -> str:
    """A member returns over links that stay up: its new incarnation gets all receipts, not what has grown."""
    play = Tree(EIGHT, TWO_RINGS).together(EIGHT)
    for name in EIGHT:
        play.send(name)
    play.passes(5)
    play.evicts("a", "e")
    play.passes(3)
    play.send("b")
    play.passes(1.5)
    return play.unsettled()


def leaver_is_past() -> str:
    """Whom a member counts no more, since everything of it is stable there, others take for whole."""
    play = Tree(EIGHT, TWO_RINGS).together(EIGHT)
    for _ in range(3):
        for name in EIGHT:
            play.send(name)
        play.passes(0.05)
    play.leaves("h")
    play.passes(4)
    return play.unsettled()


def out_of_turn() -> str:
    """One that asks in the midst of many messages gets those that it lacks from the log, before the next."""
    play = Tree(EIGHT, GroupSettings(rings=1, step_max=1)).together(EIGHT)
    play.passes(5)
    for number in range(200):
        play.send("a")
        play.passes(0.005)
        if number == 60:
            play.crash(play.links("a")[0])
    play.passes(3)
    up = {name for name in EIGHT if play.processes[name].node is not None}
    return f"{lacking} lack some" if (lacking := play.lacking("a", up)) else ""


TREES = {
    "sleeper_in_between": sleeper_in_between,
    "dead_neighbours": dead_neighbours,
    "returner_hears_all": returner_hears_all,
    "leaver_is_past": leaver_is_past,
    "out_of_turn": out_of_turn,
}
