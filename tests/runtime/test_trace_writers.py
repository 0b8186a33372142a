"""Traces of incarnations: what is told again after a crash is written once, and who is gone gets an end."""

from pathlib import Path

import msgspec

from thence.runtime.trace_files import TraceWriters, has_ended, next_boot, traced
from thence.trace.recorder import (
    CRASH,
    DELIVER,
    DUPLICATE,
    EVICT,
    HOLD,
    INSTALL,
    LEAVE,
    RESTART,
    SEND,
    STABLE,
    START,
)
from thence.trace.schema import Event


def write(diaries: TraceWriters) -> None:
    for trace, data in diaries.take():
        trace.write(data)


def rows(folder: Path) -> list[tuple[str, str, str | None, int | None]]:
    """Of all files in order of their names: node, kind, origin and counter; a torn end left out."""
    found = []
    for file in sorted(folder.iterdir()):
        for line in file.read_bytes().split(b"\n")[:-1]:
            event = msgspec.json.decode(line, type=Event)
            found.append((event.node, event.kind, event.origin, event.seq))
    return found


def story(diaries: TraceWriters, upto: int) -> None:
    """The first rows of a life; told again from the log after a restart."""
    a = diaries("a")
    told = [
        (START, None, None), (SEND, ("a", 1), ()), (DELIVER, ("b", 1), None), (SEND, ("a", 2), (("b", 1),)),
        (STABLE, ("a", 1), None), (DELIVER, ("b", 2), None), (EVICT, ("c", 0), None),
    ]  # fmt: skip
    for kind, about, deps in told[:upto]:
        a.row(kind, about, deps, 0)


def test_what_a_crash_cut_off_is_told_from_the_log_and_nothing_twice(tmp_path: Path) -> None:
    before = TraceWriters(tmp_path, 1)
    story(before, 4)
    write(before)
    before.close()
    [file] = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-5])  # the last row was torn
    after = TraceWriters(tmp_path, 2)
    story(after, 7)
    after("a").row(RESTART, None, (("a", 2), ("b", 2)), 0)
    write(after)
    after.close()
    told = rows(tmp_path)
    assert [row[1:] for row in told] == [
        ("start", None, None), ("send", "a", 1), ("deliver", "b", 1), ("send", "a", 2),
        ("stable", "a", 1), ("deliver", "b", 2), ("evict", "c", 0), ("restart", None, None),
    ]  # fmt: skip


def test_rows_for_metrics_are_written_each_time_and_in_any_order(tmp_path: Path) -> None:
    """A message may come any number of times, and wait again after what was pending was dropped."""
    diaries = TraceWriters(tmp_path, 1)
    story(diaries, 3)
    for kind, seq in ((HOLD, 3), (HOLD, 2), (DUPLICATE, 1), (DUPLICATE, 1), (HOLD, 3)):
        diaries("a").row(kind, ("b", seq), None, 0)
    write(diaries)
    diaries.close()
    assert [row[1:] for row in rows(tmp_path)[3:]] == [
        ("hold", "b", 3), ("hold", "b", 2), ("duplicate", "b", 1), ("duplicate", "b", 1), ("hold", "b", 3),
    ]  # fmt: skip


def test_the_first_row_of_each_file_says_which_process_and_incarnation_it_is(tmp_path: Path) -> None:
    """Also where the first step was not committed, and of a file that only ends a life."""
    diaries = TraceWriters(tmp_path, 3)
    for _ in range(2):
        diaries.take_back()
        diaries("b%~12").row(START, None, None, 0)
        diaries("b%~12").row(SEND, ("b%~12", 1), (), 0, (("-", 0),))
        diaries("b%~12").row(SEND, ("b%~12", 2), (), 0, (("b%", 7), ("a", 1)))
    diaries.end_others("b%", "b%~12", 0)
    write(diaries)
    diaries("b%~12").row(DELIVER, ("a", 2), None, 0)
    write(diaries)
    diaries.close()
    ended = TraceWriters(tmp_path, 4)
    ended.end_others("b%", "", 0)
    write(ended)
    ended.close()
    told = [
        (event.kind, event.process, event.incarnation, [str(dot) for dot in event.carries or []])
        for file in sorted(tmp_path.iterdir())
        for event in msgspec.json.Decoder(Event).decode_lines(file.read_bytes())
    ]
    assert told == [
        ("start", "b%", 12, []), ("send", None, None, ["-:0"]), ("send", None, None, ["b%:7", "a:1"]),
        ("deliver", None, None, []), ("crash", "b%", 12, []),
    ]  # fmt: skip


