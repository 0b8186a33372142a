"""A network of their own for the nodes of a trial: a namespace each, packets lost and late between them.

    hub: bridge ─┬─ veth ─ a's namespace (10.213.0.1)
                 ├─ veth ─ b's namespace (10.213.0.2)
                 └─ …

The trial itself moves into the hub while it drives the nodes: their control routes are reachable from nowhere
else. `netem` sits at the nodes' end of each pair, so what goes from one node to another passes it once.

Needs root, `ip` and `tc`, and a kernel with namespaces and netem; `why_not` says what is missing. All of it
is removed at the end; a network whose trial was killed goes when a trial with the same name comes, or with
`ip netns delete`.
"""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from thence.core.errors import ThenceError
from thence.local.cluster import Cluster, NodeProcess
from thence.local.layout import Layout
from thence.runtime.address import Address

NAMESPACES: Final = Path("/var/run/netns")
CLONE_NEWNET: Final = 0x40000000
SUBNET: Final = "10.213.0"
HUB_HOST: Final = 254


@dataclass(frozen=True, slots=True)
class Netem:
    """What netem does to packets on their way out of a node."""

    delay_ms: int
    jitter_ms: int
    loss_percent: float
    reorder_percent: float

    def arguments(self) -> list[str]:
        words = ["delay", f"{self.delay_ms}ms", f"{self.jitter_ms}ms", "loss", f"{self.loss_percent}%"]
        # Reordering lets a share of the packets pass at once, which means something only where others wait.
        return [*words, "reorder", f"{self.reorder_percent}%"] if self.delay_ms else words

    def __str__(self) -> str:
        return (
            f"{self.delay_ms} ± {self.jitter_ms} ms, {self.loss_percent:g} % lost, "
            f"{self.reorder_percent:g} % out of order"
        )


def draw_weather(seed: int) -> Netem:
    random = Random(f"{seed}/weather")
    delay = random.choice([1, 10, 50])
    return Netem(delay, delay // 2, random.choice([0.1, 1.0, 3.0]), random.choice([0.0, 5.0, 25.0]))


@dataclass(frozen=True, slots=True)
class FarLayout(Layout):
    """A cluster whose nodes have an address each."""

    def address(self, name: str) -> Address:
        return Address(f"{SUBNET}.{self.names.index(name) + 1}", self.base_port)

    def http(self, name: str) -> Address:
        return Address(self.address(name).host, self.base_port + 1)


def far(layout: Layout) -> FarLayout:
    return FarLayout(
        layout.folder, layout.cluster, layout.base_port, layout.http_base, layout.names, layout.changing
    )


class Net:
    """The namespaces of one trial."""

    def __init__(self, label: str, names: Sequence[str]) -> None:
        self._hub: Final = f"thence-{label}"
        self._of: Final = {name: f"{self._hub}-{name}" for name in names}

    @contextmanager
    def up(self, weather: Netem | None) -> Iterator[None]:
        """The network, and this thread in its hub. Without weather, packets are left alone."""
        self._remove()
        try:
            self._build(weather)
            with inside(self._hub):
                yield
        finally:
            self._remove()

    def move(self, cluster: Cluster) -> None:
        """Let the nodes of a cluster run in their namespaces."""
        for name, node in list(cluster.nodes.items()):
            command = ("ip", "netns", "exec", self._of[name], *node.command)
            cluster.nodes[name] = NodeProcess(name, command, node.folder, node.log)

    def _build(self, weather: Netem | None) -> None:
        hub = self._hub
        _do("ip", "netns", "add", hub)
        _do("ip", "-n", hub, "link", "set", "lo", "up")
        _do("ip", "-n", hub, "link", "add", "bridge", "type", "bridge")
        _do("ip", "-n", hub, "address", "add", f"{SUBNET}.{HUB_HOST}/24", "dev", "bridge")
        _do("ip", "-n", hub, "link", "set", "bridge", "up")
        for number, space in enumerate(self._of.values(), 1):
            port = f"port{number}"
            _do("ip", "netns", "add", space)
            _do("ip", "-n", space, "link", "set", "lo", "up")
            _do("ip", "-n", hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
            _do("ip", "-n", hub, "link", "set", port, "master", "bridge", "up")
            _do("ip", "-n", space, "address", "add", f"{SUBNET}.{number}/24", "dev", "eth0")
            _do("ip", "-n", space, "link", "set", "eth0", "up")
            if weather is not None:
                _do("tc", "-n", space, "qdisc", "add", "dev", "eth0", "root", "netem", *weather.arguments())

    def _remove(self) -> None:
        for space in (*self._of.values(), self._hub):
            if (NAMESPACES / space).exists():
                _do("ip", "netns", "delete", space)


@contextmanager
def inside(space: str) -> Iterator[None]:
    """This thread, and those that it starts, in a namespace."""
    with open("/proc/thread-self/ns/net") as before, (NAMESPACES / space).open() as there:
        _enter(there.fileno())
        try:
            yield
        finally:
            _enter(before.fileno())


def _enter(descriptor: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(descriptor, CLONE_NEWNET) != 0:
        raise ThenceError(f"cannot enter a network namespace: {os.strerror(ctypes.get_errno())}")


def why_not(weather: bool = True) -> str | None:
    """What is missing for a network of our own; None: nothing."""
    if missing := [tool for tool in ("ip", "tc") if shutil.which(tool) is None]:
        return f"no {' and no '.join(missing)} here"
    if os.geteuid() != 0:
        return "network namespaces need root"
    space = f"thence-probe-{os.getpid()}"
    try:
        _do("ip", "netns", "add", space)
    except ThenceError as error:
        return f"no network namespaces here: {error}"
    try:
        _do("ip", "-n", space, "link", "set", "lo", "up")
        _do("ip", "-n", space, "link", "add", "bridge", "type", "bridge")
        _do("ip", "-n", space, "link", "add", "port", "type", "veth", "peer", "name", "eth0")
        if weather:
            _do("tc", "-n", space, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms")
    except ThenceError as error:
        return f"this kernel lacks a part of such a network: {error}"
    finally:
        _do("ip", "netns", "delete", space)
    return None


def _do(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ThenceError(f"{' '.join(command)}: {' '.join(done.stderr.split()) or done.returncode}")
