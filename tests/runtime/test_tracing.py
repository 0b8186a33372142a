"""A live node's trace: killed anywhere, completed from the log, it is as if nothing had happened."""

import os
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest
from support.live_history import NAMES, Crash, History, Meddle, decode, read

from thence.check import judge
from thence.core.codec import Codec
from thence.core.dots import pack
from thence.core.errors import StorageError, TraceError, UsageError
from thence.core.message import Message
from thence.core.storage import DiskError
from thence.oplog.log import OpLog
from thence.oplog.settings import Settings
from thence.replica.durable import REGAINED, REGAINING
from thence.runtime import tracing
from thence.runtime.tracing import (
    BLOCK_BYTES,
    Earlier,
    LiveTrace,
    Row,
    earlier_rows,
    file_name,
    lines_backwards,
    missing_rows,
)
from thence.sim.disk import Disk
from thence.trace.recorder import DELIVER, SEND
from thence.trace.schema import Event

SETTINGS = {"whole": Settings(), "collected": Settings(segment_bytes=100)}


def as_they_are(rows: list[Row]) -> Iterable[Row]:
    return rows


def wrong(events: list[Event]) -> dict[str, int]:
    [verdict] = judge(events)
    return {name: count for name, count in verdict.violations.items() if count}


TOLD = ("send", "deliver")


def _row(row: Event) -> tuple[str, str | None, int | None]:
    return row.kind, row.origin, row.seq


def line_ends(data: bytes, start: int) -> list[int]:
    return [start] + [at + 1 for at in range(start, len(data)) if data[at : at + 1] == b"\n"]


class Cuts:
    """A history that runs well for a while, then a few steps of which nobody hears: the subject may be killed
    after any commit of those, or in it, with any part of their rows written."""

    def __init__(self, seed: int, settings: Settings, folder: Path) -> None:
        self.folder = folder
        self.history = History(folder / "before", seed, settings)
        for _ in self.history.steps(18):
            pass
        self.crashes = [self.history.crash()]
        for _ in self.history.steps(5, heard=False):
            self.crashes.append(self.history.crash())
        self.written = len(self.crashes[0].rows)
        """What had been written when the last thing got out."""
        self._restarts = 0

    def restarted(self, crash: Crash, rows: int, meddle: Meddle = as_they_are) -> History:
        self._restarts += 1
        return self.history.restarted(crash, rows, self.folder / f"{self._restarts}", meddle)

    def wrong(self, crash: Crash, rows: int, meddle: Meddle = as_they_are) -> dict[str, int]:
        """What is, of the trace as it is completed: messages carry no contexts that would tell how its rows
        lie between each other."""
        history = self.restarted(crash, rows, meddle)
        told, happened = read(history.folder), decode(crash.rows)
        if [_row(row) for row in told if row.kind in TOLD] != [
            _row(row) for row in happened if row.kind in TOLD
        ]:
            return {"as it happened": 1}
        return wrong(history.finish())

    def torn_commits(self) -> Iterable[Crash]:
        """Killed in the middle of a commit's write: the log ends at any byte of it."""
        for before, after in zip(self.crashes, self.crashes[1:], strict=False):
            name = next(name for name in reversed(before.disk.names()) if name.endswith(".log"))
            if after.disk.names() != before.disk.names():
                continue
            for size in range(before.disk.size(name) + 1, after.disk.size(name)):
                disk = after.disk.copy(Random(0))
                disk.truncate(name, size)
                yield Crash(disk, before.rows)


@pytest.mark.parametrize("kind", list(SETTINGS))
@pytest.mark.parametrize("seed", range(8))
def test_killed_after_any_commit_with_any_rows_written_the_completed_trace_is_right(
    seed: int, kind: str, tmp_path: Path
) -> None:
    cuts = Cuts(seed, SETTINGS[kind], tmp_path)
    for crash in cuts.crashes:
        for rows in line_ends(crash.rows, cuts.written):
            assert cuts.wrong(crash, rows) == {}, f"{rows} bytes of {len(crash.rows)}"


@pytest.mark.parametrize("seed", range(2))
def test_killed_in_the_middle_of_a_commit_the_completed_trace_is_right(seed: int, tmp_path: Path) -> None:
    cuts = Cuts(seed, SETTINGS["whole"], tmp_path)
    torn = list(cuts.torn_commits())
    assert torn
    for crash in torn:
        assert wrong(cuts.restarted(crash, len(crash.rows)).finish()) == {}


