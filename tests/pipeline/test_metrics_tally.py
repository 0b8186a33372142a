"""Unit and differential: the kernels of metrics against definitions in plain Python, without Spark."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from pipeline.layouts import table
from support.metrics_model import describe, models, random_trace

from thence.pipeline.metrics.sorting import counted, heaps, sorted_order
from thence.pipeline.metrics.tally import CATCH_UP, Tally, pack_counts, quantiles, rounded, tally
from thence.pipeline.metrics.timed import ROWS, decode_timed, pack_timed
from thence.pipeline.rows import RowError
from thence.trace.schema import Event

BIN_US = 1000


def told(events: Sequence[Event], parts: int, batch: int) -> dict[str, list[Tally]]:
    """By run: what all parts tell, of rows that come in batches."""
    pieces = [
        piece
        for start in range(0, len(events), batch)
        for piece in pack_timed(decode_timed(table(events[start : start + batch])), parts)
    ]
    found: dict[str, list[Tally]] = {}
    for run in sorted({piece.run for piece in pieces}):
        for part in range(parts):
            mine = [piece.payload for piece in pieces if (piece.run, piece.part) == (run, part)]
            found.setdefault(run, []).extend(tally(mine, BIN_US) if mine else [])
    return found


@pytest.mark.parametrize("seed", range(60))
def test_distributions_are_those_of_the_definitions(seed: int) -> None:
    rng = Random(seed)
    events = random_trace(rng)
    rng.shuffle(events)
    found = told(events, parts=rng.randint(1, 3), batch=rng.choice([7, 1000]))
    for run, model in models(events, BIN_US).items():
        expected = model.distributions()
        groups: dict[tuple[str, str, str, str, int], list[Tally]] = {}
        for row in found[run]:
            if row.by in ("run", "member", "bin", "link") and row.measure in MEASURES:
                groups.setdefault((row.measure, row.by, row.node, row.origin, row.start_us), []).append(row)
        assert groups.keys() == expected.keys()
        for key, rows in groups.items():
            assert_close(rows, expected[key])


MEASURES = ("delivery", "broadcast", "stability", "held")


def assert_close(rows: list[Tally], expected: dict[str, float]) -> None:
    """Percentiles to a millionth, everything else to the microsecond."""
    count = sum(row.number for row in rows)
    assert (count, max(row.max for row in rows)) == (expected["count"], expected["max"])
    assert sum(row.total for row in rows) / count == expected["mean"]
    whole = rows[0].by == "link"
    ranks = list(rows[0][7:10]) if whole else quantiles([row.payload for row in rows])
    for ours, theirs in zip(ranks, (expected["p50"], expected["p90"], expected["p99"]), strict=True):
        assert ours <= theirs <= ours * (1 if whole or theirs < 1 << 20 else 1 + 2**-19)


@pytest.mark.parametrize("seed", range(30))
def test_marks_are_those_of_the_definitions(seed: int) -> None:
    rng = Random(seed)
    events = random_trace(rng)
    parts = rng.randint(1, 3)
    found = told(events, parts, batch=50)
    for run, model in models(events, BIN_US).items():
        marks = [row for row in found[run] if row.by == "mark"]
        first: dict[tuple[str, str, str, int], list[int]] = {}
        heals: dict[int, list[Tally]] = {}
        behind: dict[tuple[str, str, int], list[Tally]] = {}
        for row in marks:
            if row.measure == "heal":
                heals.setdefault(row.start_us, []).append(row)
            elif row.measure == CATCH_UP:
                behind.setdefault((row.origin, row.node, row.start_us), []).append(row)
            else:
                times = first.setdefault((row.measure, row.node, row.origin, row.start_us), [])
                times += [int(row.total)] if row.total >= 0 else []
        assert {(*key, min(times, default=None)) for key, times in first.items()} == model.marks()
        assert {
            (at, sum(row.number for row in rows), max(row.total for row in rows))
            for at, rows in heals.items()
        } == model.heals()
        assert {
            (*key, sum(row.number for row in rows), max(row.total for row in rows))
            for key, rows in behind.items()
        } == model.catch_ups()


def test_what_cannot_be_told_is_counted() -> None:
    events = [
        Event(node="a", pos=0, kind="send", origin="a", seq=1, at_us=100),
        Event(node="b", pos=0, kind="deliver", origin="a", seq=1, at_us=90),  # clocks differ
        Event(node="b", pos=1, kind="deliver", origin="a", seq=2, at_us=95),  # never sent
        Event(node="b", pos=2, kind="deliver", origin="a", seq=1),  # when?
        Event(node="b", pos=3, kind="hold", origin="a", seq=1, at_us=99),  # still waiting
    ]
    rows = {row.measure: row.number for row in told(events, 1, 10)[""] if row.by == "run"}
    assert rows == {
        "untimed": 1, "delivery without send": 1, "delivery before send": 1, "held without delivery": 1,
    }  # fmt: skip


def test_contexts_are_counted_by_their_entries() -> None:
    events = [event for event in random_trace(Random(4), 300) if event.run == ""]
    entries = [len(event.deps) for event in events if event.kind == "send" and event.deps is not None]
    rows = [row for row in told(events, 2, 1000)[""] if row.measure == "entries"]
    assert_close(rows, describe(entries))


def test_values_beyond_a_second_keep_twenty_bits() -> None:
    values = np.array([0, 5, (1 << 20) - 1, (1 << 20) + 1, (1 << 40) + 12345], np.int64)
    kept = rounded(values)
    assert kept.tolist()[:3] == values.tolist()[:3]
    assert all(0 <= (v - k) / v < 2**-19 for v, k in zip(values[1:].tolist(), kept[1:].tolist(), strict=True))
    assert quantiles([pack_counts(values[:3]), pack_counts(values[1:3])]) == [5, (1 << 20) - 1, (1 << 20) - 1]


@pytest.mark.parametrize("top", [0, 1, 2000, 1 << 33, (1 << 62) - 1])
def test_sorting_is_stable_and_heaps_are_sorted(top: int) -> None:
    rng = np.random.default_rng(top % 97)
    values = rng.integers(0, top + 1, 500)
    order = sorted_order(values)
    assert order.tolist() == np.argsort(values, kind="stable").tolist()
    keys = rng.integers(0, 7, 500)
    out, bounds = heaps(values, keys, 7)
    for key in range(7):
        assert out[bounds[key] : bounds[key + 1]].tolist() == sorted(values[keys == key].tolist())
    for given in (values, values % 50):
        distinct, counts = counted(given)
        assert dict(zip(distinct.tolist(), counts.tolist(), strict=True)) == Counter(given.tolist())
        assert distinct.tolist() == sorted(distinct.tolist())


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [("node", None, "no node"), ("kind", None, "no kind"), ("origin", None, "no origin"),
     ("seq", None, "no seq"), ("seq", -1, "negative counter"), ("at_us", -5, "negative time"),
     ("pos", None, "no position")],
)  # fmt: skip
def test_a_row_that_cannot_be_read_is_named(column: str, value: object, said: str) -> None:
    good = {"node": "a", "pos": 0, "kind": "send", "origin": "a", "seq": 1, "at_us": 5}
    with pytest.raises(RowError, match=said) as caught:
        decode_timed(pa.Table.from_pylist([good, good | {"pos": 1, column: value}]))
    assert caught.value.index == 1


def test_rows_without_messages_travel_as_they_are() -> None:
    events = [
        Event(node="a", pos=7, kind="metric", origin="disk_bytes", seq=12, at_us=5),
        Event(node="a", pos=8, kind="receive", origin="b", seq=1),
    ]
    [piece] = pack_timed(decode_timed(table(events)), 3)
    assert (piece.part, piece.events) == (ROWS, 2)
