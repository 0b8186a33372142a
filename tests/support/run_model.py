"""A correct causal system as an abstract model: what nodes may do next, with no protocol behind it.

The network of the model never loses a message unless the model says so, and a node may do whatever
keeps the run correct. That makes it a source of runs far more varied than any one protocol gives,
all of which must be judged faultless.

A process that was evicted and is down may come back as a new member, which sends again what its former
one had and the others do not. Whatever happens, no member may be left to get an operation after a later
one of the same process: what would lead there is not done.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from thence.trace.schema import NO_OPERATION, Dot, Event


@dataclass
class Member:
    """A node and what it has. `ever` also remembers what a restart forgot."""

    name: str
    process: str
    number: int = 1
    held: set[Dot] = field(default_factory=set)
    known: set[Dot] = field(default_factory=set)
    ever: set[Dot] = field(default_factory=set)
    seq: int = 0
    previous: Dot | None = None
    gone: str = ""  # "left" or "down"
    island: bool = False  # evicted by the others, and still going
    cuts: list[Dot] = field(default_factory=list)
    owes: list[Dot] = field(default_factory=list)  # cuts whose evict row is still to be written
    orphans: list[Dot] = field(default_factory=list)  # operations of its former life that it may send again

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
    carries: list[Dot] | None = None


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
            self.members[name] = Member(name, name)
            if rng.random() < 0.7:
                self.write(self.members[name], "start")

    def write(self, member: Member, kind: str, dot: Dot | None = None, deps: list[Dot] | None = None) -> None:
        origin, seq = (dot.origin, dot.seq) if dot else (None, None)
        dest = self.messages[dot].dest if dot and kind == "send" else None
        carries = self.messages[dot].carries if dot and kind == "send" else None
        event = Event(
            node=member.name, pos=0, kind=kind, origin=origin, seq=seq, deps=deps, dest=dest, carries=carries
        )
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

    def operations(self, dots: Iterable[Dot]) -> set[Dot]:
        """What these messages bring."""
        brought = [self.messages[dot].carries or [dot] for dot in sorted(dots, key=str)]
        return {operation for some in brought for operation in some if operation.seq}

    def place(self, operation: Dot) -> tuple[str, int, int]:
        member = self.members[operation.origin]
        return member.process, member.number, operation.seq

    def overtakes(self, member: Member, held: set[Dot], more: Iterable[Dot] = ()) -> bool:
        """With this in hand, would it get an operation after a later one of the same process?"""
        has = self.operations(held)
        latest: dict[str, tuple[str, int, int]] = {}
        for place in map(self.place, has):
            latest[place[0]] = max(place, latest.get(place[0], place))
        to_come = self.operations(dot for dot in self.open_for(member) if dot not in held) | set(more)
        return any(self.place(o) < latest.get(self.place(o)[0], self.place(o)) for o in to_come - has)

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

    def say_nothing(self, member: Member) -> None:
        """A message that brings no operation."""
        self.send(member, [Dot(*NO_OPERATION)])

    def send(self, member: Member, carries: list[Dot] | None = None) -> None:
        dot = Dot(member.name, member.seq + 1)
        self.messages[dot] = Message(frozenset(member.known), None, carries)
        harmful = self.overtakes(member, member.held | {dot})
        del self.messages[dot]
        if harmful:
            return
        member.seq += 1
        dest = None
        if self.rng.random() < 0.25:
            dest = self.rng.sample(self.names, self.rng.randint(0, len(self.names)))
        deps = None
        if self.rng.random() < 0.85:
            deps = self.spelling(member.known, [member.previous] if member.previous else [])
        self.messages[dot] = Message(frozenset(member.known), dest, carries)
        member.held.add(dot)
        member.known.add(dot)
        member.previous = dot
        self.write(member, "send", dot, deps)

    def deliver(self, member: Member) -> bool:
        choices = self.deliverable(member)
        for dot in self.rng.sample(choices, len(choices)):
            if not self.overtakes(member, member.held | {dot}):
                member.held.add(dot)
                member.known |= {dot} | self.messages[dot].past
                self.write(member, "deliver", dot)
                return True
        return False

    def install(self, member: Member) -> None:
        """A state of another member, which a joiner begins with and others may get at any time."""
        sources = [other for other in self.members.values() if other.inside() and other is not member]
        if not sources or member.island:
            return
        state = self.rng.choice(sources).known
        if self.overtakes(member, member.held | state):
            return
        member.held |= state
        member.known |= state
        self.write(member, "install", deps=self.spelling(state))

    def join(self) -> None:
        names = [name for name in self.names if name not in self.members]
        if not names or not any(member.inside() for member in self.members.values()):
            return
        self._enter(Member(names[0], names[0]))

    def _enter(self, member: Member) -> None:
        member.cuts, member.owes = list(self.decided), list(self.decided)
        if self.rng.random() < 0.7:
            self.write(member, "start")
        self.members[member.name] = member
        self.install(member)
        self.write_evictions(member)

    def come_back(self, former: Member) -> None:
        """An evicted process becomes a member again, under a new name."""
        lives = [member for member in self.members.values() if member.process == former.process]
        inside = [member for member in self.members.values() if member.inside()]
        if not former.island or former.gone == "left" or former is not lives[-1] or not inside:
            return
        if former.here():
            self.crash(former)
        number = former.number + self.rng.randint(1, 2)
        member = Member(f"{former.process}~{number}", former.process, number)
        self.names.append(member.name)
        self._enter(member)
        coming = self.operations([*member.held, *self.open_for(member)])
        orphans = self.operations(former.held) - coming
        member.orphans = sorted([*orphans, *former.orphans], key=lambda o: (*self.place(o)[1:], str(o)))

    def carry(self, member: Member) -> None:
        """Send some of the orphans again, now and then with something that everyone has."""
        count = self.rng.randint(0, len(member.orphans))
        chosen, member.orphans = member.orphans[:count], member.orphans[count:]
        if self.rng.random() < 0.2:
            chosen += sorted(self.operations(member.held), key=str)[:1]
        present = [other for other in self.members.values() if other.gone != "down"]
        if chosen and not any(self.overtakes(other, other.held, chosen) for other in present):
            self.send(member, list(dict.fromkeys(chosen)))

    def restart(self, member: Member) -> None:
        kept = set(member.known)
        if self.rng.random() < 0.6:
            kept = {dot for dot in sorted(member.held, key=str) if self.rng.random() < 0.6}
            if self.rng.random() < 0.7:
                kept |= {dot for dot in member.held if dot.origin == member.name}
        kept = self.closure(kept)
        if self.overtakes(Member(member.name, member.process, cuts=member.cuts), kept):
            return
        if self.rng.random() < 0.7:
            self.write(member, "crash")
        if self.rng.random() < 0.5:
            self.write(member, "start")
        member.known = kept
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
        a_member_left = any(member.gone == "left" for member in self.members.values())
        for member in self.members.values():
            if member.here() and member.island and (a_member_left or self.rng.random() < 0.6):
                self.crash(member)
            if member.here():
                self.write_evictions(member)
        waiting = [member for member in self.members.values() if member.inside()]
        while waiting:
            member = self.rng.choice(waiting)
            if not self.deliver(member):
                waiting.remove(member)

    def stuck(self) -> bool:
        """A member waits for ever: messages bring operations of several processes crosswise."""
        return any(self.open_for(member) for member in self.members.values() if member.inside())
