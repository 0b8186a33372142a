"""`thence join`: one more node for a local cluster whose members may change."""

from collections.abc import Mapping
from pathlib import Path

from thence.core.errors import UsageError
from thence.local.layout import Layout, names, read_layout
from thence.local.node import run as run_node
from thence.local.ports import HOST, free_ports
from thence.local.probe import look
from thence.local.stores import joiner
from thence.runtime.incarnations import read_written


def run(folder: Path, name: str | None, flags: Mapping[str, object], words: list[str]) -> int:
    if not (folder / "cluster.toml").exists():
        raise UsageError(f"there is no cluster in {folder}: `thence up` makes one")
    layout = read_layout(folder)
    if not layout.changing:
        raise UsageError(f"the group of the cluster in {folder} is closed: no other node can join it")
    name = name or _next(layout)
    if name in layout.names:
        raise UsageError(f"{name} is one of the nodes that `thence up` runs: take another name")
    given = {
        **_alike(layout),
        **joiner(layout.folder),
        **{key: value for key, value in flags.items() if value is not None},
        "name": name,
        "listen": flags.get("listen") or _where(layout, name),
        "cluster": layout.cluster,
        "join": [str(layout.address(other)) for other in layout.names] + _others(layout, name),
        "data": layout.data(name),
        "secret_file": layout.secret,
    }
    return run_node(given, words, None)


def _alike(layout: Layout) -> dict[str, object]:
    """How the group's messages are ordered, and travel: as the nodes that run say."""
    for seen in look([layout.data(name) for name in layout.names]):
        if (status := seen.status) is not None:
            tree = {"tree.neighbours": status.neighbours} if status.neighbours else {}
            clock = {"clock.entries": status.entries, "clock.keys": status.keys} if status.entries else {}
            return {"order": status.order, "spread": status.spread, **tree, **clock}
    return {}


def _next(layout: Layout) -> str:
    """The first name that no node has, or had."""
    return next(name for name in names(1000) if name not in layout.names and not layout.data(name).exists())


def _where(layout: Layout, name: str) -> str:
    """Where it was before, if it was: others look for it there."""
    kept = layout.data(name) / "listen"
    try:
        return kept.read_text().strip()
    except FileNotFoundError:
        where = f"{HOST}:{free_ports(1)}"
        layout.data(name).mkdir(mode=0o700, exist_ok=True)
        kept.write_text(f"{where}\n")
        return where


def _others(layout: Layout, name: str) -> list[str]:
    """Other nodes that those of the cluster know: those that `thence up` started may have left."""
    found: set[str] = set()
    for folder in sorted(path for path in layout.folder.iterdir() if path.is_dir() and path.name != name):
        written = read_written(folder)
        if written is not None:
            found |= {where for other, where in written.contacts.items() if other != name}
    return sorted(found - {str(layout.address(other)) for other in layout.names})
