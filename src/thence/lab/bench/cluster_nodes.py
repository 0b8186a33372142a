"""Real nodes under load, for `bench cluster`: what they did in a stretch of time, by their own metrics.

A node tells its counters, its CPU time and its clock in one answer, so that they belong together however long
the answer takes to get here.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import mean
from typing import Final, NamedTuple

from thence.core.errors import ThenceError
from thence.local.cluster import NODE, Cluster
from thence.local.layout import Layout
from thence.runtime.load import Load
from thence.runtime.remote import Control
from thence.runtime.status import Status

NODES: Final = 3
PAYLOAD_BYTES: Final = 64
FLAGS: Final = ("--sync", "everysec", "--profile", "local", "--log-level", "warn")
PATIENCE_S: Final = 120.0
"""How long nodes under full load on a busy machine may take to answer, and to work off what was sent."""
LOOK_EVERY_S: Final = 0.02


class Stretch(NamedTuple):
    """What one node did."""

    seconds: float
    cpu_s: float
    sent: float
    delivered: float
    """Messages of others."""


class Nodes:
    def __init__(self, controls: list[Control]) -> None:
        self._controls: Final = controls

    def resident_mb(self) -> float:
        """Of one node, on average."""
        return mean(_metrics(control)["process_resident_memory_bytes"] / 1e6 for control in self._controls)

    def under_load(self, rate: float, warm_s: float, seconds: float) -> list[Stretch]:
        """Each sends at this rate (0: as fast as it goes). Returns when all is delivered everywhere."""
        load = Load(rate=rate, seconds=warm_s + seconds + PATIENCE_S, bytes=PAYLOAD_BYTES)
        controls = self._controls
        for control in controls:
            control.load(load)
        did = stretch(controls, warm_s, seconds)
        calm(controls)
        return did


def stretch(controls: list[Control], warm_s: float, seconds: float) -> list[Stretch]:
    """What nodes do in that time, after a while that does not count."""
    time.sleep(warm_s)
    before = [look(control) for control in controls]
    time.sleep(seconds)
    after = [look(control) for control in controls]
    return [
        Stretch(*(now - then for then, now in zip(*both, strict=True)))
        for both in zip(before, after, strict=True)
    ]


def calm(controls: list[Control]) -> None:
    """No node sends any more, and all have everything: what comes next begins with a group at rest. All are
    asked each time: one that has ended says so, and the others would wait for it."""
    for control in controls:
        control.load(Load(count=0))
    until = time.monotonic() + PATIENCE_S
    while sum(control.status().unstable for control in controls):
        if time.monotonic() > until:
            raise ThenceError(f"not everything is stable {PATIENCE_S:g} s after the last message")
        time.sleep(LOOK_EVERY_S)


def cpu_us(stretches: list[Stretch]) -> float:
    """Per delivery, of all nodes together: one that gets little of a busy machine has few to divide by."""
    return 1e6 * sum(one.cpu_s for one in stretches) / sum(one.sent + one.delivered for one in stretches)


def busy(stretches: list[Stretch]) -> float:
    """Cores that the nodes kept busy, all together."""
    return sum(one.cpu_s / one.seconds for one in stretches)


def group_rate(stretches: list[Stretch]) -> float:
    """Messages per second that every member has delivered, its own among them. Counted where messages arrive:
    what a node has sent and no other has delivered yet is not sustained."""
    return sum(one.delivered / one.seconds for one in stretches) / (len(stretches) - 1)


@contextmanager
def running(
    layout: Layout, program: Sequence[str] = NODE, flags: Sequence[str] = FLAGS
) -> Iterator[list[Control]]:
    """A cluster of real processes, all linked with each other, and its end."""
    with Cluster(layout, flags=flags, program=program) as cluster:
        cluster.start()
        cluster.ready(patience_s=PATIENCE_S)
        controls = [Control.of(node, timeout_s=PATIENCE_S) for node in cluster.folders.values()]
        _linked(controls)
        yield controls


def _linked(controls: list[Control]) -> None:
    until = time.monotonic() + PATIENCE_S
    while unlinked := _unlinked(controls):
        if time.monotonic() > until:
            raise ThenceError(f"the links of node {unlinked[0]} are not up after {PATIENCE_S:g} s")
        time.sleep(LOOK_EVERY_S)


def _unlinked(controls: list[Control]) -> list[str]:
    """All are asked: one that has ended says so, and the others would wait for it."""
    return [control.name for control in controls if not _whole(control.status(), len(controls))]


def _whole(told: Status, nodes: int) -> bool:
    """All nodes have joined, and are linked with this one."""
    joined = told.group is None or len(told.group.view) == nodes
    return joined and all(member.link != "down" for member in told.members)


def look(control: Control) -> Stretch:
    told = _metrics(control)
    return Stretch(
        told["thence_uptime_seconds"],
        told["process_cpu_seconds_total"],
        told["thence_sent_messages_total"],
        told["thence_delivered_messages_total"],
    )


def _metrics(control: Control) -> dict[str, float]:
    """Those without labels."""
    lines = [line.split() for line in control.metrics().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines if "{" not in name}