@pytest.mark.parametrize("seed", range(2))
def test_a_torn_line_counts_as_not_written(seed: int, tmp_path: Path) -> None:
    """At every byte, the rows that are added are those that are not there whole."""
    cuts = Cuts(seed, SETTINGS["whole"], tmp_path)
    crash = cuts.crashes[-1]
    full = [(row.kind, row.origin, row.seq) for row in decode(crash.rows)]
    missing = 0
    for rows in range(cuts.written, len(crash.rows) + 1):
        found: list[Row] = []

        def keep(missing: list[Row], found: list[Row] = found) -> Iterable[Row]:
            found.extend(missing)
            return missing

        cuts.restarted(crash, rows, keep)
        whole = len(decode(crash.rows[:rows]))
        told = [("send" if kind == SEND else "deliver", NAMES[dot & 3], dot >> 20) for kind, dot, _ in found]
        assert told == [row for row in full[whole:] if row[0] in ("send", "deliver")]
        missing = max(missing, len(told))
    assert missing > 3


@pytest.mark.parametrize("seed", range(30))
def test_one_that_is_killed_again_and_again_leaves_a_right_trace(seed: int, tmp_path: Path) -> None:
    """While it completes its trace, too: the completion itself is cut at any byte."""
    random = Random(seed)
    history = History(tmp_path / "0", seed, Settings(segment_bytes=random.choice([100, 1 << 20])))
    for life in range(1, 8):
        heard = random.choice([0, 0, 1, 6])
        for _ in history.steps(heard):
            pass
        written = len(history.crash().rows) if heard else 0
        for _ in history.steps(random.randint(0, 3), heard=False):
            pass
        crash = history.crash()
        rows = random.randint(written, len(crash.rows))
        history = history.restarted(crash, rows, tmp_path / f"{life}", as_they_are)
    assert wrong(history.finish()) == {}


# What the tests above would say of a completion that is wrong


def skip(index: int) -> Meddle:
    return lambda rows: rows[:index] + rows[index + 1 :]


def double(index: int) -> Meddle:
    return lambda rows: rows[: index + 1] + rows[index:]


def move_up(index: int) -> Meddle:
    return lambda rows: [*rows[: index - 1], rows[index], rows[index - 1], *rows[index + 1 :]]


def all_rows_missing(seed: int, kind: str, folder: Path) -> tuple[Cuts, list[Row]]:
    """The longest completion that a history offers."""
    cuts = Cuts(seed, SETTINGS[kind], folder)
    found: list[Row] = []

    def keep(rows: list[Row]) -> Iterable[Row]:
        found.extend(rows)
        return rows

    cuts.restarted(cuts.crashes[-1], cuts.written, keep)
    return cuts, found


def follows(rows: list[Row], index: int) -> bool:
    """Is there a send from here on? What was delivered after the last one is the cause of nothing, and the
    `restart` row stands for it."""
    return any(kind == SEND for kind, _, _ in rows[index:])


@pytest.mark.parametrize("kind", list(SETTINGS))
@pytest.mark.parametrize("seed", range(4))
def test_a_completion_that_leaves_one_out_or_doubles_one_or_mixes_two_up_is_noticed(
    seed: int, kind: str, tmp_path: Path
) -> None:
    cuts, rows = all_rows_missing(seed, kind, tmp_path)
    assert len(rows) > 3
    for index, (what, _, _) in enumerate(rows):
        told = [("double", double(index))]
        if follows(rows, index):
            told.append(("skip", skip(index)))
        if index and SEND in (what, rows[index - 1][0]):
            told.append(("move", move_up(index)))
        for name, meddle in told:
            assert cuts.wrong(cuts.crashes[-1], cuts.written, meddle), f"{name} {index} of {rows}"


# Files


def test_a_node_without_an_earlier_trace_completes_nothing(tmp_path: Path) -> None:
    assert earlier_rows(tmp_path, "a", 5) is None
    assert earlier_rows(tmp_path / "nowhere", "a", 5) is None


def test_only_files_of_earlier_boots_of_just_this_node_count(tmp_path: Path) -> None:
    row = b'{"node":"x","pos":1,"kind":"send","origin":"x","seq":%d}\n'
    for name, seq in (("a-1", 1), ("a-2", 2), ("a-12", 12), ("a-1-3", 77), ("b-3", 88), ("a-x", 99)):
        (tmp_path / f"{name}.jsonl").write_bytes(row % seq)
    assert earlier_rows(tmp_path, "a", 12) == Earlier(1, 2, None)
    assert earlier_rows(tmp_path, "a-1", 4) == Earlier(3, 77, None)


