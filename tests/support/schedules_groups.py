"""Schedules over changing groups, written by hand: what a storm meets once in a thousand seeds, or never.

Each returns what is wrong, nothing if all is well. Links take ten milliseconds and lose only what the
schedule says; no member evicts another unless the schedule does.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Self

from support.groups import judged
from thence.core.dots import pack
from thence.core.groups import (
    FLUSH,
    JOIN,
    LEAVE,
    OPERATION,
    Data,
    GroupPacket,
    JoinRequest,
    Notice,
    Piece,
    Receipt,
    process_of,
)
from thence.oplog.policy import Policy
from thence.replica.group.settings import GroupSettings
from thence.sim.air import Air
from thence.sim.groups import GroupWorld
from thence.sim.groups_verdicts import lost_operations, out_of_order, silent_losses
from thence.sim.groups_weather import SECOND


class Play(GroupWorld):
    """A world for one schedule."""

    def __init__(
        self,
        names: Sequence[str],
        settings: GroupSettings | None = None,
        take_us: int = 0,
        air: Air | None = None,
        sync: Policy = "always",
        numbered: bool = False,
    ) -> None:
        settings = settings or GroupSettings()
        super().__init__(1, list(names), air or Air(jitter_us=0), settings, take_us, sync, numbered=numbered)
        for name in names:
            self.boot(name)

    def together(self, names: str) -> Self:
        """These are members from the start: the first founds, the others join one after another."""
        self.call(names[0], lambda node: node.found(self.now))
        for name in names[1:]:
            self.join(name)
            self.passes(1)
        self.passes(2)
        return self

    def passes(self, seconds: float) -> None:
        self.run(self.now + int(seconds * SECOND))

    def slow(self, random: Random, take_us: int) -> None:
        """From now on an application takes up to so long for a message."""
        self._take, self._take_us = random, take_us

    def cuts(self, *links: str) -> None:
        """`ab`: nothing from a reaches b, nor the other way round."""
        for one, other in map(tuple, links):
            self.cut |= {(one, other), (other, one)}

    def heals(self) -> None:
        self.cut.clear()
        self.filter = without()

    def evicts(self, who: str, whom: str) -> None:
        self.call(who, lambda node: node.evict(whom, self.now))

    def leaves(self, who: str) -> None:
        self.call(who, lambda node: node.leave(self.now))

    def me(self, name: str) -> str:
        node = self.processes[name].node
        return node.member.me if node and node.member else ""

    def not_out(self, names: str) -> str:
        """Who of these has not left, or not in good order."""
        nodes = [self.processes[name].node for name in names]
        inside = [node.name for node in nodes if node is not None and (node.member or node.unclean)]
        return f"not out, or not in good order: {inside}" if inside else ""

    def ends_well(self, seconds: float = 60, trace: bool = True) -> str:
        """Everything heals; then all must come right by itself. `trace`: is it judged? That of a process
        which was put back speaks of its first timeline alone (docs/protocols/membership.md, Rollback)."""
        self.heals()
        settled = self.run(self.now + int(seconds * SECOND), lambda: not self.unsettled())
        self.close_diaries()
        why = self.problem or ("" if settled else f"never came to rest: {self.unsettled()}")
        if not why and (lost := lost_operations(self)):
            why = f"lost operations: {sorted(lost)}"
        if not why and self.packets["garbage"]:
            why = f"{self.packets['garbage']} packets that no correct peer sends"
        if not why and (inverted := out_of_order(self)):
            why = f"operations of one process in disorder: {inverted}"
        if not why and (silent := silent_losses(self)):
            why = f"programs never heard of: {silent}"
        return judged(why, self) if trace else why


def without(
    *types: type, kind: int = -1, sender: str = "", receiver: str = "", only: str = ""
) -> Callable[[str, str, GroupPacket], GroupPacket | None]:
    """Packets of these types never arrive (`only`: from one to another), nor do messages of one kind from one
    to another."""

    def keep(one: str, other: str, packet: GroupPacket) -> GroupPacket | None:
        if isinstance(packet, types) and only in ("", one + other):
            return None
        if (one, other) != (sender, receiver) or not isinstance(packet, Data):
            return packet
        kept = tuple([message for message in packet.messages if message.payload[0] != kind])
        return packet._replace(messages=kept) if kept else None

    return keep


def leaver_and_suspect() -> str:
    """b leaves, and a does not hear of it; x is heard by b alone. a and c evict x, and c settles it without
    asking b, which has left: b must not pass on to a what x said after b's leave."""
    play = Play("abcx").together("abcx")
    play.filter = without(Notice, kind=LEAVE, sender="b", receiver="a")
    play.cuts("xa", "xc")
    play.cut.add(("c", "a"))
    play.leaves("b")
    play.send("x")
    play.passes(0.1)
    play.evicts("a", "x")
    play.passes(3)
    play.send("a")
    play.passes(3)
    return play.ends_well()


