"""Runs and fragments over a tree without tags, by hand."""

import pytest
from support.trees_by_hand import Two, deliveries, sends

from thence.core.dots import pack
from thence.core.errors import PeerError, UsageError
from thence.core.groups import Fragment
from thence.core.machine import Packet
from thence.core.message import Message
from thence.core.overlay import Sync
from thence.core.runs import run_payload
from thence.oplog.record import MAX_BODY
from thence.order.engines import PROBABILISTIC
from thence.replica.events import Delivered
from thence.replica.open_tree import OpenTree
from thence.replica.tree_positions import OLD, position_of, told_apart


def logged(machine: OpenTree) -> list[int]:
    """The counters of the records of a."""
    assert machine.log is not None
    index = machine.log.names.index("a")
    return [one.dot >> 20 for one in machine.log.since(machine.log.head) if one.dot & (1 << 20) - 1 == index]


def replayed(machine: OpenTree, after: int, now: int) -> list[bytes]:
    return [event.payload for event in machine.replay(after, now) if isinstance(event, Delivered)]


def test_what_is_sent_in_a_turn_is_one_message_and_its_operations_are_told_one_by_one() -> None:
    two = Two()
    two.settle()
    assert two.say(two.a, b"1", b"2", b"3") == [("a", 1), ("a", 2), ("a", 3)]
    two.say(two.a, b"4")
    two.settle()
    assert [(dot, payload) for dot, payload, _ in two.b.program.had] == [
        (("a", 1), b"1"), (("a", 2), b"2"), (("a", 3), b"3"), (("a", 4), b"4"),
    ]  # fmt: skip
    assert sends(two.a) == deliveries(two.b) == [("a", seq) for seq in range(1, 5)]
    for end in (two.a, two.b):
        records = [one.dot >> 20 for one in end.log.since(end.log.head)]
        assert len(records) == 2, "a record for each message"
    assert two.a.machine.sent == 4


def test_a_program_goes_on_in_the_midst_of_a_run() -> None:
    two = Two()
    two.settle()
    two.say(two.a, *[b"%d" % number for number in range(5)])
    two.say(two.a, b"alone")
    two.settle()
    positions = [position for _, _, position in two.b.program.had]
    assert positions == sorted(set(positions)), "each has its own, and they grow"
    for had, position in enumerate(positions, 1):
        again = replayed(two.b.machine, position, two.now)
        assert again == [payload for _, payload, _ in two.b.program.had[had:]]


def test_a_program_that_was_ahead_of_its_log_in_the_midst_of_a_run_gets_the_rest_of_it() -> None:
    """It kept its position, and the process ended before the log had the mark."""
    two = Two()
    two.settle()
    two.b.takes = False
    two.say(two.a, b"1", b"2", b"3")
    two.say(two.a, b"4")
    two.settle()
    [first, *_] = [one.position for one in two.b.log.since(two.b.log.head)]
    two.b.program.had.clear()
    assert replayed(two.b.machine, position_of(first, 2), two.now) == [b"3"]
    assert not two.b.program.had, "nothing of the run is told twice"
    two.b.machine.take(10, two.now)
    assert [payload for _, payload, _ in two.b.program.had] == [b"4"]


def test_positions_of_earlier_versions_are_those_of_records() -> None:
    record = (7 << 40) + 3
    assert told_apart(record) == (record, 0)
    assert told_apart(position_of(record, 4)) == (record, 4)
    assert position_of(1 << 40) >= OLD, "none of ours is taken for one of those"


def test_a_restart_tells_all_operations_of_runs() -> None:
    two = Two()
    two.settle()
    two.say(two.a, b"1", b"2", b"3")
    two.settle()
    two.unlink()
    for end in (two.a, two.b):
        end.diary.rows.clear()
        end.start(two.now)
    assert sends(two.a) == deliveries(two.b) == [("a", 1), ("a", 2), ("a", 3)]
    two.link()
    two.settle()
    assert two.say(two.a, b"4") == [("a", 4)]


def large(two: Two) -> bytes:
    return bytes(range(256)) * 20


def test_a_large_operation_travels_in_fragments_and_is_delivered_whole() -> None:
    two = Two(packet_bytes=500, window_bytes=1200)
    two.settle()
    two.say(two.a, b"before", large(two), b"after")
    two.say(two.a, b"next turn")
    two.settle()
    assert [payload for _, payload, _ in two.b.program.had] == [b"before", large(two), b"after", b"next turn"]
    assert two.largest < 700, "no packet is larger than its share"
    assert not two.a.machine.sends_large


