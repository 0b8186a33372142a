"""Unit: one node's views, step by step."""

from itertools import pairwise
from random import Random

import pytest

from thence.core.errors import UsageError
from thence.core.machine import Transmit, Wake
from thence.core.overlay import (
    LEAVING,
    REPLACED,
    Accept,
    Disconnect,
    ForwardJoin,
    Join,
    MembersPacket,
    Neighbour,
    Refuse,
    Shuffle,
    ShuffleReply,
)
from thence.members.hyparview import HyParView
from thence.members.views import (
    Close,
    Connect,
    MembersEffect,
    NeighbourDown,
    NeighbourUp,
    ViewSettings,
)

ME = 0
SMALL = ViewSettings(active=2, passive=4)


def node(*contacts: int, settings: ViewSettings | None = None) -> HyParView:
    return HyParView(ME, Random(1), contacts, settings or SMALL)


def sent(effects: list[MembersEffect]) -> list[tuple[int, object]]:
    return [(effect.peers[0], effect.packet) for effect in effects if isinstance(effect, Transmit)]


def without_wakes(effects: list[MembersEffect]) -> list[MembersEffect]:
    return [effect for effect in effects if not isinstance(effect, Wake)]


def with_neighbours(*peers: int, settings: ViewSettings | None = None) -> HyParView:
    machine = node(settings=settings)
    for peer in peers:
        machine.up(peer, 0)
        machine.receive(peer, Neighbour(False), 0)
    assert machine.active == peers
    return machine


def wakes(machine: HyParView, now: int, until: int) -> list[tuple[int, MembersEffect]]:
    """Everything that it asks for by itself, with the time."""
    found: list[tuple[int, MembersEffect]] = []
    while now <= until:
        found += [(now, effect) for effect in without_wakes(machine.wake(now))]
        now += 50_000
    return found


def test_a_newcomer_opens_a_link_and_asks_to_be_let_in() -> None:
    machine = node(7)
    assert without_wakes(machine.start(0)) == [Connect(7)]
    assert sent(machine.up(7, 100)) == [(7, Join())]
    assert without_wakes(machine.receive(7, Accept(), 200)) == [NeighbourUp(7)]
    assert machine.active == (7,)


def test_the_first_node_is_alone_and_silent() -> None:
    machine = node()
    assert [type(effect) for effect in machine.start(0)] == [Wake]
    assert wakes(machine, 0, 30_000_000) == []


def test_a_join_is_accepted_and_passed_on_to_the_neighbours() -> None:
    machine = with_neighbours(3, settings=ViewSettings())
    machine.up(9, 10)
    effects = machine.receive(9, Join(), 10)
    assert sent(effects) == [(9, Accept()), (3, ForwardJoin(9, 6))]
    assert NeighbourUp(9) in effects


def test_the_acceptance_leaves_before_the_spread_is_told() -> None:
    """Whatever the spread sends over the link must come after it."""
    machine = node()
    machine.up(9, 0)
    effects = without_wakes(machine.receive(9, Neighbour(False), 0))
    assert isinstance(effects[0], Transmit)
    assert effects[1] == NeighbourUp(9)


def test_who_comes_to_a_full_view_in_need_takes_the_place_of_another() -> None:
    machine = with_neighbours(3, 4)
    machine.up(9, 0)
    effects = machine.receive(9, Neighbour(True), 0)
    [gone] = [effect.peer for effect in effects if isinstance(effect, NeighbourDown)]
    assert (gone, Disconnect(REPLACED, 9)) in sent(effects)
    assert Close(gone) in effects
    assert 9 in machine.active
    assert len(machine.active) == 2


def test_who_comes_to_a_full_view_without_need_is_refused() -> None:
    machine = with_neighbours(3, 4)
    machine.up(9, 0)
    assert sent(machine.receive(9, Neighbour(False), 0)) == [(9, Refuse())]
    assert machine.active == (3, 4)


def test_who_was_replaced_asks_the_one_that_took_its_place() -> None:
    """A newcomer is put between two neighbours: every node keeps as many as it had."""
    machine = with_neighbours(3, 4)
    effects = machine.receive(3, Disconnect(REPLACED, 9), 5)
    assert NeighbourDown(3) in effects
    assert Connect(9) in effects
    assert sent(machine.up(9, 10)) == [(9, Neighbour(False))]


def test_who_leaves_is_forgotten() -> None:
    machine = with_neighbours(3)
    machine.receive(3, Disconnect(LEAVING, 3), 5)
    machine.down(3, 6)
    assert machine.known == ()
    assert wakes(machine, 10, 60_000_000) == []


