"""Format: operation logs as rows, of every version and layout, damaged and torn."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import thence.pipeline
from thence.core.codec import Codec
from thence.core.dots import ORIGIN_MASK, pack
from thence.core.errors import TraceError
from thence.core.message import Message
from thence.core.runs import run_payload, span_of_payload
from thence.oplog.log import OpLog
from thence.oplog.settings import LogSettings
from thence.pipeline.log_source import Row, records, segments
from thence.runtime.files import DiskFiles

GOLDEN = Path(__file__).parents[1] / "oplog" / "golden"


def read(path: Path, stamps: str = "dots") -> list[Row]:
    return [row for segment in segments(path) for row in records(segment, stamps)]


@pytest.mark.parametrize("version", sorted(path.name for path in GOLDEN.iterdir() if path.is_dir()))
def test_every_version_is_read_record_by_record(version: str) -> None:
    told = (GOLDEN / f"{version}.txt").read_text().splitlines()
    expected = [
        (int(line.split()[0], 16), line.split()[1].split("(")[0]) for line in told if line[:2] == "0x"
    ]
    kinds = {"Stored": "message", "SnapshotRef": "snapshot"}
    found = read(GOLDEN / version)
    assert [(row["pos"], row["kind"]) for row in found] == [
        (position, kinds.get(name, name.removesuffix("Record").lower())) for position, name in expected
    ]
    first = next(row for row in found if row["kind"] == "message")
    assert (first["origin"], first["seq"], first["data"]) == ("a", 1, b"100000.100000.100000")
    stable = next(row for row in found if row["kind"] == "stable")
    assert stable["frontier"] == [{"origin": "a", "seq": 2}, {"origin": "b", "seq": 1}]
    assert {row["segment"] for row in found} == {p.name for p in (GOLDEN / version).glob("*.log")}


def write(folder: Path, codec: Codec, *messages: Message) -> None:
    folder.mkdir(parents=True)
    with DiskFiles(folder) as files:
        log = OpLog.open(files, LogSettings(), 0)
        log.boot(1, b"", 0)
        for name in ("a", "b"):
            log.member(name)
        for message in messages:
            log.append(message.dot, codec.encode(message))
        log.close(0)


def messages_of(rows: list[Row]) -> list[tuple[object, ...]]:
    return [
        (row["log"], row["origin"], row["seq"], row["deps"], row["dest"], row["payload"])
        for row in rows
        if row["kind"] == "message"
    ]


def test_logs_of_many_nodes_and_incarnations(tmp_path: Path) -> None:
    codec = Codec(ORIGIN_MASK + 1, stamps_are_dots=True)
    write(tmp_path / "a/oplog/1", codec, Message(pack(0, 1), (), b"one"))
    write(tmp_path / "a/oplog/2", codec, Message(pack(1, 1), (pack(0, 1),), b"two", (0,)))
    write(tmp_path / "b/oplog", codec, Message(pack(0, 1), (), b"one"))
    assert messages_of(read(tmp_path)) == [
        ("a/oplog/1", "a", 1, [], [], b"one"),
        ("a/oplog/2", "b", 1, [{"origin": "a", "seq": 1}], ["a"], b"two"),
        ("b/oplog", "a", 1, [], [], b"one"),
    ]


def test_a_run_of_a_tree_without_tags_is_a_row_named_by_its_last_operation(tmp_path: Path) -> None:
    run = Message(pack(0, 3), (), run_payload([b"1", b"2", b"3"]), (), 3)
    codec = Codec(ORIGIN_MASK + 1, stamps_are_dots=True, run_span=span_of_payload)
    write(tmp_path / "x", codec, run, Message(pack(0, 4), (), b"4"))
    assert messages_of(read(tmp_path)) == [
        ("x", "a", 3, [], [], run.payload),
        ("x", "a", 4, [], [], b"4"),
    ]


def test_vectors_are_read_as_counters(tmp_path: Path) -> None:
    write(tmp_path / "x", Codec(2, stamps_are_dots=False), Message(pack(1, 1), (3, 1), b"v"))
    assert messages_of(read(tmp_path, "counters")) == [("x", "b", 1, [{"origin": "a", "seq": 3}], [], b"v")]


def test_a_torn_end_is_left_out_and_damage_is_an_error(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "v1", tmp_path / "log")
    before = read(tmp_path)
    last, first = (sorted((tmp_path / "log").glob("*.log"))[at] for at in (-1, 0))
    with last.open("ab") as file:
        file.write(b"\x20\x00\x00\x00\xd2half a rec")
    assert read(tmp_path) == before
    data = bytearray(first.read_bytes())
    data[-20] ^= 1
    first.write_bytes(data)
    with pytest.raises(TraceError, match=first.name):
        read(tmp_path)


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="holds no operation log"):
        read(tmp_path)
    with pytest.raises(TraceError, match="no such folder"):
        read(tmp_path / "missing")


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_logs_through_spark(spark: SparkSession) -> None:
    thence.pipeline.register(spark)
    found = spark.read.format("thence").option("rows", "log").load(str(GOLDEN))
    kinds = {row["kind"]: row["count"] for row in found.groupBy("kind").count().collect()}
    expected = read(GOLDEN)
    assert kinds == {kind: sum(row["kind"] == kind for row in expected) for kind in kinds}
    assert sum(kinds.values()) == len(expected)