def test_what_was_before_the_last_beginning_is_passed_over(tmp_path: Path) -> None:
    """It was complete then, or the log has forgotten it. A file whose boot never began goes with the one
    before: it holds nothing but what was missing there."""
    sends = b'{"node":"a","pos":1,"kind":"send","origin":"a","seq":%d}\n'
    delivers = b'{"node":"a","pos":2,"kind":"deliver","origin":"b","seq":7}\n'
    begins = b'{"node":"a","pos":3,"kind":"%s","deps":[]}\n'
    (tmp_path / "a-1.jsonl").write_bytes(begins % b"start" + sends % 1 + delivers)
    (tmp_path / "a-2.jsonl").write_bytes(sends % 2)
    assert earlier_rows(tmp_path, "a", 3) == Earlier(1, 2, ("b", 7))
    (tmp_path / "a-3.jsonl").write_bytes(sends % 3 + begins % b"restart")
    assert earlier_rows(tmp_path, "a", 4) == Earlier(3, 3, None)
    (tmp_path / "a-4.jsonl").write_bytes((begins % b"restart")[:-1])
    assert earlier_rows(tmp_path, "a", 5) == Earlier(3, 3, None), "a torn line says nothing"


class Written:
    """A log of two members written by hand: what a node `a` would have noted."""

    def __init__(self) -> None:
        self.disk = Disk(Random(0))
        self.codec = Codec(2, stamps_are_dots=True)
        self.boot()
        self.log.member("a")
        self.log.member("b")
        self.log.commit(0)

    def boot(self) -> None:
        self.log = OpLog.open(self.disk, Settings(), 0)
        self.log.boot(1, b"m", 0)

    def message(self, origin: int, seq: int, *deps: int) -> int:
        position = self.log.append(
            pack(origin, seq), self.codec.encode(Message(pack(origin, seq), deps, b""))
        )
        self.log.commit(0)
        return position

    def taken(self, position: int) -> None:
        self.log.mark_taken(position)
        self.log.commit(0)

    def missing(self, earlier: Earlier) -> list[tuple[int, int]]:
        rows = missing_rows(self.log, 0, earlier)
        return [(kind, dot) for kind, dot, _ in rows]


def test_what_is_delivered_again_after_it_was_forgotten_is_completed_again() -> None:
    """The trace told of b:2 in the first boot; the log lost it, and took it again in the second."""
    written = Written()
    written.taken(written.message(1, 1))
    written.boot()
    written.taken(written.message(1, 2))
    written.message(0, 1, pack(1, 2))
    assert written.missing(Earlier(2, 0, None)) == [(DELIVER, pack(1, 2)), (SEND, pack(0, 1))]


def test_own_messages_that_came_back_from_others_are_deliveries() -> None:
    written = Written()
    written.message(0, 1)
    written.boot()
    written.log.note(REGAINING, (1).to_bytes(8, "little"))
    back = written.message(0, 2)
    written.taken(back)
    written.log.note(REGAINED, (2).to_bytes(8, "little"))
    written.message(0, 3, pack(0, 2))
    assert written.missing(Earlier(2, 0, None)) == [(DELIVER, pack(0, 2)), (SEND, pack(0, 3))]
    assert written.missing(Earlier(2, 0, ("a", 2))) == [(SEND, pack(0, 3))]


def test_what_was_before_the_first_traced_boot_is_not_completed(tmp_path: Path) -> None:
    """The `restart` row with which the trace began stands for it."""
    history = History(tmp_path / "0", 1, Settings())
    for _ in history.steps(10):
        pass
    crash = history.crash()
    history.subject.trace.path.unlink()
    traced = history.restarted(crash, 0, tmp_path / "1", as_they_are)
    [first] = decode(traced.crash().rows)
    assert first.kind == "restart"
    beginning = len(traced.crash().rows)
    for _ in traced.steps(4, heard=False):
        pass
    found: list[Row] = []

    def keep(rows: list[Row]) -> Iterable[Row]:
        found.extend(rows)
        return rows

    crash = traced.crash()
    traced.restarted(crash, beginning, tmp_path / "2", keep)
    since = [(row.kind, row.seq) for row in decode(crash.rows[beginning:])]
    assert since
    assert [("send" if kind == SEND else "deliver", dot >> 20) for kind, dot, _ in found] == since


def test_rows_that_neither_trace_nor_log_hold_are_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    cuts = Cuts(0, SETTINGS["collected"], tmp_path)
    crash = cuts.crashes[-1]
    first_send = crash.rows.index(b"\n", crash.rows.index(b'"send"')) + 1
    with pytest.raises(UsageError, match=r"the trace lacks a:2.*give it a new trace folder"):
        cuts.restarted(crash, first_send)


