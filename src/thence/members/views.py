"""What HyParView remembers besides its neighbours, what it asks for, and what can be chosen about it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

from thence.core.errors import UsageError
from thence.core.machine import NEVER, Close, Connect, Transmit, Wake

__all__ = [
    "Close", "Connect", "LostNeighbours", "MembersEffect", "NeighbourDown", "NeighbourUp", "Passive",
    "ViewSettings",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSettings:
    active: int = 5
    """Neighbours; the document's experiments (5.3.2)."""
    passive: int = 30
    """Names in reserve: enough that some live one is among them after most have gone."""
    join_steps: int = 6
    """Length of the walk that finds a newcomer its neighbours, HyParView's own value."""
    passive_steps: int = 3
    """Where on that walk the newcomer's name is kept, the same."""
    shuffle_steps: int = 3
    shuffle_active: int = 3
    shuffle_passive: int = 4
    """Names in a shuffle, besides the sender's own; the same."""
    shuffle_every_us: int = 5_000_000
    """Names are for bad times: they need be no fresher than such times are rare."""
    answer_us: int = 2_000_000
    """Above any round trip, a link's opening included: a peer that has not answered by then is given up."""
    retry_first_us: int = 250_000
    retry_most_us: int = 8_000_000
    """How long a healed partition may go unnoticed, against connections to peers that are gone for good."""
    lost: int = 16
    """Former neighbours remembered. One that both halves remember is enough for them to merge."""

    def __post_init__(self) -> None:
        if self.active < 1 or self.passive < self.active or self.lost < 1:
            raise UsageError("view settings: need 1 <= active <= passive and lost >= 1")
        if not 0 < self.retry_first_us <= self.retry_most_us:
            raise UsageError("view settings: need 0 < retry_first <= retry_most")
        if min(self.shuffle_every_us, self.answer_us) < 1:
            raise UsageError("view settings: need positive times")


class NeighbourUp(NamedTuple):
    """`peer` is a neighbour: the spread may use its link."""

    peer: int


class NeighbourDown(NamedTuple):
    """`peer` is none any more."""

    peer: int


MembersEffect = Transmit | Wake | Connect | Close | NeighbourUp | NeighbourDown


class Passive:
    """The passive view: names, at most so many."""

    __slots__ = ("_me", "_most", "_names", "_random")

    def __init__(self, me: int, most: int, random: Random) -> None:
        self._me: Final = me
        self._most: Final = most
        self._random = random
        self._names: dict[int, None] = {}

    def __iter__(self) -> Iterator[int]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def add(self, node: int, instead_of: Iterable[int] = ()) -> None:
        """Keep a name; if there is no room, instead of one of those, or of any."""
        names = self._names
        if node == self._me or node in names:
            return
        if len(names) >= self._most:
            gone = next((other for other in instead_of if other in names), None)
            del names[self._random.choice(list(names)) if gone is None else gone]
        names[node] = None

    def discard(self, node: int) -> None:
        self._names.pop(node, None)

    def clear(self) -> None:
        self._names.clear()

    def sample(self, count: int) -> tuple[int, ...]:
        return tuple(self._random.sample(list(self._names), min(count, len(self._names))))


class LostNeighbours:
    """Neighbours that vanished, and when to try each again."""

    __slots__ = ("_peers", "_random", "_settings", "next_due")

    def __init__(self, settings: ViewSettings, random: Random) -> None:
        self._settings = settings
        self._random = random
        self._peers: dict[int, tuple[int, int]] = {}
        self.next_due = NEVER

    def __iter__(self) -> Iterator[int]:
        return iter(self._peers)

    def __contains__(self, peer: int) -> bool:
        return peer in self._peers

    def add(self, peer: int, now: int) -> None:
        if peer not in self._peers and len(self._peers) >= self._settings.lost:
            del self._peers[next(iter(self._peers))]
        self._plan(peer, self._settings.retry_first_us, now)

    def failed(self, peer: int, now: int) -> None:
        """It was tried in vain, if it is one of these."""
        if peer in self._peers:
            self._plan(peer, min(2 * self._peers[peer][1], self._settings.retry_most_us), now)

    def found(self, peer: int) -> None:
        if self._peers.pop(peer, None) is not None:
            self._look()

    def clear(self) -> None:
        self._peers.clear()
        self._look()

    def due(self, now: int) -> list[int]:
        """Peers to try now; each counts as tried until it is found or fails."""
        peers = [peer for peer, (at, _) in self._peers.items() if at <= now]
        for peer in peers:
            self._plan(peer, self._peers[peer][1], now + self._settings.answer_us)
        return peers

    def _plan(self, peer: int, wait: int, now: int) -> None:
        self._peers[peer] = (now + wait // 2 + self._random.randrange(wait), wait)
        self._look()

    def _look(self) -> None:
        self.next_due = min([at for at, _ in self._peers.values()], default=NEVER)
