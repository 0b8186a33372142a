"""Schedules over changing groups, written by hand: messages that hold several operations, and operations that
travel in fragments."""

from collections.abc import Callable

from support.schedules_groups import Play
from thence.core.groups import Fragment, GroupPacket
from thence.replica.group.settings import GroupSettings
from thence.sim.air import Air
from thence.sim.groups_fakes import sized


def run_of_orphans() -> str:
    """c sends a run that no member gets, is evicted and returns: all operations of it are carried."""
    play = Play("abc", air=Air(jitter_us=0, links=True)).together("abc")
    play.cuts("ca", "cb")
    play.send("c", count=5)
    play.passes(0.1)
    play.evicts("a", "c")
    play.passes(1)
    play.heals()
    play.passes(5)
    if play.me("c") != "c~2":
        return f"c is {play.me('c')}"
    applied = play.processes["a"].application.applied
    if missing := [seq for seq in range(1, 6) if ("c", seq) not in applied]:
        return f"a lacks {missing} of the run"
    return play.ends_well()


def run_after_a_restart() -> str:
    """a has sent runs, and restarts while b is cut off: b gets them from the log, though nothing follows."""
    play = Play("abc", air=Air(jitter_us=0, links=True)).together("abc")
    play.cuts("ab", "cb")
    for _ in range(3):
        play.send("a", count=7)
        play.passes(0.1)
    play.crash("a", power=False)
    play.boot("a")
    play.passes(1)
    play.heals()
    play.passes(5)
    applied = play.processes["b"].application.applied
    if len(applied) != 21:
        return f"b has {len(applied)} of 21 operations"
    play.send("a", count=3)
    return play.ends_well()


def take_inside_a_turn() -> str:
    """b's program asks for two operations in one turn, and a message of a comes between them: both are sent
    before it is taken, under the counters that were told, and do not follow from it."""
    play = Play("ab", air=Air(jitter_us=0, links=True)).together("ab")
    play.send("a", count=3)
    steps = play.processes["b"].steps
    assert steps is not None
    promised = steps.machine.sent + 1
    steps.ask([b"first"], None)
    steps.ask([b"second"], None)
    member = steps.machine.member
    assert member is not None
    ledger, before = member.ledger, list(member.ledger.counts)
    play.passes(1)
    messages = [ledger.read(dot, data) for dot, data in ledger.written(before)]
    found = [message for message in messages if ledger.place(message.dot)[0] == "b"]
    if [ledger.place(message.dot)[1] for message in found] != [promised + 1]:
        return f"promised {promised} and {promised + 1}, sent {[ledger.place(one.dot) for one in found]}"
    if [place for place in ledger.places(found[0].context) if place == ("a", ledger.count("a"))]:
        return "an operation follows from what was taken after it was asked for"
    return play.ends_well()


class Cut(Play):
    """Packets hold little, so that an operation of `LARGE` bytes takes a while."""

    LARGE = 20_000

    def __init__(self, names: str, rings: int = 0) -> None:
        self.came: dict[tuple[str, str], int] = {}
        settings = GroupSettings(packet_bytes=100, window_bytes=900, rings=rings)
        super().__init__(names, settings, 0, Air(jitter_us=0, links=True, wire=True))
        for process in self.processes.values():
            process.application.sized = True
        self.filter = self._count

    def _count(self, sender: str, receiver: str, packet: GroupPacket) -> GroupPacket:
        if isinstance(packet, Fragment):
            pair = sender, receiver
            self.came[pair] = self.came.get(pair, 0) + 1
        return packet

    def heals(self) -> None:
        super().heals()
        self.filter = self._count

    def sends(self, name: str, size: int = LARGE) -> None:
        self.send(name, sized(size))

    def is_midway(self, sender: str, receiver: str) -> bool:
        """Some fragments have come, and not all."""
        before = self.came.get((sender, receiver), 0)
        self.passes(0.03)
        return before < self.came.get((sender, receiver), 0) < self.LARGE // 100

    def has(self, name: str) -> int:
        """Operations that have taken effect there."""
        return len(self.processes[name].application.applied)


