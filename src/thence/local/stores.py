"""Stores of a local cluster: on which ports its nodes answer Redis clients."""

from pathlib import Path
from typing import Final

from thence.core.errors import UsageError
from thence.local.layout import Layout
from thence.local.ports import HOST, claim, free_ports

FILE: Final = "resp_base"
FIRST: Final = 7379
"""Above Redis' own, which may run here."""

TRIES: Final = 50


def resp_base(layout: Layout, wanted: int | None) -> int:
    """Node k answers at this port + k: the same at each start. A range that is new to the cluster is
    claimed."""
    count, kept = len(layout.names), layout.folder / FILE
    before = int(kept.read_text()) if kept.exists() else None
    if before is not None and wanted in (None, before):
        return before
    if wanted is None:
        wanted = _choose(layout, count)
    else:
        claim_wanted(layout.folder, wanted, count, layout.ports)
    kept.write_text(f"{wanted}\n")
    return wanted


def claim_wanted(folder: Path, wanted: int, count: int, others: list[int]) -> None:
    """Claim the ports of `--resp-base`. They are refused before the folder is bound to them."""
    if not 1 <= wanted <= 65_536 - count:
        raise UsageError(f"--resp-base must leave room for {count} ports below 65536, not {wanted}")
    ports = range(wanted, wanted + count)
    if not set(ports).isdisjoint(others):
        raise UsageError("--resp-base is too close to the cluster's other ports: they overlap")
    if (port := claim(folder, ports)) is not None:
        raise UsageError(f"port {port} is in use by another program: give another --resp-base")


def _choose(layout: Layout, count: int) -> int:
    others = set(layout.ports)
    for base in range(FIRST, FIRST + TRIES * count, count):
        ports = range(base, base + count)
        if others.isdisjoint(ports) and claim(layout.folder, ports) is None:
            return base
    return free_ports(count, others, layout.folder)


def flags(layout: Layout, base: int) -> dict[str, list[str]]:
    """Of `thence node`, for each node."""
    return {name: ["--resp", f"{HOST}:{base + at}"] for at, name in enumerate(layout.names)}


def joiner(folder: Path) -> dict[str, object]:
    """Of one that joins a local cluster: all nodes of a group have a store, or none."""
    return {"resp": f"{HOST}:{free_ports(1)}"} if (folder / FILE).exists() else {}
