"""What a spread that sends messages together must do, beyond what every spread must.

Each check is a function of the class; it stands around a mesh, or around a spread that does nothing.
"""

from collections.abc import Callable
from functools import partial

from support.air import SECOND, Weather
from support.conformance_spread import SPREAD_CHECKS, Group, messages_in
from support.schedules import portrait
from thence.core.dots import pack
from thence.core.errors import PeerError
from thence.core.machine import Ack, Batch, Packet, SpreadEffect, Transmit, Wake
from thence.core.message import Message
from thence.spread.batched import Batched
from thence.spread.mesh import Mesh
from thence.spread.spread import SpreadKind

BatchedCheck = Callable[[type[Batched]], None]

TICK = 5_000


def over_mesh(make: type[Batched]) -> SpreadKind:
    return SpreadKind("batched", lambda me, size: make(Mesh(me, size), TICK))


def message(origin: int, seq: int) -> Message:
    return Message(pack(origin, seq), (), b"")


def transmitted(effects: list[SpreadEffect]) -> list[Transmit]:
    return [effect for effect in effects if isinstance(effect, Transmit)]


def wakes(effects: list[SpreadEffect]) -> list[int]:
    return [effect.at for effect in effects if isinstance(effect, Wake)]


class Bare:
    """A spread that sends and forgets."""

    drained = True

    def broadcast(self, message: Message, now: int) -> list[SpreadEffect]:
        return [Transmit((1,), message)]

    def receive(self, peer: int, packet: Packet, now: int) -> list[SpreadEffect]:
        return []

    def up(self, peer: int, now: int) -> list[SpreadEffect]:
        return []

    def down(self, peer: int, now: int) -> list[SpreadEffect]:
        return []

    def resume(self, now: int) -> list[SpreadEffect]:
        return []

    def wake(self, now: int) -> list[SpreadEffect]:
        return []


def check_drained(make: type[Batched]) -> None:
    """Whatever the spread inside says, a batch to come is something to come."""
    spread = make(Bare(), TICK)
    spread.broadcast(message(0, 1), 0)
    assert not spread.drained, "rest: drained with messages to be sent"
    spread.wake(TICK)
    assert spread.drained, "rest: not drained"


def check_one_wake_up_for_two(make: type[Batched]) -> None:
    """A driver that is late wakes it once for the batch and for the spread inside."""
    spread = make(Mesh(0, 2), TICK)
    [at] = wakes(spread.receive(1, message(1, 1), 0))
    spread.broadcast(message(0, 1), 0)
    kinds = {type(effect.packet) for effect in transmitted(spread.wake(at + TICK))}
    assert kinds == {Message, Ack}, "silence: one wake-up hides the other"


def check_together(make: type[Batched]) -> None:
    """What is sent within a tick goes to each peer as one packet, in the order in which it was sent;
    one wake-up is asked for."""
    spread = make(Mesh(0, 3), TICK)
    sent = [message(0, seq) for seq in range(1, 6)]
    effects = [effect for one in sent for effect in spread.broadcast(one, 100)]
    assert transmitted(effects) == [], "thrift: a message does not wait"
    assert wakes(effects).count(100 + TICK) == 1, "silence: one wake-up for the batch"
    packets = transmitted(spread.wake(100 + TICK))
    assert [effect.peers for effect in packets] == [(1,), (2,)], "lost: not one packet for each peer"
    for effect in packets:
        assert isinstance(effect.packet, Batch), "thrift: they do not travel together"
        assert list(effect.packet.messages) == sent, "order: not as they were sent"
    assert transmitted(spread.wake(100 + TICK)) == [], "twice: sent again"


def check_single(make: type[Batched]) -> None:
    """A message that is alone needs no batch around it."""
    spread = make(Mesh(0, 2), TICK)
    spread.broadcast(message(0, 1), 0)
    [effect] = transmitted(spread.wake(TICK))
    assert isinstance(effect.packet, Message), "thrift: a batch of one"


def check_not_before_its_time(make: type[Batched]) -> None:
    """Wake-ups for other purposes do not open the batch."""
    spread = make(Mesh(0, 2), TICK)
    spread.broadcast(message(0, 1), 0)
    assert transmitted(spread.wake(TICK - 1)) == [], "early: the batch is opened before its time"
    assert len(transmitted(spread.wake(TICK))) == 1


def check_acks_pass(make: type[Batched]) -> None:
    """Acknowledgements do not wait for the next batch."""
    spread = make(Mesh(0, 2), TICK)
    effects = spread.receive(1, message(1, 1), 0)
    [at] = wakes(effects)
    acks = [effect.packet for effect in transmitted(spread.wake(at)) if isinstance(effect.packet, Ack)]
    assert len(acks) == 1, "late: the acknowledgement waits"


