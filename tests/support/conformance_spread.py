"""What every way of spreading messages must pass, over links that do their worst.

Each check is a function of a `SpreadKind`. To put a new spread under the kit, add it to
`thence.spread.spreads`.
"""

from collections import Counter
from collections.abc import Callable
from random import Random

from support.air import SECOND, Air, Drop, Weather
from support.schedules import portrait, weight
from thence.core.dots import pack
from thence.core.errors import PeerError
from thence.core.machine import Ack, Batch, Packet, SpreadEffect, Transmit, Wake
from thence.core.message import Message
from thence.spread.spread import SpreadKind

SpreadCheck = Callable[[SpreadKind], None]


def messages_in(packet: Packet) -> tuple[Message, ...]:
    """The messages that a packet brings, alone or together."""
    if isinstance(packet, Batch):
        return packet.messages
    return (packet,) if isinstance(packet, Message) else ()


class Group:
    """A group of spreads in the air, and what each was handed."""

    def __init__(self, kind: SpreadKind, size: int, weather: Weather, seed: int = 0) -> None:
        self.kind = kind
        self.size = size
        self.air = Air(weather, Random(seed))
        self.spreads = [kind.make(me, size) for me in range(size)]
        self.sends = Counter[int]()
        self.handed: list[dict[int, int]] = [{} for _ in range(size)]
        """By member: when each dot was handed up."""
        self.copies = Counter[tuple[int, int]]()
        """Per message and receiver, how often it was put on a link."""
        self.alarms = Counter[int]()
        """Wake-ups asked for and not come yet."""
        self.asked = 0
        self.restless = False

    def broadcast(self, me: int) -> None:
        self.sends[me] += 1
        message = Message(pack(me, self.sends[me]), (), b"")
        self._carry_out(me, self.spreads[me].broadcast(message, self.air.now))
        assert self.size == 1 or not self.spreads[me].drained, "rest: drained with a message unacknowledged"

    def broadcast_at(self, at: int, me: int) -> None:
        self.air.plan(at, me, lambda: self.broadcast(me))

    def wake_at(self, at: int, me: int) -> None:
        """A wake-up that was not asked for."""
        self.restless = True
        self.air.plan(at, me, lambda: self._carry_out(me, self.spreads[me].wake(self.air.now)))

    def _alarm(self, me: int) -> None:
        self.alarms[me] -= 1
        self._carry_out(me, self.spreads[me].wake(self.air.now))

    def _arrive(self, sender: int, me: int, packet: Packet) -> None:
        self._carry_out(me, self.spreads[me].receive(sender, packet, self.air.now))

    def _carry_out(self, me: int, effects: list[SpreadEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Message):
                assert effect.dot not in self.handed[me], f"twice: {effect.dot:#x} handed up at {me}"
                self.handed[me][effect.dot] = self.air.now
            elif isinstance(effect, Transmit):
                for message in messages_in(effect.packet):
                    self.copies.update((message.dot, peer) for peer in effect.peers)
                self.air.transmit(me, effect, self._arrive)
            else:
                assert isinstance(effect, Wake)
                assert effect.at >= self.air.now, "silence: a wake-up in the past"
                self.alarms[me] += 1
                self.asked += 1
                self.air.plan(effect.at, me, lambda: self._alarm(me))
        if self.spreads[me].drained and not self.restless:
            assert not self.alarms[me], f"rest: {me} is drained with a wake-up to come"

    def run(self) -> None:
        """To the end; then every member has everything once, and none keeps or plans anything."""
        self.air.run()
        for me, spread in enumerate(self.spreads):
            due = {
                pack(who, n) for who in range(self.size) for n in range(1, self.sends[who] + 1) if who != me
            }
            assert self.handed[me].keys() == due, f"lost: {me} lacks {len(due - self.handed[me].keys())}"
            assert spread.drained, f"rest: {me} is silent but not drained"
            grown = weight(spread) - weight(self.kind.make(me, self.size))
            assert grown == 0, f"rest: {me} keeps {grown} things for nothing"

    def repeats(self) -> int:
        return sum(self.copies.values()) - len(self.copies)


def check_calm(kind: SpreadKind) -> None:
    """Nothing goes wrong: every message goes over every link once, even when links are slow."""
    for latency in ((1_000, 2_000), (20_000, 60_000), (149_000, 150_000)):
        group = Group(kind, 4, Weather(latency_us=latency))
        for number in range(40):
            group.broadcast_at(number * 30_000, number % 3)
        group.run()
        assert group.repeats() == 0, f"thrift: {group.repeats()} repeats on links that lose nothing"


def check_alone(kind: SpreadKind) -> None:
    """A group of one has no peer to tell."""
    group = Group(kind, 1, Weather())
    group.broadcast(0)
    group.run()


def check_weather(kind: SpreadKind) -> None:
    """Loss, doubles, reordering, short cuts and pauses, all at once."""
    for seed in range(8):
        rng = Random(seed)
        size = rng.randint(2, 5)

        def moment(rng: Random = rng) -> int:
            return rng.randrange(4 * SECOND)

        weather = Weather(
            loss=rng.choice((0.0, 0.1, 0.4)),
            duplicate=rng.choice((0.0, 0.2)),
            latency_us=(1_000, rng.choice((5_000, 200_000))),
            cuts=tuple((moment(), moment(), a, b) for a, b in [rng.sample(range(size), 2) for _ in range(4)]),
            pauses=tuple((moment(), moment(), rng.randrange(size)) for _ in range(2)),
        )
        group = Group(kind, size, weather, seed)
        for _ in range(30):
            group.broadcast_at(moment(), rng.randrange(size))
        group.run()


def check_restless(kind: SpreadKind) -> None:
    """Wake-ups that were not asked for do no harm: above all, they do not breed more of them."""
    asked = []
    for extra in (0, 300):
        group = Group(kind, 3, Weather(), seed=5)
        for number in range(60):
            group.broadcast_at(number * 20_000, number % 3)
        for number in range(extra):
            group.wake_at(number * 3_000, number % 3)
        group.run()
        assert group.repeats() == 0, f"thrift: {group.repeats()} repeats on links that lose nothing"
        asked.append(group.asked)
    assert asked[1] < 2 * asked[0], f"thrift: {asked[1]} wake-ups asked for, not {asked[0]}"


def check_long_cut(kind: SpreadKind) -> None:
    """Two halves, a minute apart, both busy; then also the case that only one direction works."""
    ways = [(0, 2), (0, 3), (1, 2), (1, 3)]
    for links in (ways + [(b, a) for a, b in ways], ways):
        group = Group(kind, 4, Weather(cuts=tuple((SECOND, 60 * SECOND, *link) for link in links)))
        for number in range(60):
            group.broadcast_at(number * SECOND, number % 4)
        group.run()
        late = max(max(times.values()) for times in group.handed) / SECOND
        assert late < 70, f"late: the last message came {late:.0f} s after the start"


def check_backlog(kind: SpreadKind) -> None:
    """More messages than fit into one burst pile up behind a cut."""
    cut = ((0, 10 * SECOND, 0, 1), (0, 10 * SECOND, 1, 0))
    group = Group(kind, 2, Weather(cuts=cut))
    for number in range(1200):
        group.broadcast_at(number * 5_000, 0)
    group.run()


def lose_first(dot: int, receiver: int) -> Drop:
    """The first copy of one message to one receiver is lost."""
    copies = 0

    def drop(sender: int, to: int, packet: Packet, before: int) -> bool:
        nonlocal copies
        if to != receiver or dot not in [message.dot for message in messages_in(packet)]:
            return False
        copies += 1
        return copies == 1

    return drop


def check_one_loss(kind: SpreadKind) -> None:
    """One lost message costs one repeat, not everything behind it."""
    group = Group(kind, 2, Weather(drop=lose_first(pack(0, 5), 1)))
    for number in range(30):
        group.broadcast_at(number * 20_000, 0)
    group.run()
    assert group.repeats() == 1, f"thrift: {group.repeats()} repeats for one loss"


def check_lost_acks(kind: SpreadKind) -> None:
    """A receiver that hears something twice must acknowledge it again, or it will hear it for ever."""

    def drop(sender: int, receiver: int, packet: Packet, before: int) -> bool:
        return isinstance(packet, Ack) and before < 3

    group = Group(kind, 2, Weather(drop=drop))
    group.broadcast(0)
    group.run()


def check_patience(kind: SpreadKind) -> None:
    """A link that stays silent for two minutes costs little while it does."""
    group = Group(kind, 2, Weather(cuts=((0, 120 * SECOND, 0, 1),)))
    group.broadcast(0)
    group.run()
    assert group.repeats() < 40, f"thrift: {group.repeats()} repeats over a dead link"


def check_recovery(kind: SpreadKind) -> None:
    """An outage says nothing about the link's round trip: a loss after it is mended quickly."""
    cut = ((0, 3 * SECOND, 0, 1),)
    group = Group(kind, 2, Weather(cuts=cut, drop=lose_first(pack(0, 2), 1)))
    group.broadcast(0)
    group.broadcast_at(20 * SECOND, 0)
    group.run()
    late = group.handed[1][pack(0, 2)] - 20 * SECOND
    assert late < SECOND, f"late: a loss was mended after {late / SECOND:.1f} s"


def garbage(sent: int) -> list[tuple[str, int, Packet]]:
    """What no correct peer sends to member 0 of 3, which has sent so many messages."""
    return [
        ("a message of a stranger", 1, Message(pack(7, 1), (), b"")),
        ("a message of its receiver", 1, Message(pack(0, sent + 1), (), b"")),
        ("a message without a number", 1, Message(pack(1, 0), (), b"")),
        ("a message from a stranger", 7, Message(pack(1, 1), (), b"")),
        ("an ack of what was never sent", 1, Ack((sent + 1, 0, 0), ())),
        ("an ack of what was never sent, early", 1, Ack((0, 0, 0), (pack(0, sent + 1),))),
        ("an ack that counts below nothing", 1, Ack((-1, 0, 0), ())),
        ("an ack for a smaller group", 1, Ack((), ())),
        ("an ack from a stranger", 7, Ack((0, 0, 0), ())),
    ]


def check_garbage(kind: SpreadKind) -> None:
    """A peer's garbage is refused as such and leaves no trace, busy or at rest."""
    for sent in (0, 3):
        spread = kind.make(0, 3)
        for number in range(sent):
            spread.broadcast(Message(pack(0, number + 1), (), b""), 0)
        for what, peer, packet in garbage(sent):
            before = portrait(spread)
            try:
                spread.receive(peer, packet, 1)
            except PeerError:
                assert portrait(spread) == before, f"garbage: {what} left a trace"
            else:
                raise AssertionError(f"garbage: {what} was accepted")


SPREAD_CHECKS: dict[str, SpreadCheck] = {
    "calm": check_calm,
    "alone": check_alone,
    "weather": check_weather,
    "restless": check_restless,
    "long cut": check_long_cut,
    "backlog": check_backlog,
    "one loss": check_one_loss,
    "lost acks": check_lost_acks,
    "patience": check_patience,
    "recovery": check_recovery,
    "garbage": check_garbage,
}
