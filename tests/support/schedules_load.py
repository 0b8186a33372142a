"""Schedules over changing groups in which there is much to do at once, and what each step does of it.

Each returns what is wrong, nothing if all is well. Work is counted in messages, never in time.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from support.linked import Linked
from support.schedules_groups import Play
from thence.core.group_codec import encode
from thence.core.group_sizes import payload_max
from thence.core.group_words import MAX_NAME, Parser
from thence.core.groups import Flow, GroupPacket, Piece
from thence.core.message import Message
from thence.oplog.log import OpLog
from thence.oplog.record import Stored
from thence.oplog.view import CommittedView
from thence.order.roster import Roster
from thence.replica.group.ledger.payloads import Carried
from thence.replica.group.process.node import GroupNode
from thence.replica.group.settings import GroupSettings
from thence.replica.group.surroundings import Orphan
from thence.replica.group.transfer.carrying import Carrying
from thence.replica.life_tag import LifeTag
from thence.sim.air import Air
from thence.sim.attic import MemoryAttic
from thence.sim.groups import Process
from thence.sim.groups_weather import SECOND

Told = Callable[[Sequence[LifeTag]], None]

STEP = 32
LIMITS = {"stable": STEP, "sent": STEP, "log": STEP, "attic": 5 * STEP}
"""What a step of a or b may do at most. From the attic: to announce and to forget, and to look up rows."""

INSTALLS = {"decoded": STEP + 16, "written": STEP, "ordered": STEP}
"""What a step of one that installs a state may do. Decoded are addresses, too."""


class Metered(Play):
    """a and b work while c is away; the most that one of their steps did is in `most`, and the most that one
    of the others' did in `joiners`."""

    def __init__(self, window: int, names: str = "abc") -> None:
        self.most: Counter[str] = Counter()
        self.joiners: Counter[str] = Counter()
        self._done: Counter[str] = Counter()
        settings = GroupSettings(step_max=STEP, tags_max=2 * STEP, window=window)
        super().__init__(names, settings, 0, Air(jitter_us=0, links=True, wire=False))
        self.together("abc")

    @contextmanager
    def metering(self) -> Iterator[None]:
        with ExitStack() as stack:
            for owner, name, counted in self._meters():
                stack.enter_context(patch.object(owner, name, counted))
            yield

    def _meters(self) -> Iterator[tuple[Any, str, Any]]:
        run, of, near, commit = MemoryAttic.run, MemoryAttic.of, CommittedView.near, GroupNode.commit
        missing, due = CommittedView.missing, Carrying.due
        data, append, see = Parser.data, OpLog.append, Roster.see

        def data_counted(parser: Parser) -> bytes:
            self._done["decoded"] += 1
            return data(parser)

        def append_counted(log: OpLog, dot: int, record: bytes) -> int:
            self._done["written"] += 1
            return append(log, dot, record)

        def see_counted(window: Roster, message: Message) -> Any:
            self._done["ordered"] += 1
            return see(window, message)

        def run_counted(attic: MemoryAttic, first: int, count: int) -> Any:
            self._done["attic"] += count
            return run(attic, first, count)

        def of_counted(attic: MemoryAttic, dot: int) -> Any:
            self._done["attic"] += 1
            return of(attic, dot)

        def near_counted(view: CommittedView, origin: int, after: int) -> Iterator[Stored]:
            for stored in near(view, origin, after):
                self._done["log"] += 1
                yield stored

        def missing_counted(view: CommittedView, vector: Any) -> Iterator[Stored]:
            found = missing(view, vector)  # at once: it is read later

            def counted() -> Iterator[Stored]:
                for stored in found:
                    self._done["state"] += 1
                    yield stored

            return counted()

        def committed(node: GroupNode, now: int) -> Any:
            effects = commit(node, now)
            flows = [packet for to, packet in node.posts if isinstance(packet, Flow) and to == "c"]
            self._done["sent"] += sum([len(flow.bodies) for flow in flows])
            pieces = [packet for _, packet in node.posts if isinstance(packet, Piece)]
            self._done["pieces"] += sum([len(piece.data) for piece in pieces])
            if node.name in "ab":
                self.most |= self._done
            else:
                self.joiners |= self._done
            self._done.clear()
            return effects

        yield MemoryAttic, "run", run_counted
        yield MemoryAttic, "of", of_counted
        yield CommittedView, "near", near_counted
        yield CommittedView, "missing", missing_counted

        def due_counted(carrying: Carrying) -> list[Carried]:
            found = due(carrying)
            self._done["carried"] += sum([len(each.operations) for each in found])
            return found

        yield Carrying, "due", due_counted
        yield GroupNode, "commit", committed
        yield Parser, "data", data_counted
        yield OpLog, "append", append_counted
        yield Roster, "see", see_counted
        for name in "ab":
            application = self.processes[name].application
            yield application, "stable", self._stable(application.stable)
        returner = self.processes["c"].application
        yield returner, "orphaned", self._orphaned(returner.orphaned)

    def _stable(self, told: Told) -> Told:
        def counted(found: Sequence[LifeTag]) -> None:
            self._done["stable"] += len(found)
            told(found)

        return counted

    def _orphaned(self, told: Callable[[Orphan], None]) -> Callable[[Orphan], None]:
        def counted(orphan: Orphan) -> None:
            self._done["told"] += 1
            told(orphan)

        return counted

    def too_much(self) -> str:
        """Who does nothing does not count either."""
        return _beyond(self.most, LIMITS)


