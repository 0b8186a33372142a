"""Writing a trace in every way that the format allows."""

import csv
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from thence.trace.schema import Event

OPTIONAL = (
    "run", "group", "origin", "seq", "at_us", "deps", "dest", "process", "incarnation", "carries",
    "channel",
)  # fmt: skip
COLUMNS = ("node", "pos", "kind", *OPTIONAL)


def write_jsonl(path: Path, events: Sequence[Event]) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events))


def _used(events: Sequence[Event]) -> list[str]:
    """Columns that hold anything; the others may as well be left out."""
    return [n for n in COLUMNS if n not in OPTIONAL or any(getattr(e, n) not in (None, "") for e in events)]


def write_csv(path: Path, events: Sequence[Event]) -> None:
    columns = _used(events)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([_cell(event, name) for name in columns] for event in events)


def _cell(event: Event, name: str) -> Any:
    value = getattr(event, name)
    if name in ("deps", "dest", "carries") and value is not None:
        return " ".join(str(item) for item in value)
    return "" if value is None else value


def csv_can_tell(events: Sequence[Event]) -> bool:
    """CSV has no way to say that a tag was not recorded in a file where another one was."""
    sends = [event.deps is None for event in events if event.kind == "send"]
    others = any(event.deps is not None for event in events if event.kind != "send")
    return not any(sends) or (all(sends) and not others)


def table(events: Sequence[Event], rng: Random | None = None) -> pa.Table:
    """The events as Arrow, with types that vary as other people's files do."""
    rng = rng or Random(0)
    text = rng.choice([pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
    counter = rng.choice([pa.int64(), pa.uint64(), pa.int32()])
    plain = pa.large_string() if rng.random() < 0.5 else pa.string()
    dots = rng.choice([pa.list_, pa.large_list])(pa.struct([("origin", plain), ("seq", counter)]))
    types = dict.fromkeys(("run", "group", "node", "kind", "origin"), text)
    types |= {"pos": rng.choice([pa.int64(), pa.uint64()]), "seq": counter, "at_us": pa.int64()}
    types |= {"deps": dots, "dest": pa.list_(plain), "carries": dots, "process": text, "incarnation": counter}
    types["channel"] = text
    columns = _used(events) if rng.random() < 0.5 else list(COLUMNS)
    rows = [msgspec.to_builtins(event) for event in events]
    return pa.table({name: pa.array([row.get(name) for row in rows], types[name]) for name in columns})


def write_parquet(path: Path, events: Sequence[Event], rng: Random | None = None) -> None:
    pq.write_table(table(events, rng), path, row_group_size=1000)


def scatter(rng: Random, folder: Path, events: Sequence[Event], files: int) -> None:
    """Spread the rows over files of all formats in nested folders, in any order."""
    parts: list[list[Event]] = [[] for _ in range(files)]
    for event in rng.sample(list(events), len(events)):
        rng.choice(parts).append(event)
    for number, part in enumerate(parts):
        inner = folder.joinpath(*(f"d{rng.randint(0, 2)}" for _ in range(rng.randint(0, 2))))
        inner.mkdir(parents=True, exist_ok=True)
        form = rng.choice(["parquet", "jsonl", "csv"])
        if form == "csv" and csv_can_tell(part):
            write_csv(inner / f"{number}.csv", part)
        elif form == "parquet":
            write_parquet(inner / f"{number}.parquet", part, rng)
        else:
            write_jsonl(inner / f"{number}.jsonl", part)
