"""What the mesh promises beyond what every spread must."""

import pytest

from thence.core.dots import origin_of, pack, seq_of
from thence.core.errors import UsageError
from thence.core.machine import Ack, SpreadEffect, Transmit, Wake
from thence.core.message import Message
from thence.spread.mesh import Mesh, MeshSettings


def message(origin: int, seq: int) -> Message:
    return Message(pack(origin, seq), (), b"")


def transmitted(effects: list[SpreadEffect]) -> list[Transmit]:
    return [effect for effect in effects if isinstance(effect, Transmit)]


def wakes(effects: list[SpreadEffect]) -> list[int]:
    return [effect.at for effect in effects if isinstance(effect, Wake)]


def test_acknowledgements_wait_for_each_other_and_name_what_came_early() -> None:
    mesh = Mesh(0, 3)
    asked = []
    for packet in (message(1, 1), message(1, 3), message(2, 1), message(1, 4)):
        asked += wakes(mesh.receive(origin_of(packet.dot), packet, 10))
    assert asked == [10 + MeshSettings().ack_every_us]
    (told,) = transmitted(mesh.wake(asked[0]))
    assert isinstance(told.packet, Ack)
    assert told.peers == (1, 2)
    assert told.packet.received == (0, 1, 1)
    assert told.packet.early == (pack(1, 3), pack(1, 4))
    assert not mesh.drained


def test_a_gap_that_closes_counts_everything_behind_it() -> None:
    mesh = Mesh(0, 2)
    for seq in (3, 2, 5, 1):
        mesh.receive(1, message(1, seq), 0)
    (told,) = transmitted(mesh.wake(50_000))
    assert isinstance(told.packet, Ack)
    assert (told.packet.received, told.packet.early) == ((0, 3), (pack(1, 5),))


def test_repeats_come_in_bursts_that_go_on_where_the_last_one_ended() -> None:
    mesh = Mesh(0, 2, MeshSettings(burst=3))
    for seq in range(1, 6):
        mesh.broadcast(message(0, seq), 0)
    bursts = [[effect.packet for effect in transmitted(mesh.wake(at))] for at in (400_000, 450_000, 500_000)]
    numbers = [[seq_of(packet.dot) for packet in burst if isinstance(packet, Message)] for burst in bursts]
    assert numbers == [[1, 2, 3], [4, 5], []]


def test_an_acknowledgement_that_was_overtaken_is_passed_over() -> None:
    mesh = Mesh(0, 2)
    for seq in (1, 2, 3):
        mesh.broadcast(message(0, seq), 0)
    mesh.receive(1, Ack((2, 0), ()), 1000)
    mesh.receive(1, Ack((1, 0), (pack(0, 3),)), 1001)
    repeated = transmitted(mesh.wake(5_000_000))
    assert [effect.packet for effect in repeated] == [mesh._log[0]]
    assert mesh._log[0].dot == pack(0, 3)


def test_a_message_is_kept_until_the_last_peer_has_it() -> None:
    mesh = Mesh(0, 3)
    mesh.broadcast(message(0, 1), 0)
    mesh.receive(1, Ack((1, 0, 0), ()), 1000)
    assert wakes(mesh.wake(50_000)) == [100_000]
    mesh.receive(2, Ack((1, 0, 0), ()), 60_000)
    assert mesh.wake(100_000) == []
    assert mesh.drained


def test_a_wake_up_that_was_not_asked_for_is_passed_over() -> None:
    mesh = Mesh(0, 2)
    assert mesh.wake(0) == []
    mesh.receive(1, message(1, 1), 0)
    assert mesh.wake(1) == []
    assert len(transmitted(mesh.wake(50_000))) == 1


@pytest.mark.parametrize("early_us", [0, 1, 10_000])
def test_a_timer_that_fires_a_little_early_is_obeyed(early_us: int) -> None:
    mesh = Mesh(0, 2)
    mesh.receive(1, message(1, 1), 0)
    assert len(transmitted(mesh.wake(50_000 - early_us))) == 1
    assert mesh.drained


@pytest.mark.parametrize(
    "wrong", [{"ack_every_us": 0}, {"repeat_min_us": 1}, {"repeat_max_us": 1}, {"burst": 0}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="mesh settings"):
        MeshSettings(**wrong)


def test_what_came_early_is_trusted_only_while_it_is_fresh() -> None:
    """The receiver may have crashed since, and forgotten it: a sender that relied on it would never end."""
    sender = Mesh(0, 2)
    one, two = message(0, 1), message(0, 2)
    sender.broadcast(one, 0)
    sender.broadcast(two, 0)
    sender.receive(1, Ack((0, 0), (two.dot,)), 10_000)
    repeated: list[int] = []
    now = 0
    while two.dot not in repeated:
        now += 50_000
        assert now < 60_000_000, "never repeated"
        packets = [effect.packet for effect in sender.wake(now) if isinstance(effect, Transmit)]
        repeated += [packet.dot for packet in packets if isinstance(packet, Message)]
    assert repeated[0] == one.dot, "what is known to be missing comes first"
