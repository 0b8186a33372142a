"""Format: hostile values through metrics and the data source, and nulls in every column of every form."""

import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipeline.layouts import COLUMNS, csv_can_tell, write_csv, write_jsonl
from pipeline.test_hostile import LAST, _by_run, _write_wide, hostile
from pyspark.sql import SparkSession

import thence.pipeline
from thence.core.errors import TraceError
from thence.pipeline import files, local
from thence.pipeline.metrics.measured import measure
from thence.pipeline.metrics.tally import Tally, tally
from thence.pipeline.metrics.timed import LATEST_US, pack_timed, read_timed
from thence.trace.schema import Event

FORMS = ("jsonl", "parquet", "csv")


def measured(path: Path, split_bytes: int = files.SPLIT_BYTES) -> dict[tuple[str, str], list[Tally]]:
    """By run and group: everything that metrics make of messages."""
    payloads: dict[tuple[str, str], list[bytes]] = {}
    for split in files.cut(files.trace_files(path), split_bytes):
        for rows, _ in read_timed(split):
            for piece in pack_timed(rows, 1):
                if piece.part == 0:
                    payloads.setdefault((piece.run, piece.group), []).append(piece.payload)
    return {scope: sorted(tally(mine, 1_000_000)) for scope, mine in payloads.items()}


def timed(events: list[Event]) -> list[Event]:
    """Times that metrics can read, the smallest and the largest among them."""
    at = [0, 1, LATEST_US - 1, LATEST_US, None]
    return [msgspec.structs.replace(event, at_us=at[k % 5]) for k, event in enumerate(events)]


@pytest.mark.parametrize("seed", range(25))
def test_every_layout_is_measured_alike(tmp_path: Path, seed: int) -> None:
    events = timed(hostile(seed))
    write_jsonl(tmp_path / "x.jsonl", events)
    found = measured(tmp_path / "x.jsonl", split_bytes=50)
    _write_wide(tmp_path / "y.parquet", events)
    assert measured(tmp_path / "y.parquet") == found
    if csv_can_tell(events):
        write_csv(tmp_path / "z.csv", events)
        assert measured(tmp_path / "z.csv", split_bytes=50) == found
    _by_run(tmp_path / "hive", events)
    assert measured(tmp_path / "hive") == found
    sends = Counter((event.run, event.node) for event in events if event.kind == "send")
    told = {(run, t.node): t.number for (run, _), ts in found.items() for t in ts if t.measure == "sends"}
    assert told == sends


def test_the_largest_counters_and_times_are_measured(tmp_path: Path) -> None:
    """Two messages whose counters differ by the largest number, and latencies whose sum no integer holds."""
    events = [Event(node="a", pos=0, kind="send", origin="a", seq=0, at_us=5)]
    events += [Event(node="a", pos=1, kind="send", origin="a", seq=LAST, at_us=0)]
    events += [
        Event(node="b", pos=k, kind="deliver", origin="a", seq=LAST, at_us=LATEST_US) for k in range(2000)
    ]
    events.append(Event(node="b", pos=LAST, kind="deliver", origin="a", seq=0, at_us=6))
    write_jsonl(tmp_path / "x.jsonl", events)
    [found] = measured(tmp_path / "x.jsonl").values()
    [row] = [row for row in found if (row.measure, row.by) == ("delivery", "run")]
    assert (row.number, row.total, row.max) == (2001, float(2000 * LATEST_US + 1), LATEST_US)
    (tmp_path / "y.jsonl").write_text('{"node":"a","pos":0,"kind":"start","at_us":9007199254740993}\n')
    with pytest.raises(TraceError, match=r"y\.jsonl: line 1: a time after 9007199254740992"):
        measured(tmp_path / "y.jsonl")


