"""A node of the kind that its settings, or its data folder, ask for."""

from thence.replica.live import is_streamed
from thence.runtime.changing import Changing
from thence.runtime.drain import NodeApplication
from thence.runtime.logs import StructuredLog
from thence.runtime.node import Node
from thence.runtime.open_trees import OpenTrees
from thence.runtime.pacing import Clock
from thence.runtime.settings import NodeSettings


def make_node(settings: NodeSettings, application: NodeApplication, log: StructuredLog, clock: Clock) -> Node:
    streamed = is_streamed(settings.order, settings.spread)
    return Node(settings, application, log, clock, OpenTrees if streamed else Changing)
