"""From a node's settings to those of the machine that it runs in a group."""

from typing import Final

from thence.replica.group.settings import GroupSettings
from thence.runtime.settings import NodeSettings

SECOND: Final = 1_000_000

PACKET_BYTES: Final = 1 << 20
PIECE_BYTES: Final = 1 << 18
"""What travels at once, where frames may be so large: enough that a packet's overhead does not matter."""


def machine_settings(settings: NodeSettings, closed: bool) -> GroupSettings:
    group, mesh = settings.group, settings.mesh
    frame_bytes = settings.links.frame_bytes_max
    return GroupSettings(
        order="vector" if settings.order == "vector" else "graph",
        rings=0 if settings.spread == "mesh" else (settings.tree.neighbours + 1) // 2,
        frame_bytes=frame_bytes,
        packet_bytes=min(PACKET_BYTES, frame_bytes // 2),  # beside it heads, lengths and the like
        piece_bytes=min(PIECE_BYTES, frame_bytes // 2),
        tags_max=settings.stability.tags_max,
        stable_waits=settings.stability.waits_for_absent,
        window=mesh.window,
        window_bytes=mesh.window_bytes,
        relay_us=mesh.relay_after_us,
        receipt_every_us=group.receipt_every_us,
        receipt_busy_us=group.receipt_busy_us,
        receipt_idle_us=group.receipt_idle_us,
        unheard_us=group.receipt_idle_us + SECOND // 2,
        pending_max=settings.application.inbox_max,
        join_timeout_us=group.join_timeout_us,
        leave_timeout_us=group.leave_timeout_us,
        settle_timeout_us=group.settle_timeout_us,
        backlog=group.backlog,
        backlog_bytes=group.backlog_bytes,
        history_bytes=group.history_bytes,
        silence_us=None if closed else group.silence_us,
    )
