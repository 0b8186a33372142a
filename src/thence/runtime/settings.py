"""Everything that can be chosen about a live node, with the reason for each default.

`NodeSettings` is composed once, at the start (`runtime/sources.py` reads flags, environment and file), and
checked once, when it is made: whatever holds one may rely on it. What can be chosen about a part is in
`options`; numbers that depend on how far apart the members are come from a profile (`profiles`).

Invariant: nothing of a node is reachable from, or sent to, another machine unless `insecure` says that this
is wanted, and never without a secret that was given. On the loopback, having no secret must be asked for.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from thence.core.errors import UsageError
from thence.oplog.settings import LogSettings as LogSettings
from thence.runtime.address import Address, is_anywhere, is_loopback
from thence.runtime.options import (
    SECOND_US,
    ApplicationSettings,
    ClockSettings,
    EdgeTreeSettings,
    GroupOptions,
    LinkSettings,
    MeshOptions,
    RumourSettings,
    StabilitySettings,
    TreeOptions,
    ZonesSettings,
)
from thence.runtime.profiles import ProfileName
from thence.runtime.user_secret import SECRET_BYTES_MIN

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""A name is also a folder, a label of metrics and a word in `--members`; `~` is kept for incarnations."""

ANY_PORT: Final = Address("127.0.0.1", 0)

OPEN: Final = "no secret: any process on this machine can pose as a member and control this node"

Order = Literal["graph", "vector", "vector-e2e", "none", "probabilistic", "separator"]
SpreadName = Literal[
    "mesh", "tree", "sync-tree", "sync-tree-centre", "eco-sync-tree", "eco-sync-tree-centre", "edge", "gossip"
]  # fmt: skip
LogLevel = Literal["debug", "info", "warn", "error"]
LogFormat = Literal["text", "json"]


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
    """Where none is given, on the loopback that of the user (`user_secret.py`). Empty (`none`): any process
    on this machine can pose as a member."""
    trace: Path | None = None
    """None: rows cost time and disk, and may not be wanted."""
    run: str = ""
    """In every row of the trace, so that several runs can lie in one folder. Empty: the only one."""
    trace_every_us: int = 0
    """How often the trace tells of the node's memory, disk and traffic, as well as of cuts and heals that
    were asked for. 0: never; who only verifies a trace needs none of it."""
    order: Order = "graph"
    """Its metadata grows with concurrency, not with the size of the group."""
    spread: SpreadName = "mesh"
    """All nodes linked to each other: the shortest way, up to some tens of nodes. `tree` (the same as
    `sync-tree`) keeps a few links per node, however large the group; `eco-sync-tree` does, and its logs
    forget what is old, even if nodes lack it: states of the application stand in. `gossip` needs no tree, and
    brings messages in any order: it is for order probabilistic."""
    parent: Address | None = None
    """Of an edge tree: where the node is that this one is to be below."""
    root: bool = False
    """Of an edge tree: it is the root, which must never lose its disk. Its log syncs always."""
    groups: tuple[str, ...] = ()
    """Of an edge tree: those that the node is a member of. The root is one of each."""
    topology: Path | None = None
    """Of order separator: the file of zones and routers. The same at all processes, for good; `members` says
    where each of them is."""
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
    mesh: MeshOptions = field(default_factory=MeshOptions)
    tree: TreeOptions = field(default_factory=TreeOptions)
    edge: EdgeTreeSettings = field(default_factory=EdgeTreeSettings)
    zones: ZonesSettings = field(default_factory=ZonesSettings)
    clock: ClockSettings = field(default_factory=ClockSettings)
    gossip: RumourSettings = field(default_factory=RumourSettings)
    stability: StabilitySettings = field(default_factory=StabilitySettings)
    group: GroupOptions = field(default_factory=GroupOptions)
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
        self._check_topology()
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
        """What the operator of this node should be told again and again."""
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

    def _check_topology(self) -> None:
        if self.order != "separator":
            if self.topology is not None:
                raise UsageError("a topology is for order separator")
            return
        if self.topology is None or not self.members:
            raise UsageError(
                "order separator needs `topology`, the file of zones, and `members`, where all are"
            )
        if self.spread != "mesh" or self.join:
            raise UsageError("order separator has links of its own: no other spread, and no process joins")
        if self.resp is not None:
            raise UsageError("a store needs messages that all nodes have: not order separator")

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


def check_group(name: str) -> None:
    if not name or not name.isprintable() or " " in name or "," in name or len(name.encode()) > 200:
        raise UsageError(f"{name!r} is no name for a group: up to 200 bytes that can be printed, no spaces")


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for a node: take up to 64 letters, digits, '.', '_' or '-', "
            "a letter or digit first"
        )
