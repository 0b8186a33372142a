"""Lost messages of a run that is judged in shards: whether one is lost at a node is for other shards to say.

A shard knows what its nodes lack; that counts only if some node, of whichever shard, has it still. So each
shard tells what its nodes hold at the end, a bit per node and message, and the sheets of all shards are laid
side by side.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np

from thence.pipeline import single
from thence.pipeline.findings import EXAMPLES, Finding, detail
from thence.pipeline.jit import kernel
from thence.pipeline.resolve import ResolvedRun, RunFacts
from thence.pipeline.rows import I64, U8
from thence.pipeline.single import Concerned, holds, is_for, is_void, next_of
from thence.pipeline.widths import narrow, view

Packed = tuple[str, memoryview]


class _LostSheet(msgspec.Struct, array_like=True, frozen=True):
    """What the nodes of one shard hold and lack at the end, of the messages of one block."""

    nodes: list[str]
    down: Packed
    held: memoryview
    lacking: memoryview
    """Empty if no node lacks anything."""
    names: list[str]
    dots: Packed
    """Those that are lacking, by number, name and counter."""
    dot_name: Packed
    dot_seq: Packed
    evicted: list[tuple[str, str]]


@kernel
def _lacking(facts: RunFacts, inside: U8, held: U8, mine: Concerned, gone: U8, out: U8) -> int:
    """Mark which of these messages nodes lack that were meant for them; how many such pairs there are."""
    count = 0
    for node in range(len(held)):
        if gone[node]:
            continue
        dot, at, named = next_of(mine, node, 0, mine.start[node])
        while dot >= 0:
            this = dot
            dot, at, named = next_of(mine, node, at, named)
            if holds(held, node, this):
                continue
            if is_for(facts, inside, this, node) and not is_void(facts, this, node):
                out[node, this >> 3] |= np.uint8(1 << (this & 7))
                count += 1
    return count


def tell(run: ResolvedRun, held: U8, owned: U8, down: U8, left: U8) -> Finding:
    """What the others have to know of this shard."""
    facts, table = run.facts, run.table
    lacking = np.zeros_like(held)
    count = _lacking(
        facts,
        single.subscribed(facts),
        held,
        single.concerned(facts, np.flatnonzero(owned)),
        down | left,
        lacking,
    )
    dots = np.zeros(0, np.int64)
    if count:
        some = np.bitwise_or.reduce(lacking, axis=0)
        dots = np.flatnonzero(np.unpackbits(some, bitorder="little")[: facts.sent])
    evicted = []
    for node in range(len(table.nodes)):
        names = facts.evict_name[facts.evict_start[node] : facts.evict_start[node + 1]]
        evicted += [(run.node_name(node), table.names[name]) for name in names.tolist()]
    sheet = _LostSheet(
        [run.node_name(node) for node in range(len(table.nodes))],
        narrow(down),
        held.reshape(-1).data,
        lacking.reshape(-1).data if count else memoryview(b""),
        table.names if count else [],
        narrow(dots),
        narrow(facts.dot_name[dots]),
        narrow(facts.dot_seq[dots]),
        evicted,
    )
    return Finding("holding", number=count, payload=msgspec.msgpack.encode(sheet))


def settle(payloads: Iterable[Any], limit: int | None = EXAMPLES) -> Iterator[Finding]:
    """Counts and examples of one run and block, from all its shards; `limit`: how many, None: all."""
    sheets = [msgspec.msgpack.decode(payload, type=_LostSheet) for payload in payloads]
    if not any(len(sheet.lacking) for sheet in sheets):
        return
    nodes = [name for sheet in sheets for name in sheet.nodes]
    order = sorted(range(len(nodes)), key=nodes.__getitem__)
    names = [nodes[place] for place in order]
    held = np.concatenate([_bits(sheet.held, len(sheet.nodes)) for sheet in sheets])[order]
    down = np.concatenate([view(sheet.down) for sheet in sheets])[order].astype(np.uint8)
    lacking = np.concatenate(
        [_bits(sheet.lacking, len(sheet.nodes), held.shape[1]) for sheet in sheets]
    )[order]  # fmt: skip
    apart = _apart(names, [pair for sheet in sheets for pair in sheet.evicted])
    examples = np.empty((EXAMPLES if limit is None else limit, 3), np.int64)
    count = _find(held, lacking, down, apart, examples)
    if limit is None and count > len(examples):
        examples = np.empty((count, 3), np.int64)
        _find(held, lacking, down, apart, examples)
    if not count:
        return
    yield Finding("count", "lost", number=count)
    label = _labels(sheets, examples[:count, 1])
    for node, dot, holder in examples[:count].tolist():
        yield Finding(
            "example", "lost", names[node], -1, label[dot], detail=detail(held_by=names[holder])
        )  # fmt: skip


def _bits(binary: Any, nodes: int, width: int = 0) -> U8:
    if not len(binary):
        return np.zeros((nodes, width), np.uint8)
    return np.frombuffer(binary, np.uint8).reshape(nodes, -1)


def _apart(names: list[str], evicted: list[tuple[str, str]]) -> U8:
    """Which nodes need not hear from each other; empty if there are none."""
    place = {name: number for number, name in enumerate(names)}
    known = [(place[one], place[other]) for one, other in evicted if other in place]
    if not known:
        return np.zeros((0, 0), np.uint8)
    apart = np.zeros((len(names), len(names)), np.uint8)
    for one, other in known:
        apart[one, other] = apart[other, one] = 1
    return apart


def _labels(sheets: list[_LostSheet], wanted: I64) -> dict[int, str]:
    label: dict[int, str] = {}
    for sheet in sheets:
        dots = view(sheet.dots)
        some = np.isin(dots, wanted)
        parts = (part[some].tolist() for part in (dots, view(sheet.dot_name), view(sheet.dot_seq)))
        label |= {dot: f"{sheet.names[name]}:{seq}" for dot, name, seq in zip(*parts, strict=True)}
    return label


@kernel
def _find(held: U8, lacking: U8, down: U8, apart: U8, examples: I64) -> int:
    """Count pairs of which some node has what the other lacks; the first as (node, message, holder)."""
    count = 0
    for node in range(len(held)):
        for byte in range(lacking.shape[1]):
            bits = lacking[node, byte]
            for bit in range(8):
                if not (bits >> bit) & 1:
                    continue
                dot = 8 * byte + bit
                for other in range(len(held)):
                    if (
                        not down[other]
                        and holds(held, other, dot)
                        and not (len(apart) and apart[node, other])
                    ):
                        if count < len(examples):
                            examples[count, 0], examples[count, 1], examples[count, 2] = node, dot, other
                        count += 1
                        break
    return count
