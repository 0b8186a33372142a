"""A live node's trace: its files, and how one over a tree completes it from its log after a kill."""

import os
from pathlib import Path
from random import Random

import pytest
from support.live_history import read

from thence.core.dots import pack
from thence.core.errors import StorageError, TraceError, UsageError
from thence.core.machine import Packet
from thence.core.message import Message
from thence.core.overlay import Accept, Graft, Naming, Places, Sync
from thence.core.storage import DiskError
from thence.oplog.log import OpLog
from thence.oplog.settings import LogSettings
from thence.replica.live_tree import LiveSettings, open_tree
from thence.replica.open_tree import OpenTree
from thence.runtime import tracing
from thence.runtime.trace_files import TraceWriters, last_boot, told
from thence.runtime.tracing import BLOCK_BYTES, LiveTrace, file_name, lines_backwards
from thence.sim.disk import Disk
from thence.sim.overlay_program import RegisterProgram


class Killed:
    """A node of a tree that is killed after any step, with any part of the step's rows written; `number` is
    that of its incarnation from the next start on."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.disk, self.boots, self.number = folder, Disk(Random(1)), 0, 1
        self.start()

    def start(self, forgetful: bool = False) -> None:
        self.boots += 1
        log = OpLog.open(self.disk, LogSettings(sync="no"), 0)
        log.boot(1, b"machine", 0)
        self.diaries = TraceWriters(self.folder, self.boots)
        self.one: OpenTree = open_tree(
            "b", "at b", {"a": "at a"}, log, LiveSettings(), RegisterProgram(holds=False), self.diaries,
            lambda: self.number, 0, forgetful,
        )  # fmt: skip
        self.diaries.end_others("b", self.one.me, 0)
        self.one.start(self.boots == 1, 0)
        self.ends()
        self.one.link_up("a", 0)
        for packet in (Places(((0, "a", "at a"),)), Accept(), Naming(0, ("a",)), Graft(1, (0,))):
            self.one.receive("a", packet, 0)
        self.one.receive("a", Sync(1, (), True), 0)
        self.ends()

    def hears(self, packet: Packet) -> None:
        self.one.receive("a", packet, 0)

    def ends(self, part: float = 1.0) -> None:
        """A step, with so much of its rows written."""
        self.one.commit(0)
        self.one.output()
        for file, data in self.diaries.take():
            file.write(data[: round(len(data) * part)])


@pytest.mark.parametrize("part", [0.0, 0.3, 0.5, 0.99, 1.0])
def test_killed_with_any_part_of_the_rows_written_the_trace_is_completed_from_the_log(
    part: float, tmp_path: Path
) -> None:
    node = Killed(tmp_path)
    for seq in (1, 2, 3):
        node.hears(Message(pack(0, seq), (), b"x"))
    node.one.broadcast([b"first"], 0)
    node.ends()
    node.one.take(2, 0)
    node.one.broadcast([b"second"], 0)
    node.one.take(1, 0)
    node.ends(part)
    node.start()
    rows = [(row.kind, row.origin, row.seq) for row in read(tmp_path) if row.kind in ("send", "deliver")]
    assert rows == [
        ("send", "b", 1), ("deliver", "a", 1), ("deliver", "a", 2), ("send", "b", 2), ("deliver", "a", 3),
    ]  # fmt: skip
    [back] = [row for row in read(tmp_path) if row.kind == "restart"]
    assert [(dep.origin, dep.seq) for dep in back.deps or ()] == [("b", 2), ("a", 3)]


def test_another_incarnation_begins_with_what_its_process_had_and_tells_nothing_of_it_again(
    tmp_path: Path,
) -> None:
    node = Killed(tmp_path)
    node.hears(Message(pack(0, 1), (), b"x"))
    node.hears(Message(pack(0, 2), (), b"x"))
    node.one.broadcast([b"first"], 0)
    node.ends()
    node.one.take(1, 0)
    node.ends()
    node.number = 2
    node.start(forgetful=True)
    node.one.take(1, 0)
    node.ends()
    node.start()
    told = [
        (row.node, row.kind, row.seq) for row in read(tmp_path) if row.kind not in ("lazy", "eager", "sync")
    ]
    assert told == [
        ("b", "start", None), ("b", "send", 1), ("b", "deliver", 1), ("b", "crash", None),
        ("b~2", "install", None), ("b~2", "deliver", 2), ("b~2", "restart", None),
    ]  # fmt: skip


def test_a_line_that_no_node_wrote_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "a-1.jsonl").write_bytes(b'{"kind":"send"\n')
    with pytest.raises(TraceError, match=r"a-1\.jsonl"):
        told(tmp_path, "a")


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
    assert last_boot(tmp_path / "t", name) == 7


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
