"""The machine of a tree without tags: its parts, put together by names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from thence.members.hyparview import HyParView
from thence.members.views import ViewSettings
from thence.oplog.log import OpLog
from thence.order.engines import PROBABILISTIC
from thence.order.probabilistic import ENTRIES, KEYS, RECENT
from thence.order.unordered import NONE
from thence.replica.eco import EcoReplica, LogStates
from thence.replica.group.surroundings import Diary, Merging
from thence.replica.live import TREES
from thence.replica.open_tree import PACKET_BYTES, WINDOW_BYTES, OpenTree, root_number
from thence.replica.overlay import Overlay
from thence.replica.tree import TreeReplica
from thence.replica.tree_history import StepHistory
from thence.replica.tree_inbox import INBOX_MAX
from thence.replica.tree_names import Processes
from thence.replica.tree_order import Clocked, TreeOrder, Unordered
from thence.spread.gossip import Gossip, GossipSettings
from thence.spread.overlays import GOSSIP, OVERLAYS, OverlayKind
from thence.spread.spread import Spread

__all__ = ["GossipSettings", "LiveSettings", "open_tree"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSettings:
    spread: str = "tree"
    order: str = NONE.name
    entries: int = ENTRIES
    keys: int = KEYS
    recent: int = RECENT
    """Of order probabilistic."""
    gossip: GossipSettings = field(default_factory=GossipSettings)
    inbox_max: int = INBOX_MAX
    neighbours: int = 5
    """Links that a node keeps."""
    random: Random = field(default_factory=lambda: Random(0))
    """The source of its chance."""
    ttl_us: int = 3600 * 1_000_000
    """Of a tree that forgets: how long messages stay in the log."""
    packet_bytes: int = PACKET_BYTES
    window_bytes: int = WINDOW_BYTES
    """What is larger travels in fragments, of which so many bytes are under way to a neighbour."""
    kind: OverlayKind | None = None
    """Instead of the spread of that name."""
    machine: type[OpenTree] = OpenTree
    views: type[HyParView] = HyParView
    overlays: type[Overlay] = Overlay
    replica: type[TreeReplica] = TreeReplica
    eco_replica: type[EcoReplica] = EcoReplica
    histories: type[StepHistory] = StepHistory
    clocked: type[Clocked] = Clocked


def open_tree(
    name: str,
    address: str,
    contacts: Mapping[str, str],
    log: OpLog,
    settings: LiveSettings,
    application: Merging,
    diaries: Callable[[str], Diary],
    next_number: Callable[[], int],
    now: int,
    forgetful: bool = False,
) -> OpenTree:
    """`OpenTree` over one of the spreads of `TREES`."""

    def make(
        me: int, names: list[str], diary: Diary, log: OpLog, processes: Processes
    ) -> tuple[TreeReplica, Overlay]:
        order: TreeOrder = Unordered()
        if settings.order == PROBABILISTIC:
            order = settings.clocked(settings.entries, settings.keys, settings.recent, names)
        history, states = settings.histories(log, order), LogStates()
        kind = settings.kind or OVERLAYS[TREES.get(settings.spread, settings.spread)]
        if kind.name == GOSSIP:
            streams: Spread = Gossip(me, len(names), history, settings.random, settings.gossip)
        else:
            streams = kind.make(me, len(names), history, settings.random, states)
        if kind.tree:
            streams.named(root_number(name))  # type: ignore[attr-defined]
        views = settings.views(
            0, settings.random, [processes.add(contact) for contact in contacts],
            ViewSettings(active=settings.neighbours),
        )  # fmt: skip
        overlay = settings.overlays(views, streams)  # type: ignore[arg-type]
        if not kind.eco:
            return settings.replica(
                me, names, overlay, diary, log, history, application, processes.name, settings.inbox_max,
                order,
            ), overlay  # fmt: skip
        return settings.eco_replica(
            me, names, overlay, diary, log, history, application, processes.name, states, settings.ttl_us,
            now, settings.inbox_max,
        ), overlay  # fmt: skip

    return settings.machine(
        name, address, contacts, log, make, application, diaries, next_number, settings.packet_bytes,
        settings.window_bytes, forgetful, now,
    )  # fmt: skip
