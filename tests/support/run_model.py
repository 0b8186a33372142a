"""A correct causal system as an abstract model: what nodes may do next, with no protocol behind it.

The network of the model never loses a message unless the model says so, and a node may do whatever
keeps the run correct. That makes it a source of runs far more varied than any one protocol gives,
all of which must be judged faultless.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from thence.trace.schema import Dot, Event


@dataclass
class Member:
    """A node and what it has. `ever` also remembers what a restart forgot."""

    name: str
    held: set[Dot] = field(default_factory=set)
    known: set[Dot] = field(default_factory=set)
    ever: set[Dot] = field(default_factory=set)
    seq: int = 0
    previous: Dot | None = None
    gone: str = ""  # "left" or "down"
    island: bool = False  # evicted by the others, and still going
    cuts: list[Dot] = field(default_factory=list)
    owes: list[Dot] = field(default_factory=list)  # cuts whose evict row is still to be written

    def here(self) -> bool:
        return not self.gone

    def inside(self) -> bool:
        return not self.gone and not self.island

    def voids(self, dot: Dot) -> bool:
        return any(dot.origin == cut.origin and dot.seq > cut.seq for cut in self.cuts)


@dataclass(frozen=True)
class Record:
    """A row, its place in the node's order still open, and what the node had after it."""

    event: Event
    held: frozenset[Dot]
    known: frozenset[Dot]


@dataclass(frozen=True)
class Message:
    past: frozenset[Dot]
    dest: list[str] | None


