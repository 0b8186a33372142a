"""Who founds: decided from answers alone. A few named stories, then all graphs of names at random."""

from collections.abc import Mapping
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.core.errors import PeerError, UsageError
from thence.runtime.address import Address
from thence.runtime.election import (
    Answer,
    Founded,
    FounderElection,
    Members,
    Open,
    Seeking,
    put_answer,
    take_answer,
)


def at(number: int) -> Address:
    return Address("127.0.0.1", 7000 + number)


World = Mapping[int, tuple[int, ...]]
"""Who is there, by number, and whom it names. Node n is called `n<n>`."""


def survey(
    world: World, me: int, answers: dict[int, Answer] | None = None, keeps: int = 0, hasty: bool = False
) -> FounderElection:
    """A finished round of `me`."""
    result = FounderElection(f"n{me}", at(me), [at(n) for n in world[me]], keeps, hasty)
    while queue := result.to_ask():
        for address in queue:
            number = address.port - 7000
            if answers and number in answers:
                result.heard(address, answers[number])
            elif number in world:
                names = tuple(at(n) for n in world[number])
                result.heard(address, Seeking(f"n{number}", address, names))
            else:
                result.missed(address, "no answer")
    return result


def group(*numbers: int) -> Members:
    return tuple((f"n{n}", at(n)) for n in numbers)


def founds(number: int) -> Open:
    """The verdict of one that is to found the group."""
    return Open(group(number), 0)


def test_all_name_each_other_and_the_smallest_founds() -> None:
    world = {1: (2, 3), 2: (1, 3), 3: (1, 2)}
    assert survey(world, 1).verdict() == founds(1)
    assert survey(world, 2).verdict() is None
    assert survey(world, 2).obstacles() == ["n1 at 127.0.0.1:7001 is to found the group"]


def test_names_may_lead_around_a_ring() -> None:
    world = {1: (2,), 2: (3,), 3: (1,)}
    assert survey(world, 1).verdict() == founds(1)


def test_naming_oneself_changes_nothing() -> None:
    world = {1: (1, 2), 2: (1, 2)}
    assert survey(world, 1).verdict() == founds(1)
    assert survey({1: (1,)}, 1).verdict() == founds(1)


def test_one_that_does_not_answer_is_waited_for() -> None:
    found = survey({1: (2,), 2: (1, 3)}, 1)
    assert found.verdict() is None
    assert found.obstacles() == ["127.0.0.1:7003 does not answer: no answer"]


def test_one_that_no_node_names_founds_nothing() -> None:
    """Else it would found a group while one of the others founds another."""
    world = {1: (2,), 2: (3,), 3: (2,)}
    found = survey(world, 1)
    assert found.verdict() is None
    assert found.obstacles() == [
        "n2 at 127.0.0.1:7002 does not name this node",
        "n3 at 127.0.0.1:7003 does not name this node",
    ]
    assert survey(world, 2).verdict() == founds(2)


def test_a_member_that_answers_is_joined_through_whatever_others_wait() -> None:
    """Its number goes on from the highest that any of them knows: it may have lost its disk."""
    world = {2: (1, 3, 4), 4: (2,)}
    answers: dict[int, Answer] = {1: Open(group(1, 3), 4), 3: Open(group(1, 2, 3), 7)}
    assert survey(world, 2, answers).verdict() == Open(group(1, 3), 7)


def test_a_group_that_has_a_member_of_this_name_elsewhere_is_an_error() -> None:
    members = (*group(1), ("n2", at(9)))
    with pytest.raises(UsageError, match=r"a member n2 at 127.0.0.1:7009, this node is at 127.0.0.1:7002"):
        survey({2: (1,)}, 2, {1: Open(members, 1)}).verdict()


def test_a_fixed_group_is_an_error_even_if_it_lists_this_node() -> None:
    with pytest.raises(UsageError, match="the group is closed, no other node can join it: it is n1 at"):
        survey({2: (1, 3)}, 2, {1: Founded(group(1, 2)), 3: Open(group(3), 0)}).verdict()


def test_after_a_power_cut_the_node_that_keeps_most_founds_the_group_anew() -> None:
    """One that was never a member would found a group that knows nothing of the old one."""
    world = {1: (2, 3), 2: (1, 3), 3: (1, 2)}
    answers: dict[int, Answer] = {
        n: Seeking(f"n{n}", at(n), tuple(at(m) for m in world[n]), keeps) for n, keeps in ((2, 5), (3, 9))
    }
    assert survey(world, 1, answers).obstacles() == ["n3 at 127.0.0.1:7003 is to found the group"]
    assert survey(world, 2, answers, keeps=5).verdict() is None
    assert survey(world, 3, answers, keeps=9).verdict() == founds(3)


