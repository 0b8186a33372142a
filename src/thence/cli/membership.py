"""`thence members`, `thence leave`, `thence evict`: who is in a changing group, and who is not to be."""

import json
import time
from pathlib import Path
from typing import Final

import msgspec
from rich import box
from rich.table import Table
from rich.text import Text

from thence.cli.nodes import chosen, node_folder, node_folders
from thence.cli.status import console
from thence.core.errors import ThenceError, UsageError
from thence.local.console import out, working
from thence.local.probe import NodeProbe, look
from thence.local.status_table import coloured, duration
from thence.runtime.incarnations import read_written
from thence.runtime.remote import Control, NoAnswer
from thence.runtime.status import Status

LOOK_EVERY_S: Final = 0.1


def members(folder: Path, as_json: bool) -> int:
    """Exit 0 when all nodes that answer see the same members."""
    seen = look(node_folders(folder))
    answering = [one.status for one in seen if one.status is not None]
    if not answering:
        raise UsageError(f"no node runs in {folder}")
    same = len({tuple(view_of(status)) for status in answering}) == 1
    if as_json:
        print(json.dumps(_as_value(answering, same), indent=2))
        return 0 if same else 1
    console().print(_table(answering, seen))
    if not same:
        for status in answering:
            out.print(Text(f"{status.name} sees {', '.join(view_of(status)) or 'no member'}", "yellow"))
    return 0 if same else 1


def view_of(status: Status) -> list[str]:
    """By incarnation, as this node sees it."""
    if status.group is not None:
        return status.group.view
    return [member.name for member in status.members]


def _as_value(answering: list[Status], same: bool) -> dict[str, object]:
    return {
        "agree": same,
        "nodes": [
            {
                "name": status.name,
                "changing": status.group is not None and not status.group.closed,
                "view": view_of(status),
                "group": msgspec.to_builtins(status.group),
                "members": msgspec.to_builtins(status.members),
            }
            for status in answering
        ],
    }


def _table(answering: list[Status], seen: list[NodeProbe]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for title in ("member", "process", "address", "role", "node"):
        table.add_column(title)
    table.add_column("up for", justify="right")
    states = {one.name: one for one in seen}
    told: dict[str, tuple[str, str, str]] = {}
    for status in answering:
        for member in status.members:
            role = status.group.phase if member.link == "me" and status.group else member.role
            if member.link == "me" or member.name not in told:
                told[member.name] = member.incarnation or member.name, member.address, role
    for name, (incarnation, address, role) in sorted(told.items()):
        one = states.get(name)
        here = one.status if one is not None else None
        table.add_row(
            Text(incarnation, "bold"),
            name,
            address or "–",
            Text(role, "" if role == "member" else "yellow"),
            coloured(one.state) if one is not None else Text("elsewhere", "dim"),
            duration(here.uptime_s) if here is not None else "–",
        )
    return table


def leave(folder: Path, name: str | None, patience_s: float, force: bool = False) -> int:
    """Exit 0 when it is gone and all members have what it sent; 1 when that is not certain."""
    control = _the_one(folder, name)
    control.leave(force)
    until = time.monotonic() + patience_s
    with working(f"{control.name} leaves"):
        while _runs(control):
            if time.monotonic() > until:
                raise ThenceError(
                    f"{control.name} is still leaving after {duration(patience_s)}: {_why(control)}"
                )
            time.sleep(LOOK_EVERY_S)
    written = read_written(control.folder)
    if written is None or not written.left:
        raise ThenceError(f"{control.name} ended before it had left; started again, it goes on with that")
    if written.left != "in order":
        out.print(
            Text(f"{control.name} has left, but no member said that it has what was sent last", "yellow")
        )
        return 1
    out.print(f"{control.name} has left")
    return 0


def _the_one(folder: Path, name: str | None) -> Control:
    if name is not None:
        return Control.of(node_folder(folder, name))
    running = chosen(folder, [])
    if len(running) > 1:
        there = ", ".join(control.name for control in running)
        raise UsageError(f"several nodes run in {folder}: say which one is to leave ({there})")
    return running[0]


def _runs(control: Control) -> bool:
    return control.file.process() is not None


def _why(control: Control) -> str:
    try:
        status = control.status()
    except NoAnswer as absence:
        return str(absence)
    waits = ", ".join(status.holding_stability_back)
    return f"it waits for {waits}" if waits else "it does not say why"


def evict(folder: Path, who: str, by: str | None, force: bool, for_good: bool = False) -> int:
    controls = [Control.of(node_folder(folder, by))] if by is not None else chosen(folder, [])
    others = [control for control in controls if control.name != who.partition("~")[0]]
    evicted = (others or controls)[0].evict(who, force, for_good)
    out.print(f"{evicted} is forgotten" if for_good else f"the group goes on without {evicted}")
    return 0
