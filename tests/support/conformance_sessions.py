"""What a mesh over sessions must do: a window at most, from where the peer is, of what would survive.

Each check is a function of the class, so that planted bugs can be put in its place. `support.session_net`
says what the first words of a failure mean; here also `thrift` (something was sent that need not have been),
`memory`, `slow`, `late`, `garbage`.
"""

from collections.abc import Callable, Iterable
from random import Random

from support.disks import caught
from support.schedules import portrait, weight
from support.session_net import Make, Net
from thence.core.dots import pack, seq_of
from thence.core.errors import PeerError, StorageError
from thence.core.machine import Ack, Batch, Packet, Phantom, Transmit, Wake
from thence.core.message import Message
from thence.spread.sessions import SessionSettings

SessionCheck = Callable[[Make], None]

SMALL = SessionSettings(window=4, window_bytes=4096, relay_after_us=0)
BYTES = SessionSettings(window=64, window_bytes=4096, relay_after_us=0)


def messages(net: Net, sender: int, receiver: int, since: int = 0) -> list[int]:
    """Counters of the messages that left over a link, in order."""
    return [
        seq_of(packet.dot)
        for me, peer, packet in net.transmitted[since:]
        if (me, peer) == (sender, receiver) and isinstance(packet, Message)
    ]


def acks(net: Net, sender: int, receiver: int, since: int = 0) -> list[tuple[int, ...]]:
    return [
        packet.received
        for me, peer, packet in net.transmitted[since:]
        if (me, peer) == (sender, receiver) and isinstance(packet, Ack)
    ]


def connected(make: Make, size: int = 2, settings: SessionSettings = SMALL) -> Net:
    net = Net(make, size, settings)
    for pair in net.pairs:
        net.connect(*pair)
    net.settle()
    return net


def check_random_schedules(make: Make) -> None:
    """Two to four nodes send, keep, crash; links break at any moment, and each end notices when it does."""
    _random(make, range(60), forgetful=False)


def check_random_power_cuts(make: Make) -> None:
    """The same, where a crash may cost the newest entries of a ledger: what anybody has comes back."""
    _random(make, range(100, 180), forgetful=True)


def _random(make: Make, seeds: Iterable[int], forgetful: bool) -> None:
    for seed in seeds:
        rng = Random(seed)
        settings = rng.choice((SMALL, BYTES, SessionSettings(window=9, window_bytes=6000, relay_after_us=0)))
        net = Net(make, rng.choice((2, 2, 3, 4)), settings, seed)
        try:
            for _ in range(rng.choice((50, 300))):
                something(net, rng, forgetful)
            calm(net)
        except AssertionError as error:
            raise AssertionError(f"{error} (seed {seed})") from error


def something(net: Net, rng: Random, forgetful: bool = False) -> None:
    me = rng.randrange(net.size)
    flowing = [pair for pair, packets in net.wire.items() if packets]
    stale = [end for end in net.ends if end not in net.wire]
    apart = [(one, other) for one, other in net.pairs if not {(one, other), (other, one)} & net.ends.keys()]
    dice = rng.random()
    if dice < 0.25 and net.may_send(me):
        net.broadcast(me, bytes(rng.choice((0, 10, 700, 1500))))
    elif dice < 0.6 and flowing:
        net.deliver(*rng.choice(flowing))
    elif dice < 0.75 and net.unkept[me]:
        net.keep(me, rng.randrange(len(net.unkept[me])))
    elif dice < 0.85 and net.wakes[me]:
        net.wake(me)
    elif dice < 0.88 and net.wire:
        net.snap(*rng.choice(list(net.wire)))
    elif dice < 0.93 and stale:
        net.down(*rng.choice(stale))
    elif dice < 0.99 and apart:
        net.connect(*rng.choice(apart))
    elif dice > 0.995:
        net.crash(me)
    elif dice > 0.99 and forgetful:
        net.crash(me, loses=rng.randint(0, 5))


def calm(net: Net) -> None:
    for end in [end for end in net.ends if end not in net.wire]:
        net.down(*end)
    for one, other in net.pairs:
        if (one, other) not in net.ends:
            net.connect(one, other)
    net.settle()
    net.check_everyone_has_everything()


