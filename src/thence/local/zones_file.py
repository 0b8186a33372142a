"""The folder of a local cluster of zones: `zones.toml`, a copy of the topology that it was made with.

Nodes listen on ports in the order of the file, members of zones first, then routers. Which ones there are is
decided once.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from thence.core.errors import UsageError
from thence.local.layout import FILE, Layout, open_layout
from thence.replica.zone import Topology
from thence.runtime.settings import check_name
from thence.runtime.zones import read_zones

ZONES: Final = "zones.toml"
"""The copy in the folder."""


@dataclass(frozen=True, slots=True)
class ZonesLayout(Layout):
    gateways: frozenset[str] = frozenset()

    def sends(self, name: str) -> bool:
        return name not in self.gateways

    def group_flags(self, name: str, contacts: Iterable[str]) -> list[str]:
        del name, contacts
        file = (self.folder / ZONES).absolute()
        return ["--order", "separator", "--topology", str(file), "--members", self.members]


def open_zones_layout(
    folder: Path, file: Path | None, base_port: int | None = None, http_base: int | None = None
) -> ZonesLayout:
    """The cluster in `folder`, made if there is none."""
    there = folder / ZONES
    topology = read_zones(file or there)
    for name in topology.names:
        check_name(name)
    if (folder / FILE).exists() and not there.exists():
        raise UsageError(f"the cluster in {folder} has no topology: give --data a folder of its own")
    if there.exists() and read_zones(there).digest() != topology.digest():
        raise UsageError(f"the cluster in {folder} was made with another topology, and keeps it")
    layout = open_layout(folder, len(topology), base_port, http_base, changing=False)
    if file is not None and file.resolve() != there.resolve():
        there.write_bytes(file.read_bytes())
    return ZonesLayout(
        layout.folder, layout.cluster, layout.base_port, layout.http_base, tuple(topology.names), False,
        gateways_of(topology),
    )  # fmt: skip


def gateways_in(folder: Path) -> frozenset[str]:
    """Of the cluster in a folder; none, if it has no zones."""
    there = folder / ZONES
    return gateways_of(read_zones(there)) if there.exists() else frozenset()


def gateways_of(topology: Topology) -> frozenset[str]:
    applications = {*topology.applications}
    return frozenset([name for at, name in enumerate(topology.names) if at not in applications])
