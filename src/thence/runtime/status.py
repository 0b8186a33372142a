"""What a node tells about itself: the answer to `GET /status`, typed for both ends.

The node makes a `Status`, the client reads one back; between them it is JSON that people and scripts read
too, so fields are only ever added, with defaults, and a reader passes over those that it does not know.
"""

from typing import Literal

from msgspec import Struct, field


class MemberStatus(Struct, frozen=True, kw_only=True):
    """One member of the group as this node sees it."""

    name: str
    address: str
    link: Literal["me", "up", "down", "cut", "idle"]
    """`cut`: down because a fault was asked for. `idle`: there is none, and none is wanted."""
    since_s: float = 0.0
    """For how long the link has been like that."""
    lag: int = 0
    """Own messages that this member has not acknowledged."""
    queued_bytes: int = 0
    reconnects: int = 0
    cut_offs: int = 0
    """How often this member sent what no correct peer sends."""
    refusals: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0
    branch: Literal["", "lazy", "sync", "eager"] = ""
    """Of a neighbour in a tree: what the link is used for, as the trace tells it."""
    incarnation: str = ""
    """In a changing group: the incarnation that it runs, or ran."""
    role: Literal["member", "suspect", "leaving", "evicted", "stranger"] = "member"
    """In a changing group. `stranger`: linked, but not a member (yet)."""


class GroupStatus(Struct, frozen=True, kw_only=True):
    """Of the group, as this node sees it."""

    incarnation: str
    """The incarnation that it runs; empty: it is no member."""
    phase: str
    """outside, joining, member, returning or leaving."""
    view: list[str]
    """Incarnations, suspects among them until they are gone."""
    suspects: list[str] = field(default_factory=list)
    departing: list[str] = field(default_factory=list)
    orphans: int = 0
    """Operations from before a return that wait to be sent again."""
    unread: int = 0
    """What a program without a state has missed, and is to read before anything else."""
    waiting_broadcasts: int = 0
    """Broadcasts that wait behind those operations."""
    unsettled: list[str] = field(default_factory=list)
    """Members on whose last messages there must be agreement before the next of them is sent again."""
    waiting_for: list[str] = field(default_factory=list)
    """Of a node that looks for its group: what it waits for."""
    closed: bool = False
    """Its members were named at the start, and none joins or leaves."""
    rollback: str = ""
    """Why it comes back as a new incarnation, if its data folder was put back to an earlier state."""


class EdgeChildStatus(Struct, frozen=True, kw_only=True):
    """A child of a node on an edge tree."""

    name: str
    """An identity."""
    chain: list[str]
    """Announced to it: the processes that it may attach to."""
    waits: int = 0
    """Entries of the log that it was not looked at for yet."""
    gated: int = 0
    """Of them, what the gate holds back: the ancestors may lack something that comes before it."""
    syncing: bool = False
    """It waits for a state."""
    groups: list[str] = field(default_factory=list)


class EdgeStatusReport(Struct, frozen=True, kw_only=True):
    """Of a node on an edge tree."""

    identity: str
    rank: int
    root: str
    """Empty: it was never told."""
    parent: str
    """Empty: it is the root, or has none at present."""
    home: str = ""
    """The process that it was told to be below."""
    chain: list[str] = field(default_factory=list)
    """The processes that it may attach to, nearest first."""
    bypassed: list[str] = field(default_factory=list)
    """The process that it should be below, if it is below another."""
    children: list[EdgeChildStatus] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    joining: list[str] = field(default_factory=list)
    have: dict[str, dict[str, int]] = field(default_factory=dict)
    """Of these groups, by origin, the number of the last message."""
    entries: int = 0
    """In the log that is kept for others."""
    not_at_root: int = 0
    """Of them, how many the root may lack."""
    held_back: int = 0
    """What the gate holds back, over all children."""
    copies: int = 0
    """Messages and runs that went down to children since it was started."""
    statuses_alone: int = 0
    """Packets down without any of them."""
    attached: int = 0
    """When it attached to its parent, in microseconds since 1970."""
    alone: bool = False
    """It was without a parent for so long that its subtree goes on alone."""
    without_parent_s: float = 0.0
    obstacle: str = ""
    """Why its parent has not said its name."""


