"""Sizes of the stamps and histories of a run with addressed messages."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from thence.core.codec_hops import put_hop
from thence.core.message import Message
from thence.order.hops import entries
from thence.order.topology import Topology


def mean(counts: Counter[int]) -> float:
    return sum(size * count for size, count in counts.items()) / (counts.total() or 1)


def together(counts: Iterable[Counter[int]]) -> Counter[int]:
    found = Counter[int]()
    for each in counts:
        found.update(each)
    return found


def quantile(counts: Counter[int], share: float) -> int:
    """The least size that so many are not above."""
    left = share * counts.total()
    for size in sorted(counts):
        left -= counts[size]
        if left <= 0:
            return size
    return 0


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a meter says of a whole run."""

    hops: int
    entries: float
    entries_p50: int
    entries_p99: int
    bytes: float
    bytes_p50: int
    bytes_p99: int
    history: float


class StampMeter:
    """Sizes of all stamps and histories of a run."""

    def __init__(self, topology: Topology) -> None:
        self.stamps: dict[int, Counter[int]] = {zone: Counter() for zone in range(len(topology.zones))}
        """By zone of the hop, how many had how many entries."""
        self.sizes = Counter[int]()
        """Of stamps, in bytes."""
        self.histories: dict[int, Counter[int]] = {process: Counter() for process in range(len(topology))}
        """By process, at each of its sends and deliveries."""

    def total(self) -> Sizes:
        entries = together(self.stamps.values())
        return Sizes(
            entries.total(), mean(entries), quantile(entries, 0.5), quantile(entries, 0.99),
            mean(self.sizes), quantile(self.sizes, 0.5), quantile(self.sizes, 0.99),
            mean(together(self.histories.values())),
        )  # fmt: skip

    def hop(self, message: Message) -> None:
        out = bytearray()
        put_hop(out, message.context, 0)
        self.sizes[len(out)] += 1
        self.stamps[message.context[0]][entries(message.context)] += 1
