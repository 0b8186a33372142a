"""Runs cut by their nodes: the oracle's verdicts, and memory that falls with the number of tasks."""

import tracemalloc
from collections import Counter
from random import Random
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from support.run_channels import channel_run
from support.runs import random_run, sabotage

from thence.check.oracle import judge as oracle
from thence.pipeline import lost, marks, report
from thence.pipeline.bench import some_rows
from thence.pipeline.judge import Part, judge, tell_pasts
from thence.pipeline.pack import COMMON, Piece, pack
from thence.pipeline.plan import Share, Size, plan
from thence.pipeline.readers import Line, _event_table
from thence.pipeline.rows import FORMAT, decode
from thence.pipeline.shards import Payload, Shard
from thence.trace.schema import Event

BUCKETS = 16
Row = dict[str, Any]


def pieces_of(events: list[Event]) -> list[Piece]:
    lines = [msgspec.convert(msgspec.to_builtins(event), Line) for event in events]
    return list(pack(decode(_event_table(lines, FORMAT)), BUCKETS))


def given(pieces: list[Piece], shard: Shard | None) -> list[Payload]:
    """What a task gets: of a shard, its buckets and what is common; of a whole run, all that is not."""
    if shard is None:
        return [Payload(piece.bucket, piece.payload) for piece in pieces if piece.bucket != COMMON]
    wanted = [piece for piece in pieces if piece.bucket < 0 or piece.bucket in shard.own]
    return [Payload(piece.bucket, piece.payload) for piece in wanted]


def parts_of(shards: int, blocks: int, buckets: int = BUCKETS) -> list[Part]:
    own = [frozenset(range(number, buckets, shards)) for number in range(shards)]
    return [
        Part(block, blocks, None, Shard(number, shards, own[number], buckets) if shards > 1 else None)
        for number in range(shards)
        for block in range(blocks)
    ]


def found_in(pieces: list[Piece], shards: int, blocks: int) -> tuple[list[Row], int]:
    """Everything that is found, and in how many rounds; 0: the run cannot be cut."""
    if any(piece.restarts for piece in pieces):
        return found_in_parts(pieces, parts_of(1, blocks), {}), 0
    parts = parts_of(shards, blocks)
    told: dict[int, list[Any]] = {block: [] for block in range(blocks)}
    for part in parts:
        told[part.block] += [one.payload for one in tell_pasts(given(pieces, part.shard), part)]
    for number in range(1, 100):
        found = found_in_parts(pieces, parts, told)
        if any(row["what"] == "circle" for row in found):
            return found_in_parts(pieces, parts_of(1, blocks), {}), 0
        grown = [row for row in found if row["what"] == "pasts"]
        if not grown:
            return found, number
        for row in grown:
            told[row["block"]].append(row["payload"])
    raise AssertionError("pasts grow without end")


def found_in_parts(pieces: list[Piece], parts: list[Part], told: dict[int, list[Any]]) -> list[Row]:
    return [
        {**one.row("", ""), "shard": part.shard.number if part.shard else 0, "block": part.block}
        for part in parts
        for one in judge(given(pieces, part.shard), part, told.get(part.block, ()))
    ]


def settled(found: list[Row]) -> list[Row]:
    rows = [row for row in found if row["what"] not in ("marks", "holding")]
    for what, of, settle in (("marks", "shard", marks.settle), ("holding", "block", lost.settle)):
        mine = [row for row in found if row["what"] == what]
        for place in sorted({row[of] for row in mine}):
            sheets = [row["payload"] for row in mine if row[of] == place]
            rows += [one.row("", "") for one in settle(sheets, None)]
    return rows


@pytest.mark.parametrize(
    ("seed", "shards", "blocks", "bucketed"),
    [(1, 2, 1, 1), (2, 3, 1, 1), (3, 8, 1, 1), (4, 3, 1, 20), (5, 2, 1, 1000), (6, 3, 3, 1)],
)
def test_shards_and_the_oracle_agree(
    monkeypatch: pytest.MonkeyPatch, seed: int, shards: int, blocks: int, bucketed: int
) -> None:
    """Whether a run's rows are dealt into buckets or not: where there are `bucketed` rows and more."""
    monkeypatch.setattr("thence.pipeline.pack.BUCKETED_ROWS", bucketed)
    rng, rounds = Random(seed), Counter[int]()
    for number in range(250):
        events = channel_run(rng, "") if number % 5 == 4 else random_run(rng, "")
        if number % 5 != 4 and rng.random() < 0.6:
            events = sabotage(rng, events)
        (verdict,) = oracle(events)
        expected = Counter(
            (flag.verdict, flag.node, -1 if flag.pos is None else flag.pos, flag.message)
            for flag in verdict.flagged
        )
        found, took = found_in(pieces_of(events), shards, blocks)
        rows = settled(found)
        examples = [row for row in rows if row["what"] == "example"]
        told = Counter((row["verdict"], row["node"], row["pos"], row["message"]) for row in examples)
        (run,) = report.build(rows, 0).runs
        assert told == expected, (seed, number)
        assert run.violations == verdict.violations, (seed, number)
        assert (run.nodes, run.sends, run.deliveries, run.stables) == (
            verdict.nodes, verdict.sends, verdict.deliveries, verdict.stables,
        )  # fmt: skip
        rounds[took] += 1
    assert rounds[1] > 50
    assert rounds[2] >= 1