def test_a_contact_that_left_for_good_is_not_looked_for() -> None:
    """It would be asked again and again as one that a newcomer was told of and that may be behind a
    partition."""
    machine = node(7, settings=ViewSettings(active=3))
    machine.start(0)
    machine.up(7, 10)
    machine.receive(7, Accept(), 20)
    machine.up(3, 30)
    machine.receive(3, Neighbour(False), 30)
    machine.receive(7, Disconnect(LEAVING, 7), 40)
    machine.down(7, 50)
    assert not [effect for _, effect in wakes(machine, 60, 60_000_000) if effect == Connect(7)]
    assert 7 not in machine.known


def test_leaving_is_told_to_all() -> None:
    machine = with_neighbours(3, 4)
    assert sent(machine.leave(5)) == [(3, Disconnect(LEAVING, ME)), (4, Disconnect(LEAVING, ME))]
    assert machine.known == ()


def test_a_walk_ends_with_an_offer_to_the_newcomer() -> None:
    machine = with_neighbours(3, 4, settings=ViewSettings())
    effects = machine.receive(3, ForwardJoin(9, 0), 5)
    assert without_wakes(effects) == [Connect(9)]
    assert sent(machine.up(9, 6)) == [(9, Neighbour(False))]


def test_a_walk_goes_on_to_another_node_and_leaves_a_name_on_its_way() -> None:
    machine = with_neighbours(3, 4, settings=ViewSettings())
    assert sent(machine.receive(3, ForwardJoin(9, 3), 5)) == [(4, ForwardJoin(9, 2))]
    assert 9 in machine.known


def test_a_lost_neighbour_is_replaced_at_once_by_a_name_in_reserve() -> None:
    machine = with_neighbours(3, 4)
    machine.receive(3, ShuffleReply((7,)), 5)
    effects = machine.down(4, 10)
    assert NeighbourDown(4) in effects
    assert Connect(7) in effects


def test_a_lost_neighbour_is_looked_for_ever_more_rarely_and_for_ever() -> None:
    machine = with_neighbours(3, 4, settings=ViewSettings())
    machine.down(4, 0)
    tries = []
    now = 0
    while now < 200_000_000:
        for effect in machine.wake(now):
            if effect == Connect(4):
                tries.append(now)
                machine.down(4, now + 1000)
        now += 50_000
    gaps = [later - earlier for earlier, later in pairwise(tries)]
    assert tries[0] < 1_000_000
    assert gaps[0] < 3_000_000
    assert len(tries) > 15
    assert max(gaps) < 12_100_000 + 2_000_000


def test_a_lost_neighbour_that_is_found_is_not_refused() -> None:
    """Both views may be full by then; if neither made room, two halves would stay apart."""
    machine = with_neighbours(3, 4)
    machine.down(4, 0)
    machine.up(5, 1)
    machine.receive(5, Neighbour(False), 1)
    [(at, _)] = [found for found in wakes(machine, 0, 1_500_000) if found[1] == Connect(4)]
    assert sent(machine.up(4, at)) == [(4, Neighbour(True))]


def test_a_contact_that_could_not_be_reached_is_looked_for_although_others_were() -> None:
    machine = node(7)
    machine.start(0)
    machine.down(7, 100)
    machine.up(8, 200)
    machine.receive(8, Neighbour(True), 200)
    assert Connect(7) in [effect for _, effect in wakes(machine, 200, 5_000_000)]


def test_a_node_that_is_alone_tries_all_it_ever_knew() -> None:
    machine = with_neighbours(3, settings=ViewSettings())
    machine.receive(3, ShuffleReply((7,)), 5)
    machine.down(3, 10)
    machine.down(7, 20)
    tried = set()
    now = 20
    while now < 120_000_000:
        for effect in machine.wake(now):
            if isinstance(effect, Connect):
                tried.add(effect.peer)
                machine.down(effect.peer, now + 10)
        now += 50_000
    assert 3 in tried


def test_a_silent_peer_is_given_up_and_another_one_asked() -> None:
    machine = with_neighbours(3)
    machine.receive(3, ShuffleReply((7, 8)), 5)
    first = [effect.peer for effect in machine.down(3, 10) if isinstance(effect, Connect)]
    later = [effect.peer for _, effect in wakes(machine, 10, 10_000_000) if isinstance(effect, Connect)]
    assert {7, 8} <= {*first, *later}


def test_a_shuffle_is_answered_with_as_many_names_and_both_keep_what_they_got() -> None:
    machine = with_neighbours(3, settings=ViewSettings())
    machine.receive(3, ShuffleReply((5, 6)), 5)
    effects = machine.receive(3, Shuffle(9, 0, (7, 8)), 10)
    assert without_wakes(effects) == [Connect(9)]
    [(to, reply)] = sent(machine.up(9, 20))
    assert to == 9
    assert isinstance(reply, ShuffleReply)
    assert set(reply.nodes) == {5, 6}
    assert {5, 6, 7, 8, 9} <= set(machine.known)


