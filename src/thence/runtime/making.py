"""A node of the kind that its settings, or its data folder, ask for."""

from thence.replica.live import EDGE, is_streamed
from thence.runtime.changing import Changing
from thence.runtime.drain import NodeApplication
from thence.runtime.edge_trees import EdgeTrees
from thence.runtime.logs import Log
from thence.runtime.node import Node
from thence.runtime.open_trees import OpenTrees
from thence.runtime.pacing import Clock
from thence.runtime.settings import NodeSettings


def make_node(settings: NodeSettings, application: NodeApplication, log: Log, clock: Clock) -> Node:
    if settings.spread == EDGE:
        return Node(settings, application, log, clock, EdgeTrees)
    streamed = is_streamed(settings.order, settings.spread)
    return Node(settings, application, log, clock, OpenTrees if streamed else Changing)
