"""Format: which files make up a trace, how they are cut, and files that are not what they seem."""

import csv
import io
import os
import socket
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from thence.core.errors import TraceError
from thence.pipeline import files
from thence.pipeline.csv_rows import row_ends
from thence.pipeline.files import Split, cut, trace_files
from thence.pipeline.readers import read

START = '{"node": "a", "pos": 0, "kind": "start"}\n'


def positions(path: Path, **cuts: Any) -> list[int]:
    pieces = [piece for split in cut(trace_files(path), **cuts) for piece in read(split)]
    return sorted(pos for piece in pieces for pos in piece.rows.pos.tolist())


def torn(path: Path) -> int:
    return sum(piece.torn for split in cut(trace_files(path), tolerant=True) for piece in read(split))


def refuses(path: Path, what: str) -> None:
    with pytest.raises(TraceError, match=what):
        positions(path)


def test_a_pipe_is_refused_before_it_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.jsonl")
    refuses(tmp_path, "not a file, but a pipe")
    refuses(tmp_path / "x.jsonl", "not a file, but a pipe")


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("x.jsonl")
        refuses(tmp_path, "a socket or a device")


def test_links_are_followed_unless_they_lead_nowhere_or_back(tmp_path: Path) -> None:
    trace, elsewhere = tmp_path / "trace", tmp_path / "elsewhere"
    trace.mkdir()
    elsewhere.mkdir()
    (elsewhere / "x.jsonl").write_text(START)
    (trace / "there").symlink_to(elsewhere)
    assert positions(trace) == [0]
    (elsewhere / "back").symlink_to(trace)
    refuses(trace, "back: a link that leads back")
    (elsewhere / "back").unlink()
    (trace / "y.jsonl").symlink_to(tmp_path / "missing")
    refuses(trace, "leads nowhere")
    (trace / "y.jsonl").unlink()
    (trace / "y.jsonl").symlink_to(trace / "y.jsonl")
    refuses(trace, "cannot be read")


def test_a_folder_named_like_a_file_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").mkdir()
    (tmp_path / "x.jsonl" / "y.jsonl").write_text(START)
    assert positions(tmp_path) == [0]


def test_what_may_not_be_read_is_the_owner_s_business(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.jsonl").write_text(START)

    def forbid(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", forbid)
    refuses(tmp_path, "cannot be read: Permission denied")
    monkeypatch.undo()
    (split,) = cut(trace_files(tmp_path))
    monkeypatch.setattr("builtins.open", forbid)
    with pytest.raises(TraceError, match=r"x\.jsonl: cannot be read: Permission denied"):
        list(read(split))


@pytest.mark.parametrize("suffix", files.SUFFIXES)
def test_a_file_that_vanishes_is_the_machine_s_trouble(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(FileNotFoundError):
        list(read(Split(str(tmp_path / f"x{suffix}"), 0, 1, 1)))


# Half-written files


@pytest.mark.parametrize("size", [0, 3, 40])
def test_half_a_parquet_file_is_an_error_unless_that_is_tolerated(tmp_path: Path, size: int) -> None:
    whole = tmp_path / "whole.parquet"
    pq.write_table(pa.table({"node": ["a"], "pos": [1], "kind": ["start"]}), whole)
    (tmp_path / "half.parquet").write_bytes(whole.read_bytes()[:size])
    refuses(tmp_path, r"half\.parquet: not a readable Parquet file")
    assert positions(tmp_path, tolerant=True) == [1]
    assert torn(tmp_path) == 1


def test_damage_is_not_taken_for_half_a_file(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1" + bytes(50) + b"PAR1")
    with pytest.raises(TraceError, match="not a readable Parquet file"):
        torn(tmp_path)


def test_the_unfinished_end_of_csv_is_not_believed_if_torn_files_are_tolerated(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("node,pos,kind\na,1,start\na,12")
    refuses(tmp_path, "2 cells under 3 columns")
    assert positions(tmp_path, tolerant=True) == [1]
    assert torn(tmp_path) == 1
    file.write_text("")
    refuses(tmp_path, "no header")
    assert torn(tmp_path) == 1


# Marks and folders


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("node,pos,kind\na,1,start\n", encoding="utf-8-sig")
    (tmp_path / "y.jsonl").write_text(START, encoding="utf-8-sig")
    (tmp_path / "z.csv").write_text('"node","pos","kind"\n"a",2,"start"\n', encoding="utf-8-sig")
    assert positions(tmp_path, split_bytes=20) == [0, 1, 2]


def test_a_folder_s_name_that_is_no_number(tmp_path: Path) -> None:
    (tmp_path / "incarnation=two").mkdir()
    (tmp_path / "incarnation=two" / "x.jsonl").write_text(START)
    refuses(tmp_path, "cannot read 'two' as incarnation")


def test_a_list_cannot_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "dest=a").mkdir()
    (tmp_path / "dest=a" / "x.jsonl").write_text(START)
    refuses(tmp_path, "column 'dest' is a list")


def test_the_partition_that_has_no_name_says_nothing(tmp_path: Path) -> None:
    (tmp_path / f"run={files.HIVE_NULL}").mkdir()
    (tmp_path / f"run={files.HIVE_NULL}" / "x.jsonl").write_text(START)
    (piece,) = [piece for split in cut(trace_files(tmp_path)) for piece in read(split)]
    assert piece.rows.scopes == [("", "")]


# Cutting CSV


@pytest.mark.parametrize("seed", range(40))
def test_csv_is_cut_at_the_ends_of_rows(tmp_path: Path, seed: int) -> None:
    """Whatever stands in the cells: the parts of a file hold the rows of the whole."""
    rng = Random(seed)
    alphabet = rng.choice(["ab,\n", 'a"\n', 'ab",\r\n', "aé ,"])
    text = io.StringIO()
    writer = csv.writer(
        text,
        quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
        lineterminator=rng.choice(["\n", "\r\n"]),
    )
    writer.writerows(
        ["".join(rng.choices(alphabet, k=rng.randint(1, 6))) for _ in range(3)]
        for _ in range(rng.randint(1, 30))
    )
    whole = text.getvalue() + rng.choice(["", 'x"y,z"\n' * 3])
    path = tmp_path / "x.csv"
    path.write_bytes(whole.encode())
    data = path.read_bytes()
    for step in (1, 7, 30):
        bounds = [0, *row_ends(path, len(data), step), len(data)]
        parts = [data[a:b].decode() for a, b in pairwise(bounds)]
        assert _rows("".join(parts)) == _rows(whole)
        assert [row for part in parts for row in _rows(part)] == _rows(whole)
        assert step > 7 or "\n" not in whole[:-1] or len(parts) > 1 or '"' in whole


def _rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def test_rows_of_a_cut_file_are_numbered_as_in_the_whole(tmp_path: Path) -> None:
    lines = ["node,pos,kind,note", *[f'a,{pos},start,"x\ny"' for pos in range(20)], "a,-1,start,"]
    (tmp_path / "x.csv").write_text("\n".join(lines) + "\n")
    for split_bytes in (10, 1 << 20):
        with pytest.raises(TraceError, match=r"x\.csv: line 42: negative position"):
            positions(tmp_path, split_bytes=split_bytes)