def test_a_link_for_one_answer_is_closed_after_it() -> None:
    machine = with_neighbours(3, settings=ViewSettings())
    machine.receive(3, ShuffleReply((5, 6)), 5)
    machine.receive(3, Shuffle(9, 0, (7, 8)), 10)
    assert without_wakes(machine.up(9, 20))[-1] == Close(9)


@pytest.mark.parametrize("seed", range(30))
def test_views_are_bounded_and_hold_no_node_twice_whatever_comes(seed: int) -> None:
    random = Random(seed)
    settings = ViewSettings(active=3, passive=5)
    machine = HyParView(ME, random, (1, 2), settings)
    up: dict[int, None] = {}
    neighbours: dict[int, None] = {}
    now = 0

    def look(effects: list[MembersEffect]) -> None:
        for effect in effects:
            if isinstance(effect, NeighbourUp):
                assert effect.peer not in neighbours, "twice: announced again"
                assert effect.peer in up, "up: without a link"
                neighbours[effect.peer] = None
            elif isinstance(effect, NeighbourDown):
                del neighbours[effect.peer]
            elif isinstance(effect, Close):
                assert effect.peer not in neighbours, "closed: a neighbour's link"
                del up[effect.peer]
            elif isinstance(effect, Transmit):
                assert effect.peers[0] in up, "sent: without a link"
        assert machine.active == tuple(neighbours)
        assert len(machine.active) <= settings.active
        assert len(machine.known) <= settings.active + settings.passive + settings.lost + 2
        assert ME not in machine.known

    look(machine.start(now))
    for _ in range(300):
        now += random.randrange(400_000)
        peer = random.randrange(1, 12)
        dice = random.random()
        if dice < 0.2:
            effects = machine.wake(now)
            assert all(effect.at > now for effect in effects if isinstance(effect, Wake)), "busy: never rests"
            look(effects)
        elif peer not in up:
            if dice < 0.8:
                up[peer] = None
                look(machine.up(peer, now))
            else:
                look(machine.down(peer, now))
        elif dice < 0.4:
            del up[peer]
            look(machine.down(peer, now))
        else:
            nodes = tuple(random.sample(range(12), 3))
            packets: list[MembersPacket] = [
                Join(), ForwardJoin(nodes[0], random.randrange(7)), Neighbour(True), Neighbour(False),
                Accept(), Refuse(), Disconnect(REPLACED, nodes[0]), Disconnect(LEAVING, peer),
                Shuffle(nodes[0], random.randrange(3), nodes), ShuffleReply(nodes),
            ]  # fmt: skip
            look(machine.receive(peer, random.choice(packets), now))


def test_after_lost_wake_ups_and_answers_a_node_asks_again() -> None:
    machine = node(7)
    machine.start(0)  # a driver that could not write has dropped what came of it
    effects = machine.resume(10_000_000)
    assert [type(effect) for effect in effects if isinstance(effect, Wake)] == [Wake]
    later = [effect for _, effect in wakes(machine, 10_000_000, 20_000_000)]
    assert Connect(7) in [*effects, *later]


def test_a_contact_that_becomes_known_later_is_asked() -> None:
    machine = HyParView(0, Random(1))
    machine.start(0)
    assert without_wakes(machine.meet(9, 10)) == [Connect(9)]
    assert sent(machine.up(9, 20)) == [(9, Join())]
    assert without_wakes(machine.meet(9, 30)) == [], "it is known"


def test_one_that_is_met_is_asked_urgently_though_views_are_full() -> None:
    """It may be of another overlay, of which no neighbour knows."""
    machine = with_neighbours(1, 2)
    assert machine.meet(9, 0)
    asked = wakes(machine, 0, 1_000_000)
    assert [effect for _, effect in asked if isinstance(effect, Connect)][:1] == [Connect(9)]
    assert sent(machine.up(9, 1_000_000)) == [(9, Neighbour(True))]
    machine.receive(9, Accept(), 1_100_000)
    assert 9 in machine.active
    assert not machine.meet(2 if 2 not in machine.active else 1, 1_200_000), "known by name"


def test_one_that_refused_and_is_gone_is_not_asked_over_and_over() -> None:
    """A connection to a process that has died fails at once: a node that asks again at once has no rest."""
    machine = with_neighbours(3, settings=ViewSettings())
    machine.receive(3, ShuffleReply((9,)), 0)
    machine.up(9, 0)
    machine.receive(9, Refuse(), 0)
    asked = 0
    effects = machine.down(9, 1)
    for _ in range(20):
        if Connect(9) not in effects:
            break
        asked += 1
        effects = machine.down(9, 1)
    assert asked < 3


@pytest.mark.parametrize(
    "wrong",
    [{"active": 0}, {"active": 9, "passive": 8}, {"lost": 0}, {"answer_us": 0}, {"retry_first_us": 0}],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        ViewSettings(**wrong)