def _beyond(done: Counter[str], limits: dict[str, int]) -> str:
    wrong = {what: done[what] for what, most in limits.items() if not 0 < done[what] <= most}
    return f"in one step: {wrong}" if wrong else ""


def long_away() -> str:
    """c was away while a and b said much; it is back, and speaks before it has heard all of that."""
    play = Metered(window=100)
    with play.metering():
        play.crash("c")
        play.passes(1)
        for _ in range(600):
            play.send("a")
            play.send("b")
            play.passes(0.001)
        play.most.clear()
        play.boot("c")
        play.passes(0.2)
        for _ in range(20):
            play.send("c")
            play.passes(0.01)
        return play.ends_well() or play.too_much()


def few_among_many() -> str:
    """The same, and a has said little: its messages must be looked for among those of b."""
    play = Metered(window=8)
    with play.metering():
        play.crash("c")
        play.passes(1)
        for _ in range(20):
            play.send("a")
            for _ in range(40):
                play.send("b")
            play.passes(0.01)
        play.most.clear()
        play.boot("c")
        return play.ends_well() or play.too_much()


def _joins_after_much(play: Metered) -> str:
    """a and b say much, d joins, and they go on meanwhile. Neither they nor d do much in one step."""
    for _ in range(400):
        play.send("a")
        play.send("b")
        play.passes(0.001)
    play.most.clear()
    play.join("d")
    for _ in range(100):
        play.send("a")
        play.passes(0.002)
    play.boot("c")
    if wrong := play.ends_well() or ("" if play.me("d") == "d" else "d had to try again"):
        return wrong
    return _beyond(play.most, {"state": STEP}) or _beyond(play.joiners, INSTALLS)


def state_of_much() -> str:
    """d is let in while c is away: everything that was said since is part of its state."""
    play = Metered(window=100, names="abcd")
    with play.metering():
        play.crash("c")
        play.passes(1)
        return _joins_after_much(play)


def state_of_much_that_one_may_lack() -> str:
    """The same, and the group has gone on without c: everything is stable, and may have to be told to c."""
    play = Metered(window=100, names="abcd")
    with play.metering():
        play.crash("c")
        play.evicts("a", "c")
        play.passes(1)
        return _joins_after_much(play)


def large_state() -> str:
    """d is let in to a group whose state is large: a sends a little of it in each step."""
    play = Metered(window=100, names="abcd")
    for process in play.processes.values():
        process.application.padding = bytes(3 << 20)
    with play.metering():
        play.join("d")
        return play.ends_well() or _beyond(play.most, {"pieces": 1 << 18})


def much_to_carry() -> str:
    """c is cut off and says much, so that the others go on without it: its program hears of little of that in
    each step, and it carries as little."""
    play = Metered(window=100)
    with play.metering():
        play.cuts("ac", "bc")
        play.evicts("a", "c")
        for _ in range(700):
            play.send("c")
            play.passes(0.001)
        play.passes(1)
        return play.ends_well() or _beyond(play.joiners, {"carried": 256, "told": STEP})


