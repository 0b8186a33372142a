"""The replica that a live node over a tree runs, by names: what `runtime` needs of engines and spreads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from thence.core.codec import Codec
from thence.core.errors import UsageError
from thence.core.machine import Effect, LinkEffect
from thence.core.message import Message
from thence.core.states import Keeper, Nothing
from thence.members.hyparview import HyParView
from thence.members.views import ViewSettings
from thence.oplog.log import OpLog
from thence.order.engine import Engine
from thence.order.engines import ENGINES, engine
from thence.order.herald import HeraldSettings
from thence.order.streamed import STREAMED
from thence.order.tags import TAGS_MAX, Attic
from thence.replica.durable import INBOX_MAX
from thence.replica.eco import EcoReplica, LogStates
from thence.replica.overlay import Branch, Overlay
from thence.replica.replica import FindingStable
from thence.replica.tree import StepHistory, TreeReplica
from thence.spread.eco_sync_tree import EcoSyncTree
from thence.spread.sync_tree import SyncTree
from thence.trace.recorder import Recorder

__all__ = [
    "DURABLE", "TREES", "Branch", "HeraldSettings", "Live", "LiveSettings", "live",
]  # fmt: skip

DURABLE = tuple([name for name, kind in ENGINES.items() if kind.prompt and kind.witness is not None])
"""Engines whose messages are written down as they were tagged."""

TREES = {"tree": "sync-tree", "sync-tree": "sync-tree", "eco-sync-tree": "eco-sync-tree"}
"""Spreads over partial views, by what people call them. `tree` is the one that needs nothing of an
application and forgets nothing that somebody may lack."""

SWEEP_EVERY = 256
"""The driver looks for what is stable every few milliseconds; this is for when there is much in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSettings:
    order: str = "graph"
    spread: str = "tree"
    herald: HeraldSettings
    stability: bool = True
    inbox_max: int = INBOX_MAX
    recovering: bool = False
    """The log may lack messages that this node has sent: see `replica/overlay.py`."""
    attic: Attic | None = None
    tags_max: int = TAGS_MAX
    """Tags of unstable messages in memory; older ones go to the attic, if there is one."""
    neighbours: int = 5
    """Of a tree: links that a node keeps."""
    random: Random = field(default_factory=lambda: Random(0))
    """Of a tree: the source of its chance."""
    ttl_us: int = 3600 * 1_000_000
    """Of a tree that forgets: how long messages stay in the log."""
    keeper: Keeper = field(default_factory=Nothing)
    """And the application whose states stand in for them."""


class Live(NamedTuple):
    """One node's replica, and what its driver needs beside it."""

    replica: TreeReplica
    overlay: Overlay
    codec: Codec
    predecessors: Callable[[Message], tuple[int, ...] | None]
    collect_every_us: int | None = None
    """How often the log is to be looked at for what may go; None: as often as the driver likes."""

    def start(self, now: int) -> list[Effect]:
        """The node is new."""
        self.replica.start(now)
        return self.replica.resume(now)

    def take_wishes(self) -> Sequence[LinkEffect]:
        """Links to be opened and closed, since the last time."""
        wishes = tuple(self.overlay.wishes)
        self.overlay.wishes.clear()
        return wishes


def must_go_together(order: str, spread: str) -> None:
    """Which engines there are for live nodes depends on how messages travel."""
    if spread != "mesh" and spread not in TREES:
        raise UsageError(f"a live node spreads by mesh or {', '.join(TREES)}, not {spread!r}")
    if spread == "mesh" and order not in DURABLE:
        raise UsageError(f"a live node orders by {' or '.join(DURABLE)}, not {order!r}")
    if TREES.get(spread) == "eco-sync-tree" and order != STREAMED.name:
        raise UsageError(
            f"a log that forgets cannot tell the tags of what it forgot: eco-sync-tree takes order none, not "
            f"{order!r}"
        )
    if spread in TREES:
        tree_engine(order)


def is_streamed(order: str, spread: str) -> bool:
    """Do messages come in order because of the way that they come? Then there are no tags, and no view."""
    return spread != "mesh" and (order == STREAMED.name or TREES.get(spread) == "eco-sync-tree")


def live(
    me: int, size: int, settings: LiveSettings, recorder: Recorder, log: OpLog, taken: int, now: int
) -> Live:
    must_go_together(settings.order, settings.spread)
    made = _over_tree(me, size, settings, recorder, log, taken, now)
    if settings.recovering:
        made.replica.regain()
    return made


def _common(settings: LiveSettings) -> tuple[bool, int, FindingStable]:
    """What a replica is given besides its parts, whatever carries its messages."""
    finding = FindingStable(
        herald=settings.herald, sweep_every=SWEEP_EVERY, attic=settings.attic, tags_max=settings.tags_max
    )
    return settings.stability, settings.inbox_max, finding


def _over_tree(
    me: int, size: int, settings: LiveSettings, recorder: Recorder, log: OpLog, taken: int, now: int
) -> Live:
    if TREES[settings.spread] == "eco-sync-tree":
        return _over_eco(me, size, settings, recorder, log, now)
    kind = tree_engine(settings.order)
    codec = Codec(size, kind.stamps_are_dots)
    history = StepHistory(log, codec)
    overlay = Overlay(me, _views(me, size, settings), SyncTree(me, size, history), settings.random)
    replica = TreeReplica(
        me,
        size,
        kind,
        overlay,
        recorder,
        log,
        history,
        taken,
        now,
        *_common(settings),
    )
    return Live(replica, overlay, codec, kind.predecessors)


def _over_eco(me: int, size: int, settings: LiveSettings, recorder: Recorder, log: OpLog, now: int) -> Live:
    codec = Codec(size, STREAMED.stamps_are_dots)
    history, states = StepHistory(log, codec), LogStates()
    tree = EcoSyncTree(me, size, history, states)
    overlay = Overlay(me, _views(me, size, settings), tree, settings.random)
    keeper, ttl_us = settings.keeper, settings.ttl_us
    replica = EcoReplica(
        me, size, overlay, recorder, log, history, states, keeper, ttl_us, now, settings.inbox_max
    )
    return Live(replica, overlay, codec, STREAMED.predecessors, settings.ttl_us // 4)


def _views(me: int, size: int, settings: LiveSettings) -> HyParView:
    others = [peer for peer in range(size) if peer != me]
    return HyParView(me, settings.random, others, ViewSettings(active=settings.neighbours))


def tree_engine(name: str) -> Engine:
    """A tree is causal by itself; `graph` and `vector` add tags and stability."""
    if name == STREAMED.name:
        return STREAMED
    if name not in DURABLE:
        raise UsageError(f"over a tree nodes order by {' or '.join(DURABLE)} or none, not {name!r}")
    return engine(name)