def test_a_line_that_no_node_wrote_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "a-1.jsonl").write_bytes(b'{"kind":"send"\n')
    with pytest.raises(TraceError, match=r"a-1\.jsonl"):
        earlier_rows(tmp_path, "a", 2)


@pytest.mark.parametrize("tail", [b"", b"torn"])
@pytest.mark.parametrize("block", [1, 2, 3, 7, BLOCK_BYTES])
def test_lines_are_found_from_the_end_whatever_the_size_of_a_block(
    block: int, tail: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "BLOCK_BYTES", block)
    for lines in ([], [b"a"], [b"one", b"", b"three", b"x" * 20, b"y"]):
        path = tmp_path / "x"
        path.write_bytes(b"".join([line + b"\n" for line in lines]) + tail)
        assert list(lines_backwards(path)) == lines[::-1]


def test_a_file_is_never_opened_twice(tmp_path: Path) -> None:
    trace = LiveTrace(tmp_path / "new" / "folder", "a", 1)
    with pytest.raises(UsageError, match="is there already"):
        LiveTrace(tmp_path / "new" / "folder", "a", 1)
    trace.close()
    trace.close()


def test_a_folder_that_is_none_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is not a folder"):
        LiveTrace(tmp_path / "file", "a", 1)
    with pytest.raises(UsageError, match="cannot write a trace"):
        LiveTrace(tmp_path / "file" / "below", "a", 1)
    with pytest.raises(UsageError, match="cannot write a trace"):
        LiveTrace(tmp_path, "long" * 100, 1)


@pytest.mark.parametrize("name", ["../up", "_hidden", ".hidden", "a%2Fb", "ü", "a-1", "-", "~x"])
def test_any_name_gives_a_file_that_readers_find(name: str, tmp_path: Path) -> None:
    LiveTrace(tmp_path / "t", name, 7).close()
    [path] = tmp_path.rglob("*.jsonl")
    assert path.parent == tmp_path / "t"
    assert path.name[0] not in "._"
    assert earlier_rows(tmp_path / "t", name, 8) == Earlier(7, 0, None)


def test_different_names_have_different_files() -> None:
    names = ["_a", "%5Fa", "a", "a/b", "a%2Fb", "a-1", ".a"]
    assert len({file_name(name, 1) for name in names}) == len(names)


def test_a_full_disk_is_told_and_what_was_not_written_goes_first_when_there_is_room(tmp_path: Path) -> None:
    trace = LiveTrace(tmp_path, "a", 1)
    trace.write(b"one\n")
    kept = os.dup(trace.descriptor)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, trace.descriptor)
    for size in (4, 10):
        with pytest.raises(DiskError, match=r"a-1\.jsonl") as caught:
            trace.write(b"two\n" if size == 4 else b"three\n")
        assert caught.value.full
        assert trace.waiting == size
    os.dup2(kept, trace.descriptor)
    trace.write(b"four\n")
    assert trace.path.read_bytes() == b"one\ntwo\nthree\nfour\n"
    trace.close()
    os.close(kept)
    os.close(full)


def test_a_short_write_is_continued(tmp_path: Path) -> None:
    """A pipe takes what fits, and then says so: the rest goes when it was emptied."""
    trace = LiveTrace(tmp_path, "a", 1)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.dup2(writer, trace.descriptor)
    data = Random(0).randbytes(300_000)
    got = b""
    try:
        trace.write(data)
        raise AssertionError("a pipe that takes everything")
    except StorageError:
        pass
    while trace.waiting:
        got += os.read(reader, 1 << 20)
        try:
            trace.write(b"")
        except StorageError:
            assert trace.waiting
    os.set_blocking(reader, False)
    while len(got) < len(data):
        got += os.read(reader, 1 << 20)
    assert got == data
    trace.close()
    os.close(reader)
    os.close(writer)


def test_what_the_log_has_forgotten_and_the_trace_has_not_is_left_to_the_restart_row(tmp_path: Path) -> None:
    """The machine went down: the file of the trace had been written back, the end of the log had not."""
    cuts = Cuts(0, SETTINGS["whole"], tmp_path)
    before, after = cuts.crashes[0], cuts.crashes[-1]
    found: list[Row] = []

    def keep(rows: list[Row]) -> Iterable[Row]:
        found.extend(rows)
        return rows

    last = [row for row in decode(after.rows) if row.kind == "deliver"][-1]
    assert (last.origin, last.seq) not in [(row.origin, row.seq) for row in decode(before.rows)]
    cuts.restarted(Crash(before.disk, after.rows), len(after.rows), keep)
    assert found == []