class Framed(Play):
    """A world whose links carry packets up to a size, and which tells of those that are larger."""

    def __init__(self, names: str, frame_bytes: int, packet_bytes: int) -> None:
        self.too_large: list[str] = []
        self.frame_bytes = frame_bytes
        self.payload_max = payload_max(2 * frame_bytes)
        settings = GroupSettings(
            frame_bytes=frame_bytes, packet_bytes=packet_bytes, piece_bytes=packet_bytes, window=4,
            record_bytes=2 * frame_bytes, window_bytes=frame_bytes,
        )  # fmt: skip
        super().__init__(names, settings, 0, Air(jitter_us=0, links=True, wire=True))
        self.filter = self._measure

    def heals(self) -> None:
        super().heals()
        self.filter = self._measure

    def _measure(self, sender: str, receiver: str, packet: GroupPacket) -> GroupPacket:
        if (size := len(encode(packet))) > self.frame_bytes:
            self.too_large.append(f"{type(packet).__name__} of {size} bytes from {sender} to {receiver}")
        return packet

    def hears_of(self, name: str, others: list[str]) -> None:
        """A member learns names: they are in its log from then on, and all of its links are told of them."""

        def learn(node: GroupNode) -> None:
            assert node.member is not None
            for other in others:
                node.member.ledger.number(other)

        self.call(name, learn)

    def ends_well(self, seconds: float = 60, trace: bool = True) -> str:
        return super().ends_well(seconds, trace) or "; ".join(self.too_large[:3])


