"""Format: traces at the edge of what may stand in one, in every layout, against the oracle."""

from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipeline.layouts import csv_can_tell, write_csv, write_jsonl
from pyspark.sql import SparkSession

import thence.pipeline
from thence.check.oracle import judge
from thence.pipeline import local
from thence.pipeline.verify import verify
from thence.trace.schema import Dot, Event

LAST = 2**63 - 1
NAMES = [
    "a", 'q"u,o\'te', "back\\slash", "co:lon:", "ünïcödé", "日本", "🦀", "e\u0301", "\u200b", "=run", "null",
    "-",
]  # fmt: skip
RUNS = ["", "a b", "x/y=z", "🦀 'n' \"quotes\"", "null", "None"]


def hostile(seed: int) -> list[Event]:
    """A few runs of nodes with such names: huge positions and counters, gaps, things that were never sent."""
    rng = Random(seed)
    events = []
    for run in rng.sample(RUNS, 3):
        nodes = rng.sample(NAMES, 4)
        sent: list[Dot] = []
        for node in nodes:
            spots = sorted(rng.sample([0, 1, 2, 3, 2**31, 2**32, 2**40 + 1, LAST - 1, LAST], 6))
            count = 0
            for pos in spots:
                kind = rng.choice(["send", "deliver", "link", "stable", "install"])
                if kind == "send":
                    count = rng.choice([count + 1, count + 1, LAST])
                    deps = rng.choice([[], rng.sample(sent, min(2, len(sent))), [Dot("unknown", LAST)]])
                    sent.append(Dot(node, count))
                    dot, dest = sent[-1], rng.choice([None, [], rng.sample(nodes, 2)])
                    events.append(
                        Event(run=run, node=node, pos=pos, kind=kind, origin=dot.origin, seq=dot.seq,
                              deps=deps, dest=dest, at_us=rng.choice([None, -(2**62), LAST]))
                    )  # fmt: skip
                elif kind == "install":
                    deps = rng.sample(sent, min(1, len(sent)))
                    events.append(Event(run=run, node=node, pos=pos, kind=kind, deps=deps))
                else:
                    dot = rng.choice(sent) if sent and kind != "link" else Dot("ghost", rng.choice([1, LAST]))
                    events.append(
                        Event(run=run, node=node, pos=pos, kind=kind, origin=dot.origin, seq=dot.seq)
                    )
                if count == LAST:
                    break
    return events


def expected(events: list[Event]) -> list[tuple[Any, ...]]:
    return sorted((v.run, v.nodes, v.sends, v.deliveries, v.stables, v.violations) for v in judge(events))


def found(report: Any) -> list[tuple[Any, ...]]:
    return sorted((r.run, r.nodes, r.sends, r.deliveries, r.stables, r.violations) for r in report.runs)


@pytest.mark.parametrize("seed", range(25))
def test_every_layout_says_what_the_oracle_says(tmp_path: Path, seed: int) -> None:
    events = hostile(seed)
    write_jsonl(tmp_path / "x.jsonl", events)
    assert found(local.verify(tmp_path / "x.jsonl", split_bytes=50)) == expected(events)
    _write_wide(tmp_path / "y.parquet", events)
    assert found(local.verify(tmp_path / "y.parquet")) == expected(events)
    if csv_can_tell(events):
        write_csv(tmp_path / "z.csv", events)
        assert found(local.verify(tmp_path / "z.csv", split_bytes=50)) == expected(events)
    _by_run(tmp_path / "hive", events)
    assert found(local.verify(tmp_path / "hive")) == expected(events)


def _write_wide(path: Path, events: list[Event]) -> None:
    """All columns, null where nothing stands, and one that the format does not know."""
    dots = pa.list_(pa.struct([("seq", pa.int64()), ("more", pa.string()), ("origin", pa.string())]))
    kinds = {
        "run": pa.string(), "group": pa.string(), "node": pa.dictionary(pa.int8(), pa.string()),
        "pos": pa.uint64(), "kind": pa.large_string(), "origin": pa.string_view(), "seq": pa.uint64(),
        "at_us": pa.int64(), "deps": dots, "dest": pa.large_list(pa.string()), "process": pa.null(),
        "incarnation": pa.int8(), "carries": pa.null(), "channel": pa.string(), "colour": pa.float64(),
    }  # fmt: skip
    rows = [msgspec.to_builtins(event) for event in events]
    columns = {name: pa.array([row.get(name) for row in rows], kind) for name, kind in kinds.items()}
    pq.write_table(pa.table(columns), path)


def _by_run(folder: Path, events: list[Event]) -> None:
    """Hive folders, and files with nothing in them beside the others."""
    for number, run in enumerate(sorted({event.run for event in events})):
        quoted = quote(run, safe="")
        inner = folder / f"run={quoted or '__HIVE_DEFAULT_PARTITION__'}"
        inner.mkdir(parents=True)
        mine = [msgspec.structs.replace(event, run="") for event in events if event.run == run]
        if number % 2:
            _write_wide(inner / "x.parquet", mine)
        else:
            write_jsonl(inner / "x.jsonl", mine)
        (inner / "empty.jsonl").touch()
        (inner / "header.csv").write_text("\ufeffnode,pos,kind\n")
        pq.write_table(pa.table({"node": pa.array([], pa.string()), "pos": pa.array([], pa.int8()),
                                 "kind": pa.array([], pa.null())}), inner / "none.parquet")  # fmt: skip


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_reads_and_judges_them_too(spark: SparkSession, tmp_path: Path) -> None:
    events = [
        msgspec.structs.replace(event, group=f"g{seed}") for seed in range(8) for event in hostile(seed)
    ]
    write_jsonl(tmp_path / "x.jsonl", events[::2])
    _write_wide(tmp_path / "y.parquet", events[1::2])
    _write_wide(tmp_path / "none.parquet", [])
    assert verify(spark, tmp_path, split_bytes=2000, split_rows=50) == local.verify(tmp_path)
    thence.pipeline.register(spark)
    frame = spark.read.format("thence").option("split", 2000).load(str(tmp_path))
    names = ("run", "group", "node", "pos", "kind", "origin", "seq", "at_us")
    read = sorted(tuple(row) for row in frame.select(*[f"`{name}`" for name in names]).collect())
    assert [row[:5] for row in read] == sorted((e.run, e.group, e.node, e.pos, e.kind) for e in events)
    told = {(row[0], row[1], row[2], row[3]): row[5:] for row in read}
    assert all(told[e.run, e.group, e.node, e.pos] == (e.origin, e.seq, e.at_us) for e in events)