FULL = {
    "node": "b", "pos": 3, "kind": "send", "run": "r", "group": "g", "origin": "b", "seq": 1, "at_us": 7,
    "deps": [{"origin": "a", "seq": 1}], "dest": ["a", "b"], "process": "b", "incarnation": 1,
    "carries": [{"origin": "b", "seq": 1}], "channel": "news",
}  # fmt: skip
OTHER = {"node": "a", "pos": 1, "kind": "send", "run": "r", "group": "g", "origin": "a", "seq": 1}
NEEDED = ("node", "pos", "kind", "origin", "seq")
"""Of a send."""


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """In the form that the file's name asks for, with all columns."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({name: row.get(name) for name in COLUMNS}) + "\n" for row in rows))
    elif path.suffix == ".csv":
        text = io.StringIO(newline="")
        csv.writer(text).writerows([COLUMNS, *[[_cell(row.get(name)) for name in COLUMNS] for row in rows]])
        path.write_text("\ufeff" + text.getvalue(), encoding="utf-8")
    else:
        pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in COLUMNS}), path)


def _cell(value: Any) -> Any:
    if not isinstance(value, list):
        return "" if value is None else value
    return " ".join(f"{one['origin']}:{one['seq']}" if isinstance(one, dict) else one for one in value)


def outcome(path: Path) -> Any:
    """The verdict and the metrics, or what cannot be read."""
    try:
        return local.verify(path), measured(path)
    except TraceError as error:
        return f"line {_place(str(error))}"


def _place(said: str) -> str:
    """Of an error: the number of the line or row, which in CSV has a header before it."""
    number = int(said.split(": ")[1].split()[1])
    return str(number - (".csv: " in said))


@pytest.mark.parametrize("column", COLUMNS)
def test_a_null_means_the_same_in_every_form(tmp_path: Path, column: str) -> None:
    """In one row, and in all: then a column of Parquet has no type. In CSV an empty cell of `deps` is an
    empty list, so that rows have one there, or none has any."""
    here = {**FULL, "dest": None} if column == "channel" else {**FULL, "channel": None}
    some = [OTHER | {"deps": []}, here | {column: [] if column == "deps" else None}]
    rows = {"some": some, "all": [row | {column: None} for row in some]}
    for name, given in rows.items():
        found = {}
        for form in FORMS:
            write(tmp_path / f"{name}.{form}", given)
            found[form] = outcome(tmp_path / f"{name}.{form}")
        assert found["parquet"] == found["jsonl"]
        if column == "deps" and name == "all":
            continue
        assert found["csv"] == found["jsonl"]
        broken = column in NEEDED
        assert isinstance(found["jsonl"], str) == broken
        if broken:
            assert found["jsonl"] == ("line 2" if name == "some" else "line 1")


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_the_data_source_reads_nulls_and_mixed_forms_alike(spark: SparkSession, tmp_path: Path) -> None:
    """A folder for each column that may be null, with a file of each form, and files with nothing in them."""
    thence.pipeline.register(spark)
    nullable = [name for name in COLUMNS if name not in NEEDED and name not in ("run", "group")]
    expected = []
    for column in nullable:
        folder = tmp_path / f"absent={column}"
        folder.mkdir()
        for number, form in enumerate(FORMS):
            rows = [FULL | {"pos": 10 * number + k, column: None} for k in range(2)]
            if column == "deps" and form == "csv":
                rows = [row | {"deps": []} for row in rows]
            write(folder / f"x.{form}", rows)
            expected += [(column, row["pos"], *[_told(row[name]) for name in nullable]) for row in rows]
        (folder / "empty.jsonl").touch()
        (folder / "header.csv").write_text("\ufeffnode,pos,kind\n")
    frame = spark.read.format("thence").option("split", 300).load(str(tmp_path))
    read = frame.select("absent", "pos", *nullable).collect()
    found = [(row["absent"], row["pos"], *[_told(row[name]) for name in nullable]) for row in read]
    assert sorted(found, key=str) == sorted(expected, key=str)


def _told(value: Any) -> Any:
    """Lists without the classes of those who read them."""
    if not isinstance(value, list):
        return value
    return [(one["origin"], one["seq"]) if not isinstance(one, str) else one for one in value]


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_measures_the_hostile_too(spark: SparkSession, tmp_path: Path) -> None:
    """In one folder of all forms and Hive's; sums that fit into no integer are left out."""
    corpus = [(seed, event) for seed in range(6) for event in timed(hostile(seed))]
    events = [msgspec.structs.replace(event, group=f"g{seed}") for seed, event in corpus]
    _by_run(tmp_path / "hive", events)
    more = [
        Event(node=f"m{k}", pos=1, kind="metric", origin=name, seq=LAST, at_us=1, run="told", group="g")
        for k in range(2)
        for name in ("sent_bytes_total", "disk_bytes")
    ]
    write_csv(tmp_path / "z.csv", more)
    found = {(run.run, run.group): run for run in measure(spark, tmp_path, split_bytes=2000).report.runs}
    sends = Counter((event.run, event.group) for event in events if event.kind == "send")
    assert {scope: run.sends for scope, run in found.items() if run.sends} == sends
    told = found["told", "g"]
    assert (told.totals, told.levels["disk_bytes"]["max"]) == ({}, LAST)


@pytest.mark.parametrize("split", ["0", "-5", "16m", ""])
def test_a_split_that_is_no_size_is_told(split: str) -> None:
    from thence.core.errors import UsageError
    from thence.pipeline.source import COLUMNS as NAMES
    from thence.pipeline.source import ThenceSource

    assert NAMES
    source = ThenceSource({"path": "/nowhere", "split": split})
    with pytest.raises(UsageError, match="how many bytes a task reads"):
        source.reader(schema=Any)  # type: ignore[arg-type]  # it is not looked at