def check_unpacks(make: type[Batched]) -> None:
    """A batch is its messages, one after the other; what is known already is not new."""
    spread = make(Mesh(0, 2), TICK)
    one, two, three = (message(1, seq) for seq in (1, 2, 3))
    first = spread.receive(1, Batch((one, two)), 0)
    assert [effect for effect in first if isinstance(effect, Message)] == [one, two], "lost: in a batch"
    second = spread.receive(1, Batch((two, three)), 0)
    assert [effect for effect in second if isinstance(effect, Message)] == [three], "twice: or lost"


def check_garbage(make: type[Batched]) -> None:
    """Nothing, and garbage first of all, is refused and leaves no trace; what came before garbage in
    the same batch was taken, and must not be lost with it."""
    for packet in (Batch(()), Batch((message(7, 1),)), Batch((message(0, 9), message(1, 1)))):
        spread = make(Mesh(0, 2), TICK)
        before = portrait(spread)
        try:
            spread.receive(1, packet, 0)
        except PeerError:
            assert portrait(spread) == before, "garbage: it left a trace"
        else:
            raise AssertionError("garbage: it was accepted")
    spread = make(Mesh(0, 2), TICK)
    good = message(1, 1)
    effects = spread.receive(1, Batch((good, message(7, 1))), 0)
    assert [effect for effect in effects if isinstance(effect, Message)] == [good], "lost: with the garbage"
    assert wakes(effects), "silence: the acknowledgement that it is owed"


def check_fewer_packets(make: type[Batched]) -> None:
    """A busy group sends far fewer packets, and every member still gets everything once."""
    packets = []
    for kind in (SpreadKind("mesh", Mesh), over_mesh(make)):
        carried = 0

        def count(sender: int, receiver: int, packet: Packet, before: int) -> bool:
            nonlocal carried
            carried += bool(messages_in(packet))
            return False

        group = Group(kind, 3, Weather(drop=count))
        for number in range(600):
            group.broadcast_at(number * 500, number % 3)
        group.run()
        packets.append(carried)
    assert packets[1] * 2 < packets[0], f"thrift: {packets[1]} packets instead of {packets[0]}"


def check_resume(make: type[Batched]) -> None:
    """A crash between sending and the tick: the messages still leave, once, a tick after the return."""
    spread = make(Mesh(0, 2), TICK)
    spread.broadcast(message(0, 1), 0)
    spread.broadcast(message(0, 2), 1)
    back = 10 * SECOND
    asked = wakes(spread.resume(back))
    assert back + TICK in asked, "silence: no wake-up for what was queued"
    assert transmitted(spread.wake(back + TICK - 1)) == [], "early: the tick starts anew"
    [effect] = [one for one in transmitted(spread.wake(back + TICK)) if messages_in(one.packet)]
    assert len(messages_in(effect.packet)) == 2, "lost: in the crash"
    assert back + 9 * TICK not in wakes(spread.resume(back + 8 * TICK)), "thrift: a wake-up for nothing"


def check_ticks_are_its_own(make: type[Batched]) -> None:
    """The spread inside is not woken by ticks, which it might take for its own wake-up come early."""
    spread = make(Mesh(0, 2), TICK)
    [at] = wakes(spread.receive(1, message(1, 1), 0))
    for seq in range(1, at // TICK):
        [tick] = wakes(spread.broadcast(message(0, seq), (seq - 1) * TICK + 1))
        packets = [effect.packet for effect in transmitted(spread.wake(tick))]
        assert not any(isinstance(packet, Ack) for packet in packets), "early: an acknowledgement"
    packets = [effect.packet for effect in transmitted(spread.wake(at))]
    assert any(isinstance(packet, Ack) for packet in packets), "late: the acknowledgement"


BATCHED_CHECKS: dict[str, BatchedCheck] = {
    "together": check_together,
    "drained": check_drained,
    "one wake-up for two": check_one_wake_up_for_two,
    "single": check_single,
    "not before its time": check_not_before_its_time,
    "acks pass": check_acks_pass,
    "unpacks": check_unpacks,
    "garbage": check_garbage,
    "fewer packets": check_fewer_packets,
    "resume": check_resume,
    "ticks are its own": check_ticks_are_its_own,
}


def _as_spread(check: str, make: type[Batched]) -> None:
    SPREAD_CHECKS[check](over_mesh(make))


BATCHED_CHECKS |= {f"spread: {name}": partial(_as_spread, name) for name in SPREAD_CHECKS}
