"""Changing groups over session links: messages travel once, a window at a time, as they stand in the log."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec import structs
from support.linked import Linked

from thence.core.errors import PeerError
from thence.core.groups import Data, Flow, GroupPacket, JoinRequest, Piece, Receipt
from thence.replica.group.channel.directions import Incoming
from thence.replica.group.ledger.ledger import CODEC
from thence.replica.group.member.member import Member
from thence.replica.group.settings import GroupSettings


def test_each_message_travels_once_to_each_and_nothing_is_repeated() -> None:
    play = Linked("abc").together("abc")
    play.seen.clear()
    for _ in range(20):
        for name in "abc":
            play.send(name)
        play.passes(0.01)
    play.passes(30)
    assert play.unsettled() == ""
    assert len(play.bodies()) == 3 * 2 * 20
    assert set(play.bodies().values()) == {1}
    assert not [packet for _, _, packet in play.seen if isinstance(packet, Data)]


def test_while_nothing_happens_there_are_only_rare_signs_of_life() -> None:
    play = Linked("abc").together("abc")
    play.send("a")
    play.passes(10)
    play.seen.clear()
    play.passes(60)
    idle = GroupSettings().receipt_idle_us / 1_000_000
    assert {type(packet) for _, _, packet in play.seen} == {Receipt}
    assert len(play.seen) <= 6 * 60 / idle


def test_a_member_that_takes_nothing_costs_a_window_and_loses_nothing() -> None:
    settings = GroupSettings(window=5)
    play = Linked("abc", settings).together("abc")
    play._take_us = 3_600_000_000
    play.seen.clear()
    for _ in range(50):
        play.send("a")
    play.passes(20)
    sent = [body for sender, receiver, body in play.bodies() if (sender, receiver) == ("a", "b")]
    assert len(sent) == 5
    assert len(play.member("b").inbox) == 5
    play._take_us = 0
    for name in "bc":
        while (node := play.processes[name].node) and node.waiting:
            play._step(name, lambda node: node.take(1, play.now))
    play.passes(20)
    assert play.unsettled() == ""
    assert play.member("b").ledger.count("a") == play.member("a").ledger.sent >= 50


def test_a_window_is_one_of_bytes_too() -> None:
    play = Linked("ab", GroupSettings(window_bytes=10_000)).together("ab")
    play._take_us = 3_600_000_000
    play.seen.clear()
    for _ in range(50):
        play.send("a", bytes(1000))
    play.passes(5)
    assert 10 <= len(play.bodies()) <= 11


def held(member: Member) -> int:
    """How many messages are kept in memory, wherever; tags are another matter."""
    links, ledger = member.links, member.ledger
    ready = sum([len(link.outgoing.ready) for link in links._links.values() if link.outgoing])
    operations = len(member.operations.inherited) + len(member.operations.carried)
    return len(links._recent) + len(ledger.uncommitted) + len(member.inbox) + ready + operations


def test_a_member_that_is_away_costs_no_memory_for_what_is_said_meanwhile() -> None:
    play = Linked("abc", GroupSettings(window=16)).together("abc")
    play.crash("c")
    play.passes(1)
    for _ in range(100):
        play.send("a")
        play.send("b")
        play.passes(0.01)
    few = held(play.member("a"))
    for _ in range(300):
        play.send("a")
        play.send("b")
        play.passes(0.01)
    assert held(play.member("a")) == few <= 16
    assert len(play.member("a").ledger.window) == 800
    play.boot("c")
    assert play.ends_well() == ""
    assert play.member("c").ledger.count("a") == play.member("a").ledger.sent >= 400


def test_bytes_are_taken_as_they_are_where_names_have_the_same_places() -> None:
    play = Linked("abc").together("abc")
    before = list(play.member("a").ledger.counts)
    for name in "abc":
        play.send(name)
    play.passes(2)
    written = [dict(play.member(name).ledger.written(before)) for name in "abc"]
    assert [play.member(name).ledger.names for name in "abc"] == [["a", "b", "c"]] * 3
    assert written[0] == written[1] == written[2]
    assert len(written[0]) == 3


def test_names_at_other_places_are_translated() -> None:
    """Two join at once through different contacts, which hear of them in different orders."""
    play = Linked("abcd").together("ab")
    play.cuts("ad", "bc", "ab", "cd")
    play.join("c")
    play.join("d")
    play.passes(8)
    play.heals()
    play.passes(3)
    tables = {tuple(play.member(name).ledger.names) for name in "abcd"}
    assert len(tables) > 1
    for name in "abcd":
        play.send(name)
    assert play.ends_well() == ""


def test_what_comes_under_an_old_number_is_passed_over() -> None:
    play = Linked("ab").together("ab")
    member = play.member("b")
    number = member.links.opened("a")
    flow = Flow(number + 7, 0, ("a",), (b"whatever",))
    member.receiving.flow("a", flow, play.now)
    member.links.dropped()
    member.receiving.flow("a", structs.replace(flow, stream=number), play.now)
    assert not member.inbox


def test_names_come_in_turn_and_messages_use_no_others() -> None:
    ledger = Linked("ab").together("ab").member("a").ledger
    incoming = Incoming(1, "b", ledger, 1 << 20, lends=False)
    incoming.learn(0, ("a", "b"))
    with pytest.raises(PeerError, match="where 2 is due"):
        incoming.learn(1, ("b",))
    message = ledger.tagger.tag(b"\x00")
    ledger.number("z")
    stranger = CODEC.encode(type(message)((1 << 20) | 2, (), b"\x00"))
    with pytest.raises(PeerError):
        incoming.read(stranger)
    with pytest.raises(PeerError, match="something else"):
        incoming.read(CODEC.encode(type(message)((1 << 20) | 1, (), b"")))


def test_a_receipt_for_messages_that_were_never_sent_means_that_they_were_forgotten() -> None:
    """If a member says so: then it is not the member who is wrong. A stranger proves nothing by it."""
    play = Linked("ab").together("ab")
    member = play.member("a")
    receipt = play.member("b")._watch.about(play.processes["b"].node._running(), True, play.now)  # type: ignore[union-attr]
    said = replace_counts(receipt, "a", 99)
    member.receiving.receipt(said._replace(source="x"), "x", play.now)
    before = member.lineages.rollback
    member.receiving.receipt(said, "b", play.now)
    after = member.lineages.rollback
    assert before is None
    assert after is not None
    assert after[:4] == ("a", member.ledger.sent, 99, "b")


def replace_counts(receipt: Receipt, name: str, count: int) -> Receipt:
    return receipt._replace(counts={**receipt.counts, name: count}, target=name)


def test_a_link_that_breaks_and_comes_back_goes_on_where_it_was() -> None:
    play = Linked("ab").together("ab")
    for _ in range(5):
        play.send("a")
    play.passes(1)
    play.cuts("ab")
    for _ in range(5):
        play.send("a")
    play.passes(2)
    play.seen.clear()
    assert play.ends_well() == ""
    assert len(play.bodies()) == 5
    assert play.packets["garbage"] == 0


def test_two_who_have_no_link_hear_of_each_other_through_a_third() -> None:
    play = Linked("abc").together("abc")
    play.cuts("ab")
    for _ in range(30):
        play.send("a")
        play.send("b")
        play.passes(0.1)
    play.passes(15)
    assert play.unsettled() == ""


def test_settings_of_windows_are_checked() -> None:
    with pytest.raises(Exception, match="window"):
        replace(GroupSettings(), window=0)


def test_a_joiner_asks_every_process_that_it_has_a_link_to() -> None:
    """And does not wait for a contact that is dead."""
    play = Linked("abz").together("ab")
    play.crash("a")
    play.passes(1)
    play.join("z")
    play.passes(0.5)
    assert play.me("z") == "z"


def test_one_leaves_after_another_and_all_go_in_good_order() -> None:
    """The last to go tells those who have left before and have not heard yet that they may go."""
    play = Linked("abcde").together("abcde")
    for name in "edcba":
        for other in "abcde":
            if play.me(other):
                play.send(other)
        play.leaves(name)
        play.passes(0.03)
    play.passes(10)
    assert play.not_out("abcde") == ""


def test_a_joiner_is_told_again_what_it_was_told_before_it_had_its_state() -> None:
    """Others deliver its join and greet it while its state is on the way: no incarnation is there yet to hear
    it."""
    play = Linked("abc").together("ab")
    late: list[GroupPacket] = []

    def slow(sender: str, receiver: str, packet: GroupPacket) -> GroupPacket | None:
        if isinstance(packet, Piece) and not late:
            late.append(packet)
            play.at(play.now + 300_000, lambda: play._bring(sender, receiver, packet, None))
            return None
        return play._watch(sender, receiver, packet)

    play.filter = slow
    play.join("c")
    play.passes(0.6)
    assert late
    assert play.member("c").me == "c"
    play.send("c")
    play.passes(0.1)
    assert [play.member(name).ledger.count("c") for name in "ab"] == [1, 1]


def test_a_leaver_hears_from_the_last_to_have_its_leave_at_once() -> None:
    """That one has heard that all others have it, so the leaver is gone there the moment it has left."""
    play = Linked("abc").together("abc")
    play.send("c")
    play.passes(5)

    def detour(sender: str, receiver: str, packet: GroupPacket) -> GroupPacket | None:
        if isinstance(packet, Flow) and (sender, receiver) == ("c", "b"):
            play.at(play.now + 300_000, lambda: play._bring("c", "b", packet, None))
            return None
        return play._watch(sender, receiver, packet)

    play.filter = detour
    play.leaves("c")
    play.passes(0.5)
    assert play.processes["c"].node is not None
    assert play.processes["c"].node.status == "outside"


def test_who_is_past_is_told_once_over_each_link_and_all_of_it_to_one_who_is_new() -> None:
    """Else each receipt would name every process that ever left."""
    names = "cdefghijklmn"
    play = Linked(f"ab{names}z").together("ab")
    for name in names:
        play.join(name)
        play.passes(3)
        play.leaves(name)
        play.passes(3)
    for _ in range(2):  # the first may have news
        play.seen.clear()
        play.send("a")
        play.passes(3)
    told = [packet.past for _, _, packet in play.seen if isinstance(packet, Receipt) and packet.target]
    assert told
    assert not any(told)
    play.join("z")
    play.passes(3)
    past = tuple([(name, 1, 1) for name in names])
    assert play.member("z").view.past.all == play.member("b").view.past.all == past
    last = play.member("z")._peers.of("b", play.now).last
    assert last is not None
    assert last.past == past
    assert play.unsettled() == ""


def test_a_joiner_asks_each_member_once_however_many_links_come_up() -> None:
    names = "abcdefghijkl"
    play = Linked(f"{names}z").together(names)
    play.cuts(*[f"z{name}" for name in names])
    play.join("z")
    play.passes(0.1)
    play.heals()
    play.seen.clear()
    play.passes(1)
    asked = [(receiver, packet) for _, receiver, packet in play.seen if isinstance(packet, JoinRequest)]
    assert len(asked) <= len(names) + 2, (
        "to each, to the first contact before there is a link, and for the state"
    )
    assert play.member("z").me == "z"


@pytest.mark.parametrize(("collect_from", "leaves_within_s"), [(99, 0.15), (17, 0.5)])
def test_who_comes_or_goes_is_told_at_once_and_the_others_with_the_next_receipts(
    collect_from: int, leaves_within_s: float
) -> None:
    """If every member told every other one at once, a change would cost the square of the group's size, each
    time. Where there is a collector, a leaver hears by way of it that all have its leave, an interval
    later."""
    names = "abcdefghijklmnopqrst"
    settings = GroupSettings(receipt_every_us=200_000, collect_from=collect_from)
    play = Linked(f"{names}yz", settings).together(names)
    comings: list[Callable[[], None]] = [
        lambda: play.join("y"),
        lambda: play.join("z"),
        lambda: play.leaves("b"),
    ]
    for change in comings:
        play.passes(5)
        play.seen.clear()
        change()
        play.passes(0.15)
        receipts = [packet for _, _, packet in play.seen if isinstance(packet, Receipt) and packet.target]
        assert len(receipts) < len(names) ** 2 // 2
    assert play.member("z").me == "z"
    play.passes(leaves_within_s - 0.15)
    assert play.processes["b"].node is not None
    assert play.processes["b"].node.status == "outside"
    play.passes(5)
    assert play.unsettled() == ""


def test_a_window_that_is_used_up_waits_for_no_clock() -> None:
    play = Linked(
        "ab", GroupSettings(window=4, receipt_every_us=1_000_000, receipt_busy_us=1_000_000)
    ).together("ab")
    play.passes(5)
    for _ in range(40):
        play.send("a")
    play.passes(0.5)
    assert play.member("b").ledger.count("a") == play.member("a").ledger.sent >= 40
