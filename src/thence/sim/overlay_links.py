"""Session links of a simulated overlay: in order while they are up, told to both ends when they are not.

What TCP gives to nodes that open and close connections as they like. A link is opened by one end and is up
there a round trip later; what is sent over it arrives in order. A link that one end has closed or lost is
gone for that end at once; the other is told when the news can have reached it, or when it has heard nothing
for `silence_us`, or when a new link from the same node arrives first. Each link is an object of its own:
whatever was sent over an old one never comes out of a new one.
"""

from math import hypot


class Session:
    """One connection. `arrives`: per end, when the last thing sent to it gets there."""

    __slots__ = ("arrives", "opener", "stuck", "wanted")

    def __init__(self, opener: int, other: int, now: int) -> None:
        self.opener = opener
        self.arrives = {opener: now, other: now}
        self.wanted = {opener}
        """Ends that asked for it and were not told yet what became of it."""
        self.stuck: list[tuple[int, int, object]] = []
        """What was sent while the way was cut: (from, to, packet)."""


class OverlayLinks:
    """Which nodes are linked. The two ends of a session may differ about it for a while."""

    __slots__ = ("_ends", "opening")

    def __init__(self, size: int) -> None:
        self._ends: list[dict[int, Session]] = [{} for _ in range(size)]
        self.opening: dict[tuple[int, int], Session] = {}
        """Per pair, lower first: a link that one of them is opening."""

    def of(self, node: int) -> dict[int, Session]:
        return self._ends[node]

    def get(self, node: int, peer: int) -> Session | None:
        return self._ends[node].get(peer)

    def put(self, node: int, peer: int, session: Session) -> None:
        self._ends[node][peer] = session

    def drop(self, node: int, peer: int) -> Session | None:
        return self._ends[node].pop(peer, None)


def pair(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)


def grid_latencies(count: int, shortest_us: int, longest_us: int) -> list[list[int]]:
    """Latencies of the document's section 5.2: nodes on a grid, as square as their number allows, distances
    scaled so that neighbours are `shortest_us` apart and opposite corners `longest_us`."""
    rows = max(divisor for divisor in range(1, int(count**0.5) + 1) if count % divisor == 0)
    columns = count // rows
    longest = hypot(rows - 1, columns - 1)
    scale = (longest_us - shortest_us) / (longest - 1) if longest > 1 else 0.0

    def between(one: int, other: int) -> int:
        far = hypot(one // columns - other // columns, one % columns - other % columns)
        return shortest_us + round((max(far, 1.0) - 1) * scale)

    return [[between(one, other) for other in range(count)] for one in range(count)]
