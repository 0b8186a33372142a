"""`thence status`: every node of a folder at a glance, then what keeps messages from becoming stable."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from thence.cli.nodes import node_folders
from thence.core.errors import UsageError
from thence.local.probe import NodeProbe, look
from thence.local.status_table import held_back, links_table, nodes_table, notes

TICK_S: Final = 0.1
WIDTH_IN_A_PIPE: Final = 140
"""There is no window to fit into; a table that is cut off helps no reader."""


def run(folder: Path, as_json: bool, watch: bool, every_s: float, wait_s: float = 0.0) -> int:
    """`wait_s`: for so long at most, until all are well."""
    if watch:
        return _watch(folder, as_json, every_s)
    until = monotonic() + wait_s
    while (seen := _seen(folder, monotonic() < until)) is None:
        sleep(TICK_S)
    if as_json:
        print(json.dumps(as_value(seen), indent=2))
    else:
        console().print(page(seen))
    return 0 if all(node.well for node in seen) else 1


def _seen(folder: Path, may_wait: bool) -> list[NodeProbe] | None:
    """The nodes of a folder; None: not all are well yet, or it is yet to be made."""
    try:
        seen = look(node_folders(folder))
    except UsageError:
        if may_wait:
            return None
        raise
    return None if may_wait and not all(node.well for node in seen) else seen


def console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH_IN_A_PIPE)


def as_value(seen: list[NodeProbe]) -> dict[str, object]:
    holding = held_back(seen)
    return {
        "nodes": [
            {
                "name": node.name, "folder": str(node.folder), "state": node.state,
                "well": node.well, "why": node.why or None, "status": msgspec.to_builtins(node.status),
            }
            for node in seen
        ],
        "holding_stability_back": [
            {"name": name, "since_s": since_s, "say": witnesses} for name, since_s, witnesses in holding
        ],
    }  # fmt: skip


def page(seen: list[NodeProbe], before: list[NodeProbe] | None = None, passed_s: float = 0.0) -> Group:
    parts: list[Table | Text] = [nodes_table(seen, before or [], passed_s)]
    if len(seen) == 1 and seen[0].status is not None:
        parts += [Text(), links_table(seen[0].status)]
    return Group(*parts, *notes(seen))


def _watch(folder: Path, as_json: bool, every_s: float) -> int:
    """Until Ctrl-C, which is how one stops to watch and so no failure."""
    try:
        if as_json or not sys.stdout.isatty():
            for seen, before, passed_s in _glances(folder, every_s):
                if as_json:
                    print(json.dumps(as_value(seen)), flush=True)
                else:
                    console().print(page(seen, before, passed_s))
        else:
            with Live(console=console(), auto_refresh=False, screen=True) as screen:
                for seen, before, passed_s in _glances(folder, every_s):
                    screen.update(page(seen, before, passed_s), refresh=True)
    except KeyboardInterrupt:
        pass
    return 0


def _glances(folder: Path, every_s: float) -> Iterator[tuple[list[NodeProbe], list[NodeProbe], float]]:
    """What is seen now, what was seen before, and how long ago that was."""
    before: list[NodeProbe] = []
    last = due = monotonic()
    while True:
        seen, now = look(node_folders(folder)), monotonic()
        yield seen, before, now - last
        before, last = seen, now
        due = max(due + every_s, now)
        sleep(max(0.0, due - monotonic()))
