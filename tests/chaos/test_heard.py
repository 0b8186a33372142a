"""What programs without a state were told: when that is right, and that it is written down as it comes."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from thence.core.groups import Place
from thence.lab.chaos.heard import (
    FirstLine,
    HeardFile,
    Hearing,
    Line,
    Missed,
    Places,
    ToldLine,
    add_place,
    each,
    heard_file,
    read_heard,
    told_of,
)


def told(origin: str, *numbers: int) -> list[Line]:
    """Of each message, its number is what it adds to the tally."""
    return [ToldLine(seq, origin, seq, seq) for seq in numbers]


TOOK: Places = {"b": [(1, 3), (5, 6)], "b~2": [(2, 2)], "a": [(1, 9)]}
TALLY = {"b": (5, 17), "b~2": (1, 2), "a": (9, 45)}
ALL = [*told("b", 1, 2, 3, 5, 6), *told("b~2", 2)]


def heard(lines: Sequence[Line], **given: object) -> Hearing:
    hearing = Hearing(**given)  # type: ignore[arg-type]
    hearing.hear(lines)
    hearing.compare("a", TOOK, TALLY)
    return hearing


def test_places_are_kept_as_they_take_effect() -> None:
    places: Places = {}
    for seq in (1, 2, 4, 3):
        add_place(places, "b", seq)
    assert places == {"b": [(1, 2), (4, 4), (3, 3)]}
    assert list(each(places)) == [("b", 1), ("b", 2), ("b", 4), ("b", 3)]


def test_who_got_everything_but_its_own_got_what_it_should() -> None:
    hearing = heard(ALL)
    assert hearing.wrong == []
    assert told_of([hearing]) == (
        "1 program without a state got 6 messages, each once and in order; 0 Gaps for 0 more"
    )


def test_what_took_effect_before_a_program_came_is_not_missed() -> None:
    assert heard([FirstLine(0, {"b": [(1, 3)]}), *ALL[3:]]).wrong == []


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ([*ALL, ALL[-1]], "('b~2', 2) is told twice"),
        ([*told("b", 1, 3, 2, 5, 6), ALL[-1]], "('b', 2) is told after 3"),
        ([ALL[-1], *ALL[:-1]], "('b', 1) is told after messages of incarnation 2"),
        (ALL[:-1], "('b~2', 2) took effect and is neither told nor named in a Gap"),
        ([*ALL, *told("b~2", 7)], "('b~2', 7) is told and took no effect"),
        ([*ALL[:-1], ToldLine(0, "b~2", 2, 1)], "messages of b~2 are told with other contents"),
    ],
)
def test_what_is_wrong_is_told(lines: Sequence[Line], wrong: str) -> None:
    assert wrong in heard(lines).wrong


def test_what_processes_have_forgotten_may_come_late_over_incarnations_only() -> None:
    def may_follow(late: Place, early: Place) -> bool:
        assert early == ("b~2", 2)
        return late[0] == "b"

    assert heard([ALL[-1], *ALL[:-1]], may_follow=may_follow).wrong == []
    assert heard([*told("b", 1, 3, 2, 5, 6), ALL[-1]], may_follow=may_follow).wrong


def test_numbers_of_a_disk_that_was_put_back_stand_for_two_operations() -> None:
    assert heard([*told("b", 1, 2, 3), *ALL], put_back=["b"]).wrong == []


def test_a_gap_that_comes_in_time_names_what_is_missing() -> None:
    gap = Missed(0, {"b": 2}, {"b": 5})
    hearing = heard([*told("b", 1), gap, *told("b", 6), ALL[-1]])
    assert hearing.wrong == []
    assert "2 Gaps for 6 more" in told_of([hearing, hearing])


def test_a_gap_of_a_later_incarnation_names_more_than_one_of_this_one() -> None:
    """Round 3005: the program had read less than its node had delivered, and its contact knew nothing of the
    rest but that it is past."""
    gap = Missed(0, {"b": 1, "b~3": 1}, {"b": 2})
    assert heard([*told("b", 1), gap, *told("b", 6), ALL[-1]]).wrong == []


@pytest.mark.parametrize(
    "lines",
    [
        [*told("b", 1, 6), Missed(0, {"b": 2}, {"b": 5}), ALL[-1]],
        [*told("b", 1), Missed(0, {"b": 2}, {"b": 3}), *told("b", 6), ALL[-1]],
        [*told("b", 1), Missed(0, {"c": 1}, {}), *told("b", 6), ALL[-1]],
    ],
)
def test_a_gap_that_comes_late_or_names_others_excuses_nothing(lines: Sequence[Line]) -> None:
    assert "('b', 5) took effect and is neither told nor named in a Gap" in heard(lines).wrong


def test_of_an_origin_without_a_last_message_all_is_named_and_all_before_it() -> None:
    hearing = heard([Missed(0, {"b~2": 1}, {})])
    assert hearing.wrong == []
    assert (hearing.gaps, hearing.missed) == (1, 6)


def test_a_program_goes_on_after_the_last_line_that_it_wrote(tmp_path: Path) -> None:
    data = tmp_path / "a"
    record = HeardFile(data)
    assert record.position is None
    lines: list[Line] = [FirstLine(3, {"b": [(1, 1)]}), Missed(4, {"b": 2}, {}), ToldLine(5, "b", 3, 9)]
    for line in lines:
        record.write(line)
    record.close()
    again = HeardFile(data)
    assert again.position == 5
    again.close()
    assert read_heard(data) == lines
    assert heard_file(data).name == "a.heard"
    assert read_heard(tmp_path / "b") == []