def check_nothing_but_a_greeting_leaves_before_the_peer_has_greeted(make: Make) -> None:
    net = Net(make, 3, SMALL)
    for _ in range(3):
        net.broadcast(0)
    net.connect(0, 1)
    left = [(me, peer, type(packet)) for me, peer, packet in net.transmitted]
    assert left == [(0, 1, Ack), (1, 0, Ack)], "rude: something else, or to somebody else"
    net.broadcast(0)
    assert messages(net, 0, 1) == [], "rude: a message before the greeting"
    net.deliver(1, 0)
    assert messages(net, 0, 1) == [1, 2, 3, 4], "lost: what was sent before the link was up"
    net = Net(make, 2, SMALL)
    net.connect(0, 1)
    net.broadcast(0)
    net.deliver(1, 0)
    assert messages(net, 0, 1) == [1], "lost: what was sent while the link was greeted"


def check_a_new_link_carries_exactly_what_is_missing(make: Make) -> None:
    """From memory: what was acknowledged, and what the peer kept without having said so, does not travel."""
    net = connected(make)
    for _ in range(3):
        net.broadcast(0)
    for _ in range(3):
        net.deliver(0, 1)
    net.keep(1)
    net.keep(1)  # the third is held; none of them is acknowledged
    net.break_link(0, 1)
    net.broadcast(0)
    since = len(net.transmitted)
    net.connect(0, 1)
    net.settle()
    assert messages(net, 0, 1, since) == [3, 4], f"thrift: or lost, {messages(net, 0, 1, since)}"
    assert net.ledgers[0].read == 0, "thrift: the history was read for what is in memory"
    net.check_everyone_has_everything()


def check_a_long_absence_is_made_up_for_from_the_history(make: Make) -> None:
    net = connected(make)
    net.broadcast(0)
    net.settle()
    net.break_link(0, 1)
    for _ in range(40):
        net.broadcast(0)
    since = len(net.transmitted)
    net.connect(0, 1)
    net.settle()
    assert messages(net, 0, 1, since) == list(range(2, 42)), "lost: or thrift"
    assert 36 <= net.ledgers[0].read <= 80, f"thrift: {net.ledgers[0].read} messages read for 40"
    net.check_everyone_has_everything()


def check_a_window_is_used_and_not_exceeded(make: Make) -> None:
    net = connected(make)
    since = len(net.transmitted)
    for _ in range(10):
        net.broadcast(0)
    assert messages(net, 0, 1, since) == [1, 2, 3, 4], "window: not what fits"
    for _ in range(4):
        net.deliver(0, 1)
    net.settle(keep=False)
    assert messages(net, 0, 1, since) == [1, 2, 3, 4], "ack: of what is held"
    net.keep(1)
    net.keep(1)
    net.settle(keep=False)
    assert messages(net, 0, 1, since) == [1, 2, 3, 4, 5, 6], "held: room was made, and not used"


def check_bytes_count_as_well(make: Make) -> None:
    net = connected(make, settings=BYTES)
    since = len(net.transmitted)
    for _ in range(10):
        net.broadcast(0, bytes(1436))
    assert messages(net, 0, 1, since) == [1, 2, 3], "bytes: three of 1500 fill 4096"
    net.settle()
    assert messages(net, 0, 1, since) == list(range(1, 11)), "lost: the rest"
    net.broadcast(0, bytes(100_000))
    net.settle()
    net.check_everyone_has_everything()


def check_a_slow_peer_does_not_slow_another(make: Make) -> None:
    net = connected(make, 3)
    for count in range(50):
        net.broadcast(0)
        while net.wire[0, 2]:
            net.deliver(0, 2)
        while net.unkept[2]:
            net.keep(2)
        if count % 3 == 2:
            while net.wakes[2]:
                net.wake(2)
            while net.wire[2, 0]:
                net.deliver(2, 0)
    assert messages(net, 0, 2) == list(range(1, 51)), "slow: the fast one waits for the slow one"
    assert messages(net, 0, 1) == [1, 2, 3, 4], "window: of the slow one"