def restart_while_evicting() -> str:
    """q has flushed x, and restarts before all have: it must not listen to x again."""
    play = Play("acqx").together("acqx")
    play.cuts("xa", "xc", "cq")
    play.filter = without(Notice)
    play.evicts("a", "x")
    play.passes(0.3)
    play.crash("q")
    play.boot("q")
    play.send("x")
    play.passes(1)
    play.send("q")
    play.passes(1)
    return play.ends_well()


def two_suspects() -> str:
    """x is heard by y alone. a has flushed x; b, which suspects y as well, must not settle x before a has
    flushed y too: until then a takes from y what x said last."""
    play = Play("abxy").together("abxy")
    play.cuts("xa", "xb")
    play.send("x")
    play.passes(0.05)
    deaf = without(Notice, kind=FLUSH, sender="a", receiver="y")
    deafer = without(kind=FLUSH, sender="b", receiver="y")
    play.filter = lambda s, r, packet: (kept := deaf(s, r, packet)) and deafer(s, r, kept)
    play.cut |= {("y", "a"), ("b", "a")}
    play.evicts("a", "x")
    play.passes(0.05)
    play.evicts("b", "y")
    play.passes(0.1)
    play.cut.discard(("y", "a"))
    play.passes(3)
    play.send("a")
    play.passes(2)
    return play.ends_well()


def orphans_in_order() -> str:
    """b let z in while it was cut off, and answered z. When b returns, z's operation is not ready, since
    another eviction is under way: b's answer must wait for it."""
    play = Play("abmnwz", GroupSettings(join_timeout_us=SECOND)).together("abmnw")
    play.cuts("ba", "bm", "bn", "bw", "za", "zm", "zn", "zw")
    play.evicts("a", "b")
    play.passes(2)
    play.join("z")
    play.passes(8)
    play.send("z")
    play.passes(1)
    play.send("b")
    play.passes(0.1)
    play.cuts("zb", "ma")
    play.crash("w")
    play.processes["w"].dead = True
    play.evicts("a", "w")
    play.passes(1)
    play.cut -= {("a", "b"), ("b", "a")}
    play.passes(10)
    if not play.processes["b"].application.orphans:
        return "b had nothing to carry"
    return play.ends_well()


def _owes(play: Play) -> str:
    """c is cut off, speaks and is evicted. It returns while b is down, so that nothing is settled yet."""
    play.cuts("ca", "cb")
    play.send("c")
    play.send("c")
    play.passes(0.1)
    play.crash("b")
    play.evicts("a", "c")
    play.passes(1)
    play.cut.clear()
    play.passes(3)
    node = play.processes["c"].node
    if node is None or node.member is None or node.member.me == "c" or not node.in_debt:
        return "c has not come back, or owes nothing"
    return "" if node.member.carrying.waits_for == ("c",) else f"waits for {node.member.carrying.waits_for}"


def own_order() -> str:
    """What c says after its return waits until what it had said before can be sent again."""
    play = Play("abc").together("abc")
    if why := _owes(play):
        return why
    play.send("c")
    play.passes(1)
    if len(play.processes["c"].backlog) != 1 or ("c~2", 3) in play.operations:
        return "what c says now did not wait"
    play.boot("b")
    play.passes(3)
    if play.processes["c"].backlog or play.processes["c"].backlog.gave_up:
        return "what c says now was never sent"
    why = play.ends_well()
    order = [place for place in play.processes["a"].application.order if place[0] in ("c", "c~2")]
    return why or ("" if len(order) == 3 else f"c said {order}")


