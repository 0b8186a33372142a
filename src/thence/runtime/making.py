"""A node of the kind that its settings, or its data folder, ask for."""

from thence.replica.live import EDGE, SEPARATOR, is_streamed
from thence.runtime.drain import NodeApplication
from thence.runtime.logs import NodeLog
from thence.runtime.node import Node
from thence.runtime.pacing import Clock
from thence.runtime.settings import NodeSettings


def make_node(settings: NodeSettings, application: NodeApplication, log: NodeLog, clock: Clock) -> Node:
    """A kind is imported where it is asked for: what a process never runs costs it no memory."""
    if settings.spread == EDGE:
        from thence.runtime.edge_trees import EdgeTrees

        return Node(settings, application, log, clock, EdgeTrees)
    if settings.order == SEPARATOR:
        from thence.runtime.zones import Zones

        return Node(settings, application, log, clock, Zones)
    if is_streamed(settings.order, settings.spread):
        from thence.runtime.open_trees import OpenTrees

        return Node(settings, application, log, clock, OpenTrees)
    from thence.runtime.changing import Changing

    return Node(settings, application, log, clock, Changing)
