"""Runs cut by their nodes: the oracle's verdicts, and memory that falls with the number of tasks."""

import tracemalloc
from collections import Counter
from random import Random
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as over
from hypothesis import strategies as st
from support.run_channels import channel_run
from support.runs import random_run, sabotage

from thence.check.oracle import judge as oracle
from thence.pipeline import lost, marks, report
from thence.pipeline.bench import some_rows
from thence.pipeline.judge import judge, tell_pasts
from thence.pipeline.outcome import Part
from thence.pipeline.pack import COMMON, PackedPiece, pack
from thence.pipeline.plan import Share, Size, plan
from thence.pipeline.readers import TraceRow, _event_table
from thence.pipeline.rows import FORMAT, decode
from thence.pipeline.shards import Payload, Shard
from thence.trace.schema import Dot, Event

BUCKETS = 16
Row = dict[str, Any]


def pieces_of(events: list[Event]) -> list[PackedPiece]:
    lines = [msgspec.convert(msgspec.to_builtins(event), TraceRow) for event in events]
    return list(pack(decode(_event_table(lines, FORMAT)), BUCKETS))


def given(pieces: list[PackedPiece], shard: Shard | None) -> list[Payload]:
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


Told = dict[int, list[Any]]
"""By block: what shards told of pasts."""


def found_in(pieces: list[PackedPiece], shards: int, blocks: int) -> tuple[list[Row], int]:
    """Everything that is found, and in how many rounds; 0: the run cannot be cut."""
    _, found, rounds = in_rounds(pieces, parts_of(shards, blocks))
    if rounds == 0:
        return found_in_parts(pieces, parts_of(1, blocks), {}), 0
    return found, rounds


def in_rounds(pieces: list[PackedPiece], parts: list[Part]) -> tuple[Told, list[Row], int]:
    """What all know in the last round, and what they find in it."""
    told: Told = {part.block: [] for part in parts}
    for part in parts:
        if part.shard:
            told[part.block] += [one.payload for one in tell_pasts(given(pieces, part.shard), part)]
    for number in range(1, 100):
        found = found_in_parts(pieces, parts, told, again=number > 1)
        if any(row["what"] == "circle" for row in found):
            return told, [], 0
        if not any(row["what"] == "pasts" for row in found):
            return told, found, number
        if number > 1:  # then each shard tells all that it knows
            told = {block: [] for block in told}
        for row in found:
            if row["what"] in ("pasts", "same"):
                told[row["block"]].append(row["payload"])
    raise AssertionError("pasts grow without end")


def found_in_parts(
    pieces: list[PackedPiece], parts: list[Part], told: Told, *, again: bool = False
) -> list[Row]:
    return [
        {**one.row("", ""), "shard": part.shard.number if part.shard else 0, "block": part.block}
        for part in parts
        for one in judge(given(pieces, part.shard), part, told.get(part.block, ()), again=again)
    ]


def settled(found: list[Row]) -> list[Row]:
    rows = [row for row in found if row["what"] not in ("marks", "holding", "same")]
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
    rng, rounds = Random(seed), Counter[tuple[int, bool]]()
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
        rounds[took, any(event.kind == "restart" for event in events)] += 1
    assert rounds[1, False] > 30
    assert rounds[1, True] + rounds[2, True] > 30
    assert rounds[0, False] + rounds[0, True] >= 1


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


def test_a_circle_through_what_was_forgotten_is_found() -> None:
    """a sends after a restart that took b's message from it, and b had sent that after it got a's. No past
    shows it, and each node alone could go on."""
    rows = [
        Event(node="a", pos=1, kind="deliver", origin="b", seq=1),
        Event(node="a", pos=2, kind="restart", deps=[]),
        Event(node="a", pos=3, kind="send", origin="a", seq=1),
        Event(node="b", pos=1, kind="deliver", origin="a", seq=1),
        Event(node="b", pos=2, kind="send", origin="b", seq=1),
    ]
    found, rounds = found_in(pieces_of(rows), 8, 1)
    (run,) = report.build(settled(found), 0).runs
    (verdict,) = oracle(rows)
    assert rounds == 0
    assert run.violations == verdict.violations
    assert run.violations["order"] == 2


