"""Format: what processes of a changing group send and write down, as every version since has made it."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random

from support.schedules_groups import Play

from thence.core.group_codec import decode, encode
from thence.core.groups import (
    ALL,
    Data,
    Extent,
    Farewell,
    Flow,
    Fragment,
    FragmentReceipt,
    GroupPacket,
    JoinRequest,
    Lost,
    NamedMessage,
    Notice,
    Offer,
    Piece,
    Receipt,
    Running,
)
from thence.members.group import Final
from thence.members.operations import Operation
from thence.replica.group.ledger.payloads import (
    Carried,
    carry_payload,
    flush_payload,
    join_payload,
    payload_carry,
    payload_flush,
    payload_join,
)
from thence.replica.group.ledger.state import MemberState
from thence.replica.group.ledger.state_codec import decode_state, encode_state
from thence.sim.disk import Disk

GOLDEN = Path(__file__).parent / "golden" / "group-v1.json"

GOLDEN_2 = GOLDEN.with_name("group-v2.json")
"""What has changed since, or come to it: states whose operations have contexts."""

RUNNING = Running("a", "a~2", "a~3", 3)
PACKETS: dict[str, GroupPacket] = {
    "data": Data("a~2", "b", (NamedMessage("a~2", 7, (("b", 5), ("c", 300)), b"\x00payload"),)),
    "flow": Flow(3, 1, ("b", "c~12"), (b"one", b"another")),
    "receipt": Receipt("b", {"a": 3, "b": 129}, ("x",), ("c",), RUNNING, "a~2", 9, ("x",), (("d", 1, 40),)),
    "request": JoinRequest("z~4", "b", (0, -3, "a", "b"), RUNNING, 77, 4096, "10.0.0.1:7101", 2),
    "offer": Offer("b", "z~4"),
    "piece": Piece("b", "z~4", 77, 0, 5, b"state"),
    "notice": Notice("b", "x", ("a~2", "b"), 12),
    "farewell": Farewell("b", "x", 12),
}
CARRIED = Carried((Operation("x", 4, b"op"),), (("x", 1, 2),), ("s",))
STATE = MemberState(
    application=b"application",
    counts={"a": 3, "b": 2},
    stable={"a": 2},
    context=(("a", 3), ("b", 2)),
    table=["b", "a", "z"],
    log=[NamedMessage("a", 3, (("b", 2),), b"\x00op")],
    view={"a", "b", "z"},
    suspects={"x"},
    gone={"x": Final(4, True)},
    departing={"l": 6},
    flushed={"b": {"x"}},
    addresses={"a": "10.0.0.1:1"},
    closing={("b", 2): (("x", 1, 1),)},
    closed=(("y", 1, 3),),
    past=(("y", 1, 3),),
    unknown={"u"},
    rows={"a": {"a": 3, "b": 1}},
    retained=[Operation("x", 3, b"kept")],
    floor={"a": 1},
    carried={("w", 9): None},
    orphans=[Operation("w", 10, b"orphan")],
    leaves=True,
    since=2,
    must_announce=True,
    tail_lost=True,
    strangers={"s"},
    goes_on=True,
)


def world() -> Play:
    """a founds, b joins and leaves, c joins and is evicted for good; operations of all of them."""
    play = Play("abc").together("abc")
    for name in "abc":
        play.send(name, b"hello")
    play.passes(1)
    play.leaves("b")
    play.passes(3)
    play.call("a", lambda node: node.checkpoint(play.now))
    play.crash("c")
    play.evicts("a", "c")
    play.send("a", b"later")
    play.passes(1)
    return play


def written() -> dict[str, object]:
    disk = world().processes["a"].shelf._disks[1]
    return {
        "packets": {name: encode(packet).hex() for name, packet in PACKETS.items()},
        "join": join_payload("z~4", "10.0.0.1:7101", 2).hex(),
        "flush": flush_payload(["x", "y~2"], [("d", 1, 40)]).hex(),
        "carry": carry_payload(CARRIED).hex(),
        "state": encode_state(STATE).hex(),
        "log": {name: disk.read(name, 0, disk.size(name)).hex() for name in disk.names()},
    }


FRAGMENTS: dict[str, GroupPacket] = {
    "fragment": Fragment(3, 1 << 20, 5 << 20, b"some of it"),
    "receipt": FragmentReceipt(3, 2 << 20),
}
FOLLOWS = Operation("w", 10, b"orphan", (("a", 2), ("b", 300)))
WITH_CONTEXT = CARRIED._replace(operations=(*CARRIED.operations, FOLLOWS))


def written_2() -> dict[str, object]:
    return {
        "packets": {name: encode(packet).hex() for name, packet in FRAGMENTS.items()},
        "carry": carry_payload(WITH_CONTEXT).hex(),
        "state": encode_state(replace(STATE, orphans=[FOLLOWS])).hex(),
    }


def test_what_a_state_tells_programs_without_one_comes_back_as_it_went() -> None:
    state = replace(
        STATE,
        reach={"a": 2},
        history=[Operation("a", 1, b"missed")],
        lost=(Lost("b", 1, 1), Lost("y~3", 1, ALL)),
        holders=("a", "b"),
        extent=Extent({"a": 1}, (("y", 1, 2),), (("w", 9),)),
        unread=[Operation("b", 2, b"unread")],
        former=(1, 40, 12),
    )
    assert decode_state(encode_state(state)) == state
    assert not STATE.tells_programs, "and costs nothing where there is nothing to tell"


def test_packets_and_messages_are_what_they_were() -> None:
    golden, now = json.loads(GOLDEN.read_text()), written()
    for what in ("packets", "join", "flush", "carry"):
        assert now[what] == golden[what]
    assert written_2() == json.loads(GOLDEN_2.read_text())


def test_packets_and_messages_of_any_version_are_understood() -> None:
    golden = json.loads(GOLDEN.read_text())
    packets = {name: decode(bytes.fromhex(data)) for name, data in golden["packets"].items()}
    assert packets == PACKETS
    assert payload_join(b"\x01" + bytes.fromhex(golden["join"])) == ("z~4", "10.0.0.1:7101", 2)
    assert payload_flush(b"\x03" + bytes.fromhex(golden["flush"])) == (("x", "y~2"), (("d", 1, 40),))
    assert payload_carry(b"\x04" + bytes.fromhex(golden["carry"])) == CARRIED
    assert decode_state(bytes.fromhex(golden["state"])) == STATE
    golden = json.loads(GOLDEN_2.read_text())
    packets = {name: decode(bytes.fromhex(data)) for name, data in golden["packets"].items()}
    assert packets == FRAGMENTS
    assert payload_carry(b"\x04" + bytes.fromhex(golden["carry"])) == WITH_CONTEXT
    assert decode_state(bytes.fromhex(golden["state"])) == replace(STATE, orphans=[FOLLOWS])


def test_what_came_to_messages_later_is_read_as_it_was_written() -> None:
    carried = CARRIED._replace(spent=(("w", 1, 3), ("x", 2, 2)))
    assert payload_carry(b"\x04" + carry_payload(carried)) == carried
    state = replace(STATE, spent=(("w", 1, 3),), settled_before=(("v", 2, 2),), abandoned={"u"})
    assert decode_state(encode_state(state)) == state


def test_an_incarnation_of_any_version_is_taken_up() -> None:
    """One that has evicted a member since its last checkpoint."""
    play = Play("abc")
    play.crash("a")
    shelf = play.processes["a"].shelf
    disk = shelf._disks[1] = Disk(Random(1))
    shelf.reserve(1)
    for name, data in json.loads(GOLDEN.read_text())["log"].items():
        disk.write(name, 0, bytes.fromhex(data))
        disk.sync(name)
    disk.sync_folder()
    play.boot("a")
    node = play.processes["a"].node
    assert node is not None
    assert node.member is not None
    assert (node.status, node.member.view.view, node.member.view.suspects) == ("member", {"a"}, {"c"})
    assert list(node.member.view.past) == [("b", 1, 1)]
    assert play.processes["a"].application.order == [("a", 3), ("b", 1), ("c", 1), ("a", 5)]
