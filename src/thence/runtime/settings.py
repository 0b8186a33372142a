"""Everything that can be chosen about a live node, with the reason for each default.

`NodeSettings` is composed once, at the start (`runtime/sources.py` reads flags, environment and file), and
checked once, when it is made: whatever holds one may rely on it. Numbers that depend on how far apart the
members are come from a profile; all profiles derive from one base, the defaults below, which suit one site.

Invariant: nothing of a node is reachable from, or sent to, another machine unless `insecure` says that this
is wanted, and never without a secret that was given. On the loopback, having no secret must be asked for.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from thence.core.errors import UsageError
from thence.oplog.settings import Settings as LogSettings
from thence.runtime.address import Address, is_anywhere, is_loopback
from thence.runtime.user_secret import SECRET_BYTES_MIN

SECOND_US: Final = 1_000_000
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""A name is also a folder, a label of metrics and a word in `--members`; `~` is kept for incarnations."""

ANY_PORT: Final = Address("127.0.0.1", 0)

OPEN: Final = "no secret: everybody on this machine can pose as a member and control this node"

Order = Literal["graph", "vector", "vector-e2e", "none", "probabilistic"]
SpreadName = Literal[
    "mesh", "tree", "sync-tree", "sync-tree-centre", "eco-sync-tree", "eco-sync-tree-centre", "edge", "gossip"
]  # fmt: skip
LogLevel = Literal["debug", "info", "warn", "error"]
LogFormat = Literal["text", "json"]
ProfileName = Literal["local", "lan", "wan"]


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
    """Links of processes that are no members of a changing group: joiners, who are soon members, leavers, and
    whoever else knows the secret. Far more than join at once; members never count. Where the process may have
    few descriptors, a quarter of those that are not kept for the disk."""
    guests_per_host_max: int = 64
    """Of them: one machine that goes wild leaves room for the others."""

    def __post_init__(self) -> None:
        _positive(self, "links")
        if self.backoff_first_us > self.backoff_most_us:
            raise UsageError("links.backoff_first_us must not be more than links.backoff_most_us")
        if self.frame_bytes_max < 64 << 10:
            raise UsageError("links.frame_bytes_max must be at least 65536: a handshake may need that much")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshSettings:
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
class TreeSettings:
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
    rehome_us: int = 5 * SECOND_US
    """How long a node stays with another parent before it moves back under its own; 0: it stays."""

    def __post_init__(self) -> None:
        for each in fields(self):
            if getattr(self, each.name) < (0 if each.name in ("status_us", "rehome_us", "keep_us") else 1):
                raise UsageError(f"edge.{each.name} must be positive")
        if self.delta > 8:
            raise UsageError("edge.delta is at most 8: each one more makes messages wait longer")
        if not self.heartbeat_us < self.suspect_us <= self.drop_us:
            raise UsageError("edge: need heartbeat_us < suspect_us <= drop_us")


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
class GroupSettings:
    """Of a group whose members come and go."""

    silence_us: int | None = None
    """A member that nobody has heard for so long is evicted, where a majority is heard. None: a person
    decides. A machine that stalls comes back by itself, but what it costs is a new incarnation."""
    join_timeout_us: int = 5 * SECOND_US
    """A contact from which nothing came for so long is dead, or does not want this joiner."""
    leave_timeout_us: int = 60 * SECOND_US
    """A leaver that nobody answers goes, and says that it did not go in good order."""
    settle_timeout_us: int = 30 * SECOND_US
    """How long a broadcast waits behind operations from before a return. An eviction settles within a few
    receipts while everybody answers; where it takes longer, a member is down, and a person has to decide."""
    backlog: int = 4096
    """Broadcasts that wait so: a program that sends without waiting for answers is told before long."""
    backlog_bytes: int = 4 << 20
    """The same in bytes: what a window may cost in memory."""
    history_bytes: int = 16 << 20
    """Of log that is kept though everybody has it, for programs that come back without: more than a second of
    messages, which is what a power cut takes."""
    patience_us: int = 30 * SECOND_US
    """After a power cut, until those who do not answer are not waited for any more: machines come up one
    after another, and whoever keeps most should be the one to go on from."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    name: str
    listen: Address
    data: Path
    members: tuple[tuple[str, Address], ...] = ()
    """The whole group, this node included, sorted by name: it is closed. Empty: members come and go."""
    join: tuple[Address, ...] = ()
    """Where to ask for a group. Neither members nor this: found a group, or resume."""
    advertise: Address | None = None
    """Where the others reach this node, if that is not where it listens (a node that listens everywhere, at
    `0.0.0.0`, or behind a port that is forwarded). Port 0: the one that it listens on. Members of a closed
    group are told by `members`."""
    cluster: str = "thence"
    """Told in every handshake, so that nodes of two groups that meet by mistake part at once."""
    secret: bytes = field(default=b"", repr=False)
    """Where none is given, on the loopback that of the user (`user_secret.py`). Empty (`none`): everybody on
    this machine can pose as a member."""
    trace: Path | None = None
    """None: rows cost time and disk, and nobody may want them."""
    run: str = ""
    """In every row of the trace, so that several runs can lie in one folder. Empty: the only one."""
    trace_every_us: int = 0
    """How often the trace tells of the node's memory, disk and traffic, as well as of cuts and heals that
    were asked for. 0: never; who only verifies a trace needs none of it."""
    order: Order = "graph"
    """Its metadata grows with concurrency, not with the size of the group."""
    spread: SpreadName = "mesh"
    """Everybody linked to everybody: the shortest way, up to some tens of nodes. `tree` (the same as
    `sync-tree`) keeps a few links per node, however large the group; `eco-sync-tree` does, and its logs
    forget what is old, whoever may lack it: states of the application stand in. `gossip` needs no tree, and
    brings messages in any order: it is for order probabilistic."""
    parent: Address | None = None
    """Of an edge tree: where the node is that this one is to be below."""
    root: bool = False
    """Of an edge tree: it is the root, which must never lose its disk. Its log syncs always."""
    groups: tuple[str, ...] = ()
    """Of an edge tree: those that the node is a member of. The root is one of each."""
    http: Address | None = ANY_PORT
    """Health, metrics and control; a port that is free, told in `control.json`. None: no HTTP at all."""
    resp: Address | None = None
    """Where Redis clients connect to: the node has a store. All nodes of a group have one, or none."""
    set_wins: Literal["add", "remove"] = "add"
    """Of a store's sets, where an add and a remove are concurrent: the same at all nodes."""
    allow_faults: bool = False
    """Cutting links on request is for trials."""
    insecure: bool = False
    """Links and HTTP are authenticated, but not encrypted: to leave the machine must be asked for."""
    log_level: LogLevel = "info"
    """A line for what changes (links, restarts, refusals), none for each message."""
    log_format: LogFormat = "text"
    """People read it first; `json` is for collectors."""
    drain_us: int = 5 * SECOND_US
    """At a stop: until peers have acknowledged what was sent. Nothing is lost by less, it comes later."""
    profile: ProfileName = "lan"
    links: LinkSettings = field(default_factory=LinkSettings)
    mesh: MeshSettings = field(default_factory=MeshSettings)
    tree: TreeSettings = field(default_factory=TreeSettings)
    edge: EdgeTreeSettings = field(default_factory=EdgeTreeSettings)
    clock: ClockSettings = field(default_factory=ClockSettings)
    gossip: RumourSettings = field(default_factory=RumourSettings)
    stability: StabilitySettings = field(default_factory=StabilitySettings)
    group: GroupSettings = field(default_factory=GroupSettings)
    application: ApplicationSettings = field(default_factory=ApplicationSettings)
    log: LogSettings = field(default_factory=LogSettings)

    def __post_init__(self) -> None:
        check_name(self.name)
        if not self.cluster or self.cluster != self.cluster.strip() or len(self.cluster.encode()) > 255:
            raise UsageError("cluster must be 1 to 255 bytes with no white space around them")
        if self.drain_us < 0 or self.trace_every_us < 0:
            raise UsageError("drain_us and trace_every_us must not be negative")
        self._check_group()
        self._check_edge()
        self._check_reach()
        where = self.reached_at(self.listen)
        if is_anywhere(where) and not self.members:
            raise UsageError(f"others cannot reach a node at {where}: `advertise` says where they do")

    @property
    def log_settings(self) -> LogSettings:
        """Of the log as it is opened: one that forgets by age has segments that are short against it, and the
        root of an edge tree, on which the tree relies, forgets nothing in a power cut."""
        if self.root:
            return replace(self.log, sync="always")
        if not self.spread.startswith("eco-"):
            return self.log
        age_us = max(1, min(self.log.segment_age_us, self.tree.ttl_us // 4))
        return replace(self.log, keep_us=self.tree.ttl_us, segment_age_us=age_us)

    def reached_at(self, bound: Address) -> Address:
        """Where others reach a node that listens there."""
        if self.advertise is None:
            return bound
        return self.advertise if self.advertise.port else Address(self.advertise.host, bound.port)

    @property
    def addresses(self) -> Iterable[Address]:
        """Everywhere that bytes of this node can come from or go to."""
        yield self.listen
        if self.advertise is not None:
            yield self.advertise
        yield from (address for _, address in self.members)
        yield from self.join
        if self.parent is not None:
            yield self.parent
        if self.http is not None:
            yield self.http
        if self.resp is not None:
            yield self.resp

    @property
    def warnings(self) -> list[str]:
        """What whoever runs this node should be told again and again."""
        return [] if self.secret else [OPEN]

    def _check_group(self) -> None:
        if self.members and self.join:
            raise UsageError("members names the whole group, join asks for it: give one of them")
        names = [name for name, _ in self.members]
        for name in names:
            check_name(name)
        if names and self.name not in names:
            raise UsageError(f"members must name {self.name} as well: it names {', '.join(names)}")
        if names != sorted(set(names)):
            raise UsageError("members must be sorted by name, each name once")
        where = [address for _, address in self.members]
        for address in (*where, *self.join):
            if address.port == 0:
                raise UsageError(f"{address} cannot be reached: members and join need a port")
            if where.count(address) > 1:
                raise UsageError(f"two members cannot both be at {address}")
        if self.members and self.advertise not in (None, dict(self.members)[self.name]):
            raise UsageError("`members` says where this node is reached: leave `advertise` away")
        if self.listen.port == 0 and (self.members or self.join):
            raise UsageError("listen needs a port that the other members can be told")

    def _check_edge(self) -> None:
        if self.spread != "edge":
            if self.parent is not None or self.root or self.groups:
                raise UsageError("parent, root and groups are of edge trees: they need spread edge")
            return
        if self.root == (self.parent is not None):
            raise UsageError("a node of an edge tree has a parent, or is the root: give one of them")
        if self.members or self.join:
            raise UsageError("a node of an edge tree knows its parent: neither members nor join")
        if self.resp is not None:
            raise UsageError("a store needs one group that all nodes are members of: not an edge tree")
        if self.parent is not None and (self.parent.port == 0 or self.parent == self.listen):
            raise UsageError(f"the parent cannot be at {self.parent}")
        for group in self.groups:
            check_group(group)

    def _check_reach(self) -> None:
        far = [address for address in self.addresses if not is_loopback(address)]
        if not far:
            return
        if not self.insecure:
            raise UsageError(
                f"{far[0]} is beyond this machine and nothing is encrypted: `insecure` says that you want it"
            )
        if len(self.secret) < SECRET_BYTES_MIN:
            raise UsageError(
                f"{far[0]} is beyond this machine: a secret of at least {SECRET_BYTES_MIN} bytes is needed "
                "(`secret_file`, THENCE_SECRET or the configuration file)"
            )


PROFILES: Final[Mapping[ProfileName, Mapping[str, object]]] = MappingProxyType(
    {
        "lan": {},
        "local": {
            # A connection attempt on loopback is answered at once or never.
            "links.connect_timeout_us": SECOND_US,
            # The kernel tells of a process that died; silence means one that was stopped.
            "links.silence_us": 5 * SECOND_US,
            # People restart nodes and watch.
            "links.backoff_first_us": 50_000,
            "links.backoff_most_us": SECOND_US,
            # A redial takes a tenth of that.
            "mesh.relay_after_us": SECOND_US // 2,
            # Receipts cost little here, and people watch nodes come and go.
            "group.receipt_every_us": 20_000,
            "group.receipt_busy_us": SECOND_US // 5,
            "group.receipt_idle_us": SECOND_US,
            # A process that is stopped for three beats is passed by; people watch.
            "edge.heartbeat_us": SECOND_US // 4,
            "edge.suspect_us": SECOND_US,
            "edge.drop_us": 2 * SECOND_US,
            "edge.attach_us": SECOND_US,
            "edge.alone_us": 5 * SECOND_US,
            "edge.rehome_us": 2 * SECOND_US,
            # All nodes are stopped together: nobody is left to wait for.
            "drain_us": 2 * SECOND_US,
        },
        "wan": {
            # Three first packets of TCP may be lost (1, 3 and 7 seconds).
            "links.connect_timeout_us": 10 * SECOND_US,
            "links.handshake_timeout_us": 10 * SECOND_US,
            # Routes change within tens of seconds; a new link costs round trips and all that was on its way.
            "links.silence_us": 30 * SECOND_US,
            # Above a round trip around the Earth.
            "links.backoff_first_us": SECOND_US // 2,
            "links.backoff_most_us": 30 * SECOND_US,
            # 100,000 messages a second over a round trip of 300 ms, and 1 Gbit/s over the same.
            "mesh.window": 65_536,
            "mesh.window_bytes": 40 << 20,
            # A dial, a handshake and its repetition.
            "mesh.relay_after_us": 3 * SECOND_US,
            # A round trip and what it takes to repeat one packet.
            "group.receipt_every_us": 100_000,
            "group.receipt_busy_us": SECOND_US,
            "group.receipt_idle_us": 4 * SECOND_US,
            "group.join_timeout_us": 15 * SECOND_US,
            # Several round trips and a repeated packet.
            "edge.suspect_us": 10 * SECOND_US,
            "edge.drop_us": 15 * SECOND_US,
            "edge.attach_us": 5 * SECOND_US,
            "edge.probe_us": SECOND_US // 2,
            "edge.status_us": 20_000,
            "edge.linger_us": 60 * SECOND_US,
            "edge.keep_us": 60 * SECOND_US,
            "edge.window": 16_384,
            # Several round trips on a bad day.
            "drain_us": 10 * SECOND_US,
        },
    }
)
"""What each profile changes of the base, by key."""


def check_group(name: str) -> None:
    if not name or not name.isprintable() or " " in name or "," in name or len(name.encode()) > 200:
        raise UsageError(f"{name!r} is no name for a group: up to 200 bytes that can be printed, no spaces")


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for a node: take up to 64 letters, digits, '.', '_' or '-', "
            "a letter or digit first"
        )


def _positive(part: object, called: str) -> None:
    for each in fields(part):  # type: ignore[arg-type]  # every part is a dataclass
        if getattr(part, each.name) < (0 if each.type is bool else 1):
            raise UsageError(f"{called}.{each.name} must be positive")
