"""Every spread over partial views by its name."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from thence.core.errors import UsageError
from thence.core.history import History
from thence.core.states import States
from thence.spread.spread import Spread


@dataclass(frozen=True, slots=True)
class OverlayKind:
    """How to make the part of member `me` in a group of up to `size`, with its log and a source of chance."""

    name: str
    make: Callable[[int, int, History, Random, States], Spread]
    tree: bool = False
    """Its branches come to form a tree."""
    eco: bool = False
    """Logs may forget what the newest state covers."""
    causal: bool = True
    """Messages come after their causes. If not, an engine must see to it."""


# Each spread is imported where it is made: a live node knows all names, and runs one of them at most.


def _sync_tree(me: int, size: int, history: History, random: Random, states: States) -> Spread:  # noqa: ARG001
    from thence.spread.sync_tree import SyncTree

    return SyncTree(me, size, history)


def _central(me: int, size: int, history: History, random: Random, states: States) -> Spread:  # noqa: ARG001
    from thence.spread.sync_tree import CENTRAL, SyncTree

    return SyncTree(me, size, history, CENTRAL)


def _eco(me: int, size: int, history: History, random: Random, states: States) -> Spread:  # noqa: ARG001
    from thence.spread.eco_sync_tree import EcoSyncTree

    return EcoSyncTree(me, size, history, states)


def _eco_central(me: int, size: int, history: History, random: Random, states: States) -> Spread:  # noqa: ARG001
    from thence.spread.eco_sync_tree import EcoSyncTree
    from thence.spread.sync_tree import CENTRAL

    return EcoSyncTree(me, size, history, states, CENTRAL)


def _flood(me: int, size: int, history: History, random: Random, states: States) -> Spread:  # noqa: ARG001
    from thence.spread.flood import Flood

    return Flood(me, size, history)


def _pull(me: int, size: int, history: History, random: Random, states: States) -> Spread:  # noqa: ARG001
    from thence.spread.pull import PeriodicPull

    return PeriodicPull(me, size, history, random)


def _slow_pull(me: int, size: int, history: History, random: Random, states: States) -> Spread:  # noqa: ARG001
    from thence.spread.pull import PeriodicPull, PullSettings

    return PeriodicPull(me, size, history, random, PullSettings(period_us=1_000_000))


def _gossip(me: int, size: int, history: History, random: Random, states: States) -> Spread:  # noqa: ARG001
    from thence.spread.gossip import Gossip

    return Gossip(me, size, history, random)


GOSSIP = "gossip"

OVERLAYS: dict[str, OverlayKind] = {
    kind.name: kind
    for kind in (
        OverlayKind("sync-tree", _sync_tree, tree=True),
        OverlayKind("sync-tree-centre", _central, tree=True),
        OverlayKind("eco-sync-tree", _eco, tree=True, eco=True),
        OverlayKind("eco-sync-tree-centre", _eco_central, tree=True, eco=True),
        OverlayKind("flood", _flood),
        OverlayKind("pull", _pull),
        OverlayKind("pull-1s", _slow_pull),
        OverlayKind(GOSSIP, _gossip, causal=False),
    )
}


ALIASES = {"tree": "sync-tree"}
"""What people say for short, in the simulator as on live nodes: the tree that forgets nothing."""


def overlay(name: str) -> OverlayKind:
    try:
        return OVERLAYS[ALIASES.get(name, name)]
    except KeyError:
        raise UsageError(
            f"unknown spread {name!r}; over partial views there is {', '.join(OVERLAYS)}"
        ) from None
