"""The replica that a live node over a tree runs, by names: what `runtime` needs of engines and spreads."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from thence.core.codec import Codec
from thence.core.errors import UsageError
from thence.core.machine import Effect, LinkEffect
from thence.core.states import Keeper, Nothing
from thence.members.hyparview import HyParView
from thence.members.views import ViewSettings
from thence.oplog.log import OpLog
from thence.order.engines import ENGINES
from thence.order.streamed import STREAMED
from thence.replica.durable import INBOX_MAX
from thence.replica.eco import EcoReplica, LogStates
from thence.replica.overlay import Branch, Overlay
from thence.replica.tree import StepHistory, TreeReplica
from thence.spread.eco_sync_tree import EcoSyncTree
from thence.spread.sync_tree import SyncTree
from thence.trace.recorder import Recorder

__all__ = ["DURABLE", "TREES", "Branch", "Live", "LiveSettings", "live"]

DURABLE = tuple([name for name, kind in ENGINES.items() if kind.prompt and kind.witness is not None])
"""Engines of groups with tags."""

TREES = {"tree": "sync-tree", "sync-tree": "sync-tree", "eco-sync-tree": "eco-sync-tree"}
"""Spreads over partial views, by what people call them. `tree` is the one that needs nothing of an
application and forgets nothing that somebody may lack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSettings:
    spread: str = "tree"
    inbox_max: int = INBOX_MAX
    recovering: bool = False
    """The log may lack messages that this node has sent: see `replica/overlay.py`."""
    neighbours: int = 5
    """Links that a node keeps."""
    random: Random = field(default_factory=lambda: Random(0))
    """The source of its chance."""
    ttl_us: int = 3600 * 1_000_000
    """Of a tree that forgets: how long messages stay in the log."""
    keeper: Keeper = field(default_factory=Nothing)
    """And the application whose states stand in for them."""


class Live(NamedTuple):
    """One node's replica, and what its driver needs beside it."""

    replica: TreeReplica
    overlay: Overlay
    codec: Codec
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
    if spread in TREES and order not in (*DURABLE, STREAMED.name):
        raise UsageError(f"over a tree nodes order by {' or '.join(DURABLE)} or none, not {order!r}")


def is_streamed(order: str, spread: str) -> bool:
    """Do messages come in order because of the way that they come? Then there are no tags, and no view."""
    return spread != "mesh" and (order == STREAMED.name or TREES.get(spread) == "eco-sync-tree")


def live(
    me: int, size: int, settings: LiveSettings, recorder: Recorder, log: OpLog, taken: int, now: int
) -> Live:
    made = _over_tree(me, size, settings, recorder, log, taken, now)
    if settings.recovering:
        made.replica.regain()
    return made


def _over_tree(
    me: int, size: int, settings: LiveSettings, recorder: Recorder, log: OpLog, taken: int, now: int
) -> Live:
    eco = TREES[settings.spread] == "eco-sync-tree"
    codec = Codec(size, STREAMED.stamps_are_dots)
    history, states = StepHistory(log, codec), LogStates()
    tree = EcoSyncTree(me, size, history, states) if eco else SyncTree(me, size, history)
    overlay = Overlay(me, _views(me, size, settings), tree, settings.random)
    if not eco:
        made = TreeReplica(me, size, overlay, recorder, log, history, taken, settings.inbox_max)
        return Live(made, overlay, codec)
    keeper, ttl_us = settings.keeper, settings.ttl_us
    replica = EcoReplica(
        me, size, overlay, recorder, log, history, states, keeper, ttl_us, now, settings.inbox_max
    )
    return Live(replica, overlay, codec, ttl_us // 4)


def _views(me: int, size: int, settings: LiveSettings) -> HyParView:
    others = [peer for peer in range(size) if peer != me]
    return HyParView(me, settings.random, others, ViewSettings(active=settings.neighbours))
