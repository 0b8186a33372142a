"""The metrics of a node: their names, in one place (docs/OBSERVABILITY.md has the table).

Most of them are in the node's status already and are read from there once per scrape. A node keeps only what
it must measure as it happens: the two latencies. So counting costs the steps of a node next to nothing.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from thence.runtime.metrics import Counter, Family, Gauge, Registry
from thence.runtime.status import MemberStatus, Status

OfStatus = Mapping[str, tuple[str, Callable[[Status], float]]]
OfMember = Mapping[str, tuple[str, Callable[[MemberStatus], float]]]


def _branches(status: Status, kind: str) -> int:
    """Neighbours, of one kind or of any."""
    return sum(member.branch == kind if kind else member.branch != "" for member in status.members)


TOTALS: Final[OfStatus] = {
    "thence_sent_messages_total": ("Own messages since the start.", lambda s: s.sent),
    "thence_delivered_messages_total": ("Messages of others since the start.", lambda s: s.delivered),
    "thence_refused_connections_total": ("Connections that were refused here.", lambda s: s.refusals),
    "thence_log_appended_bytes_total": ("Bytes written to the log.", lambda s: s.log.appended_bytes),
    "thence_log_syncs_total": ("Syncs of the log.", lambda s: s.log.syncs),
}  # fmt: skip

LEVELS: Final[OfStatus] = {
    "thence_inbox_messages": ("Released, and not taken by the application.", lambda s: s.inbox),
    "thence_held_messages": ("Received, and waiting for their causes.", lambda s: s.held),
    "thence_unstable_messages": ("Not known to be causally stable.", lambda s: s.unstable),
    "thence_oldest_unstable_seconds": ("Age of the oldest; 0: none.", lambda s: s.oldest_unstable_s or 0),
    "thence_log_bytes": ("Size of the log on disk.", lambda s: s.log.bytes),
    "thence_log_unsynced_records": ("Records not synced yet.", lambda s: max(0, s.log.tail - s.log.durable)),
    "thence_log_broken": ("1: nothing more can be written.", lambda s: int(s.log.trouble is not None)),
    "thence_uptime_seconds": ("Time since the start.", lambda s: s.uptime_s),
    "thence_neighbours": ("Of a tree: members whose links carry its beats.", lambda s: _branches(s, "")),
    "thence_branches": ("Of them: those that messages are streamed to.", lambda s: _branches(s, "eager")),
    "thence_boot": ("How often this data folder was started.", lambda s: s.boot),
}  # fmt: skip

LINK_TOTALS: Final[OfMember] = {
    "thence_link_reconnects_total": ("Times that the link came up again.", lambda m: m.reconnects),
    "thence_link_cut_offs_total": ("Times that the peer was cut off for garbage.", lambda m: m.cut_offs),
    "thence_link_refusals_total": ("Handshakes with the peer that failed.", lambda m: m.refusals),
    "thence_link_received_bytes_total": ("Bytes that came from the peer.", lambda m: m.received_bytes),
    "thence_link_sent_bytes_total": ("Bytes that went to the peer.", lambda m: m.sent_bytes),
}

LINK_LEVELS: Final[OfMember] = {
    "thence_link_up": ("1: the link is up.", lambda m: int(m.link == "up")),
    "thence_link_since_seconds": ("Time since it went up or down.", lambda m: m.since_s),
    "thence_link_queued_bytes": ("Bytes that wait to be sent.", lambda m: m.queued_bytes),
    "thence_peer_lag_messages": ("Own messages that the peer has not acknowledged.", lambda m: m.lag),
}


class Instruments:
    """Everything that a node exposes; `render` is its answer to `GET /metrics`."""

    __slots__ = (
        "_holding", "_link_levels", "_link_totals", "_of_node", "_read", "delivery", "registry", "stability",
    )  # fmt: skip

    def __init__(self, read: Callable[[], Status]) -> None:
        registry = Registry()
        self.registry: Final = registry
        self._read: Final = read
        self.delivery: Final = registry.histogram(
            "thence_delivery_latency_seconds", "From a message's arrival here to its delivery."
        )
        self.stability: Final = registry.histogram(
            "thence_stability_latency_seconds", "From an own message's broadcast to its causal stability."
        )
        self._of_node: list[tuple[Counter, Callable[[Status], float]]] = [
            *((registry.counter(name, says), take) for name, (says, take) in TOTALS.items()),
            *((registry.gauge(name, says), take) for name, (says, take) in LEVELS.items()),
        ]
        self._link_totals: list[tuple[Family[Counter], Callable[[MemberStatus], float]]] = [
            (registry.counters(name, says, "peer"), take) for name, (says, take) in LINK_TOTALS.items()
        ]
        self._link_levels: list[tuple[Family[Gauge], Callable[[MemberStatus], float]]] = [
            (registry.gauges(name, says, "peer"), take) for name, (says, take) in LINK_LEVELS.items()
        ]
        self._holding: Final = registry.gauges(
            "thence_stability_held_back", "1: the oldest unstable message waits for this member.", "peer"
        )
        registry.refresh(self._refresh)
        process_metrics(registry)

    def render(self) -> str:
        return self.registry.render()

    def _refresh(self) -> None:
        status = self._read()
        for instrument, of_node in self._of_node:
            instrument.value = of_node(status)
        peers = [member for member in status.members if member.link != "me"]
        shown = [(member.name,) for member in peers]
        for totals, of_peer in self._link_totals:
            totals.forget(shown)
            for member in peers:
                totals.of(member.name).value = of_peer(member)
        for levels, of_peer in self._link_levels:
            levels.forget(shown)
            for member in peers:
                levels.of(member.name).value = of_peer(member)
        self._holding.forget((member.name,) for member in status.members)
        for member in status.members:
            self._holding.of(member.name).set(int(member.name in status.holding_stability_back))


def process_metrics(registry: Registry) -> None:
    """The names that every Prometheus client gives these, so that common dashboards find them."""
    started = time.time()
    cpu = registry.counter("process_cpu_seconds_total", "Processor time used, user and system.")
    memory = registry.gauge("process_resident_memory_bytes", "Memory in use.")
    descriptors = registry.gauge("process_open_fds", "Open file descriptors.")
    registry.gauge("process_start_time_seconds", "When the process began to count, since 1970.").set(started)

    def refresh() -> None:
        cpu.value = time.process_time()
        memory.value = resident_bytes()
        with suppress(OSError):  # not Linux, or no descriptor left to look with
            descriptors.value = len(os.listdir("/proc/self/fd"))

    registry.refresh(refresh)


def resident_bytes() -> int:
    """Memory in use now; where the system does not tell, the most that ever was."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