def own_order_is_not_waited_for_for_ever() -> str:
    """b does not come back: what c says after its return is refused, in number and in time."""
    play = Play("abc", GroupSettings(settle_timeout_us=2 * SECOND, backlog=2)).together("abc")
    if why := _owes(play):
        return why
    for _ in range(3):
        play.send("c")
    backlog = play.processes["c"].backlog
    if (len(backlog), backlog.gave_up) != (2, 1):
        return "there is no bound"
    play.passes(3)
    if (len(backlog), backlog.waited, backlog.gave_up) != (0, 2, 3):
        return "there is no limit"
    play.boot("b")
    play.passes(3)
    play.send("c")
    return play.ends_well()


def own_order_over_three_lives() -> str:
    """c is evicted again before anything of its first life could be sent again."""
    play = Play("abc").together("abc")
    if why := _owes(play):
        return why
    play.send("c")
    play.cuts("ca", "cb")
    play.evicts("a", "c")
    play.passes(1)
    play.cut.clear()
    play.passes(5)
    if play.me("c") in ("c", "c~2"):
        return "c has not come back again"
    play.send("c")
    play.boot("b")
    why = play.ends_well()
    order = [place for place in play.processes["a"].application.order if process_of(place[0]) == "c"]
    return why or ("" if len(order) == 4 else f"c said {order}")


def _overheard(play: Play) -> list[JoinRequest]:
    """Requests that are bound to a contact, as they pass by."""
    kept: list[JoinRequest] = []

    def overhear(sender: str, receiver: str, packet: GroupPacket) -> GroupPacket:
        if isinstance(packet, JoinRequest) and packet.contact:
            kept.append(packet)
        return packet

    play.filter = overhear
    return kept


def late_request() -> str:
    """A joiner's request comes once more when it has left, and not every member knows of that yet."""
    play = Play("abz").together("ab")
    kept = _overheard(play)
    play.join("z")
    play.passes(3)
    play.cuts("ab")
    play.leaves("z")
    play.passes(0.05)
    play.call("a", lambda node: node.receive("z", kept[-1], play.now))
    play.passes(1)
    return play.ends_well()


def very_late_request() -> str:
    """The same when every member knows, and the leaver is past."""
    play = Play("abz").together("ab")
    kept = _overheard(play)
    play.join("z")
    play.passes(3)
    play.leaves("z")
    play.passes(5)
    play.call("a", lambda node: node.receive("z", kept[-1], play.now))
    play.passes(10)
    return play.unsettled() or play.ends_well()


def past_is_told() -> str:
    """c leaves. b has what a says and a does not hear b until c is past to b, which does not count it any
    more: a must not wait for b's word on c."""
    play = Play("abc").together("abc")
    play.filter = without(Receipt, only="ba")
    play.send("c")
    play.passes(0.1)
    play.leaves("c")
    play.passes(5)
    return play.ends_well()


def follows_from_the_past() -> str:
    """x has left, and is past to a when b sends something that follows from x's last word. z joins through a
    before that has reached a: it has never heard of x, and must not wait for it."""
    play = Play("abxz").together("abx")
    play.leaves("x")
    play.passes(5)
    play.filter = without(kind=OPERATION, sender="b", receiver="a")
    play.send("b")
    play.join("z")
    play.passes(0.15)
    if not play.me("z"):
        return "z is not in yet"
    return play.ends_well()


def stranger() -> str:
    """b was evicted by x, which let d in and left: b knows nothing of d, and d finds b. One side must tell
    the other, or they never meet."""
    play = Play("bxd").together("bx")
    play.cuts("bx", "bd")
    play.evicts("x", "b")
    play.passes(1)
    play.join("d")
    play.passes(8)
    play.leaves("x")
    play.passes(3)
    before = play.me("d")
    play.heals()
    play.passes(5)
    if play.me("d") == before:
        return "d was not told"
    play.evicts("b", "x")
    return play.ends_well()


def circle() -> str:
    """Three who have each evicted the one before all want to return at once: one must let another in before
    its own attempt is over."""
    play = Play("bcd", GroupSettings(join_timeout_us=10 * SECOND)).together("bcd")
    play.cuts("bc", "cd", "bd")
    play.passes(1)
    play.evicts("c", "b")
    play.evicts("d", "c")
    play.evicts("b", "d")
    play.passes(1)
    return play.ends_well(9)


