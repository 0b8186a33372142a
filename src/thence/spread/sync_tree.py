"""SYNC Tree: a causal broadcast tree over a partial view that builds and heals itself.

Sections 3.3.1 to 3.3.3 of the ECO SYNC Tree document. The smallest node there is, the *root* (or, if that is
asked for, the one with the closest neighbours, which tends to lie in the middle), beats: every
`beat_us` a `Tree` packet goes down the branches, and an `Announce` over the links that are none. A node that
gets the same beat over two branches prunes the second; one that hears of a beat that does not come grafts.
What a branch carries, and why that is causal, is in `spread.streams`; states, messages, and where and why
this departs from the document are in docs/protocols/sync-tree.md.

State. `_root`, `_number`: the newest beat had; `_parent`: the neighbour that it came from first. Per link
what it last announced, and when. `_gone`: for a while, the last beats of roots that fell silent. Beats are
numbered, so that one number per root tells old from new.

Invariants. A branch is pruned only by a beat that came over another branch first: the links over which a beat
came first form a tree with every node that it reached, so pruning never cuts a node off. A beat that is
known of and does not come leads to a graft with one of those that have it, and then the next one, until it
comes. With no beat for `check_us` a node beats itself, and stops when it hears a smaller one.

The tree follows the shortest paths from the root: an announcement travels as fast as the beat over the same
link would, so that one which comes before the beat itself, and does so again and again, shows a quicker way;
and a node below this one in the tree can never announce so early.
"""

from dataclasses import dataclass, field
from typing import Final

from thence.core.errors import UsageError
from thence.core.history import History
from thence.core.machine import NEVER, Packet, SpreadEffect, Transmit
from thence.core.overlay import ROOT_BITS, Announce, Ping, Pong, Tree
from thence.spread.stream_link import Link, StreamSettings
from thence.spread.streams import Streams


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSettings:
    beat_us: int = 100_000
    """The document's (5.3.2). A few bytes over each link: a hundredth of the traffic of one sender."""
    check_us: int = 450_000
    """Four beats that did not come: the root is gone. The document waits for 5 s; being wrong costs only a
    few beats of a second root, so there is no need to."""
    missing_us: int = 300_000
    """How much later than an announcement the beat itself may come: above the difference between two paths.
    The document waits for 3 s."""
    better_us: int = 5_000
    """By how much a path must be quicker, beyond twice the usual deviation, to be worth a change: smaller
    gains do not show in the time until all nodes have a message, and keep a tree from coming to rest."""
    samples: int = 3
    """So many beats must have told, since the last jump: once is jitter. Each level of a tree waits for the
    one above it."""
    jump_us: int = 20_000
    """A lead that changes by more, beyond four deviations, is that of another path: what was measured before
    tells nothing about it."""
    challenge_us: int | None = None
    """How often a node compares itself with the root: whose neighbours are a fifth closer on average takes
    over. None: never; the smallest node is the root, wherever it is, as in the document."""
    streams: StreamSettings = field(default_factory=StreamSettings)

    def __post_init__(self) -> None:
        if not 0 < self.beat_us < self.missing_us < self.check_us:
            raise UsageError("tree settings: need 0 < beat < missing < check")
        if min(self.better_us, self.jump_us) < 0 or self.samples < 1:
            raise UsageError("tree settings: need better >= 0, jump >= 0 and samples >= 1")


CENTRAL: Final = TreeSettings(challenge_us=3_000_000)
"""A root in the middle: every few seconds is soon enough, since being off the middle costs only latency."""


UNKNOWN = 1 << 20
"""The rank of a node that does not know how far its neighbours are: worse than any."""

ENOUGH = 4
"""Neighbours whose distance tells something."""


class _Said:
    """What a neighbour announced last, and by how much it is quicker than the parent: smoothed mean and
    deviation, much as round trips are estimated."""

    __slots__ = ("at", "deviation", "lead", "number", "root", "round_trip", "samples", "tried")

    def __init__(self) -> None:
        self.root = -1
        self.number = 0
        self.at = 0
        self.tried = 0
        self.round_trip: int | None = None
        self.forget()

    def forget(self) -> None:
        self.lead = self.deviation = self.samples = 0

    def led(self, by_us: int, jump_us: int) -> None:
        if self.samples and abs(by_us - self.lead) <= jump_us + 4 * self.deviation:
            self.deviation += (abs(by_us - self.lead) - self.deviation) // 4
            self.lead += (by_us - self.lead) // 4
        else:
            self.lead, self.deviation, self.samples = by_us, 0, 0
        self.samples += 1