@pytest.mark.parametrize("restarts", [False, True])
@over(
    seed=st.integers(0, 2**32), faults=st.integers(0, 4), shards=st.integers(2, 8), blocks=st.integers(1, 3)
)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_shards_find_in_sabotaged_runs_what_the_oracle_finds(
    monkeypatch: pytest.MonkeyPatch, restarts: bool, seed: int, faults: int, shards: int, blocks: int
) -> None:
    monkeypatch.setattr("thence.pipeline.pack.BUCKETED_ROWS", 1)
    rng = Random(seed)
    events = random_run(rng, "")
    for _ in range(faults):
        events = sabotage(rng, events)
    if restarts:
        events = with_restarts(rng, events)
    (verdict,) = oracle(events)
    (run,) = report.build(settled(found_in(pieces_of(events), shards, blocks)[0]), 0).runs
    assert run.violations == verdict.violations


def with_restarts(rng: Random, events: list[Event]) -> list[Event]:
    """Restarts that the system never made, with frontiers of whatever was sent, or of nothing."""
    sent = [Dot(one.origin, one.seq) for one in events if one.kind == "send" and one.origin and one.seq]
    placed = {(event.node, event.pos) for event in events}
    more = []
    for event in rng.sample(events, min(len(events), rng.randint(1, 4))):
        place = event.node, event.pos + 1
        if place not in placed:
            placed.add(place)
            deps = rng.sample(sent, min(len(sent), rng.randint(0, 2)))
            more.append(
                Event(
                    run=event.run, group=event.group, node=place[0], pos=place[1], kind="restart", deps=deps
                )
            )
    return events + more


NODES, MESSAGES = 100, 4_000


def bytes_of(pieces: list[PackedPiece], part: Part, told: list[Any]) -> int:
    """What a judging task allocates at most, and what it was sent."""
    rows = given(pieces, part.shard)
    sent = sum(len(row.binary) for row in rows) + sum(map(len, told))
    tracemalloc.start()
    try:
        judge(rows, part, told)
        return sent + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("nodes", "messages", "restarts"), [(100, 4_000, False), (100, 4_000, True), (5, 80_000, True)]
)
def test_memory_falls_with_the_number_of_tasks(nodes: int, messages: int, restarts: bool) -> None:
    """Bytes of the largest task, by the formula of docs/PIPELINE.md and as they are allocated."""
    rows = decode(made_up(nodes, messages, restarts))
    events, buckets = len(rows.pos), 100
    pieces = list(pack(rows, buckets))
    peaks = {}
    for shards, blocks in CUTS if nodes > 8 else FEW_NODES:
        size = Size("", "", events, messages, nodes, 0, tuple(dealt_in(pieces)))
        shares = plan([size], shards * blocks, blocks, shards, buckets)
        parts = [_part(share, buckets) for share in shares]
        told, found, _ = in_rounds(pieces, parts)
        assert {row["what"] for row in found} <= {"run", "holding", "same"}
        peaks[shards] = max(bytes_of(pieces, part, told[part.block]) for part in parts)
        known = dict(dealt_in(pieces))
        most = max(sum(known.get(bucket, 0) for bucket in share.own) for share in shares)
        own = most if shards > 1 else events
        columns = 4 * nodes if restarts else nodes
        formula = 33 * own + 6 * messages * columns / blocks + 160 * messages
        assert peaks[shards] < formula, (shards, blocks, peaks[shards] / events, formula / events)
    if not restarts:  # else there are lineages as well
        assert peaks[2] < 0.8 * peaks[1]
    if nodes > 8:
        assert peaks[4] < 0.7 * peaks[2]
        assert peaks[8] < 0.7 * peaks[4]


def test_memory_of_a_run_with_a_circle_falls_with_its_blocks_alone() -> None:
    """It is not cut into shards: every block has all rows, by the same formula."""
    nodes, messages = 100, 4_000
    table, circle = made_up(nodes, messages, False), _circle()
    table = pa.concat_tables([table.cast(circle.schema), circle])
    rows, buckets = decode(table), 100
    events, sends = len(rows.pos), messages + 2
    pieces, peaks = list(pack(rows, buckets)), {}
    assert in_rounds(pieces, parts_of(4, 1, buckets))[2] == 0
    for blocks in (1, 4):
        parts = parts_of(1, blocks, buckets)
        found = [one for part in parts for one in judge(given(pieces, None), part)]
        assert {one.what for one in found} <= {"run", "count", "example", "marks"}
        peaks[blocks] = max(bytes_of(pieces, part, []) for part in parts)
        formula = 33 * events + 6 * sends * (nodes + 2) / blocks + 160 * sends
        assert peaks[blocks] < formula, (blocks, peaks[blocks] / events, formula / events)
    assert peaks[4] < peaks[1]


