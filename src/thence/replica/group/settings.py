"""What can be chosen about a member of a changing group, with the reason for each default."""

from dataclasses import dataclass
from typing import Literal

from thence.core.errors import UsageError
from thence.oplog.record import DOT_BYTES as LOG_BYTES
from thence.oplog.record import MAX_BODY
from thence.order.tags import TAGS_MAX

POSITIVE = (
    "repeat_us", "relay_us", "unheard_us", "burst", "pending_max", "probe_every_us", "join_retry_us",
    "join_timeout_us", "piece_bytes", "pieces", "leave_timeout_us", "window", "window_bytes", "packet_bytes",
    "tags_max", "step_max", "frame_bytes", "joins_max", "states_bytes", "record_bytes", "settle_timeout_us",
    "backlog",
    "backlog_bytes", "history_bytes", "overdue_us", "gather_us", "collect_from",
)  # fmt: skip

CROWD = 16
"""Members from which on receipts become rarer."""

FRAGMENT_LEAST = 64
"""Bytes: less than a packet's own would be a waste."""

Order = Literal["graph", "vector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    order: Order = "graph"
    """What messages name: with a graph it grows with concurrency, with vectors with the size of the group."""
    receipt_every_us: int = 50_000
    """After something was delivered: long enough to tell of several messages at once."""
    receipt_busy_us: int = 400_000
    """The longest wait between two receipts while something is not stable: one may have been lost."""
    receipt_idle_us: int = 2_000_000
    """The longest wait while nothing happens: how long a healed link may go unnoticed."""
    repeat_us: int = 200_000
    """How long a member may lack an own message, or one of a suspect or leaver, before it is sent again."""
    relay_us: int = 800_000
    """The same for other members' messages: their sender is given its chance first."""
    rings: int = 0
    """How many rings tell which members are linked (`spread/rings.py`): a tree. 0: all are, a mesh."""
    overdue_us: int = 150_000
    """In a tree: for how long another neighbour may be ahead with an origin's messages before it is asked for
    them. Above the wait between two receipts, so that it does not happen to one that works."""
    collect_from: int = CROWD + 1
    """Members from which on, in a mesh, receipts go to all by way of one member, the collector: below, the
    square of the group's size is small."""
    gather_us: int = 10_000
    """In a tree: how long receipts of others wait for more of them before they are passed on."""
    unheard_us: int = 2_500_000
    """Without a word for so long, others are asked for a member's last receipt: more than the longest wait
    between two of them."""
    burst: int = 64
    """Messages in one packet, when something is sent again."""
    pending_max: int = 4096
    """Messages that wait for their causes or for the application; more are dropped, and come again."""
    window: int = 8192
    """Over a session link: messages under way to one member. More than a fast link carries between two
    receipts."""
    window_bytes: int = 4 << 20
    """The same in bytes, for large messages: what one member may cost in memory."""
    tags_max: int = TAGS_MAX
    """Tags of unstable messages in memory; older ones go to the attic, if there is one."""
    step_max: int = 256
    """In one step so many messages are announced as stable at most, and so many are read from the log for
    those who lack them; the rest follows in the next steps. A millisecond or two each: a member that was away
    for long must not keep the others from their own messages."""
    frame_bytes: int = 16 << 20
    """The largest packet that links carry."""
    packet_bytes: int = 1 << 20
    """Messages that travel together over a session link; one that is larger travels in fragments."""
    record_bytes: int = MAX_BODY - LOG_BYTES
    """The largest message: what a record of the log holds."""
    probe_every_us: int = 1_000_000
    """How often missed members, and the configured seeds, are looked for."""
    join_retry_us: int = 300_000
    """Above a round trip: a request or a piece may have been lost."""
    join_timeout_us: int = 5_000_000
    """Nothing came for so long: the contact is dead or does not want this joiner, or the joiner is dead."""
    piece_bytes: int = 1 << 18
    """Large enough that a packet's overhead does not matter, small enough to be sent again."""
    pieces: int = 8
    """Pieces under way to a joiner."""
    joins_max: int = 8
    """Joiners that one contact lets in at a time: each has pieces under way, and holds stability back until
    it has come. More of them get no offer yet, or are told to wait."""
    states_bytes: int = 16 << 20
    """States on their way to joiners, in memory, or one if it is larger: a joiner that comes later than a
    state was made needs another."""
    leave_timeout_us: int = 60_000_000
    """A leaver that gets no answer goes, and says that it did not go in good order."""
    settle_timeout_us: int = 30_000_000
    """How long a broadcast waits behind operations from before a return. An eviction settles within a few
    receipts while all members answer; where it takes longer, a member is down, and a person has to decide."""
    backlog: int = 4096
    """Broadcasts that wait so: as many as messages may wait for an application."""
    backlog_bytes: int = 4 << 20
    """The same in bytes: what a window may cost in memory."""
    history_bytes: int = 16 << 20
    """Of log that is kept though all members have it, for programs that come back without: more than a second
    of messages, which is what a power cut takes."""
    stable_waits: bool = False
    """Programs are told that an operation is stable only when no member is missed: one that was evicted and
    may still return has had it by then, or has returned and brought what it had."""
    silence_us: int | None = None
    """After so long without a word a member is evicted, by a majority. None: never; a person decides."""

    @property
    def fragment_bytes(self) -> int:
        """Of a large message, at a time: so that several are under way, and others' packets get between."""
        return max(FRAGMENT_LEAST, min(self.packet_bytes, self.window_bytes // 4))

    def __post_init__(self) -> None:
        if self.order not in ("graph", "vector"):
            raise UsageError(f"group settings: there is no order {self.order!r}")
        if not 0 < self.receipt_every_us <= self.receipt_busy_us <= self.receipt_idle_us:
            raise UsageError("group settings: need 0 < receipt_every <= receipt_busy <= receipt_idle")
        for name in POSITIVE:
            if getattr(self, name) < 1:
                raise UsageError(f"group settings: {name} must be positive")
        if self.rings < 0:
            raise UsageError("group settings: rings must not be negative")
        if self.silence_us is not None and self.silence_us <= self.receipt_idle_us:
            raise UsageError("group settings: silence must be longer than the wait between two receipts")