# The nine ways in which the document's own protocol fails


def two_joiners_at_once() -> str:
    """Two join through two contacts at once, and no member sends anything."""
    play = Play("abyz").together("ab")
    play.join("y")
    play.join("z")
    return play.ends_well()


def contact_dies() -> str:
    """c sends; a lets z in and dies before c's message has reached z."""
    play = Play("abcz").together("abc")
    play.cuts("cz")
    play.send("c")
    play.join("z")
    play.passes(0.5)
    play.crash("a")
    play.processes["a"].dead = True
    play.heals()
    play.passes(1)
    play.evicts("b", "a")
    return play.ends_well()


def state_is_lost() -> str:
    """The state never reaches the joiner, which tries again elsewhere."""
    play = Play("abz").together("ab")

    def lose(sender: str, receiver: str, packet: GroupPacket) -> GroupPacket | None:
        return None if isinstance(packet, Piece) and sender == "a" else packet

    play.filter = lose
    play.join("z")
    play.passes(20)
    if not play.me("z"):
        return "z did not get in"
    return play.ends_well()


def silent_leaver() -> str:
    """a leaves a group in which no member sends anything."""
    play = Play("abc").together("abc")
    play.leaves("a")
    play.passes(5)
    return play.not_out("a") or play.ends_well()


def all_leave() -> str:
    """All members leave at once."""
    play = Play("abc").together("abc")
    for name in "abc":
        play.send(name)
        play.leaves(name)
    play.passes(10)
    return play.not_out("abc") or play.ends_well()


def waits_for_the_leaver() -> str:
    """A message has been seen by all but the one who leaves."""
    play = Play("abc").together("abc")
    play.filter = without(kind=OPERATION, sender="b", receiver="a")
    play.send("b")
    play.passes(0.02)
    play.leaves("a")
    return play.ends_well()


def leaves_and_comes_back() -> str:
    play = Play("abc").together("abc")
    play.send("a")
    play.leaves("a")
    play.passes(3)
    play.join("a")
    play.passes(3)
    play.send("a")
    if play.me("a") != "a~2":
        return "a came back as an incarnation that it was before"
    return play.ends_well()


def crash_and_eviction() -> str:
    """One is gone for good: stability stops, until it is evicted."""
    play = Play("abc").together("abc")
    play.crash("c")
    play.processes["c"].dead = True
    play.send("a")
    play.passes(5)
    if not play.unsettled():
        return "no member waited for c"
    play.evicts("a", "c")
    return play.ends_well()


def last_words() -> str:
    """c reaches only b, and dies; a gets it from b."""
    play = Play("abc").together("abc")
    play.cuts("ac")
    play.send("c")
    play.passes(0.1)
    play.crash("c")
    play.processes["c"].dead = True
    play.send("b")
    play.passes(1)
    play.evicts("a", "c")
    return play.ends_well()


# And others


def cut_off_from_each_other() -> str:
    """a and b see c and not each other: they hear of each other all the same."""
    play = Play("abc").together("abc")
    play.cuts("ab")
    play.send("a")
    play.send("b")
    play.passes(10)
    if why := play.unsettled():
        return why
    return play.ends_well()


def split_brain() -> str:
    """Both halves are told to go on without the other, work on, and meet again."""
    play = Play("abcd").together("abcd")
    play.cuts("ac", "ad", "bc", "bd")
    play.evicts("a", "c")
    play.evicts("a", "d")
    play.evicts("c", "a")
    play.evicts("c", "b")
    for name in "abcd":
        play.send(name)
    play.passes(3)
    for name in "abcd":
        play.send(name)
    return play.ends_well()


def large_state() -> str:
    """A state of many pieces, over links that lose some, with a contact that restarts in the middle."""
    settings = GroupSettings(piece_bytes=1000, pieces=4, join_timeout_us=2 * SECOND)
    play = Play("abz", settings)
    for process in play.processes.values():
        process.application.padding = bytes(100_000)
    play.together("ab")
    play.air = Air(jitter_us=0, loss=0.2)
    play.join("z")
    play.passes(0.5)
    play.crash("a")
    play.boot("a")
    return play.ends_well(120)