class SyncTree(Streams):
    __slots__ = (
        "_beat_at",
        "_challenge_at",
        "_gone",
        "_had_at",
        "_mark",
        "_missing_at",
        "_number",
        "_parent",
        "_root",
        "_said",
        "_self",
        "_settings",
    )

    def __init__(self, me: int, size: int, history: History, settings: TreeSettings | None = None) -> None:
        self._settings = settings or TreeSettings()
        super().__init__(me, size, history, self._settings.streams)
        self.named(me)
        self._number = 0
        self._had_at = 0
        self._parent: int | None = None
        self._said: dict[int, _Said] = {}
        self._gone: dict[int, tuple[int, int]] = {}
        """Silent roots: their last beat, and until when it is remembered."""
        self._beat_at = NEVER
        self._missing_at = NEVER
        self._challenge_at = NEVER

    def named(self, number: int) -> None:
        """What names this node as a root: its index, or another number where indices differ from node to
        node. At the beginning only."""
        self._mark = number
        # All nodes have rank 0 while none is asked for more than its name.
        self._self = number if self._settings.challenge_us is None else UNKNOWN << ROOT_BITS | number
        self._root = self._self

    @property
    def root(self) -> int:
        """The number of the node that beats."""
        return self._root & (1 << ROOT_BITS) - 1

    @property
    def parent(self) -> int | None:
        return self._parent

    # Links

    def _appeared(self, peer: int, effects: list[SpreadEffect], now: int) -> None:
        self._said[peer] = _Said()
        if self._settings.challenge_us is not None:
            effects.append(Transmit((peer,), Ping(now)))
            if self._challenge_at == NEVER:
                self._challenge_at = now + self._settings.challenge_us
        if self._root == self._self and self._beat_at == NEVER:
            self._beat_at = now
        elif self._number:
            effects.append(Transmit((peer,), Announce(self._root, self._number)))

    def down(self, peer: int, now: int) -> list[SpreadEffect]:
        self._said.pop(peer, None)
        return super().down(peer, now)

    def _vanished(self, peer: int, effects: list[SpreadEffect], now: int) -> None:
        if peer == self._parent:
            self._orphaned(effects, now)

    def _unbranched(self, peer: int, effects: list[SpreadEffect], now: int) -> None:
        if peer == self._parent:
            self._orphaned(effects, now)

    def _orphaned(self, effects: list[SpreadEffect], now: int) -> None:
        """The parent is gone: graft at once with a neighbour that has had the newest beats. If that one was
        below this node in the tree, the next beat comes from elsewhere and shows it."""
        self._parent = None
        self._repair(effects, now, known=True)

    # Beats

    def _handle(self, peer: int, link: Link, packet: Packet, effects: list[SpreadEffect], now: int) -> None:
        if isinstance(packet, Ping):
            effects.append(Transmit((peer,), Pong(packet.stamp)))
        elif isinstance(packet, Pong):
            self._said[peer].round_trip = max(0, now - packet.stamp)
        elif isinstance(packet, Announce):
            self._announced(peer, link, packet.root, packet.number, effects, now)
        elif isinstance(packet, Tree):
            if not link.branch:  # it was pruned while this was under way
                self._announced(peer, link, packet.root, packet.number, effects, now)
            elif self._newer(packet.root, packet.number):
                self._beaten(peer, packet, effects, now)
            elif packet.root == self._root and peer != self._parent:
                self._prune(peer, effects, now)
        else:
            super()._handle(peer, link, packet, effects, now)

    def _newer(self, root: int, number: int) -> bool:
        if root < self._root:
            return root not in self._gone or number > self._gone[root][0]
        return root == self._root != self._self and number > self._number

    def _beaten(self, peer: int, beat: Tree, effects: list[SpreadEffect], now: int) -> None:
        """A beat comes over a branch for the first time: pass it on."""
        if peer != self._parent:
            for said in self._said.values():
                said.forget()  # it was about another parent
        self._root, self._number, self._had_at = beat.root, beat.number, now
        self._parent = peer
        self._beat_at = NEVER
        self._tell(peer, effects)
        missing = False
        quickest: tuple[int, int] | None = None
        for other, said in self._said.items():
            said.tried = 0
            missing = missing or self._newer(said.root, said.number)
            if (said.root, said.number) == beat and other != peer and not self._links[other].branch:
                said.led(now - said.at, self._settings.jump_us)
                least = self._settings.better_us + 2 * said.deviation
                if said.samples >= self._settings.samples and said.lead > least:
                    quickest = max(quickest or (0, other), (said.lead, other))
        if not missing:
            self._missing_at = NEVER
        if quickest is not None and self._incoming is None:
            self._begin(quickest[1], effects, now)

    def _tell(self, via: int | None, effects: list[SpreadEffect]) -> None:
        """Pass the beat on. Not to peers that have announced it themselves: over a branch that is just being
        made it would come as a duplicate, and the branch would be pruned as soon as it is there."""
        root, number = self._root, self._number
        branches: list[int] = []
        others: list[int] = []
        for peer, link in self._links.items():
            said = self._said[peer]
            if peer != via and not (said.root == root and said.number >= number):
                (branches if link.branch else others).append(peer)
        if branches:
            effects.append(Transmit(tuple(branches), Tree(root, number)))
        if others:
            effects.append(Transmit(tuple(others), Announce(root, number)))

    def _announced(
        self, peer: int, link: Link, root: int, number: int, effects: list[SpreadEffect], now: int
    ) -> None:
        said = self._said[peer]
        said.root, said.number, said.at = root, number, now
        if link.branch:
            return
        if not self._newer(root, number):
            if (root, number) == (self._root, self._number) and root != self._self:
                said.led(self._had_at - now, self._settings.jump_us)
            return
        if self._parent is None and self._incoming is None:
            said.tried += 1
            self._begin(peer, effects, now)
            self._missing_at = now + self._settings.missing_us
        elif self._missing_at == NEVER:
            self._missing_at = now + self._settings.missing_us

    # Repair

    def _repair(self, effects: list[SpreadEffect], now: int, known: bool) -> None:
        """Graft with one that has a beat which this node has not; with `known`, with one that has at least
        the same. The one tried least often comes first, then the best root, then the quickest."""
        self._missing_at = NEVER
        able = [
            (said.tried, said.root, -said.number, said.at, peer)
            for peer, said in self._said.items()
            if not self._links[peer].branch
            and (
                self._newer(said.root, said.number)
                or (known and said.root == self._root and said.number + 1 >= self._number)
            )
        ]
        if not able:
            return
        self._missing_at = now + self._settings.missing_us
        if self._incoming is None:
            peer = min(able)[-1]
            self._said[peer].tried += 1
            self._begin(peer, effects, now)

    def _freed(self, effects: list[SpreadEffect], now: int) -> None:
        if self._parent is None:
            self._repair(effects, now, known=False)

    # Time

    def _tick(self, effects: list[SpreadEffect], now: int) -> None:
        settings = self._settings
        if self._missing_at <= now:
            self._repair(effects, now, known=False)
        if self._challenge_at <= now:
            self._challenge(now)
        if self._root != self._self and self._had_at + settings.check_us <= now:
            self._gone = {root: last for root, last in self._gone.items() if last[1] > now}
            # What is left of its beats must not go round in circles while each node in turn forgets it.
            self._gone[self._root] = (self._number, now + 10 * settings.check_us)
            self._lead(now)
        if self._beat_at <= now:
            self._beat(effects, now)

    def _lead(self, now: int) -> None:
        """Beat oneself, until a better root is heard."""
        if self._settings.challenge_us is not None:
            self._self = self._rank() << ROOT_BITS | self._mark
        self._root, self._parent = self._self, None
        self._beat_at = now

    def _rank(self) -> int:
        """The mean round trip to the neighbours, in milliseconds; the fewer, the closer to the middle."""
        known = [said.round_trip for said in self._said.values() if said.round_trip is not None]
        return sum(known) // (1000 * len(known)) + 1 if len(known) >= ENOUGH else UNKNOWN

    def _challenge(self, now: int) -> None:
        """Take over from a root whose neighbours are much farther away; as the root, own up to it when one's
        own have become so. (A worse name is heard when the better one has been silent for long enough.)"""
        assert self._settings.challenge_us is not None
        self._challenge_at = now + self._settings.challenge_us if self._said else NEVER
        rank, claimed = self._rank(), self._root >> ROOT_BITS
        if 4 * rank > 5 * claimed if self._root == self._self else 5 * rank < 4 * claimed:
            self._lead(now)

    def _beat(self, effects: list[SpreadEffect], now: int) -> None:
        if not self._links:
            self._beat_at = NEVER  # no neighbour to beat for
            return
        # Numbers go on after a restart, if the clock does; if not, the old ones are forgotten with the root.
        self._number = max(self._number + 1, now // self._settings.beat_us)
        self._beat_at = now + self._settings.beat_us
        self._tell(None, effects)

    def _due(self, now: int) -> int:  # noqa: ARG002
        silent = NEVER if self._root == self._self else self._had_at + self._settings.check_us
        return min(self._beat_at, self._missing_at, self._challenge_at, silent)
