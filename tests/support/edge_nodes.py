"""Live nodes on an edge tree, with a trace that is judged."""

from pathlib import Path

import thence
from support.live_history import read
from support.live_links import free_addresses
from support.open_nodes import QUICK, until
from thence.check.oracle import judge
from thence.runtime.application import OpenNode
from thence.runtime.status import EdgeStatusReport

LIVELY: dict[str, object] = {
    **QUICK,
    "edge.heartbeat_us": 50_000,
    "edge.suspect_us": 400_000,
    "edge.drop_us": 800_000,
    "edge.attach_us": 300_000,
    "edge.linger_us": 1_000_000,
    "edge.keep_us": 1_000_000,
    "edge.alone_us": 500_000,
    "edge.rehome_us": 0,
}


class Edge:
    """Nodes by name, each below another; the first is the root."""

    def __init__(self, folder: Path, parents: dict[str, str]) -> None:
        self.folder, self.parents = folder, parents
        where = free_addresses(len(parents))
        self.where = {name: str(at) for name, at in zip(parents, where, strict=True)}

    def open(self, name: str, groups: object = (), **options: object) -> OpenNode:
        parent = self.parents[name]
        settings = {**LIVELY, **options.pop("settings", {})}  # type: ignore[dict-item]
        return thence.open(
            name, listen=self.where[name], spread="edge", root=not parent,
            parent=self.where[parent] if parent else None, groups=groups, data=self.folder / name,  # type: ignore[arg-type]
            trace=options.pop("trace", self.folder / "trace"), settings=settings, **options,  # type: ignore[arg-type]
        )  # fmt: skip

    def judged(self) -> None:
        """Nothing is wrong with the trace, but for what was not read, or was cut off at the end."""
        [verdict] = judge(read(self.folder / "trace"))
        assert not any(count for name, count in verdict.violations.items() if name != "lost"), verdict


def edge(node: OpenNode) -> EdgeStatusReport:
    report = node.status().edge
    assert report is not None
    return report


async def attached(*nodes: OpenNode) -> None:
    for node in nodes:
        await until(lambda node=node: edge(node).parent and not edge(node).joining)  # type: ignore[misc]


LINE = {"r": "", "a": "r", "b": "a"}
