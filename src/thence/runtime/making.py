"""A node of the kind that its settings, or its data folder, ask for."""

from thence.core.errors import UsageError
from thence.replica.live import is_streamed
from thence.runtime.changing import Changing
from thence.runtime.drain import NodeApplication
from thence.runtime.fixed import Fixed
from thence.runtime.folder import is_fixed
from thence.runtime.logs import StructuredLog
from thence.runtime.node import Node
from thence.runtime.pacing import Clock
from thence.runtime.settings import NodeSettings


def make_node(settings: NodeSettings, application: NodeApplication, log: StructuredLog, clock: Clock) -> Node:
    streamed = is_streamed(settings.order, settings.spread)
    if streamed and not settings.members and not is_fixed(settings.data):
        raise UsageError("a group without tags over a tree is closed: name all its members")
    return Node(settings, application, log, clock, Fixed if streamed else Changing)
