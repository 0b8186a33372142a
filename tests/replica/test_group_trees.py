"""Groups over trees: a few links each, messages and receipts passed on, and the same promises."""

import pytest
from support.schedules_trees import EIGHT, ONE_RING, TREES, TWO_RINGS, Tree

from thence.core.errors import PeerError
from thence.core.groups import Passed, Receipt, Running
from thence.replica.group.process.speaking import check_speaker
from thence.replica.group.settings import GroupSettings


@pytest.mark.parametrize("schedule", TREES)
def test_schedules_end_well(schedule: str) -> None:
    assert TREES[schedule]() == ""


@pytest.mark.parametrize("settings", [ONE_RING, TWO_RINGS])
def test_few_links_each_and_every_message_comes_to_every_node_once(settings: GroupSettings) -> None:
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
    assert all(receipt.source in receipt.counts for receipt in passed)  # without that, none may count
    grown = [receipt for receipt in passed if set(receipt.counts) <= {"a", receipt.source}]
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