def test_beats_and_grafts_go_between_fragments_and_messages_do_not() -> None:
    two = Two(packet_bytes=200, window_bytes=400)
    two.settle()
    two.say(two.a, large(two))
    two.say(two.a, b"small")
    under_way = len(two.a.out)
    assert under_way <= 5, "a window of them"
    assert all(isinstance(two.b.machine.decode(data), Fragment) for data in two.a.out)
    assert two.a.machine.sends_large, "it is not sent yet"
    two.settle()
    assert [payload for _, payload, _ in two.b.program.had] == [large(two), b"small"]


@pytest.mark.parametrize("came", range(1, 30, 4))
@pytest.mark.parametrize("crash", ["link", "sender", "receiver"])
def test_what_came_of_a_large_operation_is_forgotten_with_its_link(crash: str, came: int) -> None:
    """It comes again from its first byte, and is delivered once."""
    two = Two(packet_bytes=200, window_bytes=400)
    two.settle()
    two.say(two.a, b"small", large(two), b"more")
    for _ in range(came):
        two.pass_on(two.a, 1)
        two.pass_on(two.b)
    two.unlink()
    assert [payload for _, payload, _ in two.b.program.had] in ([], [b"small"])
    assert two.b.machine.delivered().get("a", 0) <= 1
    if crash != "link":
        (two.a if crash == "sender" else two.b).start(two.now)
    two.link()
    two.settle()
    assert [payload for _, payload, _ in two.b.program.had] == [b"small", large(two), b"more"]


def test_a_neighbour_that_lacks_several_large_operations_gets_one_at_a_time() -> None:
    """What is under way to it is bounded, however many there are."""
    two = Two(packet_bytes=1 << 20, window_bytes=1 << 20)
    two.unlink()
    payloads = [bytes([number]) * (3 << 20) for number in range(5)]
    for payload in payloads:
        two.say(two.a, payload)
    two.link()
    [index] = two.a.machine._channels
    channel = two.a.machine._channels.get(index)
    assert channel is not None
    waiting, went = list[int](), 0
    for _ in range(2_000):
        two.wake()
        went += two.pass_on(two.a, 1) + two.pass_on(two.b)
        waiting.append(len(channel._waiting))
    assert [payload for _, payload, _ in two.b.program.had] == payloads
    assert went > 50
    assert max(waiting) <= 1, "all of them were in memory"


@pytest.mark.parametrize(
    ("packet", "why"),
    [
        (Message(pack(0, 9), (), run_payload([b"x"] * 4), (), 5), "does not hold 5"),
        (Message(pack(0, 5), (), run_payload([b"x"] * 5), (), 5), "a part was here"),
        (Sync(1, (Message(pack(0, 5), (), run_payload([b"x"] * 5), (), 5),), True), "a part was here"),
        (Fragment(0, 7, 100, b"x"), "a fragment from 7"),
        (Fragment(0, 0, MAX_BODY * 2, b"x"), "a message of more than"),
    ],
    ids=str,
)
def test_what_no_correct_peer_sends_of_runs_and_fragments_is_refused(packet: Packet, why: str) -> None:
    two = Two()
    two.settle()
    two.say(two.a, b"1", b"2", b"3")
    two.settle()
    before = two.b.machine.counts
    index = two.a.machine.me_index
    if isinstance(packet, Message):
        packet = Message(packet.dot | index, (), packet.payload, (), packet.span)
    with pytest.raises(PeerError, match=why):
        two.b.machine.receive("a", packet, two.now)
    assert two.b.machine.counts == before


def test_another_message_before_the_large_one_is_whole_is_refused() -> None:
    two = Two()
    two.settle()
    two.b.machine.receive("a", Fragment(0, 0, 100, b"some"), two.now)
    with pytest.raises(PeerError, match="before the large one under way is whole"):
        two.b.machine.receive("a", Message(pack(two.a.machine.me_index, 1), (), b""), two.now)


def test_an_operation_has_up_to_what_a_record_holds_and_no_more() -> None:
    two = Two()
    with pytest.raises(UsageError, match="an operation has up to"):
        two.a.machine.broadcast([b"small", bytes(MAX_BODY)], 0)
    assert two.a.machine.sent == 0, "none of them was made"


def test_where_clocks_are_shared_each_operation_is_a_message() -> None:
    """Doubts and clocks are about messages. Large ones travel in fragments all the same."""
    two = Two(order=PROBABILISTIC, spread="gossip", packet_bytes=500, window_bytes=2000)
    two.settle()
    two.say(two.a, b"1", large(two), b"3")
    two.settle()
    assert sorted(payload for _, payload, _ in two.b.program.had) == sorted([b"1", large(two), b"3"])
    assert logged(two.b.machine) == [1, 2, 3]
    assert two.largest < 2000
