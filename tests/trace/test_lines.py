"""Rows of live nodes are lines that any reader of JSON understands."""

import json

import msgspec
import pytest

from thence.core.dots import pack
from thence.trace.lines import Lines
from thence.trace.recorder import DELIVER, HOLD, KINDS, RESTART, SEND, START, Recorder
from thence.trace.schema import Dot, Event


def events(data: bytes) -> list[Event]:
    assert data.endswith(b"\n")
    return msgspec.json.Decoder(Event).decode_lines(data)


def test_an_event_becomes_the_row_that_the_format_describes() -> None:
    lines: Recorder = (kept := Lines("a", ["a", "b"], 3, clock_us=1_000_000))
    lines.record(START, 0, 1)
    lines.record_deps(SEND, pack(0, 1), (), 2)
    lines.record(DELIVER, pack(1, 7), 3)
    lines.record_deps(SEND, pack(0, 2), (pack(1, 7),), 4)
    lines.record_deps(RESTART, 0, (pack(0, 2), pack(1, 7)), 5)
    first = 3 << 40
    assert len(kept) == 5
    assert events(kept.take_bytes()) == [
        Event(node="a", pos=first, kind="start", at_us=1_000_001),
        Event(node="a", pos=first + 1, kind="send", origin="a", seq=1, deps=[], at_us=1_000_002),
        Event(node="a", pos=first + 2, kind="deliver", origin="b", seq=7, at_us=1_000_003),
        Event(
            node="a", pos=first + 3, kind="send", origin="a", seq=2, deps=[Dot("b", 7)], at_us=1_000_004
        ),
        Event(
            node="a", pos=first + 4, kind="restart", deps=[Dot("a", 2), Dot("b", 7)], at_us=1_000_005
        ),
    ]  # fmt: skip


def test_what_was_taken_is_not_given_again_and_positions_go_on() -> None:
    lines = Lines("a", ["a"], 1)
    lines.record(START, 0, 0)
    assert len(events(lines.take_bytes())) == 1
    assert lines.take_bytes() == b""
    lines.record(HOLD, pack(0, 1), 0)
    assert [row.pos for row in events(lines.take_bytes())] == [(1 << 40) + 1]


@pytest.mark.parametrize("name", ['"', "\\", "a\x01b", "ü", "\u2028", "💡", "{", "a:1", "\x7f"])
def test_names_that_json_must_escape_come_back_as_they_were(name: str) -> None:
    lines = Lines(name, [name], 1)
    lines.record_deps(SEND, pack(0, 5), (pack(0, 4),), 0)
    data = lines.take_bytes()
    assert data.count(b"\n") == 1
    [row] = events(data)
    assert (row.node, row.origin, row.deps) == (name, name, [Dot(name, 4)])
    assert json.loads(data)["node"] == name


def test_members_may_come_while_it_runs() -> None:
    names = ["a"]
    lines = Lines("a", names, 1)
    lines.record(HOLD, pack(0, 1), 0)
    names.append("b")
    lines.record(DELIVER, pack(1, 1), 0)
    names.append("c")
    lines.record_deps(SEND, pack(0, 1), (pack(1, 1), pack(2, 1)), 0)
    rows = events(lines.take_bytes())
    assert [row.origin for row in rows] == ["a", "b", "a"]
    assert rows[2].deps == [Dot("b", 1), Dot("c", 1)]


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_every_kind_has_its_name(kind: int) -> None:
    lines = Lines("a", ["a"], 1)
    lines.record(kind, pack(0, 1), 0)
    lines.record_deps(kind, pack(0, 1), (), 0)
    assert [row.kind for row in events(lines.take_bytes())] == [KINDS[kind]] * 2


def test_a_run_s_name_is_in_every_row() -> None:
    lines = Lines("a", ["a"], 1, run='the "first"')
    lines.record(START, 0, 1)
    lines.record_deps(SEND, 1 << 20, (), 2)
    rows = [msgspec.json.decode(line, type=Event) for line in lines.take_bytes().splitlines()]
    assert [(row.run, row.node, row.kind) for row in rows] == [
        ('the "first"', "a", "start"),
        ('the "first"', "a", "send"),
    ]
