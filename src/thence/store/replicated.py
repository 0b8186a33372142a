"""The store as a program of a node: what the middleware tells it, and what it tells the middleware.

Everything that depends on the middleware's present interface is in here and in `runtime/store_node.py`:
operations come through `apply`, states through `state` and `install`, stability by origin and counter.

Operations that the group never had are not sent again as they were: what they removed was what their origin
saw, which is not what the group has. Their own process makes of them what destroys nothing (`again`).
"""

from collections.abc import Callable, Iterator, Sequence

from thence.core.errors import PeerError
from thence.core.machine import NEVER
from thence.crdt import steps
from thence.replica.events import Delivered, Stable
from thence.replica.life_tag import LifeTag
from thence.store import ops, snapshot
from thence.store.ops import Part
from thence.store.state import StoreState, decode


class ReplicatedStore:
    """`runtime.replicated`: `Chunked`, `AppliesBatches` and `HearsStable`."""

    def __init__(self, state: StoreState) -> None:
        self.store = state
        self.installs = 0
        self.on_installed: Callable[[], None] = lambda: None

    def apply(self, event: Delivered) -> None:
        self.store.deliver(event.origin, event.seq, event.payload, event.tag)

    def apply_batch(self, origin: str, first_seq: int, ops: Sequence[bytes], tag: LifeTag) -> None:
        self.store.deliver_run(origin, first_seq, ops, tag)

    def stable(self, event: Stable) -> None:
        self.store.stable(event.origin, event.seq)

    def state_chunks(self) -> Iterator[bytes]:
        return snapshot.pieces(self.store)

    def install_chunks(self, chunks: Iterator[bytes]) -> None:
        self.installs += 1
        snapshot.load(self.store, chunks)
        self.on_installed()


def again(payload: bytes) -> tuple[list[Part], list[Part]]:
    """Of an operation that the group never had: what to do instead, and what comes to nothing."""
    try:
        _, parts = decode(payload)
    except PeerError:
        return [], []
    kept: list[Part] = []
    lost: list[Part] = []
    for part in parts:
        head = [part[1], part[2], 0, 0]
        code = part[0]
        if code in ops.REMOVES:
            lost.append(part)
        elif code == ops.SET:
            dated = part[6] != NEVER  # for its executor: whether the key is there tells what becomes of that
            kept.append([ops.SET, *head, *part[5:]] if dated else [ops.UPDATE, *head, (steps.CLAIM, part[5])])
        elif code == ops.FIELD_SET:
            for field, value in zip(part[5::2], part[6::2], strict=True):
                kept.append([ops.FIELD_UPDATE, *head, field, (steps.CLAIM, value)])
        elif code == ops.SCORE_SET:
            for member, score in zip(part[5::2], part[6::2], strict=True):
                kept.append([ops.SCORE_UPDATE, *head, member, (steps.CLAIM, score)])
        else:
            kept.append([code, *head, *part[5:]])
    return kept, lost
