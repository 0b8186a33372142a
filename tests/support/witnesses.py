"""What every witness must pass: exact tags, and stability by its definition, whatever the stamps are.

The model is a group of clients, each with the tagger and the witness of one engine. Messages and phantoms
fly between them; messages are taken in any order that causality allows, phantoms come in any order at all,
twice, or never. What is true is kept as plain sets of what each client has seen, never worked out from
stamps, and the witness must agree with it after every sweep.
"""

from dataclasses import dataclass
from random import Random

from support.schedules import portrait
from thence.core.dots import ORIGIN_MASK, STEP, pack
from thence.core.errors import PeerError
from thence.core.message import Message
from thence.core.tag import Tag
from thence.order.engine import Engine, Witness

Seen = frozenset[int]


@dataclass(frozen=True, slots=True)
class Told:
    """A phantom under way: the stamp, and what its sender had really seen."""

    member: int
    stamp: tuple[int, ...]
    seen: Seen


class Client:
    """One client with its witness, and the same knowledge as sets."""

    def __init__(self, engine: Engine, me: int, size: int) -> None:
        assert engine.witness is not None
        self.me = me
        self.tagger = engine.tagger(me, size)
        self.witness: Witness = engine.witness(me, size)
        self.stamp = engine.orderer(me, size).stamp
        self.seen: list[int] = []
        self.tags: dict[int, Tag] = {}
        self.known: list[set[int]] = [set() for _ in range(size)]
        self.waiting: list[list[Told]] = [[] for _ in range(size)]
        """By member, the phantoms that do not count yet: the first and the newest are kept."""
        self.stable: list[int] = []


class Model:
    """The group, and the moments at which a sweep must find what the definition says."""

    def __init__(self, engine: Engine, size: int, rng: Random) -> None:
        self.engine = engine
        self.rng = rng
        self.clients = [Client(engine, me, size) for me in range(size)]
        self.past: dict[int, Seen] = {}
        self.flights: list[tuple[int, Message]] = []
        self.phantoms: list[tuple[int, Told]] = []

    # What clients do.

    def send(self, me: int) -> Message:
        client = self.clients[me]
        message = client.tagger.tag(b"")
        self.past[message.dot] = frozenset(client.seen)
        self._see(client, message)
        # What leaves may carry a stamp of the middleware's own, which is none of a witness's business.
        leaves = client.stamp(message)
        self.flights += [(other.me, leaves) for other in self.clients if other is not client]
        return message

    def tell(self, me: int) -> None:
        """A phantom leaves for all others."""
        client = self.clients[me]
        told = Told(me, client.tagger.context(), frozenset(client.seen))
        self.phantoms += [(other.me, told) for other in self.clients if other is not client]

    def deliverable(self) -> list[int]:
        """The places in `flights` of what could be taken now."""
        seen = [set(client.seen) for client in self.clients]
        return [
            place for place, (to, message) in enumerate(self.flights) if self.past[message.dot] <= seen[to]
        ]

    def take(self, place: int) -> None:
        to, message = self.flights.pop(place)
        client = self.clients[to]
        client.tagger.took(message)
        self._see(client, message)

    def bring(self, message: Message, me: int) -> None:
        """That message is taken by that client."""
        dots = [(to, flying.dot) for to, flying in self.flights]
        self.take(dots.index((me, message.dot)))

    def hear(self, place: int, again: bool = False) -> None:
        """A phantom arrives; with `again` a copy of it stays under way."""
        to, told = self.phantoms[place] if again else self.phantoms.pop(place)
        client = self.clients[to]
        client.witness.heard(told.member, told.stamp)
        self._settle(client)
        if self._counts(client, told):
            client.known[told.member] |= told.seen
        else:
            client.waiting[told.member] = [*client.waiting[told.member][:1], told]

    def hear_all(self) -> None:
        while self.phantoms:
            self.hear(0)

    # What is true.

    def _see(self, client: Client, message: Message) -> None:
        dot = message.dot
        tag = client.witness.see(message)
        assert tag.dot == dot, "tag: of another message"
        assert tag.context == message.context, "tag: the context is not whole"
        client.tags[dot] = tag
        client.seen.append(dot)
        client.known[dot & ORIGIN_MASK] |= self.past[dot] | {dot}

    def _counts(self, client: Client, told: Told) -> bool:
        """A phantom of dots counts once all of it was seen; one of counters, which say how far its
        sender had come with each member, once the sender's own messages up to there were."""
        if self.engine.stamps_are_dots:
            return told.seen <= set(client.seen)
        return {dot for dot in told.seen if dot & ORIGIN_MASK == told.member} <= set(client.seen)

    def _settle(self, client: Client) -> None:
        for member, waiting in enumerate(client.waiting):
            for told in waiting:
                if self._counts(client, told):
                    client.known[member] |= told.seen
            client.waiting[member] = [told for told in waiting if not self._counts(client, told)]

    def others(self, client: Client) -> list[set[int]]:
        return [known for member, known in enumerate(client.known) if member != client.me]

    # Judging.

    def sweep(self, me: int) -> list[int]:
        """Sweep, and hold what was announced against the definition (section 5.1)."""
        client = self.clients[me]
        self._settle(client)
        due = set.intersection(set(client.seen), *self.others(client))
        done = set(client.stable)
        announced = [tag.dot for tag in client.witness.sweep()]
        for dot in announced:
            assert dot not in done, f"twice: {dot:#x} announced again at {me}"
            assert dot in due, f"early: {dot:#x} announced at {me}"
            assert self.past[dot] <= done, f"order: {dot:#x} announced at {me} before its causes"
            done.add(dot)
        assert done == due, f"held: {me} does not announce {len(due - done)} messages"
        client.stable += announced
        self._check_counts(client, done)
        return announced

    def _check_counts(self, client: Client, stable: set[int]) -> None:
        witness, open_ = client.witness, [dot for dot in client.seen if dot not in stable]
        assert len(witness) == len(open_), f"length: {len(witness)}, not {len(open_)}, at {client.me}"
        idle = not open_ and not any(client.waiting)
        assert witness.drained == idle, f"rest: {client.me} is wrong about being drained"
        for dot in self.rng.sample(client.seen, min(8, len(client.seen))):
            count = 1 + sum(dot in known for known in self.others(client))
            reached = witness.reached(dot)
            assert reached == count, f"reached: {dot:#x} is known at {count}, not {reached}"
        members = [other.me for other in self.clients if other is not client]
        silent = [q for q in members if open_ and open_[0] not in client.known[q]]
        assert witness.silent() == silent, f"silent: {witness.silent()} instead of {silent}"
        behind = [q for q in members if any(message not in client.known[q] for message in open_)]
        assert witness.behind() == behind, f"silent: {witness.behind()} instead of {behind} are behind"

    def compare(self, me: int, pairs: int = 40) -> None:
        """Tags of one client, stable and forgotten ones too, compare as happens-before."""
        client = self.clients[me]
        for _ in range(pairs if client.seen else 0):
            a, b = self.rng.choice(client.seen), self.rng.choice(client.seen)
            one, other = client.tags[a], client.tags[b]
            assert one.before(other) == (a in self.past[b]), f"tag: {a:#x} before {b:#x}"
            assert one.after(other) == (b in self.past[a]), f"tag: {a:#x} after {b:#x}"
            related = a == b or a in self.past[b] or b in self.past[a]
            assert one.concurrent(other) == (not related), f"tag: {a:#x} concurrent with {b:#x}"

    def finish(self) -> None:
        """Everything arrives, all members tell; then all is stable everywhere and nothing is kept."""
        self.hear_all()
        while self.flights:
            self.take(self.deliverable()[0])
        for me in range(len(self.clients)):
            self.tell(me)
        self.hear_all()
        for me, client in enumerate(self.clients):
            self.sweep(me)
            assert set(client.stable) == set(self.past), f"rest: not everything is stable at {me}"
            assert client.witness.drained, f"rest: {me} is not drained"
            assert client.witness.sweep() == [], f"twice: {me} finds something where nothing happened"
            self.compare(me, 100)