def long_names() -> str:
    """Names of the greatest length fill several packets, and so do payloads. Then all start again: links
    are new, and everything is told from the beginning."""
    frame_bytes = 1 << 17
    play = Framed("abc", frame_bytes, frame_bytes // 2).together("abc")
    play.hears_of("a", [f"{number:0>{MAX_NAME}}" for number in range(700)])
    largest = bytes(play.payload_max)
    for _ in range(3):
        play.send("a", largest)
    play.passes(1)
    play.crash("c")
    for _ in range(10):
        play.send("a", largest)
        play.passes(0.1)
    for name in "ab":
        play.crash(name)
    for name in "abc":
        play.boot(name)
    play.passes(5)
    return play.ends_well()


def large_orphans() -> str:
    """The largest payloads are carried after a return: alone, each with what a CARRY needs."""
    frame_bytes = 1 << 16
    play = Framed("abcd", frame_bytes, frame_bytes // 2).together("abcd")
    play.cuts("ac", "bc", "dc")
    play.evicts("a", "c")
    for size in (play.payload_max, 10, 8000, 8000, 8000, 8000, play.payload_max):
        play.send("c", bytes(size))
        play.passes(0.1)
    play.passes(5)
    return play.ends_well()


JOINERS = 40


def many_joiners() -> str:
    """Many ask to be let in at once, and there is one member with a large state: all come in as they are, and
    their contact holds few states meanwhile, which they share."""
    names = [f"n{number}" for number in range(JOINERS)]
    settings = GroupSettings(joins_max=4, states_bytes=100_000, piece_bytes=8192)
    play = Play(["a", *names], settings, 0, Air(jitter_us=0, links=True, wire=False))
    play.call("a", lambda node: node.found(play.now))
    play.passes(1)
    for process in play.processes.values():
        process.application.padding = bytes(60_000)
    most: Counter[str] = Counter()
    commit = GroupNode.commit

    def committed(node: GroupNode, now: int) -> Any:
        if node.member is not None:
            gate = node.member._gate
            most["bytes"] = max(most["bytes"], gate.held_bytes)
            most["let in"] = max(most["let in"], len(gate.watched))
        return commit(node, now)

    with patch.object(GroupNode, "commit", committed):
        for name in names:
            play.join(name)
        play.run(play.now + 60_000_000, lambda: all(map(play.me, names)))
    elsewhere = [(name, play.me(name)) for name in names if play.me(name) != name]
    if elsewhere:
        return f"not in, or not at the first attempt: {elsewhere}"
    if not 60_000 < most["bytes"] <= 100_000 or most["let in"] != 4:
        return f"at once: {most}"
    return play.ends_well()


def later_joiner() -> str:
    """b is handed a large state, and c comes meanwhile: it needs a state that knows it."""
    settings = GroupSettings(piece_bytes=1024, pieces=1)
    play = Play("abc", settings, 0, Air(jitter_us=0, links=True, wire=False))
    play.call("a", lambda node: node.found(play.now))
    play.passes(1)
    for process in play.processes.values():
        process.application.padding = bytes(40_000)
    play.join("b")
    play.passes(0.2)
    play.join("c")
    play.passes(5)
    tried = [me for name in "bc" if (me := play.me(name)) != name]
    return play.ends_well() or (f"at another attempt: {tried}" if tried else "")


def _about_to_begin() -> Play:
    """c and d were cut off and evicted while all of them said much. c hears a again, has its state, and is
    silent: the orphans of its old incarnation are being counted."""
    play = Play("abcd", GroupSettings(step_max=4), 0, Air(jitter_us=0, links=True, wire=False)).together(
        "abcd"
    )
    play.turn_us = 2_000
    play.cuts("ac", "ad", "bc", "bd")
    for other in "cd":
        play.evicts("a", other)
    for _ in range(30):
        play.send("a")
        play.send("c")
        play.send("d")
        play.passes(0.01)
    play.passes(1)
    play.cut -= {("a", "c"), ("c", "a")}

    def silent() -> bool:
        node = play.processes["c"].node
        return node is not None and node._silent

    assert play.run(play.now + 30 * SECOND, silent, 1_000)
    return play


def spoken_to_in_silence() -> str:
    """d, which is still with c's old incarnation, says something to it and dies."""
    play = _about_to_begin()
    for _ in range(3):
        play.send("d")
        play.passes(0.02)
    play.crash("d")
    play.processes["d"].dead = True
    play.heals()
    play.passes(2)
    play.evicts("a", "d")
    return play.ends_well()


def asked_in_silence() -> str:
    """c's program sends, and a person asks it to go on without d and to leave: all of that is for its new
    incarnation."""
    play = _about_to_begin()
    for _ in range(3):
        play.send("c")
    if play.me("c") != "c" or play.packets["refused"]:
        return f"{play.me('c')} was to begin, or has refused to send"
    before = len(play.processes["b"].application.applied)
    play.passes(5)
    if len(play.processes["b"].application.applied) < before + 3:
        return "what was sent in silence never came"
    play.leaves("c")
    return play.ends_well() or play.not_out("c")


def evicts_in_silence() -> str:
    """c is asked to go on without d: it begins at once, as one that can."""
    play = _about_to_begin()
    play.evicts("c", "b")
    if play.me("c") != "c~2":
        return f"{play.me('c')} cannot evict any member"
    return play.ends_well()


def crashes_in_silence() -> str:
    """c crashes when everything is ready but the last step, comes back as whom it was, and returns."""
    play = _about_to_begin()
    play.crash("c")
    play.boot("c")
    if play.me("c") != "c":
        return f"it came back as {play.me('c')}"
    if play.processes["c"].shelf.kept() != [1]:
        return f"what was not finished is still there: {play.processes['c'].shelf.kept()}"
    return play.ends_well()


class _OneTakesNothing(Linked):
    """The program of d does not, while it is told so."""

    idle = False

    def _to_take(self, name: str, process: Process) -> None:
        if name != "d" or not self.idle:
            super()._to_take(name, process)


def asked_by_turns() -> str:
    """d has no link to a, takes nothing, and asks b and c by turns: each sends it everything once."""
    play = _OneTakesNothing("abcd").together("abcd")
    play.cuts("ad")
    play.passes(1)
    play.idle = True
    play.seen.clear()
    for _ in range(5):
        play.send("a")
        play.passes(1)
    play.passes(30)
    passed = {key: times for key, times in play.bodies().items() if key[1] == "d"}
    if {sender for sender, _, _ in passed} != {"b", "c"} or set(passed.values()) != {1}:
        return f"passed on: {sorted(passed.values())}"
    play.idle = False
    play.boot("d")
    return play.ends_well()


def small_behind_large() -> str:
    """d hears neither a nor c, and asks b for both. What c sends does not wait for all that a has sent, which
    fills what b may pass on between two receipts many times over."""
    play = Play("abcd", GroupSettings(window_bytes=4_000), air=Air(jitter_us=0, links=True)).together("abcd")
    play.cuts("da", "dc")
    play.passes(3)
    for _ in range(400):
        play.send("a", bytes(3_000))
    play.send("c")
    play.passes(10)
    why = play.ends_well()
    place = [origin for origin, _ in play.processes["d"].application.order].index("c")
    return why or ("" if place < 10 else f"c came behind {place} of a")


LOAD: dict[str, Callable[[], str]] = {
    schedule.__name__: schedule
    for schedule in (
        long_away,
        few_among_many,
        state_of_much,
        state_of_much_that_one_may_lack,
        large_state,
        much_to_carry,
        long_names,
        large_orphans,
        many_joiners,
        later_joiner,
        spoken_to_in_silence,
        asked_in_silence,
        evicts_in_silence,
        crashes_in_silence,
        asked_by_turns,
        small_behind_large,
    )
}