def large_over_a_link_that_breaks() -> str:
    """The link breaks between two fragments, twice: the operation comes again from its first byte, whole,
    and what is sent after it comes after it."""
    play = Cut("ab").together("ab")
    play.sends("a")
    for _ in range(2):
        if not play.is_midway("a", "b"):
            return "not in the midst of the fragments"
        play.sends("a", 10)
        play.cuts("ab")
        play.passes(0.5)
        if play.has("b"):
            return "b has something of what did not come whole"
        play.heals()
        play.came.clear()
        play.passes(0.1)
    play.passes(5)
    return play.ends_well() or ("" if play.has("b") == 3 else f"b has {play.has('b')} of 3 operations")


def large_and_a_restart_midway() -> str:
    """Its sender, then its receiver, is killed between two fragments: the log has it."""
    play = Cut("ab").together("ab")
    play.sends("a")
    for name in "ab":
        if not play.is_midway("a", "b"):
            return "not in the midst of the fragments"
        play.crash(name, power=False)
        play.passes(0.5)
        play.boot(name)
        play.came.clear()
        play.passes(0.2)
    play.passes(5)
    return play.ends_well() or ("" if play.has("b") == 1 else "b lacks the operation")


def large_and_an_eviction_midway() -> str:
    """a is evicted when no member has all fragments: none has the operation, until a returns and carries it,
    in fragments again."""
    play = Cut("abc").together("abc")
    play.sends("a")
    if not play.is_midway("a", "b") or not play.is_midway("a", "c"):
        return "not in the midst of the fragments"
    play.cuts("ab", "ac")
    play.evicts("b", "a")
    play.sends("b", 10)
    play.passes(3)
    if play.has("b") != 1 or play.has("c") != 1:
        return "half an operation took effect"
    play.heals()
    play.passes(10)
    if play.me("a") != "a~2":
        return f"a is {play.me('a')}"
    return play.ends_well() or ("" if play.has("c") == 2 else f"c has {play.has('c')} operations")


def large_that_one_has() -> str:
    """c has all of it, b a part, and a is gone for good: b gets it from c, from the first byte."""
    play = Cut("abc").together("abc")
    play.cuts("ab")
    play.sends("a")
    play.passes(0.3)
    play.cut.clear()
    while not play.came.get(("a", "b")):
        play.passes(0.01)
    while not play.has("c"):
        play.passes(0.01)
    if play.has("b"):
        return "not in the midst of the fragments"
    play.crash("a", power=False)
    play.processes["a"].dead = True
    play.evicts("c", "a")
    play.passes(5)
    return play.ends_well() or ("" if play.has("b") == 1 else "b lacks the operation")


def joiner_between_fragments() -> str:
    """d joins while an operation is under way to the others: it has it, by its state or by itself."""
    play = Cut("abcd").together("abc")
    play.sends("a")
    if not play.is_midway("a", "b"):
        return "not in the midst of the fragments"
    play.join("d")
    play.passes(0.1)
    play.sends("b")
    play.passes(8)
    return play.ends_well() or ("" if play.has("d") == 2 else f"d has {play.has('d')} of 2 operations")


def large_one_after_another() -> str:
    """What has come of one leaves room for the next."""
    play = Cut("ab").together("ab")
    for _ in range(30):
        play.sends("a", 500)
    play.passes(10)
    return play.ends_well() or ("" if play.has("b") == 30 else f"b has {play.has('b')} of 30 operations")


def large_along_a_tree() -> str:
    """Operations are passed on, of several origins at once, all larger than what is passed on at a time."""
    play = Cut("abcdef", rings=1).together("abcdef")
    for name in "abc":
        play.sends(name, 3000)
        play.sends(name, 5)
    play.passes(0.1)
    play.crash("d", power=False)
    play.passes(0.2)
    play.boot("d")
    play.passes(10)
    return play.ends_well() or ("" if play.has("d") == 6 else f"d has {play.has('d')} of 6 operations")


RUNS: dict[str, Callable[[], str]] = {
    schedule.__name__: schedule
    for schedule in (
        run_of_orphans, run_after_a_restart, take_inside_a_turn, large_over_a_link_that_breaks,
        large_and_a_restart_midway, large_and_an_eviction_midway, large_that_one_has,
        joiner_between_fragments, large_along_a_tree, large_one_after_another,
    )
}  # fmt: skip