def slow_joiner() -> str:
    """Silence evicts, but not a joiner whose state takes longer than that to arrive."""
    settings = GroupSettings(piece_bytes=100, pieces=1, silence_us=2_500_000, join_timeout_us=2 * SECOND)
    play = Play("abcz", settings)
    for process in play.processes.values():
        process.application.padding = bytes(20_000)
    play.call("a", lambda node: node.found(play.now))
    for name in "bc":
        play.join(name)
    play.passes(30)
    play.join("z")
    play.passes(15)
    if play.me("z") != "z":
        return "z needed more than one attempt"
    return play.ends_well()


def joiner_dies() -> str:
    """A joiner dies before its state has arrived: its contact finds out, and the group goes on."""
    play = Play("abz").together("ab")
    play.filter = without(Piece)
    play.join("z")
    play.passes(0.2)
    play.crash("z")
    play.processes["z"].dead = True
    play.send("a")
    return play.ends_well()


def names_in_another_order() -> str:
    """c joins through a and d through b, which cannot see each other: over session links what one calls its
    third member is the other's fourth."""
    play = Play("abcd", air=Air(jitter_us=0, links=True)).together("ab")
    play.cuts("ad", "bc", "ab", "cd")
    play.join("c")
    play.join("d")
    play.passes(8)
    play.heals()
    play.passes(3)
    for name in "abcd":
        play.send(name)
    return play.ends_well()


def leaves_before_it_has_heard() -> str:
    """d was down while c was evicted and returned and e joined; it leaves as soon as it is back. It lacks
    what the old c said, which its process cannot tell it any more; and e lacks d's leave, which d does not
    send to a member of which it has not heard."""
    play = Play("abcdef", air=Air(jitter_us=0, links=True)).together("abcd")
    for when in range(play.now, play.now + 5 * SECOND, 50_000):
        for name in "abc":
            play.at(when, lambda name=name: play.send(name))  # type: ignore[misc]
    play.passes(1)
    play.crash("d")
    play.passes(1)
    play.evicts("a", "c")
    play.join("e")
    play.join("f")
    play.passes(1)
    play.boot("d")
    play.passes(0.02)
    play.leaves("d")
    play.passes(8)
    return play.not_out("d") or play.ends_well()


def leaves_alone() -> str:
    """c has evicted the others while it was cut off, and leaves: what it has acknowledged must not go with
    it."""
    play = Play("abc").together("abc")
    play.cuts("ca", "cb")
    play.evicts("c", "a")
    play.evicts("c", "b")
    play.send("c")
    play.passes(1)
    play.leaves("c")
    play.passes(1)
    play.heals()
    play.passes(20)
    if ("c", 3) not in play.processes["a"].application.applied:
        return "what c had sent is lost"
    return play.not_out("c") or play.ends_well()


def leaves_with_the_better_side() -> str:
    """The same in a group of two, where the other must return to the one who leaves."""
    play = Play("ab").together("ab")
    play.cuts("ab")
    play.evicts("a", "b")
    play.send("a")
    play.passes(1)
    play.leaves("a")
    play.passes(1)
    play.heals()
    play.passes(20)
    if len(play.processes["b"].application.applied) != 1:
        return "what a had sent is lost"
    return play.not_out("a") or play.ends_well()


def leaver_is_abandoned() -> str:
    """c and d have evicted the others. c leaves, and d has returned to them before it heard of that: c must
    not wait for a side that is no more."""
    play = Play("abcde", air=Air(jitter_us=0, links=True)).together("abcde")
    play.cuts("ca", "cb", "ce", "da", "db", "de")
    for other in "abe":
        play.evicts("c", other)
    play.passes(2)
    play.send("c")
    play.passes(1)
    play.cuts("cd")
    play.leaves("c")
    play.passes(1)
    play.cut = {link for link in play.cut if "c" in link}
    play.passes(8)
    if play.me("d") != "d~2":
        return "d has not returned"
    play.heals()
    play.passes(20)
    return play.not_out("c") or play.ends_well()


