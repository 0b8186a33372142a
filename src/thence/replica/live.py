"""Which orders and spreads live nodes have, by names; and the machine of a tree without tags."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from thence.core.errors import UsageError
from thence.members.hyparview import HyParView
from thence.members.views import ViewSettings
from thence.oplog.log import OpLog
from thence.order.engines import ENGINES, PROBABILISTIC
from thence.order.probabilistic import ENTRIES, KEYS, RECENT
from thence.order.unordered import NONE
from thence.replica.eco import EcoReplica, LogStates
from thence.replica.group_parts import Diary
from thence.replica.open_tree import OpenTree, root_number
from thence.replica.overlay import Branch, Overlay
from thence.replica.tree import INBOX_MAX, Merging, StepHistory, TreeReplica
from thence.replica.tree_names import Processes
from thence.replica.tree_order import Clocked, TreeOrder, Unordered
from thence.spread.gossip import Gossip, GossipSettings
from thence.spread.overlays import ALIASES, GOSSIP, OVERLAYS, OverlayKind
from thence.spread.spread import Spread

__all__ = [
    "DURABLE", "EDGE", "PROBABILISTIC", "TREES", "VIEWLESS", "Branch", "GossipSettings", "LiveSettings",
    "open_tree",
]  # fmt: skip

DURABLE = tuple([name for name, kind in ENGINES.items() if kind.prompt and kind.witness is not None])
"""Engines of groups with tags."""

TREES = {**ALIASES, **{name: name for name, kind in OVERLAYS.items() if kind.tree}}
"""Spreads over partial views, by what people call them. `tree` is the one that needs nothing of an
application and forgets nothing that somebody may lack."""


EDGE = "edge"
"""A tree that is rooted at a datacentre, with groups that overlap: `replica.edge`."""

VIEWLESS = (*TREES, GOSSIP)
"""Spreads that need no view that all agree on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSettings:
    spread: str = "tree"
    order: str = NONE.name
    entries: int = ENTRIES
    keys: int = KEYS
    recent: int = RECENT
    """Of order probabilistic."""
    gossip: GossipSettings = field(default_factory=GossipSettings)
    inbox_max: int = INBOX_MAX
    neighbours: int = 5
    """Links that a node keeps."""
    random: Random = field(default_factory=lambda: Random(0))
    """The source of its chance."""
    ttl_us: int = 3600 * 1_000_000
    """Of a tree that forgets: how long messages stay in the log."""
    frame_bytes: int = 1 << 24
    kind: OverlayKind | None = None
    """Instead of the spread of that name."""
    machine: type[OpenTree] = OpenTree
    views: type[HyParView] = HyParView
    overlays: type[Overlay] = Overlay
    replica: type[TreeReplica] = TreeReplica
    eco_replica: type[EcoReplica] = EcoReplica
    histories: type[StepHistory] = StepHistory
    clocked: type[Clocked] = Clocked


def must_go_together(order: str, spread: str) -> None:
    """Which engines there are for live nodes depends on how messages travel."""
    if spread == EDGE:
        return  # it has one order, and no tags
    if spread != "mesh" and spread not in VIEWLESS:
        raise UsageError(f"a live node spreads by mesh, {', '.join(VIEWLESS)} or {EDGE}, not {spread!r}")
    if order == PROBABILISTIC and (spread == "mesh" or OVERLAYS[TREES.get(spread, spread)].eco):
        raise UsageError(f"order {order} is for gossip, or a tree that forgets nothing: not for {spread}")
    if spread == GOSSIP and order != PROBABILISTIC:
        raise UsageError(
            f"gossip brings messages in any order: it takes order {PROBABILISTIC}, not {order!r}"
        )
    if order == PROBABILISTIC:
        return
    if spread == "mesh" and order not in DURABLE:
        raise UsageError(f"a live node orders by {' or '.join(DURABLE)}, not {order!r}")
    if spread in TREES and OVERLAYS[TREES[spread]].eco and order != NONE.name:
        raise UsageError(
            f"a log that forgets cannot tell the tags of what it forgot: {spread} takes order none, "
            f"not {order!r}"
        )
    if spread.endswith("-centre") and order != NONE.name:
        raise UsageError(f"a tree with tags has no root: {spread} takes order none, not {order!r}")
    if spread in TREES and order not in (*DURABLE, NONE.name):
        raise UsageError(f"over a tree nodes order by {' or '.join(DURABLE)} or none, not {order!r}")


def is_streamed(order: str, spread: str) -> bool:
    """Is there no view that all agree on? Then messages come in order because of the way that they come, or
    are ordered by clocks that may err."""
    if order == PROBABILISTIC:
        return spread in VIEWLESS
    return spread in TREES and (order == NONE.name or OVERLAYS[TREES[spread]].eco)


def open_tree(
    name: str,
    address: str,
    contacts: Mapping[str, str],
    log: OpLog,
    settings: LiveSettings,
    application: Merging,
    diaries: Callable[[str], Diary],
    next_number: Callable[[], int],
    now: int,
    forgetful: bool = False,
) -> OpenTree:
    """`OpenTree` over one of the spreads of `TREES`."""

    def make(
        me: int, names: list[str], diary: Diary, log: OpLog, processes: Processes
    ) -> tuple[TreeReplica, Overlay]:
        order: TreeOrder = Unordered()
        if settings.order == PROBABILISTIC:
            order = settings.clocked(settings.entries, settings.keys, settings.recent, names)
        history, states = settings.histories(log, order), LogStates()
        kind = settings.kind or OVERLAYS[TREES.get(settings.spread, settings.spread)]
        if kind.name == GOSSIP:
            streams: Spread = Gossip(me, len(names), history, settings.random, settings.gossip)
        else:
            streams = kind.make(me, len(names), history, settings.random, states)
        if kind.tree:
            streams.named(root_number(name))  # type: ignore[attr-defined]
        views = settings.views(
            0, settings.random, [processes.add(contact) for contact in contacts],
            ViewSettings(active=settings.neighbours),
        )  # fmt: skip
        overlay = settings.overlays(views, streams)  # type: ignore[arg-type]
        if not kind.eco:
            return settings.replica(
                me, names, overlay, diary, log, history, application, processes.name, settings.inbox_max,
                order,
            ), overlay  # fmt: skip
        return settings.eco_replica(
            me, names, overlay, diary, log, history, application, processes.name, states, settings.ttl_us,
            now, settings.inbox_max,
        ), overlay  # fmt: skip

    return settings.machine(
        name, address, contacts, log, make, application, diaries, next_number, settings.frame_bytes,
        forgetful, now,
    )  # fmt: skip