class World:
    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.members: dict[str, Member] = {}
        self.messages: dict[Dot, Message] = {}
        self.vanished: set[Dot] = set()
        self.decided: list[Dot] = []
        self.log: list[Record] = []
        self.names = [f"n{k}" for k in range(rng.randint(2, 6))]
        rng.shuffle(self.names)
        for name in self.names[: rng.randint(2, len(self.names))]:
            self.members[name] = Member(name)
            if rng.random() < 0.7:
                self.write(self.members[name], "start")

    def write(self, member: Member, kind: str, dot: Dot | None = None, deps: list[Dot] | None = None) -> None:
        origin, seq = (dot.origin, dot.seq) if dot else (None, None)
        dest = self.messages[dot].dest if dot and kind == "send" else None
        event = Event(node=member.name, pos=0, kind=kind, origin=origin, seq=seq, deps=deps, dest=dest)
        member.ever |= member.known
        self.log.append(Record(event, frozenset(member.held), frozenset(member.known)))

    # What follows from what.

    def addressed(self, dot: Dot, name: str) -> bool:
        dest = self.messages[dot].dest
        return not dest or name in dest or name == dot.origin

    def closure(self, dots: Iterable[Dot]) -> set[Dot]:
        closed = set(dots)
        for dot in list(closed):
            closed |= self.messages[dot].past
        return closed

    def maximal(self, dots: Iterable[Dot]) -> set[Dot]:
        some = set(dots)
        return {dot for dot in some if not any(dot in self.messages[other].past for other in some)}

    def spelling(self, dots: Iterable[Dot], implied: Iterable[Dot] = ()) -> list[Dot]:
        """One of the lists of dots whose closure, with that of `implied`, is the closed set `dots`."""
        some = sorted(dots, key=str)
        spelled = self.maximal(some)
        if self.rng.random() < 0.5:
            spelled -= set(implied)
        if self.rng.random() < 0.4:
            spelled |= {dot for dot in some if self.rng.random() < 0.4}
        if self.rng.random() < 0.1:
            spelled.add(Dot(self.rng.choice(self.names), 0))
        listed = sorted(spelled, key=str)
        self.rng.shuffle(listed)
        return listed

    def open_for(self, member: Member) -> list[Dot]:
        """What the member has still to get."""
        return [
            dot
            for dot in self.messages
            if dot not in member.held
            and dot not in self.vanished
            and self.addressed(dot, member.name)
            and not member.voids(dot)
        ]

    def deliverable(self, member: Member) -> list[Dot]:
        def ready(dot: Dot) -> bool:
            return all(
                before in member.held or before.origin == member.name
                for before in self.messages[dot].past
                if self.addressed(before, member.name)
            )

        return [dot for dot in self.open_for(member) if ready(dot)]

    # What may happen.

    def send(self, member: Member) -> None:
        member.seq += 1
        dot = Dot(member.name, member.seq)
        dest = None
        if self.rng.random() < 0.25:
            dest = self.rng.sample(self.names, self.rng.randint(0, len(self.names)))
        deps = None
        if self.rng.random() < 0.85:
            deps = self.spelling(member.known, [member.previous] if member.previous else [])
        self.messages[dot] = Message(frozenset(member.known), dest)
        member.held.add(dot)
        member.known.add(dot)
        member.previous = dot
        self.write(member, "send", dot, deps)

    def deliver(self, member: Member) -> bool:
        choices = self.deliverable(member)
        if not choices:
            return False
        dot = self.rng.choice(choices)
        member.held.add(dot)
        member.known |= {dot} | self.messages[dot].past
        self.write(member, "deliver", dot)
        return True

    def install(self, member: Member) -> None:
        """A state of another member, which a joiner begins with and others may get at any time."""
        sources = [other for other in self.members.values() if other.inside() and other is not member]
        if not sources or member.island:
            return
        state = self.rng.choice(sources).known
        member.held |= state
        member.known |= state
        self.write(member, "install", deps=self.spelling(state))

    def join(self) -> None:
        names = [name for name in self.names if name not in self.members]
        if not names or not any(member.inside() for member in self.members.values()):
            return
        member = Member(names[0], cuts=list(self.decided), owes=list(self.decided))
        if self.rng.random() < 0.7:
            self.write(member, "start")
        self.install(member)
        self.members[member.name] = member
        self.write_evictions(member)

    def restart(self, member: Member) -> None:
        if self.rng.random() < 0.7:
            self.write(member, "crash")
        if self.rng.random() < 0.5:
            self.write(member, "start")
        kept = set(member.known)
        if self.rng.random() < 0.6:
            kept = {dot for dot in sorted(member.held, key=str) if self.rng.random() < 0.6}
            if self.rng.random() < 0.7:
                kept |= {dot for dot in member.held if dot.origin == member.name}
        member.known = self.closure(kept)
        member.held = set(member.known)
        frontier = self.spelling(member.known)
        own = [dot for dot in frontier if dot.origin == member.name and dot.seq]
        member.previous = max(own, key=lambda dot: dot.seq, default=None)
        self.write(member, "restart", deps=frontier)

    def leave(self, member: Member) -> None:
        if member.inside():
            self.write_evictions(member)
            member.gone = "left"
            self.write(member, "leave")

    def crash(self, member: Member) -> None:
        member.gone = "down"
        self.write(member, "crash")
        if self.rng.random() < 0.5:
            return
        # What only the dead knew of, and nothing alive depends on, may never be heard of.
        reach = {dot for other in self.members.values() if other.gone != "down" for dot in other.ever}
        for dot, message in self.messages.items():
            if dot.origin != member.name and dot not in self.vanished:
                reach |= message.past
        self.vanished |= {dot for dot in self.messages if dot.origin == member.name} - reach

    def evict(self, member: Member) -> None:
        """The others agree on the last message that one of them may have seen or come to need."""
        survivors = [other for other in self.members.values() if other.inside() and other is not member]
        if not survivors or member.gone == "left" or member.island:
            return
        if member.here() and self.rng.random() < 0.6:
            self.crash(member)
        known_to = [o for o in self.members.values() if o.gone != "down" and not o.island and o is not member]
        reach = {dot for other in known_to for dot in other.ever}
        for dot, message in self.messages.items():
            if dot.origin != member.name and dot not in self.vanished and not survivors[0].voids(dot):
                reach |= message.past
        last = max((dot.seq for dot in reach if dot.origin == member.name), default=0)
        member.island = True
        self.decided.append(Dot(member.name, last))
        for other in survivors:
            other.cuts.append(self.decided[-1])
            other.owes.append(self.decided[-1])

    def write_evictions(self, member: Member) -> None:
        while member.owes:
            self.write(member, "evict", member.owes.pop(0))

    def finish(self) -> None:
        """Faults are over: everything reaches everyone, and cut-off nodes end."""
        somebody_left = any(member.gone == "left" for member in self.members.values())
        for member in self.members.values():
            if member.here() and member.island and (somebody_left or self.rng.random() < 0.6):
                self.crash(member)
            if member.here():
                self.write_evictions(member)
        waiting = [member for member in self.members.values() if member.inside()]
        while waiting:
            member = self.rng.choice(waiting)
            if not self.deliver(member):
                waiting.remove(member)