def leaver_is_deserted() -> str:
    """c and d have evicted a, and d is dead. c leaves; a, which has evicted d, is a side that is no larger
    than c's: c must not wait for d until its patience ends."""
    play = Play("acd", air=Air(jitter_us=0, links=True)).together("acd")
    play.cuts("ca", "da")
    play.evicts("c", "a")
    play.passes(2)
    play.crash("d")
    play.processes["d"].dead = True
    play.send("c")
    play.leaves("c")
    play.evicts("a", "d")
    play.passes(2)
    play.heals()
    play.passes(20)
    if len(play.processes["a"].application.applied) != 1:
        return "what c had sent is lost"
    return play.not_out("c") or play.ends_well()


def side_leaves_at_once() -> str:
    """c and d have evicted a, and leave at the same time: each has the other's leave, and no member that
    stays has what they had acknowledged."""
    play = Play("acd", air=Air(jitter_us=0, links=True)).together("acd")
    play.cuts("ca", "da")
    play.evicts("c", "a")
    play.passes(2)
    play.send("c")
    play.leaves("c")
    play.leaves("d")
    play.passes(2)
    play.heals()
    play.passes(20)
    if len(play.processes["a"].application.applied) != 1:
        return "what c had sent is lost"
    return play.not_out("cd") or play.ends_well()


def all_leave_after_a_disk_was_lost() -> str:
    """b has come back without its disk. Its former incarnation is named for ever, but no member waits for it
    when all leave."""
    play = Play("abc").together("abc")
    play.lose_disk("b")
    play.boot("b")
    play.join("b")
    play.passes(5)
    for name in "abc":
        play.leaves(name)
    play.passes(10)
    return play.not_out("abc") or play.ends_well()


def attempt_that_came_to_nothing() -> str:
    """a knows of a later incarnation of its own that a contact let in before it was given up, and c has not
    heard of that yet. b, which begins from a's state, must speak to a, not to that one."""
    play = Play("abc", air=Air(jitter_us=0, links=True)).together("ac")
    play.send("a")
    play.cuts("ac", "bc")
    member = play.processes["a"].node.member  # type: ignore[union-attr]
    assert member is not None
    ledger = member.ledger
    ledger.window.enter(ledger.number("a~2"), pack(ledger.own_index, ledger.sent))
    member.view.deliver("c", 1, JOIN, ("a~2",), ledger.count)
    member.view.suspect(["a~2"])
    play.join("b")
    play.passes(5)
    play.send("a")
    play.passes(3)
    if play.processes["b"].application.applied != play.processes["a"].application.applied:
        return "b does not hear a"
    return play.ends_well()


def _side_returns(play: Play) -> Play:
    """c and d were cut off and evicted; c has sent three operations one after another, and d one that follows
    from none of them and one that follows from all."""
    play.together("abcd")
    play.cuts("ca", "cb", "da", "db")
    for whom in "cd":
        play.evicts("a", whom)
    play.send("d")
    for _ in range(3):
        play.send("c")
    play.passes(1)
    play.send("d")
    play.passes(1)
    return play


def a_declined_operation() -> str:
    """Neither c nor d wants c's second operation back. What follows from it does not come back either; the
    rest does."""
    play = _side_returns(Play("abcd", air=Air(jitter_us=0, links=True)))
    first = play.processes["c"].application.order
    mine = [place for place in first if place[0] == "c"]
    for name in "cd":
        play.processes[name].application.declines = lambda place: place == mine[1]
    play.heals()
    play.passes(20)
    expected = {mine[0], next(place for place in first if place[0] == "d")}
    for name in "abcd":
        if play.processes[name].application.applied != expected:
            return f"{name} has {sorted(play.processes[name].application.applied)}"
    return play.ends_well()


def declined_and_brought() -> str:
    """c does not want its operations back, and says so when d is still away: d has them, and brings them."""
    play = _side_returns(Play("abcd", air=Air(jitter_us=0, links=True)))
    play.processes["c"].application.declines = lambda place: place[0] == "c"
    play.cuts("cd")
    play.cut = {link for link in play.cut if "d" in link}
    play.passes(10)
    if play.me("c") != "c~2" or play.processes["a"].application.applied & {("c", 4)}:
        return "c is not back, or brought what it had declined"
    play.heals()
    play.passes(20)
    if len(play.processes["a"].application.applied) != 5:
        return "d has not brought what c had declined"
    if play.processes["a"].node.member.view.evicted():  # type: ignore[union-attr]
        return "an evicted incarnation is tracked for ever"
    return play.ends_well()