def check_a_peer_that_is_away_costs_a_window_of_memory(make: Make) -> None:
    for settings, payload in ((SMALL, b""), (BYTES, bytes(2000))):
        net = connected(make, 3, settings)
        net.break_link(0, 1)
        weights = []
        for count in range(1, 301):
            net.broadcast(0, payload)
            net.settle()
            if count in (100, 300):
                net.ledgers[0], kept = type(net.ledgers[0])(3), net.ledgers[0]
                ledger = net.meshes[0]._history
                net.meshes[0]._history = net.ledgers[0]  # what the history holds is not the mesh's
                weights.append(weight(net.meshes[0]))
                net.meshes[0]._history, net.ledgers[0] = ledger, kept
        assert weights[0] == weights[1], f"memory: {weights} values kept after 100 and 300 messages"


def check_memory_is_bounded_in_bytes(make: Make) -> None:
    net = Net(make, 2, BYTES)
    for _ in range(20):
        net.broadcast(0, bytes(1000))
    assert sum(len(message.payload) for message in net.meshes[0]._recent) <= BYTES.window_bytes, (
        "memory: more bytes than a window"
    )


def check_acknowledgements_are_rare_and_not_too_rare(make: Make) -> None:
    """One for many messages; at once when a quarter of a window came, whatever the clock says."""
    net = connected(make, settings=SessionSettings(window=16, window_bytes=1 << 20, relay_after_us=0))
    since = len(net.transmitted)
    for _ in range(3):
        net.broadcast(0)
        net.deliver(0, 1)
        net.keep(1)
    assert acks(net, 1, 0, since) == [], "thrift: an acknowledgement for each"
    assert len(net.wakes[1]) == 1, f"late: {len(net.wakes[1])} wake-ups asked for"
    net.wake(1)
    assert acks(net, 1, 0, since) == [(3, 0)], "late: or thrift"
    assert net.wakes[1] == [], "silence: nothing is owed, and a wake-up is asked for"
    net.settle()
    since = len(net.transmitted)
    for _ in range(6):
        net.broadcast(0)
        net.deliver(0, 1)
        net.keep(1)
    told = acks(net, 1, 0, since)
    assert len(told) == 1, f"late: {told} after more than a quarter of a window"
    net.settle()
    net.check_everyone_has_everything()


def check_what_is_kept_late_is_acknowledged_all_the_same(make: Make) -> None:
    """It was held for its causes, and the acknowledgement of everything else has left long ago."""
    net = connected(make)
    net.broadcast(0)
    net.deliver(0, 1)
    net.settle(keep=False)
    assert not net.meshes[0].drained, "ack: of what is held"
    net.keep(1)
    net.settle()
    net.check_everyone_has_everything()


def check_wakes_that_come_early_are_nothing(make: Make) -> None:
    net = connected(make)
    net.broadcast(0)
    net.deliver(0, 1)
    net.keep(1)
    since = len(net.transmitted)
    mesh = net.meshes[1]
    assert mesh.wake(net.now) == [], "thrift: an acknowledgement before its time"
    assert net.meshes[0].wake(net.now) == [], "thrift: nothing was owed"
    net.wake(1)
    assert len(acks(net, 1, 0, since)) == 1, "late: the early one was taken for it"


def check_debts_die_with_the_link(make: Make) -> None:
    net = connected(make, 3)
    for sender in (0, 2):
        net.broadcast(sender)
        net.deliver(sender, 1)
        net.keep(1)
    net.break_link(0, 1)
    net.wake(1)  # the twin sees to it that nothing goes to a peer without a link
    net.settle()
    assert net.meshes[1].drained, "rest: it owes something to nobody"
    net.connect(0, 1)
    net.settle()
    net.check_everyone_has_everything()


def check_drained_means_that_everyone_has_acknowledged_everything(make: Make) -> None:
    net = connected(make, 3)

    def drained(me: int) -> bool:
        return net.meshes[me].drained

    net.broadcast(0)
    assert not drained(0), "rest: nobody has it"
    net.deliver(0, 1)
    net.keep(1)
    assert not drained(1), "rest: an acknowledgement is owed"
    net.settle()
    assert all(mesh.drained for mesh in net.meshes), "rest: everyone has it"
    net.break_link(0, 2)
    assert drained(0), "rest: a link that broke changes nothing about who has what"
    net.broadcast(0)
    net.settle()
    assert not drained(0), "rest: one is away"
    assert net.meshes[0].progress(2).state == "down", "rest: it is away"
    assert net.meshes[0].progress(1)[1:] == (2, 2), "ack: not what the peer has"