def _circle() -> pa.Table:
    """Two nodes, each of which sends what the other one has got before it sent."""
    rows = [
        {"node": node, "pos": pos, "kind": kind, "origin": origin, "seq": 1, "deps": None}
        for node, other in (("x", "y"), ("y", "x"))
        for pos, kind, origin in ((1, "deliver", other), (2, "send", node))
    ]
    return pa.Table.from_pylist(rows, _plain(some_rows(0, 1, 1, pa.array(["n"]), False).schema))


def _plain(schema: pa.Schema) -> pa.Schema:
    """Without dictionaries."""
    names = ("node", "kind", "origin")
    return pa.schema([pa.field(one.name, pa.string()) if one.name in names else one for one in schema])


def made_up(nodes: int, messages: int, restarts: bool) -> pa.Table:
    """A valid run; with `restarts` each node starts again in the middle, and has forgotten nothing."""
    rows = some_rows(0, messages, nodes, pa.array([f"n{number:02}" for number in range(nodes)]), False)
    if not restarts:
        return rows
    last = messages // 2
    front = [{"origin": f"n{last % nodes:02}", "seq": last // nodes + 1}]
    more = {
        "node": [f"n{number:02}" for number in range(nodes)],
        "pos": [2 * last + 1] * nodes,
        "kind": ["restart"] * nodes,
        "origin": pa.nulls(nodes, pa.string()),
        "seq": pa.nulls(nodes, pa.int64()),
        "deps": [front] * nodes,
    }
    plain = _plain(rows.schema)
    return pa.concat_tables([rows.cast(plain), pa.table(more, plain)])


CUTS = ((1, 1), (2, 1), (4, 2), (8, 4))
"""Shards of nodes, and blocks of columns for the matrix of pasts."""
FEW_NODES = ((1, 1), (2, 1), (5, 1))


def _part(share: Share, buckets: int) -> Part:
    shard = Shard(share.shard, share.shards, frozenset(share.own), buckets) if share.shards > 1 else None
    return Part(share.block, share.blocks, 10, shard)


def dealt_in(pieces: list[PackedPiece]) -> list[tuple[int, int]]:
    return [(piece.bucket, piece.events) for piece in pieces if piece.bucket >= 0]


def test_a_task_is_sent_only_what_it_needs() -> None:
    names = pa.array([f"n{number:02}" for number in range(NODES)])
    pieces = list(pack(decode(some_rows(0, 500, NODES, names, False)), BUCKETS))
    whole = sum(len(row.binary) for row in given(pieces, None))
    for part in parts_of(4, 1):
        assert sum(len(row.binary) for row in given(pieces, part.shard)) < 0.6 * whole


def test_runs_are_cut_where_their_nodes_are_dealt_into_buckets() -> None:
    size = Size("", "", 10**8, 10**6, 100)
    assert {share.shards for share in plan([size], 2, buckets=64)} == {3}
    assert {share.shards for share in plan([size], 2, buckets=1)} == {1}


def test_lineages_count_as_a_second_matrix() -> None:
    size = Size("", "", 10**8, 10**6, 1000)
    blocks = [
        {share.blocks for share in plan([some], 2, buckets=64)} for some in (size, size._replace(restarts=9))
    ]
    assert blocks == [{4}, {8}]


def test_every_bucket_is_dealt() -> None:
    size = Size("", "", 10**8, 10**6, 100, buckets=tuple((bucket, 10**6) for bucket in range(0, 64, 3)))
    shares = plan([size], 2, buckets=64)
    assert sorted(bucket for share in shares for bucket in share.own) == list(range(64))
    assert np.ptp([len([b for b in share.own if b % 3 == 0]) for share in shares]) <= 1
