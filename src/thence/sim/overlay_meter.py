"""What is measured while a simulated overlay runs, as chapter 5 of the ECO SYNC Tree document measures it.

*Broadcast latency* of a message: from its send to its last delivery at a node that was there by then.
(Who comes later gets it with the past.) The same over *residents* alone, who have been there for a while: the
difference is what newcomers wait for while they read the past. *Duplicates*: messages that arrived where they
were already, in synchronisations too. *Bytes*: everything on the wire, by layer. Sums per second of virtual
time go along.
"""

from collections import Counter
from statistics import fmean

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.message import Message
from thence.core.overlay import MEMBERS_PACKETS, Announce, Graft, Prune, Rumour, Sync, Tree

SECOND_US = 1_000_000
RESIDENT_US = 10 * SECOND_US
"""So long after its start a node is a resident: it has read the past of some minutes. Who was there before
anything was sent had none to read."""

_LAYERS: dict[type, str] = {
    Message: "messages",
    Rumour: "messages",
    Sync: "synchronisation",
    Graft: "synchronisation",
    Prune: "tree",
    Tree: "tree",
    Announce: "tree",
    **dict.fromkeys(MEMBERS_PACKETS, "membership"),
}


class Meter:
    __slots__ = (
        "_last",
        "_resident",
        "_resident_from",
        "_sent",
        "_since",
        "bytes",
        "bytes_by_second",
        "duplicates",
        "packets",
    )

    def __init__(self, size: int) -> None:
        self._since = [0] * size
        self._resident_from = [0] * size
        self._sent: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._resident: dict[int, int] = {}
        self.packets = Counter[str]()
        self.bytes = Counter[str]()
        self.bytes_by_second = Counter[int]()
        self.duplicates = Counter[int]()
        """By second."""

    def appeared(self, node: int, now: int) -> None:
        self._since[node] = now
        self._resident_from[node] = now + RESIDENT_US if self._sent else now

    def sent(self, dot: int, now: int) -> None:
        self._sent[dot] = self._last[dot] = self._resident[dot] = now

    def delivered(self, node: int, dot: int, now: int) -> None:
        sent = self._sent.get(dot, -1)
        if self._since[node] <= sent:
            self._last[dot] = now
            if self._resident_from[node] <= sent:
                self._resident[dot] = now

    def duplicate(self, now: int) -> None:
        self.duplicates[now // SECOND_US] += 1

    def transmitted(self, kind: type, size: int, peers: int, now: int) -> None:
        layer = _LAYERS.get(kind, "synchronisation")
        self.packets[layer] += peers
        self.bytes[layer] += size * peers
        self.bytes_by_second[now // SECOND_US] += size * peers

    @property
    def sends(self) -> int:
        return len(self._sent)

    def latencies(self) -> dict[int, list[int]]:
        """By the second of the send: how long each message took to reach every node, in microseconds."""
        found: dict[int, list[int]] = {}
        for dot, at in self._sent.items():
            found.setdefault(at // SECOND_US, []).append(self._last[dot] - at)
        return found

    def resident_us(self) -> float:
        """How long a message took to reach every resident, in the mean."""
        return fmean([self._resident[dot] - at for dot, at in self._sent.items()]) if self._sent else 0.0

    def slowest(self) -> tuple[str, int]:
        """The message that took longest, as (origin:seq, microseconds)."""
        if not self._sent:
            return "", 0
        dot = max(self._sent, key=lambda dot: self._last[dot] - self._sent[dot])
        return f"n{dot & ORIGIN_MASK}:{dot >> ORIGIN_BITS}", self._last[dot] - self._sent[dot]