def check_a_roll_back_makes_everybody_begin_anew(make: Make) -> None:
    """What was received and not written down never came: it comes again over the new link."""
    net = connected(make)
    net.broadcast(1)
    net.settle()
    net.broadcast(1)
    net.deliver(1, 0)
    net.broadcast(0)
    mesh = net.meshes[0]
    mesh.recall(net.ledgers[0].vector, (), net.now)
    net.unkept[0].clear()
    net.handed[0] = list(net.ledgers[0].vector)
    net.wakes[0].clear()  # the step that asked for them was not carried out
    assert mesh.progress(1).state == "down", "rude: links are up after a roll back"
    net.break_link(0, 1)
    net.connect(0, 1)
    net.settle()
    net.check_everyone_has_everything()
    net.broadcast(1)
    net.settle()
    net.check_everyone_has_everything()


GARBAGE: dict[str, tuple[int, Packet]] = {
    "a message of somebody else": (1, Message(pack(2, 1), (), b"")),
    "a message of one's own": (1, Message(pack(0, 1), (), b"")),
    "a message after a gap": (1, Message(pack(1, 3), (), b"")),
    "an acknowledgement of what was never sent": (1, Ack((6, 0, 0), ())),
    "an acknowledgement that goes back": (1, Ack((0, 0, 0), ())),
    "an acknowledgement for a smaller group": (1, Ack((), ())),
    "a batch": (1, Batch((Message(pack(1, 2), (), b""),))),
    "a phantom": (1, Phantom((), asks=False)),
    "a packet of somebody without a link": (2, Ack((1, 0, 0), ())),
    "a packet of a stranger": (3, Ack((1, 0, 0), ())),
    "a packet of one's own": (0, Ack((1, 0, 0), ())),
}


def check_garbage_changes_nothing(make: Make) -> None:
    net = connected(make, 3)
    net.broadcast(1)
    net.broadcast(0)
    net.settle()
    for _ in range(3):
        net.broadcast(0)
    net.snap(0, 2)
    net.down(0, 2)
    net.broadcast(0)
    mesh = net.meshes[0]
    assert mesh.progress(1)[1:] == (1, 5), "garbage: another beginning than was meant"
    for name, (peer, packet) in GARBAGE.items():
        before = portrait(mesh)
        error = caught(PeerError, lambda: mesh.receive(peer, packet, net.now))  # noqa: B023
        assert error, f"garbage: {name} is accepted"
        assert portrait(mesh) == before, f"garbage: {name} has left something behind"


def check_a_node_that_forgot_does_not_count_on_before_it_has_heard_everyone(make: Make) -> None:
    net = connected(make, 3)
    for _ in range(3):
        net.broadcast(0)
    net.settle()
    net.crash(0, loses=2)
    for peer in (1, 2):
        net.down(peer, 0)
    assert net.meshes[0].waiting_for == [1, 2], "dot: whom it must hear"
    assert not net.may_send(0), "dot: it would use one twice"
    net.connect(0, 1)
    net.settle()
    assert net.ledgers[0].vector == (3, 0, 0), "lost: what the peer has"
    assert net.meshes[0].waiting_for == [2], "dot: somebody may have more"
    assert not net.may_send(0), "dot: it might use one twice"
    net.connect(0, 2)
    net.settle()
    assert net.may_send(0), "rest: it has heard everyone"
    net.broadcast(0)
    net.settle()
    net.check_everyone_has_everything()


def check_what_was_held_of_a_node_that_forgot_it_is_dropped(make: Make) -> None:
    """It may send others in their place: whoever held the old ones must not take them for the new."""
    net = connected(make)
    net.broadcast(0)
    net.settle()
    old = net.broadcast(0)
    net.deliver(0, 1)  # received, and held for its causes
    net.crash(0, loses=1)
    net.down(1, 0)
    net.connect(0, 1)
    net.settle(keep=False)
    new = net.broadcast(0)
    assert new.dot == old.dot, "dot: nobody had it, so it never was"
    net.settle()
    net.check_everyone_has_everything()