ACTS = ("send", "take", "tell", "hear", "again", "lose", "sweep")


def step(model: Model, act: str, pick: int) -> None:
    """One step by its name; what is not possible now is passed over."""
    me = pick % len(model.clients)
    if act == "send":
        model.send(me)
    elif act == "take" and (places := model.deliverable()):
        model.take(places[pick % len(places)])
    elif act == "tell":
        model.tell(me)
    elif act in ("hear", "again", "lose") and model.phantoms:
        place = pick % len(model.phantoms)
        if act == "lose":
            del model.phantoms[place]
        else:
            model.hear(place, again=act == "again")
    elif act == "sweep":
        model.sweep(me)
        model.compare(me, 10)


def lies(engine: Engine, size: int) -> list[tuple[str, int, tuple[int, ...]]]:
    """Phantoms that no correct peer sends to member 0, which has sent one message: what, who, stamp."""
    if engine.stamps_are_dots:
        return [
            ("a stranger is named", 1, (pack(size, 1),)),
            ("a counter of zero", 1, (pack(2, 0),)),
            ("a counter below zero", 1, (1 - STEP,)),
            ("a message that its receiver never sent", 1, (pack(0, 2),)),
            ("told by a stranger", size, (pack(0, 1),)),
        ]
    zeros = (0,) * (size - 1)
    return [
        ("a smaller group", 1, zeros),
        ("a larger group", 1, (*zeros, 0, 0)),
        ("a counter below zero", 1, (0, 0, -1, *zeros[2:])),
        ("a message that its receiver never sent", 1, (2, *zeros)),
        ("told by a stranger", size, (1, *zeros)),
    ]


def refuses(engine: Engine) -> None:
    """Garbage is the peer's error and leaves no trace, with an empty window and with a full one."""
    assert engine.witness is not None
    for sent in range(2):
        tagger, witness = engine.tagger(0, 4), engine.witness(0, 4)
        tags = [witness.see(tagger.tag(b"")) for _ in range(sent)]
        for what, member, stamp in lies(engine, 4)[: None if sent else 3]:
            before = portrait(witness)
            try:
                witness.heard(member, stamp)
            except PeerError:
                assert portrait(witness) == before, f"garbage: {what}, and it left a trace"
            else:
                raise AssertionError(f"garbage: {what}, and it was believed")
        assert len(tags) == len(witness)