def test_each_state_that_brings_something_new_is_told_and_none_twice(tmp_path: Path) -> None:
    """Over a tree without tags an incarnation begins with an `install`, and takes over states later on."""
    first, second = (("a", 4), ("b", 2)), (("a", 4), ("b", 7), ("c", 1))
    before = TraceWriters(tmp_path, 1)
    before("b~2").row(INSTALL, None, first, 0)
    before("b~2").row(DELIVER, ("a", 5), None, 0)
    write(before)
    before("b~2").row(INSTALL, None, second, 0)
    before.take_back()  # it could not be kept
    before("b~2").row(INSTALL, None, second, 0)
    write(before)
    before.close()
    after = TraceWriters(tmp_path, 2)
    for frontier in (first, second, (("b", 6),), (("a", 4), ("b", 8))):
        after("b~2").row(INSTALL, None, frontier, 0)
    write(after)
    after.close()
    told = [
        (event.kind, [str(dot) for dot in event.deps or []])
        for file in sorted(tmp_path.iterdir())
        for event in msgspec.json.Decoder(Event).decode_lines(file.read_bytes())
    ]
    assert told == [
        ("install", ["a:4", "b:2"]), ("deliver", []), ("install", ["a:4", "b:7", "c:1"]),
        ("install", ["a:4", "b:8"]),
    ]  # fmt: skip


def test_a_step_that_was_not_committed_leaves_no_row_and_may_be_told_again(tmp_path: Path) -> None:
    diaries = TraceWriters(tmp_path, 1)
    story(diaries, 3)
    write(diaries)
    story(diaries, 7)
    diaries.take_back()
    assert diaries.take() == []
    story(diaries, 5)
    write(diaries)
    diaries.close()
    assert [row[1] for row in rows(tmp_path)] == ["start", "send", "deliver", "send", "stable"]


def test_a_trace_that_begins_late_begins_with_a_restart(tmp_path: Path) -> None:
    """The node was run without one: what its log tells of that time has no beginning here."""
    diaries = TraceWriters(tmp_path, 3)
    diaries("a").row(SEND, ("a", 9), (), 0)
    diaries("a").row(RESTART, None, (("a", 9),), 0)
    diaries("a").row(SEND, ("a", 10), (), 0)
    write(diaries)
    diaries.close()
    assert [row[1:] for row in rows(tmp_path)] == [("restart", None, None), ("send", "a", 10)]


def test_incarnations_that_do_not_run_are_ended_once(tmp_path: Path) -> None:
    before = TraceWriters(tmp_path, 1)
    for member, last in (("a", SEND), ("a~2", LEAVE), ("a~3", INSTALL), ("ab", SEND), ("b", SEND)):
        before(member).row(START, None, None, 0)
        before(member).row(last, (member, 1) if last == SEND else None, None, 0)
    write(before)
    before.close()
    assert traced(tmp_path, "a") == ["a", "a~2", "a~3"]
    for boot in (2, 3):
        after = TraceWriters(tmp_path, boot)
        after.end_others("a", "a~3", 0)
        write(after)
        after.close()
    assert [row[0] for row in rows(tmp_path) if row[1] == "crash"] == ["a"]
    assert has_ended(tmp_path, "a~2")
    assert not has_ended(tmp_path, "a~3")


def test_a_trace_goes_on_under_a_boot_that_no_disk_has_counted(tmp_path: Path) -> None:
    """A process that lost its disk counts from one again."""
    assert next_boot(tmp_path, "a", 0) == 1
    for member, boot in (("a", 1), ("a", 2), ("a~2", 5), ("a~9", 1), ("b", 7)):
        diaries = TraceWriters(tmp_path, boot)
        diaries(member).row(START, None, None, 0)
        write(diaries)
        diaries.close()
    assert next_boot(tmp_path, "a", 1) == 6
    assert next_boot(tmp_path, "a", 8) == 9


def test_without_a_folder_nothing_is_written() -> None:
    diaries = TraceWriters(None, 1)
    story(diaries, 7)
    diaries("a").row(CRASH, None, None, 0)
    diaries.end_others("a", "", 0)
    assert diaries.take() == []


def test_who_lost_its_disk_ends_its_former_incarnations_though_it_counts_boots_from_the_beginning(
    tmp_path: Path,
) -> None:
    before = TraceWriters(tmp_path, 1)
    before("a").row(START, None, None, 0)
    write(before)
    before.close()
    after = TraceWriters(tmp_path, 1)
    after("a~2").row(INSTALL, None, (), 1)
    after.end_others("a", "a~2", 1)
    write(after)
    after.close()
    assert has_ended(tmp_path, "a")
    assert sorted(rows(tmp_path)) == [
        ("a", "crash", None, None), ("a", "start", None, None), ("a~2", "install", None, None),
    ]  # fmt: skip


def test_every_row_has_the_run_s_name(tmp_path: Path) -> None:
    diaries = TraceWriters(tmp_path, 1, "first")
    story(diaries, 3)
    write(diaries)
    diaries.close()
    [file] = tmp_path.iterdir()
    assert [msgspec.json.decode(line)["run"] for line in file.read_bytes().splitlines()] == ["first"] * 3