def check_what_nobody_has_any_more_is_not_waited_for(make: Make) -> None:
    """The power goes out for the whole group: a peer has said that it had something, and lost it as well."""
    net = connected(make)
    net.broadcast(0)
    net.settle()
    net.crash(0, loses=1)
    net.down(1, 0)
    net.connect(0, 1)
    while net.wire[0, 1]:
        net.deliver(0, 1)
    net.deliver(1, 0)
    net.deliver(1, 0)
    assert net.meshes[0].recovering, "dot: the peer has one more"
    net.crash(1, loses=1)
    net.down(0, 1)
    net.connect(0, 1)
    net.settle()
    assert net.may_send(0), "rest: it waits for what is gone"
    net.broadcast(0)
    net.settle()
    net.check_everyone_has_everything()


def check_a_node_that_did_not_expect_to_forget_stops(make: Make) -> None:
    """A peer has more of its messages than its log: to go on would be to use dots twice."""
    net = connected(make)
    net.broadcast(0)
    net.settle()
    net.crash(0)
    net.down(1, 0)
    net.meshes[0].up(1, net.now)
    error = caught(StorageError, lambda: net.meshes[0].receive(1, Ack((2, 0), ()), net.now))
    assert error, "dot: it goes on"


def check_a_peer_that_lost_what_was_collected_is_refused(make: Make) -> None:
    """It said once that it had it; what it lacks now cannot be given to it, and its link must not live."""
    net = connected(make)
    for _ in range(8):
        net.broadcast(0)
        net.settle()
    net.break_link(0, 1)
    ledger = net.ledgers[0]
    ledger.floor[0] = 7
    ledger.messages = ledger.messages[7:]
    net.meshes[0].up(1, net.now)
    before = portrait(net.meshes[0])
    assert caught(PeerError, lambda: net.meshes[0].receive(1, Ack((0, 2), ()), net.now)), (
        "garbage: what was collected is promised"
    )
    assert portrait(net.meshes[0]) == before, "garbage: has left something behind"


def check_a_repeated_message_is_nothing_new(make: Make) -> None:
    net = connected(make)
    message = net.broadcast(1)
    net.settle()
    effects = net.meshes[0].receive(1, message, net.now)
    assert not any(isinstance(effect, Message) for effect in effects), "twice: handed up again"
    assert [type(effect) for effect in effects] == [Wake], "late: it is owed an answer, at its time"
    told = net.meshes[0].wake(net.now + SMALL.ack_every_us)
    assert [effect.peers for effect in told if isinstance(effect, Transmit)] == [(1,)], "late: no answer"


SESSION_CHECKS: dict[str, SessionCheck] = {
    "random": check_random_schedules,
    "power cuts": check_random_power_cuts,
    "forgetful": check_a_node_that_forgot_does_not_count_on_before_it_has_heard_everyone,
    "held and forgotten": check_what_was_held_of_a_node_that_forgot_it_is_dropped,
    "gone": check_what_nobody_has_any_more_is_not_waited_for,
    "unexpected": check_a_node_that_did_not_expect_to_forget_stops,
    "greeting": check_nothing_but_a_greeting_leaves_before_the_peer_has_greeted,
    "resume": check_a_new_link_carries_exactly_what_is_missing,
    "absence": check_a_long_absence_is_made_up_for_from_the_history,
    "window": check_a_window_is_used_and_not_exceeded,
    "bytes": check_bytes_count_as_well,
    "slow": check_a_slow_peer_does_not_slow_another,
    "away": check_a_peer_that_is_away_costs_a_window_of_memory,
    "memory": check_memory_is_bounded_in_bytes,
    "acks": check_acknowledgements_are_rare_and_not_too_rare,
    "held": check_what_is_kept_late_is_acknowledged_all_the_same,
    "early": check_wakes_that_come_early_are_nothing,
    "debts": check_debts_die_with_the_link,
    "drained": check_drained_means_that_everyone_has_acknowledged_everything,
    "roll back": check_a_roll_back_makes_everybody_begin_anew,
    "garbage": check_garbage_changes_nothing,
    "collected": check_a_peer_that_lost_what_was_collected_is_refused,
    "repeated": check_a_repeated_message_is_nothing_new,
}