def test_one_that_keeps_something_does_not_wait_for_the_absent_for_ever() -> None:
    world = {2: (1, 3), 3: (1, 2)}
    answers: dict[int, Answer] = {3: Seeking("n3", at(3), (at(1), at(2)), 4)}
    assert survey(world, 2, answers, keeps=5).obstacles() == ["127.0.0.1:7001 does not answer: no answer"]
    assert survey(world, 2, answers, keeps=5, hasty=True).verdict() == founds(2)
    assert survey(world, 2, answers, keeps=0, hasty=True).verdict() is None, "it has nothing to go on with"


def test_two_of_one_name_hold_all_up() -> None:
    twin = Seeking("n2", at(3), (at(1), at(2)))
    found = survey({1: (2, 3), 2: (1, 3), 3: ()}, 1, {3: twin})
    assert found.verdict() is None
    assert found.obstacles() == ["two nodes are called n2: at 127.0.0.1:7002 and at 127.0.0.1:7003"]


def test_two_names_at_one_address_hold_all_up() -> None:
    other = Seeking("other", at(2), (at(1),))
    found = survey({1: (2, 3), 2: (1,), 3: ()}, 1, {3: other})
    assert found.verdict() is None
    assert "other and n2 both say that they are at" in found.obstacles()[0]


def test_an_address_may_have_another_spelling() -> None:
    local = Address("localhost", 7002)
    found = FounderElection("n1", at(1), [local])
    assert found.to_ask() == [local]
    found.heard(local, Seeking("n2", at(2), (Address("localhost", 7001),)))
    assert found.to_ask() == [at(2), Address("localhost", 7001)]
    found.heard(at(2), Seeking("n2", at(2), (Address("localhost", 7001),)))
    found.is_me(Address("localhost", 7001))
    assert found.verdict() == founds(1)


def test_names_without_end_are_not_followed_for_ever() -> None:
    found = FounderElection("n1", at(1), [at(2)])
    asked = 0
    while queue := found.to_ask():
        for address in queue:
            asked += 1
            found.heard(address, Seeking(f"n{asked}", address, tuple(at(asked * 10 + n) for n in range(10))))
    assert asked < 1000
    assert found.verdict() is None


GRAPHS = st.integers(1, 6).flatmap(
    lambda size: st.fixed_dictionaries(
        {n: st.lists(st.integers(0, size), max_size=size, unique=True).map(tuple) for n in range(size)}
    )
)


@given(GRAPHS)
def test_whatever_names_are_given_no_node_waits_for_two_founders(world: World) -> None:
    founders = [n for n in world if survey(world, n).verdict() is not None]
    for founder in founders:
        reached, edge = {founder}, [founder]
        while edge:
            new = [n for n in world[edge.pop()] if n not in reached]
            reached.update(new)
            edge += new
        assert [n for n in founders if n in reached] == [founder]


ANSWERS = st.one_of(
    st.sets(st.integers(0, 50)).map(lambda ns: Founded(tuple(sorted(group(*ns))))),
    st.builds(
        Open, st.sets(st.integers(0, 50)).map(lambda ns: tuple(sorted(group(*ns)))), st.integers(0, 1 << 40)
    ),
    st.builds(
        Seeking,
        st.text("abc", min_size=1),
        st.integers(0, 50).map(at),
        st.lists(st.sampled_from([at(1), Address("::1", 7), Address("some.host", 1)])).map(tuple),
        st.integers(0, 1 << 40),
    ),
)


@given(ANSWERS)
def test_an_answer_is_read_as_it_was_written(answer: Answer) -> None:
    assert take_answer(put_answer(answer)) == answer


@given(ANSWERS, st.integers(0, 10_000), st.integers(0, 255))
def test_a_damaged_answer_is_a_peers_error_or_another_answer(answer: Answer, place: int, byte: int) -> None:
    data = bytearray(put_answer(answer))
    data[place % len(data)] = byte
    with suppress(PeerError):
        take_answer(bytes(data))
    with pytest.raises(PeerError):
        take_answer(put_answer(answer) + b"\x00")
    with pytest.raises(PeerError):
        take_answer(put_answer(answer)[:-1])


def test_a_group_in_disorder_is_refused() -> None:
    for members in (group(2, 1), (("n1", at(1)), ("n1", at(2)))):
        with pytest.raises(PeerError, match="disorder"):
            take_answer(put_answer(Founded(members)))
