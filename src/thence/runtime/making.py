"""A node of the kind that its settings, or its data folder, ask for."""

from thence.runtime.changing import Changing
from thence.runtime.drain import NodeApplication
from thence.runtime.fixed import Fixed
from thence.runtime.folder import is_fixed
from thence.runtime.logs import StructuredLog
from thence.runtime.node import Node
from thence.runtime.pacing import Clock
from thence.runtime.settings import NodeSettings


def make_node(settings: NodeSettings, application: NodeApplication, log: StructuredLog, clock: Clock) -> Node:
    plain = settings.order == "graph" and settings.spread == "mesh" and settings.stability.enabled
    fixed = not plain and (settings.members or is_fixed(settings.data))
    return Node(settings, application, log, clock, Fixed if fixed else Changing)