class SeparatorStatus(Struct, frozen=True, kw_only=True):
    """The gateways between two zones."""

    zones: list[str]
    members: list[str]
    """By rank."""
    gone: list[str] = field(default_factory=list)
    """Of them, those that the others go on without."""


class ZonesStatus(Struct, frozen=True, kw_only=True):
    """Of a process of a topology."""

    zones: list[str]
    """That it is a member of: two of a gateway."""
    gateway: bool = False
    active: bool = False
    """Of a gateway: it forwards. Else it is a witness."""
    separators: list[SeparatorStatus] = field(default_factory=list)
    """Of its zones."""
    gone: list[str] = field(default_factory=list)
    """Neighbours that it goes on without."""
    flushing: list[str] = field(default_factory=list)
    """Of them, those of which others may have more."""
    forwards: int = 0
    """Messages that it has to forward, or would if it were the active one."""
    history: int = 0
    """Hops in its extended causal history."""
    hops: int = 0
    """That it has taken in from neighbours; what tells of closed ones counts with them."""
    exposed: bool = False
    """Others could wait for ever for messages that no other process has, if it were gone for good now."""
    silent: list[str] = field(default_factory=list)
    """Neighbours that have not said what they have of it since its start, while it waits for that."""


class LogStatus(Struct, frozen=True, kw_only=True):
    bytes: int
    """On disk."""
    head: int
    """Position of the oldest record, tail: of the newest, durable: of the newest that is synced."""
    tail: int
    durable: int
    sync: str
    """The policy."""
    trouble: str | None = None
    """Why nothing more is written, if so."""
    appended_bytes: int = 0
    """Since this start."""
    writes: int = 0
    syncs: int = 0


class Faults(Struct, frozen=True, kw_only=True):
    """What was asked for with `thence fault`, and still holds."""

    allowed: bool = False
    cut: list[str] = field(default_factory=list)
    slow_ms: dict[str, float] = field(default_factory=dict)


class LoadStatus(Struct, frozen=True, kw_only=True):
    """The latest load that the node was asked for."""

    running: bool
    sent: int
    seconds: float
    """For how long it ran, or has been running."""
    rate: float
    """What was asked for; 0: as fast as it goes."""
    count: int | None = None
    limit_s: float | None = None
    failed: str | None = None


class Status(Struct, frozen=True, kw_only=True):
    name: str
    cluster: str
    pid: int
    uptime_s: float
    state: str
    """starting, running, draining or broken; where members change also what it does to become one."""
    boot: int
    members: list[MemberStatus]
    sent: int
    """Own messages since this start, as `delivered` counts those of others."""
    delivered: int
    inbox: int
    """Released, and not taken by the application."""
    held: int
    """Received, and waiting for their causes."""
    unstable: int
    oldest_unstable_s: float | None
    """How long the oldest of them has been known here."""
    holding_stability_back: list[str]
    """Members that the oldest unstable message waits for."""
    log: LogStatus
    refusals: int = 0
    """Connections that were refused here, strangers' among them."""
    faults: Faults = field(default_factory=Faults)
    load: LoadStatus | None = None
    spread: str = "mesh"
    neighbours: int = 0
    """Of a tree: links that a node keeps."""
    order: str = "graph"
    entries: int = 0
    """Of order probabilistic, and `keys`."""
    keys: int = 0
    doubts: int = 0
    """Deliveries since this start that were perhaps too early."""
    root: str = ""
    """Of the tree, as far as this node knows; `parent`: where its beats come from."""
    parent: str = ""
    clock: dict[str, int] = field(default_factory=dict)
    """Messages of each member that are in the log, or in a state that stands in for them."""
    group: GroupStatus | None = None
    """None: over a tree with order none."""
    edge: EdgeStatusReport | None = None
    zones: ZonesStatus | None = None
    warnings: list[str] = field(default_factory=list)
    """What its settings leave open that most would not want so."""
