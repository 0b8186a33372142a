"""Columns of nodes as Parquet: nodes with few rows share a row group, with the rows that they recorded."""

from io import BytesIO
from random import Random

import pyarrow.parquet as pq
import pytest

from thence.core.dots import pack
from thence.trace import parquet
from thence.trace.parquet import ParquetTrace
from thence.trace.recorder import DELIVER, HOLD, KINDS, RESTART, SEND, START, NodeColumns

NAMES = [f"n{number}" for number in range(300)]
CHANNELS = ["north", "south"]


def written(seed: int = 1) -> tuple[bytes, list[dict[str, object]]]:
    """A file of nodes with a few rows each, and the rows that it should have."""
    rng, sink, rows = Random(seed), BytesIO(), []
    lives = [(name.rstrip("0123456789"), number % 3 + 1) for number, name in enumerate(NAMES)]
    trace = ParquetTrace(sink, NAMES, "r", lives, channels=CHANNELS)
    empty = dict.fromkeys(("origin", "seq", "deps", "carries", "channel"))
    for node, name in enumerate(NAMES):
        columns = NodeColumns()
        for pos in range(rng.randint(0, 8)):
            kind, other, seq = rng.choice((START, SEND, DELIVER, HOLD, RESTART)), rng.randrange(300), pos + 1
            row = {**empty, "run": "r", "node": name, "pos": pos, "kind": KINDS[kind], "at_us": pos * 10}
            row |= {"process": lives[node][0], "incarnation": lives[node][1]}
            if kind != START:
                row |= {"origin": NAMES[other], "seq": seq}
            if kind in (SEND, RESTART):
                row |= {"deps": [{"origin": NAMES[other], "seq": each} for each in range(1, pos)]}
                if kind == SEND and pos % 2:
                    row |= {"carries": [{"origin": NAMES[node], "seq": 7}], "channel": CHANNELS[pos % 4 // 2]}
                    columns.tell_channel(pos % 4 // 2)
                    columns.carry((pack(node, 7),))
                columns.record_deps(
                    kind, pack(other, seq), tuple(pack(other, each) for each in range(1, pos)), pos * 10
                )
            else:
                columns.record(kind, 0 if kind == START else pack(other, seq), pos * 10)
            rows.append(row)
        trace.write(node, columns)
        if node % 50 == 0:
            trace.tell(node, 100, {"bytes": node, "words": 1}, 5)
            for place, (what, value) in enumerate({"bytes": node, "words": 1}.items(), 100):
                told = {"run": "r", "node": name, "pos": place, "kind": "metric", "at_us": 5}
                rows.append(
                    {**empty, "process": None, "incarnation": None, **told, "origin": what, "seq": value}
                )
    trace.close()
    return sink.getvalue(), rows


@pytest.mark.parametrize("rows_per_group", [1, 40, 1 << 16])
def test_rows_come_back_as_they_were_recorded(monkeypatch: pytest.MonkeyPatch, rows_per_group: int) -> None:
    monkeypatch.setattr(parquet, "ROWS_PER_GROUP", rows_per_group)
    data, rows = written()
    assert sorted(pq.read_table(BytesIO(data)).to_pylist(), key=_place) == sorted(rows, key=_place)


def _place(row: dict[str, object]) -> tuple[str, str]:
    return str(row["node"]), f"{row['pos']:>9}"


def test_nodes_with_few_rows_share_a_row_group() -> None:
    """One for the nodes, one for what they counted, and not 300: each has a copy of all names."""
    data, _ = written()
    assert pq.read_metadata(BytesIO(data)).num_row_groups == 2


def test_the_same_rows_are_the_same_bytes() -> None:
    assert written(3)[0] == written(3)[0]
