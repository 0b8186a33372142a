"""`bench metadata`: what causality costs on the wire and in memory, at 128 members.

On the wire: bytes of a message's stamp, against a plain vector (eight bytes an entry), and against a
vector that tells only the entries that changed since the sender's previous message, as increments:
`delta`, a gap between members and an increment for each, as varints (section 2.4.3.3); `delta-packed`,
the same increments packed into bits as tightly as a context is. Both need every receiver to keep the last
vector of every sender, and messages decoded in their sender's order; a context needs neither.

In memory, with stability: the median over a run at two nodes, in words as the document counts them (8.3.1)
and in bytes as allocated, against the vector engine's on the same load.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from thence.core.codec_stamps import put_dots
from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.varint import put
from thence.experiments.tcb import CONSTANT_WORK_MS, TcbPoint, measure
from thence.lab.bench.order import Asked, listen, translate
from thence.lab.bench.record import Record
from thence.order.engines import ENGINES


def stamp_bytes(context: tuple[int, ...], seq: int) -> int:
    out = bytearray()
    put_dots(out, context, seq)
    return len(out)


def pair_bytes(increments: tuple[int, ...]) -> int:
    """Gap and increment of each entry as varints."""
    out = bytearray()
    put(out, len(increments))
    previous = -1
    for dot in increments:
        put(out, (dot & ORIGIN_MASK) - previous - 1)
        put(out, dot >> ORIGIN_BITS)
        previous = dot & ORIGIN_MASK
    return len(out)


def delta_bytes(asked: Asked) -> tuple[float, float]:
    """Bytes per message of a vector that tells only what changed since its sender's last: pairs, packed."""
    last: dict[int, tuple[int, ...]] = {}
    pairs = packed = 0
    steps = translate(asked, ENGINES["vector"]).steps
    for message, _ in sorted(steps, key=lambda step: step[0].dot >> ORIGIN_BITS):
        origin = message.dot & ORIGIN_MASK
        before = last.get(origin, (0,) * asked.size)
        grown = [
            pack(member, now - then)
            for member, (now, then) in enumerate(zip(message.context, before, strict=True))
            if now > then and member != origin
        ]
        pairs += pair_bytes(tuple(grown))
        packed += stamp_bytes(tuple(grown), 1)
        last[origin] = message.context
    return pairs / len(steps), packed / len(steps)


def bench(quick: bool) -> Iterator[Record]:
    size, messages = (16, 20) if quick else (128, 100)
    for experiment in ("2", "3"):
        asked = listen(experiment, size, messages)
        ours = sum(stamp_bytes(m.context, m.dot >> ORIGIN_BITS) for m, _ in asked.steps) / len(asked.steps)
        yield Record(f"metadata.wire.exp{experiment}.plain", ours, "bytes", 8.0 * size)
        pairs, packed = delta_bytes(asked)
        yield Record(f"metadata.wire.exp{experiment}.delta", ours, "bytes", pairs)
        yield Record(f"metadata.wire.exp{experiment}.delta-packed", ours, "bytes", packed)
    loads = {"2": (10.0, 10.0), "3": (CONSTANT_WORK_MS[size], 31.0)}
    for experiment, (interval, latency) in loads.items():
        kept = {
            order: measured(
                TcbPoint(f"tcb-{experiment}", order, size, interval, latency, True, False, messages, "")
            )
            for order in ("graph", "vector")
        }
        for what, unit in (("memory_words", "words"), ("memory_bytes", "bytes")):
            graph, vector = kept["graph"][what], kept["vector"][what]
            yield Record(f"metadata.memory.exp{experiment}.{unit}", graph, unit, vector)


def measured(point: TcbPoint) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        return measure(point, Path(folder) / "trace")
