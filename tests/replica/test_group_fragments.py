"""Messages that are larger than a packet: cut and joined, within a window, whole or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.linked import Linked

from thence.core.errors import PeerError
from thence.core.group_codec import decode, encode
from thence.core.groups import Fragment, FragmentReceipt
from thence.replica.group.channel.directions import Assembling, Fragmenting
from thence.replica.group.settings import GroupSettings

MOST = 1 << 20


@given(
    st.lists(st.binary(min_size=1, max_size=500), min_size=1, max_size=5),
    st.integers(1, 90),
    st.integers(1, 300),
)
def test_messages_are_joined_as_they_were_cut_and_a_window_is_under_way_at_most(
    bodies: list[bytes], size: int, window: int
) -> None:
    out, into, came, found = Fragmenting(), Assembling(MOST), 0, []
    for body in bodies:
        out.begin(body)
        while out.busy:
            under_way = list(out.due(7, size, window))
            assert under_way, "it stands still"
            assert sum([len(fragment.data) for fragment in under_way]) < window + size
            for fragment in under_way:
                whole = into.add(fragment)
                found += [whole] if whole is not None else []
                came = into.came
                out.acknowledged(came)
    assert found == bodies
    assert came == sum(map(len, bodies))
    assert not into.busy


def test_nothing_leaves_beyond_the_window_until_it_is_acknowledged() -> None:
    out = Fragmenting()
    out.begin(bytes(100))
    assert [fragment.offset for fragment in out.due(1, 10, 30)] == [0, 10, 20]
    assert list(out.due(1, 10, 30)) == []
    out.acknowledged(10)
    assert [fragment.offset for fragment in out.due(1, 10, 30)] == [30]


@pytest.mark.parametrize("came", [0, 31, 1 << 40])
def test_who_acknowledges_what_was_never_sent_is_cut_off(came: int) -> None:
    out = Fragmenting()
    out.begin(bytes(100))
    assert len(list(out.due(1, 10, 30))) == 3
    with pytest.raises(PeerError, match="were sent"):
        out.acknowledged(came)


@pytest.mark.parametrize(
    "wrong",
    [
        Fragment(1, 20, 30, bytes(10)),  # one is missing
        Fragment(1, 0, 30, bytes(10)),  # the first once more
        Fragment(1, 10, 40, bytes(10)),  # of another message
        Fragment(1, 10, 30, bytes(21)),  # longer than the whole
        Fragment(1, 10, 30, b""),
    ],
)
def test_what_no_correct_peer_sends_is_refused(wrong: Fragment) -> None:
    into = Assembling(MOST)
    assert into.add(Fragment(1, 0, 30, bytes(10))) is None
    with pytest.raises(PeerError):
        into.add(wrong)


def test_a_message_that_no_log_takes_is_refused_with_its_first_byte() -> None:
    with pytest.raises(PeerError, match="more than 1048576 bytes"):
        Assembling(MOST).add(Fragment(1, 0, MOST + 1, b"x"))


def test_packets_come_back_as_they_went() -> None:
    for packet in (Fragment(9, 300, 70_000, b"data"), FragmentReceipt(9, 70_000)):
        data = encode(packet)
        assert decode(data) == packet
        with pytest.raises(PeerError):
            decode(b"\x01" + bytes([data[1]]) + b"\x05" + data[3:])


def test_another_message_between_two_fragments_is_refused() -> None:
    play = Linked("ab", GroupSettings(packet_bytes=100)).together("ab")
    member = play.member("b")
    link = member.links._links["a"]
    assert link.incoming is not None
    member.receiving.fragment("a", Fragment(link.incoming.number, 0, 500, bytes(100)), play.now)
    with pytest.raises(PeerError, match="before the one under way is whole"):
        link.incoming.read(b"")


def test_fragments_under_a_number_of_another_are_refused_and_under_an_old_one_passed_over() -> None:
    play = Linked("abc", GroupSettings(packet_bytes=100)).together("abc")
    member = play.member("b")
    link = member.links._links["a"]
    assert link.incoming is not None
    fragment = Fragment(link.incoming.number, 0, 500, bytes(100))
    with pytest.raises(PeerError, match="given to a"):
        member.receiving.fragment("c", fragment, play.now)
    member.receiving.fragment("a", fragment._replace(stream=99_999), play.now)
    assert not link.incoming.fragments.busy
    member.links.fragment_receipt("a", FragmentReceipt(99_999, 7))


def test_small_messages_travel_together_as_before() -> None:
    play = Linked("ab").together("ab")
    play.seen.clear()
    play.send("a", count=1)
    play.passes(1)
    assert not [packet for _, _, packet in play.seen if isinstance(packet, Fragment | FragmentReceipt)]


def test_a_large_message_costs_a_window_at_a_time() -> None:
    settings = GroupSettings(packet_bytes=1000, window_bytes=8000)
    play = Linked("ab", settings).together("ab")
    play.seen.clear()
    play.send("a", bytes(100_000))
    under_way = [packet for _, receiver, packet in play.seen if receiver == "b"]
    assert len(under_way) <= 9
    play.passes(5)
    fragments = [packet for _, _, packet in play.seen if isinstance(packet, Fragment)]
    assert 100 <= len(fragments) <= 102
    assert play.unsettled() == ""
    assert play.member("b").ledger.count("a") == play.member("a").ledger.sent
