"""`bench metadata`: what causality costs on the wire and in memory, at 128 members.

On the wire: bytes of a message's stamp, against a plain vector (eight bytes an entry) and against a
delta-encoded vector (the entries that changed since the sender's previous message, as increments, encoded
as tightly as a context is). In memory, with stability: the median over a run at a few nodes, in words as
the document counts them (8.3.1) and in bytes as allocated, against the vector engine's on the same load.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from thence.cli.bench.order import Asked, listen, translate
from thence.cli.bench.record import Record
from thence.core.codec import put_dots
from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.experiments.tcb import CONSTANT_WORK_MS, Point, measure
from thence.order.engines import ENGINES


def stamp_bytes(context: tuple[int, ...], seq: int) -> int:
    out = bytearray()
    put_dots(out, context, seq)
    return len(out)


def delta_bytes(asked: Asked) -> float:
    """Bytes per message of a vector that tells only what changed since its sender's last."""
    last: dict[int, tuple[int, ...]] = {}
    total = 0
    steps = translate(asked, ENGINES["vector"]).steps
    for message, _ in sorted(steps, key=lambda step: step[0].dot >> ORIGIN_BITS):
        origin = message.dot & ORIGIN_MASK
        before = last.get(origin, (0,) * asked.size)
        grown = [
            pack(member, now - then)
            for member, (now, then) in enumerate(zip(message.context, before, strict=True))
            if now > then and member != origin
        ]
        # A context's encoding of the increments: differences to 1, since most are 1.
        total += stamp_bytes(tuple(grown), 1)
        last[origin] = message.context
    return total / len(steps)


def bench(quick: bool) -> Iterator[Record]:
    size, messages = (16, 20) if quick else (128, 100)
    for experiment in ("2", "3"):
        asked = listen(experiment, size, messages)
        ours = sum(stamp_bytes(m.context, m.dot >> ORIGIN_BITS) for m, _ in asked.steps) / len(asked.steps)
        yield Record(f"metadata.wire.exp{experiment}.plain", ours, "bytes", 8.0 * size)
        yield Record(f"metadata.wire.exp{experiment}.delta", ours, "bytes", delta_bytes(asked))
    loads = {"2": (10.0, 10.0), "3": (CONSTANT_WORK_MS[size], 31.0)}
    for experiment, (interval, latency) in loads.items():
        kept = {
            order: measured(
                Point(f"tcb-{experiment}", order, size, interval, latency, True, False, messages, "")
            )
            for order in ("graph", "vector")
        }
        for what, unit in (("memory_words", "words"), ("memory_bytes", "bytes")):
            graph, vector = kept["graph"][what], kept["vector"][what]
            yield Record(f"metadata.memory.exp{experiment}.{unit}", graph, unit, vector)


def measured(point: Point) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        return measure(point, Path(folder) / "trace")
