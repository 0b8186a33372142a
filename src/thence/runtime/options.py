"""What can be chosen about the parts of a live node, with the reason for each default.

`settings.NodeSettings` has one of each; each checks itself when it is made.
"""

from dataclasses import dataclass, fields
from typing import Final

from thence.core.errors import UsageError

SECOND_US: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    connect_timeout_us: int = 5 * SECOND_US
    """TCP repeats its first packet after 1 and 3 seconds: two of them may be lost."""
    handshake_timeout_us: int = 5 * SECOND_US
    """A few packets and an HMAC, with room for a machine that is busy."""
    silence_us: int = 10 * SECOND_US
    """A ping goes out after a third of it, so two answers may be late. Shorter notices a cut sooner, but
    takes a node that was stopped for a moment for one that is gone."""
    backoff_first_us: int = 100_000
    """A process that is started again listens after about that long."""
    backoff_most_us: int = 5 * SECOND_US
    """How long a peer that came back may go unnoticed; one connection attempt in that time costs nothing."""
    frame_bytes_max: int = 16 << 20
    """What one peer can make this node keep before it has seen a whole frame."""
    guests_max: int = 128
    """Links of processes that are no members of a changing group: joiners, which are soon members, leavers,
    and others that know the secret. Far more than join at once; members never count. Where the process may
    have few descriptors, a quarter of those that are not kept for the disk."""
    guests_per_host_max: int = 64
    """Of them: one machine that goes wild leaves room for the others."""

    def __post_init__(self) -> None:
        _positive(self, "links")
        if self.backoff_first_us > self.backoff_most_us:
            raise UsageError("links.backoff_first_us must not be more than links.backoff_most_us")
        if self.frame_bytes_max < 64 << 10:
            raise UsageError("links.frame_bytes_max must be at least 65536: a handshake may need that much")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshOptions:
    window: int = 8192
    """Messages of its own that a node may be ahead of a peer's acknowledgements. At 100,000 a second this is
    80 ms, several acknowledgements."""
    window_bytes: int = 4 << 20
    """The same in bytes, for large messages: what a slow peer can cost in memory."""
    relay_after_us: int = SECOND_US
    """How long a link must be down before another member is asked for what its other end sends: a process
    that is started again is back by then."""

    def __post_init__(self) -> None:
        _positive(self, "mesh")
        if self.window < 4 or self.window_bytes < 4096:
            raise UsageError("mesh.window must be at least 4, mesh.window_bytes at least 4096")


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeOptions:
    neighbours: int = 5
    """Links that a node of a tree keeps: enough that the loss of any four leaves it connected."""

    ttl_us: int = 3600 * SECOND_US
    """`eco-sync-tree`: how long messages stay in the log. Longer than most absences, so that states seldom
    need to be sent; an hour of messages fits on any disk."""

    def __post_init__(self) -> None:
        _positive(self, "tree")


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeTreeSettings:
    """Of a node on an edge tree."""

    delta: int = 1
    """Consecutive ancestors whose failure is passed by at once: more costs delay at each message that goes
    down behind one that its receiver does not get."""
    heartbeat_us: int = SECOND_US
    suspect_us: int = 3 * SECOND_US + SECOND_US // 2
    """Silence of the parent after which another is sought: three beats may be late. A process that ends is
    noticed at once."""
    drop_us: int = 5 * SECOND_US
    """Silence of a child after which its session is over."""
    attach_us: int = 2 * SECOND_US
    """How long the answer to an attachment may take."""
    probe_us: int = 100_000
    """How long a nearer ancestor is waited for where there is a link to another."""
    linger_us: int = 10 * SECOND_US
    """How long groups of a lost child stay wanted: it may come back."""
    keep_us: int = 10 * SECOND_US
    """Least age of what leaves the log: a child that is away for longer may need states."""
    alone_us: int = 30 * SECOND_US
    """How long a subtree that is cut off holds back what its ancestors may lack, before it goes on alone."""
    status_us: int = 1_000
    """How long news for a child wait for data to travel with."""
    window: int = 1024
    """Messages under way over a link, each way."""
    window_bytes: int = 4 << 20
    """And bytes of them, beyond which no further message leaves."""
    rehome_us: int = 5 * SECOND_US
    """How long a node stays with another parent before it moves back under its own; 0: it stays."""
    history_bytes: int = 16 << 20
    """Of log that is kept for programs that go on from a position."""

    def __post_init__(self) -> None:
        for each in fields(self):
            if getattr(self, each.name) < (0 if each.name in ("status_us", "rehome_us", "keep_us") else 1):
                raise UsageError(f"edge.{each.name} must be positive")
        if self.delta > 8:
            raise UsageError("edge.delta is at most 8: each one more makes messages wait longer")
        if not self.heartbeat_us < self.suspect_us <= self.drop_us:
            raise UsageError("edge: need heartbeat_us < suspect_us <= drop_us")