def test_knowledge_that_comes_round_three_corners_takes_three_rounds() -> None:
    """a's message is lost on the way to all but b, and c, d, e hear of it only through each other."""
    order = "abcde"
    rows = []
    for index, node in enumerate(order):
        if index:
            rows.append(Event(node=node, pos=1, kind="deliver", origin=order[index - 1], seq=1))
        rows.append(Event(node=node, pos=2, kind="send", origin=node, seq=1))
    rows.append(Event(node="f", pos=1, kind="deliver", origin="e", seq=1))
    found, rounds = found_in(pieces_of(rows), 8, 1)
    (run,) = report.build(settled(found), 0).runs
    (verdict,) = oracle(rows)
    assert run.violations == verdict.violations
    assert run.violations["order"] == 4  # at c, d, e and f
    assert rounds > 2


NODES, MESSAGES = 100, 4_000


def bytes_of(pieces: list[Piece], part: Part, told: list[Any]) -> int:
    """What a judging task allocates at most, and what it was sent."""
    rows = given(pieces, part.shard)
    sent = sum(len(row.binary) for row in rows) + sum(map(len, told))
    tracemalloc.start()
    try:
        judge(rows, part, told)
        return sent + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_falls_with_the_number_of_tasks() -> None:
    """Bytes of the largest task, by the formula of docs/PIPELINE.md and as they are allocated."""
    names = pa.array([f"n{number:02}" for number in range(NODES)])
    rows = decode(some_rows(0, MESSAGES, NODES, names, False))
    events, buckets = len(rows.pos), 100
    pieces = list(pack(rows, buckets))
    peaks = {}
    for shards, blocks in CUTS:
        shares = plan([_size(pieces, events)], shards * blocks, blocks, shards, buckets)
        parts = [_part(share, buckets) for share in shares]
        told: dict[int, list[Any]] = {block: [] for block in range(blocks)}
        for part in parts:
            if part.shard:
                told[part.block] += [one.payload for one in tell_pasts(given(pieces, part.shard), part)]
        judge(given(pieces, parts[0].shard), parts[0], told[0])  # kernels are compiled
        peaks[shards] = max(bytes_of(pieces, part, told[part.block]) for part in parts)
        known = dict(dealt_in(pieces))
        most = max(sum(known.get(bucket, 0) for bucket in share.own) for share in shares)
        own = most if shards > 1 else events
        formula = 33 * own + 5 * MESSAGES * NODES / blocks + 300 * MESSAGES
        assert peaks[shards] < formula, (shards, blocks, peaks[shards] / events, formula / events)
    assert peaks[2] < 0.8 * peaks[1]
    assert peaks[4] < 0.7 * peaks[2]
    assert peaks[8] < 0.7 * peaks[4]


CUTS = ((1, 1), (2, 1), (4, 2), (8, 4))
"""Shards of nodes, and blocks of columns for the matrix of pasts."""


def _part(share: Share, buckets: int) -> Part:
    shard = Shard(share.shard, share.shards, frozenset(share.own), buckets) if share.shards > 1 else None
    return Part(share.block, share.blocks, 10, shard)


def dealt_in(pieces: list[Piece]) -> list[tuple[int, int]]:
    return [(piece.bucket, piece.events) for piece in pieces if piece.bucket >= 0]


def _size(pieces: list[Piece], events: int) -> Size:
    return Size("", "", events, MESSAGES, NODES, 0, tuple(dealt_in(pieces)))


def test_a_task_is_sent_only_what_it_needs() -> None:
    names = pa.array([f"n{number:02}" for number in range(NODES)])
    pieces = list(pack(decode(some_rows(0, 500, NODES, names, False)), BUCKETS))
    whole = sum(len(row.binary) for row in given(pieces, None))
    for part in parts_of(4, 1):
        assert sum(len(row.binary) for row in given(pieces, part.shard)) < 0.6 * whole


def test_runs_that_cannot_be_cut_are_judged_whole() -> None:
    size = Size("", "", 10**8, 10**6, 100, restarts=1)
    assert {share.shards for share in plan([size], 2, buckets=64)} == {1}
    assert {share.shards for share in plan([size._replace(restarts=0)], 2, buckets=64)} == {3}
    assert {share.shards for share in plan([size._replace(restarts=0)], 2, buckets=1)} == {1}


def test_every_bucket_is_dealt() -> None:
    size = Size("", "", 10**8, 10**6, 100, buckets=tuple((bucket, 10**6) for bucket in range(0, 64, 3)))
    shares = plan([size], 2, buckets=64)
    assert sorted(bucket for share in shares for bucket in share.own) == list(range(64))
    assert np.ptp([len([b for b in share.own if b % 3 == 0]) for share in shares]) <= 1
