"""Groups over trees: a few links each, messages and receipts passed on, and the same promises."""

from collections import Counter

import pytest
from support.schedules_groups import Play

from thence.core.errors import PeerError
from thence.core.groups import Flow, GroupPacket, Passed, Receipt, Running
from thence.replica.group_member import Member
from thence.replica.group_settings import GroupSettings
from thence.replica.group_speaking import check_speaker
from thence.sim.groups import Air

EIGHT = "abcdefgh"
ONE_RING = GroupSettings(rings=1)
TWO_RINGS = GroupSettings(rings=2)


class Tree(Play):
    """A world that counts what travels."""

    def __init__(self, names: str, settings: GroupSettings = ONE_RING, take_us: int = 0) -> None:
        self.seen: list[tuple[str, str, GroupPacket]] = []
        super().__init__(names, settings, take_us, Air(jitter_us=0, links=True, wire=True))
        self.filter = self._watch

    def _watch(self, sender: str, receiver: str, packet: GroupPacket) -> GroupPacket:
        self.seen.append((sender, receiver, packet))
        return packet

    def bodies(self) -> Counter[tuple[str, bytes]]:
        flows = [(receiver, packet) for _, receiver, packet in self.seen if isinstance(packet, Flow)]
        return Counter([(receiver, body) for receiver, flow in flows for body in flow.bodies])

    def member(self, name: str) -> Member:
        node = self.processes[name].node
        assert node is not None
        assert node.member is not None
        return node.member

    def links(self, name: str) -> list[str]:
        node = self.processes[name].node
        assert node is not None
        return sorted(node._wires.up)


@pytest.mark.parametrize("settings", [ONE_RING, TWO_RINGS])
def test_few_links_each_and_every_message_comes_to_everybody_once(settings: GroupSettings) -> None:
    play = Tree(EIGHT, settings).together(EIGHT)
    play.passes(5)
    assert max(len(play.links(name)) for name in EIGHT) <= 2 * settings.rings
    play.seen.clear()
    for _ in range(20):
        for name in EIGHT:
            play.send(name)
        play.passes(0.02)
    play.passes(10)
    assert play.unsettled() == ""
    assert len(play.bodies()) == 7 * 8 * 20
    assert set(play.bodies().values()) == {1}


def test_a_member_that_comes_gets_a_place_and_one_that_leaves_is_not_missed() -> None:
    play = Tree(EIGHT).together("abcdefg")
    play.join("h")
    play.passes(5)
    play.send("h")
    play.passes(2)
    assert play.unsettled() == ""
    assert 1 <= len(play.links("h")) <= 2
    play.leaves("a")
    play.passes(5)
    assert play.unsettled() == ""


def test_what_comes_no_more_by_its_way_is_asked_for_elsewhere() -> None:
    """A neighbour whose program takes nothing passes nothing on: others do."""
    play = Tree(EIGHT, TWO_RINGS).together(EIGHT)
    play.passes(5)
    asleep = "c"
    play.processes[asleep].taking = play.processes[asleep].node  # it takes nothing any more
    for _ in range(5):
        play.send("a")
    play.passes(3)
    sent = play.member("a").ledger.sent
    assert play.member(asleep).ledger.count("a") < sent
    for name in set(EIGHT) - {asleep}:
        assert play.member(name).ledger.count("a") == sent
    play.seen.clear()
    play.send("a")  # and from now on without a wait
    play.passes(0.1)
    for name in set(EIGHT) - {asleep}:
        assert play.member(name).ledger.count("a") == sent + 1
    assert not [one for one, _, packet in play.seen if one == asleep and isinstance(packet, Flow)]


def test_dead_neighbours_are_passed_over() -> None:
    play = Tree(EIGHT).together(EIGHT)
    play.passes(5)
    ring = play.links("a")
    for name in ring:
        play.crash(name)
    play.passes(10)
    play.send("a")
    play.passes(2)
    left = set(EIGHT) - set(ring) - {"a"}
    assert all(play.member(name).ledger.count("a") == play.member("a").ledger.sent for name in left)


def test_receipts_of_others_say_what_has_grown() -> None:
    play = Tree(EIGHT, TWO_RINGS).together(EIGHT)
    for name in EIGHT:
        play.send(name)
    play.passes(5)
    assert play.unsettled() == ""
    play.seen.clear()
    play.send("a")
    play.passes(1)
    assert play.unsettled() == ""
    passed = [
        receipt for _, _, packet in play.seen if isinstance(packet, Passed) for receipt in packet.receipts
    ]
    grown = [receipt for receipt in passed if set(receipt.counts) <= {"a"}]
    assert len(grown) > len(passed) / 2  # but for those that are told anew now and then


def test_a_member_of_no_use_as_a_neighbour_tells_nothing_of_others() -> None:
    """Only what other members have said, and for those who know them."""
    running = Running("c", "c", "", 1)
    receipt = Receipt("c", {"a": 3}, (), (), running, number=7)
    check_speaker("b", Passed((receipt,)))
    for lie in (
        receipt._replace(source="b", running=Running("b", "b", "", 1)),
        receipt._replace(target="a"),
        receipt._replace(wants=("a",)),
        receipt._replace(running=Running("d", "d", "", 1)),
    ):
        with pytest.raises(PeerError):
            check_speaker("b", Passed((receipt, lie)))
    play = Tree("abcd").together("abc")
    believed = play.member("a")
    node = play.processes["a"].node
    assert node is not None
    before = believed._peers.said("c")
    node.receive("d", Passed((receipt._replace(counts={"a": 99}, number=1 << 50),)), play.now)
    assert believed._peers.said("c") == before


def test_an_old_receipt_that_comes_late_changes_nothing() -> None:
    play = Tree("abc").together("abc")
    play.send("a")
    play.passes(3)
    member = play.member("a")
    last = member._peers.last("c")
    assert last is not None
    assert member._peers.whole(last) is None
    newer = last._replace(number=last.number + 1, counts={"a": last.counts["a"] + 1})
    whole = member._peers.whole(newer)
    assert whole is not None
    assert whole.counts == last.counts | newer.counts
