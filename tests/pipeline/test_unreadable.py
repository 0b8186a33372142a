"""Format: every row that cannot be read is named by file and row, whatever the format."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from thence.core.errors import TraceError
from thence.pipeline.files import TraceFile, cut, trace_files
from thence.pipeline.readers import read

GOOD = {"node": "a", "pos": 1, "kind": "send", "origin": "a", "seq": 1}
BAD: list[tuple[dict[str, Any], str]] = [
    ({"node": None}, "node"),
    ({"pos": None}, "pos"),
    ({"kind": None}, "kind"),
    ({"pos": -1}, "position"),
    ({"seq": -3}, "counter"),
    ({"origin": None}, "without origin"),
    ({"seq": None}, "without seq"),
    ({"kind": "deliver", "seq": None}, "deliver without seq"),
    ({"kind": "stable", "origin": None}, "stable without origin"),
    ({"kind": "evict", "seq": None}, "evict without seq"),
    ({"node": "a b"}, "white space"),
    ({"node": ""}, "n"),
    ({"deps": [{"origin": "b", "seq": -1}]}, "counter"),
    ({"dest": ["a\tb"]}, "white space"),
    ({"process": "a b"}, "white space"),
    ({"process": ""}, "empty name"),
    ({"incarnation": -1}, "negative incarnation"),
    ({"carries": [{"origin": "b", "seq": -1}]}, "negative counter in carries"),
    ({"carries": [{"origin": "b c", "seq": 1}]}, "white space"),
    ({"channel": "the news"}, "white space"),
    ({"kind": "subscribe"}, "subscribe without channel"),
    ({"kind": "unsubscribe"}, "unsubscribe without channel"),
]


def load(path: Path, **cuts: int) -> int:
    splits = cut(trace_files(path), **cuts, tolerant=False)
    return sum(len(piece.rows.kind) for split in splits for piece in read(split))


def error_of(path: Path, **cuts: int) -> str:
    with pytest.raises(TraceError) as caught:
        load(path, **cuts)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def lines(rows: list[Any]) -> str:
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)


@pytest.mark.parametrize(("change", "word"), BAD)
def test_json_lines(tmp_path: Path, change: dict[str, Any], word: str) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text(lines([GOOD, "", {**GOOD, "pos": 2}, {**GOOD, "pos": 3, **change}, GOOD]))
    message = error_of(file)
    assert message.startswith(f"{file}: line 4: ")
    assert word in message


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "garbage",
        "[1]",
        '{"node": "a"}',
        '{"node": "a", "pos": 1.5, "kind": "send"}',
        '{"node": "a", "pos": "1", "kind": "send"}',
        '{"node": 7, "pos": 1, "kind": "send"}',
        '{"node": "a", "pos": 99999999999999999999, "kind": "link"}',
        '{"node": "a", "pos": 1, "kind": "install", "deps": [["a", 1]]}',
        '{"node": "a", "pos": 1, "kind": "install", "deps": [{"origin": "a"}]}',
        '{"node": "a", "pos": 1, "kind": "link", "at_us": "noon"}',
        '{"node": "a", "pos": 1, "kind": "link", "process": 7}',
        '{"node": "a", "pos": 1, "kind": "link", "incarnation": "second"}',
        '{"node": "a", "pos": 1, "kind": "link", "incarnation": 99999999999999999999}',
        '{"node": "a", "pos": 1, "kind": "send", "origin": "a", "seq": 1, "carries": ["a:1"]}',
        '{"node": "a", "pos": 1, "kind": "link", "channel": 7}',
        '{"node": "a", "pos": 1, "kind": "link"} {}',
    ],
)
@pytest.mark.parametrize("split_bytes", [10, 1 << 20])
def test_lines_that_are_no_rows(tmp_path: Path, line: str, split_bytes: int) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text(lines([GOOD, GOOD, line, GOOD]))
    assert error_of(file, split_bytes=split_bytes).startswith(f"{file}: line 3: ")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(lines([GOOD]).encode() + b'{"node": "\xff\xfe", "pos": 1, "kind": "link"}\n')
    assert error_of(file).startswith(f"{file}: line 2: ")


@pytest.mark.parametrize(("change", "word"), BAD)
def test_parquet(tmp_path: Path, change: dict[str, Any], word: str) -> None:
    file = tmp_path / "x.parquet"
    rows = [{**GOOD, "pos": 1}, {**GOOD, "pos": 2}, {**GOOD, "pos": 3, **change}, GOOD]
    kinds = {"node": pa.string(), "pos": pa.int64(), "kind": pa.string(), "origin": pa.string()}
    kinds |= {"seq": pa.int64(), "deps": pa.list_(pa.struct([("origin", pa.string()), ("seq", pa.int64())]))}
    kinds |= {"dest": pa.list_(pa.string()), "carries": kinds["deps"]}
    kinds |= {"process": pa.string(), "incarnation": pa.int64(), "channel": pa.string()}
    table = pa.table({name: pa.array([row.get(name) for row in rows], kinds[name]) for name in kinds})
    pq.write_table(table, file, row_group_size=2)
    message = error_of(file, split_rows=1)
    assert message.startswith(f"{file}: row 3: ")
    assert word.replace("pos", "position").replace("positionition", "position") in message


@pytest.mark.parametrize(
    ("columns", "word"),
    [
        ({"node": ["a"], "kind": ["link"]}, "missing column 'pos'"),
        ({"pos": [1], "kind": ["link"]}, "missing column 'node'"),
        ({"node": ["a"], "pos": [1]}, "missing column 'kind'"),
        ({"node": ["a"], "pos": [1.0], "kind": ["link"]}, "'pos' holds double"),
        ({"node": [b"a"], "pos": [1], "kind": ["link"]}, "'node' holds binary"),
        ({"node": ["a"], "pos": [1], "kind": ["link"], "seq": ["1"]}, "'seq' holds string"),
        ({"node": ["a"], "pos": [1], "kind": ["link"], "at_us": ["1"]}, "'at_us' holds string"),
        ({"node": ["a"], "pos": [1], "kind": ["link"], "deps": ["a:1"]}, "'deps' holds string"),
        ({"node": ["a"], "pos": [1], "kind": ["link"], "dest": ["a"]}, "'dest' holds string"),
        ({"node": ["a"], "pos": [1], "kind": ["link"], "carries": ["a:1"]}, "'carries' holds string"),
        ({"node": ["a"], "pos": [1], "kind": ["link"], "process": [1]}, "'process' holds int64"),
        ({"node": ["a"], "pos": [1], "kind": ["link"], "incarnation": ["1"]}, "'incarnation' holds string"),
        ({"node": ["a"], "pos": [1], "kind": ["link"], "dest": [[None]]}, "'dest'"),
    ],
)
def test_columns_of_parquet(tmp_path: Path, columns: dict[str, Any], word: str) -> None:
    file = tmp_path / "x.parquet"
    if columns.get("dest") == [[None]]:
        columns = {**columns, "dest": pa.array([["a", None]], pa.list_(pa.string()))}
        word = "null in dest"
    pq.write_table(pa.table(columns), file)
    message = error_of(file)
    assert message.startswith(f"{file}: row 1: ")
    assert word in message


def test_a_position_beyond_64_bits(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    table = {"node": ["a", "a"], "pos": pa.array([1, 2**63], pa.uint64()), "kind": ["link", "link"]}
    pq.write_table(pa.table(table), file)
    assert error_of(file).startswith(f"{file}: row 2: ")


def test_a_damaged_parquet_file(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    file.write_bytes(b"PAR1 but not really")
    assert str(file) in error_of(file)


@pytest.mark.parametrize(
    ("row", "word"),
    [
        (",1,send,a,1,,", "no node"),
        ("a,,send,a,1,,", "no position"),
        ("a,1,,a,1,,", "no kind"),
        ("a,-1,send,a,1,,", "negative"),
        ("a,x,send,a,1,,", "'x' as pos"),
        ("a,1.5,send,a,1,,", "'1.5' as pos"),
        ("a,1,send,a,,,", "without seq"),
        ("a,1,send,,1,,", "without origin"),
        ("a,1,send,a,1,b,", "'b' as deps"),
        ("a,1,send,a,1,b:x,", "'b:x' as deps"),
        ("a,1,send,a,1,b:-1,", "negative"),
        ("a,1,send,a", "4 cells under 7 columns"),
        ('a,1,send,a,1,"b:1', "not CSV"),
    ],
)
def test_csv(tmp_path: Path, row: str, word: str) -> None:
    _csv_error(tmp_path, "node,pos,kind,origin,seq,deps,dest", "a,0,start,,,,", row, word)


@pytest.mark.parametrize(
    ("row", "word"),
    [
        ("a,1,link,a b,,,", "white space in the name 'a b'"),
        ("a,1,link,,x,,", "'x' as incarnation"),
        ("a,1,link,,-1,,", "negative incarnation"),
        ("a,1,link,,,a,", "'a' as carries"),
        ("a,1,link,,,a:-1,", "negative counter in carries"),
        ("a,1,subscribe,,,,", "subscribe without channel"),
    ],
)
def test_csv_of_processes(tmp_path: Path, row: str, word: str) -> None:
    _csv_error(
        tmp_path, "node,pos,kind,process,incarnation,carries,channel", "a,0,start,c,2,c:1 d:2,", row, word
    )


def test_columns_that_nothing_judges_may_be_there_and_empty(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("node,pos,kind,channel\na,0,start,\n")
    assert load(file) == 1
    file = tmp_path / "x.jsonl"
    file.write_text(lines([{**GOOD, "channel": None}]))
    assert load(file) == 1


def _csv_error(tmp_path: Path, header: str, fine: str, row: str, word: str) -> None:
    file = tmp_path / "x.csv"
    file.write_text("\n".join([header, fine, "", row]) + "\n")
    message = error_of(file)
    assert word in message
    assert message.startswith(f"{file}: line {5 if word == 'not CSV' else 4}: ")


@pytest.mark.parametrize("text", ["", "node,kind\na,link\n", "node,pos,kind,node\n"])
def test_csv_headers(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.csv"
    file.write_text(text)
    assert error_of(file).startswith(f"{file}: line ")


def test_unknown_files_are_refused_and_hidden_ones_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(lines([GOOD]))
    for hidden in ("_SUCCESS", ".crc", "_temporary/part.parquet", ".git/x.txt"):
        path = tmp_path / hidden
        path.parent.mkdir(exist_ok=True)
        path.write_text("not a trace")
    assert load(tmp_path) == 1
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "notes.txt").write_text("hello")
    assert "notes.txt: unknown kind of file" in error_of(tmp_path)


def test_nothing_to_read(tmp_path: Path) -> None:
    assert "no trace files" in error_of(tmp_path)
    assert "no such file" in error_of(tmp_path / "missing")


@pytest.mark.parametrize("split_bytes", [1, 7, 64, 1 << 20])
def test_a_torn_last_line_is_passed_over_wherever_the_cuts_fall(tmp_path: Path, split_bytes: int) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text(lines([{**GOOD, "pos": pos} for pos in range(5)]) + '{"node": "a", "po')
    pieces = [piece for split in cut([TraceFile(file)], split_bytes) for piece in read(split)]
    assert sum(piece.torn for piece in pieces) == 1
    assert sorted(pos for piece in pieces for pos in piece.rows.pos.tolist()) == [0, 1, 2, 3, 4]


def test_only_the_last_line_can_be_torn(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text('{"node": "a", "po\n' + lines([GOOD]))
    assert error_of(file).startswith(f"{file}: line 1: ")