@dataclass(frozen=True, slots=True, kw_only=True)
class ZonesSettings:
    """Of order separator."""

    suspect_us: int = 10 * SECOND_US
    """How long a gateway is without a link to another of its separator before it asks all of their
    neighbours; they go on without that one if none has a link. Longer than a restart takes. 0: a person
    decides."""
    greet_us: int = 2 * SECOND_US
    """How long a start waits for all neighbours to say what they have of this process: a disk that was put
    back is found before it does harm."""
    word_us: int = SECOND_US // 5
    """Between two words to a neighbour about what was delivered, which stamps and histories need not name any
    more: half of it where messages take them along, one and a half where nothing goes to that neighbour."""
    window: int = 1024
    """Items under way to a neighbour."""

    def __post_init__(self) -> None:
        for each in fields(self):
            if getattr(self, each.name) < (0 if each.name in ("suspect_us", "greet_us") else 1):
                raise UsageError(f"zones.{each.name} must be positive")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSettings:
    """Of order probabilistic: the same at all nodes, but for `recent`."""

    entries: int = 100
    """The document's: for twenty messages under way, however many members there are. `thence tune` finds
    others."""
    keys: int = 4
    """Entries that a member counts its messages in."""
    recent: int = 1000
    """Deliveries that a node remembers to doubt them: more than come within the longest delay."""

    def __post_init__(self) -> None:
        if not 1 <= self.keys <= self.entries:
            raise UsageError(f"clock.keys must be between 1 and the {self.entries} entries, not {self.keys}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RumourSettings:
    """Of spread gossip; neighbours are those of `tree.neighbours`."""

    fanout: int = 3
    """Neighbours that a message is passed on to: with five nearly all nodes hear of it, at two thirds of the
    packets of a flood."""
    period_us: int = SECOND_US // 5
    """Between two questions for what is missing: how late a message comes that chance left out, about."""

    def __post_init__(self) -> None:
        _positive(self, "gossip")


@dataclass(frozen=True, slots=True, kw_only=True)
class StabilitySettings:
    enabled: bool = True
    """Find out what is causally stable. Without it nothing is ever collected from the log."""
    tags_max: int = 32_768
    """Tags of unstable messages in memory, some ten megabytes; of older ones there is a file."""
    waits_for_absent: bool = False
    """`Stable` waits for members that were evicted and may still return. Programs that throw away what they
    need to merge what such members bring want that; others would only keep more for longer."""

    def __post_init__(self) -> None:
        _positive(self, "stability")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """Of a group whose members come and go."""

    silence_us: int | None = None
    """A member that no other has heard for so long is evicted, where a majority is heard. None: a person
    decides. A machine that stalls comes back by itself, but what it costs is a new incarnation."""
    join_timeout_us: int = 5 * SECOND_US
    """A contact from which nothing came for so long is dead, or does not want this joiner."""
    leave_timeout_us: int = 60 * SECOND_US
    """A leaver that gets no answer goes, and says that it did not go in good order."""
    settle_timeout_us: int = 30 * SECOND_US
    """How long a broadcast waits behind operations from before a return. An eviction settles within a few
    receipts while all members answer; where it takes longer, a member is down, and a person has to decide."""
    backlog: int = 4096
    """Broadcasts that wait so: a program that sends without waiting for answers is told before long."""
    backlog_bytes: int = 4 << 20
    """The same in bytes: what a window may cost in memory."""
    history_bytes: int = 16 << 20
    """Of log that is kept though all members have it, for programs that come back without: more than a second
    of messages, which is what a power cut takes."""
    patience_us: int = 30 * SECOND_US
    """After a power cut, until nodes that do not answer are not waited for any more: machines come up one
    after another, and the one that keeps most should be the one to go on from."""
    receipt_every_us: int = 50_000
    """After something was delivered: long enough to tell of several messages at once."""
    receipt_busy_us: int = 400_000
    """The longest wait between two receipts while something is not stable."""
    receipt_idle_us: int = 2 * SECOND_US
    """The longest wait while nothing happens: how long a healed link may go unnoticed."""

    def __post_init__(self) -> None:
        if not 0 < self.receipt_every_us <= self.receipt_busy_us <= self.receipt_idle_us:
            raise UsageError("group: need 0 < receipt_every_us <= receipt_busy_us <= receipt_idle_us")
        limits = (self.join_timeout_us, self.leave_timeout_us, self.patience_us, self.settle_timeout_us)
        if min(*limits, self.backlog, self.backlog_bytes, self.history_bytes) < 1:
            raise UsageError("group: time limits, backlogs and history must be positive")
        if self.silence_us is not None and self.silence_us <= self.receipt_idle_us:
            raise UsageError("group.silence_us must be longer than group.receipt_idle_us")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationSettings:
    inbox_max: int = 8192
    """Messages that wait in memory for the application; the rest waits in the log and is read back."""
    broadcasts_max: int = 8192
    """Broadcasts of the program that are not answered yet; further ones wait. Enough for some disks' worth of
    syncs, little enough to stay in memory."""
    events_max: int = 8192
    """Events that wait for a program which reads slowly or not at all, before several that say the same
    become one."""

    def __post_init__(self) -> None:
        _positive(self, "application")


def _positive(part: object, called: str) -> None:
    for each in fields(part):  # type: ignore[arg-type]  # every part is a dataclass
        if getattr(part, each.name) < (0 if each.type is bool else 1):
            raise UsageError(f"{called}.{each.name} must be positive")
