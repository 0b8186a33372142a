"""Every spread over partial views by its name."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from thence.core.errors import UsageError
from thence.core.history import History
from thence.spread.flood import Flood
from thence.spread.pull import PeriodicPull, PullSettings
from thence.spread.spread import Spread
from thence.spread.sync_tree import SyncTree


@dataclass(frozen=True, slots=True)
class OverlayKind:
    """How to make the part of member `me` in a group of up to `size`, with its log and a source of chance."""

    name: str
    make: Callable[[int, int, History, Random], Spread]
    tree: bool = False
    """Its branches come to form a tree."""


def _slow_pull(me: int, size: int, history: History, random: Random) -> Spread:
    return PeriodicPull(me, size, history, random, PullSettings(period_us=1_000_000))


OVERLAYS: dict[str, OverlayKind] = {
    kind.name: kind
    for kind in (
        OverlayKind("sync-tree", lambda me, size, history, _: SyncTree(me, size, history), tree=True),
        OverlayKind("flood", lambda me, size, history, _: Flood(me, size, history)),
        OverlayKind("pull", PeriodicPull),
        OverlayKind("pull-1s", _slow_pull),
    )
}


ALIASES = {"tree": "sync-tree"}
"""What people say for short."""


def overlay(name: str) -> OverlayKind:
    try:
        return OVERLAYS[ALIASES.get(name, name)]
    except KeyError:
        raise UsageError(
            f"unknown spread {name!r}; over partial views there is {', '.join(OVERLAYS)}"
        ) from None
