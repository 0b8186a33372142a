"""`thence load` and `thence broadcast`: messages from nodes that run, at their own hands.

The nodes make the messages themselves; here is only asked for them, watched and summed up. Ctrl-C ends the
load everywhere before it ends the command.
"""

import json
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import msgspec

from thence.cli.nodes import chosen
from thence.core.errors import ThenceError, UsageError
from thence.local.console import ReportProgress, counting, out
from thence.local.zones_file import gateways_in
from thence.runtime.load import Load
from thence.runtime.remote import Control, NoAnswer
from thence.runtime.status import LoadStatus

LOOK_EVERY_S: Final = 0.2
PATIENCE_S: Final = 60.0
"""How long a node may be too busy to answer: it has no more urgent work than the load that we asked for."""


def run(folder: Path, names: list[str], load: Load, as_json: bool) -> int:
    nodes = chosen(folder, names)
    if not names and (gateways := gateways_in(folder)):  # they have no clients
        nodes = [node for node in nodes if node.name not in gateways]
    load.checked()
    if load.count == 0:
        raise UsageError("a load of no messages is none")
    asked: list[Control] = []
    try:
        for node in nodes:
            node.load(load)
            asked.append(node)
        with counting(f"messages of {len(nodes)} nodes") as watcher:
            ended = _wait(nodes, load, watcher)
    except BaseException:
        for node in asked:
            with suppress(ThenceError):
                node.load(Load(count=0))
        raise
    if as_json:
        print(json.dumps({name: msgspec.to_builtins(told) for name, told in ended.items()}, indent=2))
    else:
        _tell(ended)
    return 1 if any(told.failed for told in ended.values()) else 0


class Watched:
    """One node under load."""

    __slots__ = ("_heard", "_load", "node", "told")

    def __init__(self, node: Control, load: Load) -> None:
        self.node: Final = node
        self._load: Final = load
        self._heard = monotonic()
        self.told = LoadStatus(running=True, sent=0, seconds=0.0, rate=load.rate)

    def look(self) -> None:
        """A node that does not answer for a while is busy, or paused, and is asked again; one that is gone,
        or knows nothing of the load, has failed. The others go on."""
        try:
            told = self.node.status().load
            self._heard = monotonic()
            self.told = told or self._failed("it knows of no load: was it started again?")
        except NoAnswer as absence:
            waits = absence.absence in ("silent", "paused") and monotonic() - self._heard < PATIENCE_S
            self.told = self.told if waits else self._failed(str(absence))
        except ThenceError as error:
            self.told = self._failed(str(error))

    def _failed(self, why: str) -> LoadStatus:
        return msgspec.structs.replace(self.told, running=False, failed=why)


def _wait(nodes: list[Control], load: Load, watcher: ReportProgress) -> dict[str, LoadStatus]:
    """How it went at each node, once it is over everywhere."""
    total = load.total * len(nodes)
    watched = [Watched(node, load) for node in nodes]
    while True:
        for one in watched:
            if one.told.running:
                one.look()
        watcher(sum(one.told.sent for one in watched), int(total) if total < 2**53 else 0)
        if not any(one.told.running for one in watched):
            return {one.node.name: one.told for one in watched}
        sleep(LOOK_EVERY_S)


def _tell(ended: dict[str, LoadStatus]) -> None:
    for name, told in ended.items():
        rate = f", {told.sent / told.seconds:,.0f} a second" if told.seconds > 0 else ""
        trouble = f"; failed: {told.failed}" if told.failed else ""
        out.print(f"{name}: {told.sent:,} messages in {told.seconds:.1f} s{rate}{trouble}", markup=False)
    if len(ended) > 1:
        sent, seconds = sum(t.sent for t in ended.values()), max(t.seconds for t in ended.values())
        rate = f", {sent / seconds:,.0f} a second" if seconds > 0 else ""
        out.print(f"together: {sent:,} messages in {seconds:.1f} s{rate}")


def broadcast(folder: Path, names: list[str], words: str, as_json: bool, group: str = "") -> int:
    """`-` for what comes on standard input."""
    nodes = chosen(folder, names)
    if len(nodes) != 1:
        there = ", ".join(node.name for node in nodes)
        raise UsageError(f"which node shall broadcast? There is {there}: say --node NAME")
    payload = sys.stdin.buffer.read() if words == "-" else words.encode()
    origin, seq = nodes[0].broadcast(payload, group)
    if as_json:
        print(json.dumps({"origin": origin, "seq": seq}))
    else:
        out.print(f"message {seq} of {origin}, {len(payload):,} bytes", markup=False)
    return 0
