"""Which orders and spreads live nodes have, by names."""

from thence.core.errors import UsageError
from thence.order.engine import SEPARATOR
from thence.order.engines import ENGINES, PROBABILISTIC
from thence.order.unordered import NONE
from thence.spread.overlays import ALIASES, GOSSIP, OVERLAYS

__all__ = [
    "DURABLE", "EDGE", "PROBABILISTIC", "SEPARATOR", "TREES", "VIEWLESS", "is_streamed", "must_go_together",
]  # fmt: skip

DURABLE = tuple([name for name, kind in ENGINES.items() if kind.prompt and kind.witness is not None])
"""Engines of groups with tags."""

TREES = {**ALIASES, **{name: name for name, kind in OVERLAYS.items() if kind.tree}}
"""Spreads over partial views, by what people call them. `tree` is the one that needs nothing of an
application and forgets nothing that a node may lack."""

EDGE = "edge"
"""A tree that is rooted at a datacentre, with groups that overlap: `replica.edge`."""

VIEWLESS = (*TREES, GOSSIP)
"""Spreads that need no view that all agree on."""


def must_go_together(order: str, spread: str) -> None:
    """Which engines there are for live nodes depends on how messages travel."""
    if spread == EDGE:
        return  # it has one order, and no tags
    if order == SEPARATOR:
        if spread != "mesh":
            raise UsageError(f"order {order} has links of its own: not {spread}")
        return
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