def let_in_and_given_up() -> str:
    """p, cut off from x and y, lets z in and then evicts all others, z too. Then it returns to x and y, which
    have never heard of z: p must tell them."""
    play = Play("xypz", air=Air(jitter_us=0, links=True)).together("xyp")
    play.cuts("px", "py", "zx", "zy")
    play.passes(1)
    play.join("z")
    play.passes(10)
    play.send("z")
    play.passes(1)
    play.cuts("pz")
    play.passes(1)
    for whom in "zxy":
        play.evicts("p", whom)
    play.evicts("x", "p")
    play.passes(1)
    play.cut -= {("p", "x"), ("x", "p"), ("p", "y"), ("y", "p")}
    play.passes(10)
    if play.me("p") != "p~2":
        return "p is not back"
    return play.ends_well(120)


def past_is_passed_on() -> str:
    """d is past at a, and gone at x, which hears a through r alone: what r passes on must not look as if a
    had more of d than there is."""
    play = Play("ardx").together("ardx")
    play.cuts("da", "dr", "dx")
    play.evicts("r", "d")
    play.passes(2)
    play.cut.clear()
    until = play.now + 6 * SECOND

    def keep(one: str, other: str, packet: GroupPacket) -> GroupPacket | None:
        if not isinstance(packet, Receipt):
            return packet
        late = (packet.source, other) in {("a", "x"), ("x", "r"), ("x", "d")} and play.now < until
        return None if late or (one, other) == ("a", "x") else packet

    play.filter = keep
    play.passes(20)
    back = {name: play.me(name) for name in "arx" if play.me(name) != name}
    return f"had to come back: {back}" if back else play.ends_well()


def silence_is_no_absence() -> str:
    """In a calm group every member is heard more often than silence leads to an eviction."""
    settings = GroupSettings(silence_us=2_100_000)
    play = Play("abcde", settings, air=Air(jitter_us=0, links=True)).together("abcde")
    for number in range(8):
        play.send("abcde"[number % 5])
        play.passes(3.3 + 0.37 * number)
    evicted = [name for name in "abcde" if play.me(name) != name]
    return f"evicted: {evicted}" if evicted else play.ends_well()


def leaver_whose_companions_came_back() -> str:
    """While d is down, all others are evicted and come back. They wait for it to settle that; it is told to
    leave as soon as it runs, and none of those who could hear of it is there any more."""
    play = Play("abcd", air=Air(jitter_us=0, links=True)).together("abcd")
    play.crash("d", power=False)
    play.send("a")
    play.passes(1)
    for who, whom in ("ba", "cb", "ac"):
        play.evicts(who, whom)
        play.passes(4)
    if [play.me(name) for name in "abc"] != ["a~2", "b~2", "c~2"]:
        return "not all have come back"
    play.boot("d")
    play.passes(0.05)
    play.leaves("d")
    play.passes(15)
    return play.not_out("d") or play.ends_well()


SCHEDULES: dict[str, Callable[[], str]] = {
    schedule.__name__: schedule
    for schedule in (
        leaver_and_suspect, restart_while_evicting, two_suspects, orphans_in_order, own_order,
        own_order_is_not_waited_for_for_ever, own_order_over_three_lives, late_request,
        very_late_request, past_is_told, follows_from_the_past,
        stranger, circle, two_joiners_at_once, contact_dies, state_is_lost, silent_leaver, all_leave,
        waits_for_the_leaver, leaves_and_comes_back, crash_and_eviction, last_words,
        cut_off_from_each_other, split_brain, large_state, slow_joiner, joiner_dies,
        names_in_another_order, leaves_before_it_has_heard, leaves_alone, leaves_with_the_better_side,
        leaver_is_abandoned, leaver_is_deserted, leaver_whose_companions_came_back, side_leaves_at_once,
        all_leave_after_a_disk_was_lost, attempt_that_came_to_nothing, a_declined_operation,
        declined_and_brought, let_in_and_given_up, past_is_passed_on, silence_is_no_absence,
    )
}  # fmt: skip
