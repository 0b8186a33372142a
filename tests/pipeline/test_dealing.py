"""Unit: rows are put in order by counting, as a sort by scope, bucket, node and position would do it."""

from random import Random

import numpy as np
import pytest
from pipeline.layouts import table
from support.runs import random_run, sabotage

from thence.pipeline import pack as packing
from thence.pipeline.pack import bucket_of, pack, unpack
from thence.pipeline.rows import decode
from thence.trace.schema import Event

Told = list[tuple[str, str, int, str, int, int, str, int]]


def told(events: list[Event], buckets: int) -> Told:
    """Run, group, bucket, node, position, kind, origin and counter of each row, as they are packed."""
    found: Told = []
    for piece in pack(decode(table(events)), buckets):
        chunk = unpack(piece.payload)
        node = np.repeat(chunk.nodes, chunk.counts).tolist()
        columns = (node, chunk.positions().tolist(), chunk.kind.tolist(), chunk.origin.tolist(), chunk.seq)
        found += [
            (piece.run, piece.group, piece.bucket, chunk.names[n], pos, kind, chunk.names[origin], int(seq))
            for n, pos, kind, origin, seq in zip(*columns, strict=True)
            if piece.bucket != packing.COMMON
        ]
    return found


def some(rng: Random, order: str) -> list[Event]:
    """Rows of several runs: those of each node in order, node by node; in order among others'; or not."""
    runs = [sabotage(rng, random_run(rng, f"r{number}")) for number in range(rng.randint(1, 3))]
    events = [event for run in runs for event in run]
    names = {name: code for code, name in enumerate(dict.fromkeys(event.node for event in events))}
    if order == "mixed":
        return rng.sample(events, len(events))
    if order == "by node":
        return sorted(events, key=lambda event: (event.pos, rng.random()))
    return sorted(events, key=lambda event: (event.run, names[event.node], event.pos))


@pytest.mark.parametrize("order", ["in order", "by node", "mixed"])
@pytest.mark.parametrize("buckets", [1, 5])
def test_rows_are_in_order_and_none_is_lost(
    monkeypatch: pytest.MonkeyPatch, order: str, buckets: int
) -> None:
    monkeypatch.setattr("thence.pipeline.pack.BUCKETED_ROWS", 1)
    for seed in range(40):
        events = some(Random(seed), order)
        found = told(events, buckets)
        monkeypatch.setattr("thence.pipeline.pack.KEYS_FEW", 1 << 16 if seed % 2 else 0)
        again = told(events, buckets)
        assert again == found
        for run in {row[0] for row in found}:
            mine = [row for row in found if row[0] == run]
            heads = list(dict.fromkeys((row[2], row[3]) for row in mine))
            assert [(row[2], row[3]) for row in mine] == [
                head for head in heads for row in mine if (row[2], row[3]) == head
            ], "a node's rows stand together"
            for head in heads:
                places = [row[4] for row in mine if (row[2], row[3]) == head]
                assert places == sorted(places)
        if buckets > 1:
            assert all(row[2] == bucket_of(row[3], buckets) for row in found)
        assert sorted((row[0], row[3], row[4]) for row in found) == sorted(
            (event.run, event.node, event.pos) for event in events
        )
        about = {(event.run, event.node, event.pos, event.origin, event.seq) for event in events}
        for run, _, _, node, pos, _, origin, seq in found:
            assert (run, node, pos, origin, seq) in about or (origin, seq) == (node, 0)
