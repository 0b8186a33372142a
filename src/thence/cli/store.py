"""Stores of a local cluster: on which ports its nodes answer Redis clients."""

from pathlib import Path
from typing import Final

from thence.cli.layout import HOST, Layout, free_ports, taken
from thence.core.errors import UsageError

FILE: Final = "resp_base"
FIRST: Final = 7379
"""Above Redis' own, which may run here."""

TRIES: Final = 50


def resp_base(layout: Layout, wanted: int | None) -> int:
    """Node k answers at this port + k: the same at each start."""
    count, kept = len(layout.names), layout.folder / FILE
    if wanted is not None:
        if not 1 <= wanted <= 65_536 - count:
            raise UsageError(f"--resp-base must leave room for {count} ports below 65536, not {wanted}")
        base = wanted
    elif kept.exists():
        base = int(kept.read_text())
    else:
        ranges = [FIRST + at * count for at in range(TRIES)]
        base = next((at for at in ranges if _free(layout, at, count)), 0) or free_ports(count)
    kept.write_text(f"{base}\n")
    return base


def _free(layout: Layout, base: int, count: int) -> bool:
    apart = abs(base - layout.base_port) >= count
    return (
        apart
        and (layout.http_base is None or abs(base - layout.http_base) >= count)
        and not taken(range(base, base + count))
    )


def flags(layout: Layout, base: int) -> dict[str, list[str]]:
    """Of `thence node`, for each node."""
    return {name: ["--resp", f"{HOST}:{base + at}"] for at, name in enumerate(layout.names)}


def joiner(folder: Path) -> dict[str, object]:
    """Of one that joins a local cluster: all nodes of a group have a store, or none."""
    return {"resp": f"{HOST}:{free_ports(1)}"} if (folder / FILE).exists() else {}
