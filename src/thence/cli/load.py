"""`thence load` and `thence broadcast`: messages from nodes that run, at their own hands.

The nodes make the messages themselves; here is only asked for them, watched and summed up. Ctrl-C ends the
load everywhere before it ends the command.
"""

import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from thence.cli.console import Counter, counting, out
from thence.cli.nodes import chosen
from thence.core.errors import ThenceError, UsageError
from thence.runtime.load import Load
from thence.runtime.remote import Control
from thence.runtime.status import LoadStatus

LOOK_EVERY_S: Final = 0.2


def run(folder: Path, names: list[str], load: Load, as_json: bool) -> int:
    nodes = chosen(folder, names)
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


def _wait(nodes: list[Control], load: Load, watcher: Counter) -> dict[str, LoadStatus]:
    """How it went at each node, once it is over everywhere."""
    total = load.total * len(nodes)
    ended: dict[str, LoadStatus] = {}
    sent = dict.fromkeys((node.name for node in nodes), 0)
    while True:
        for node in nodes:
            if node.name not in ended:
                told = _progress(node, load, sent[node.name])
                sent[node.name] = told.sent
                if not told.running:
                    ended[node.name] = told
        watcher(sum(sent.values()), int(total) if total < 2**53 else 0)
        if len(ended) == len(nodes):
            return {node.name: ended[node.name] for node in nodes}
        time.sleep(LOOK_EVERY_S)


def _progress(node: Control, load: Load, sent: int) -> LoadStatus:
    """A node that cannot be asked any more has failed; the others go on."""
    try:
        told = node.status().load
        why = "it does not know of a load: was it restarted?"
    except ThenceError as error:
        told, why = None, str(error)
    return told or LoadStatus(running=False, sent=sent, seconds=0.0, rate=load.rate, failed=why)


def _tell(ended: dict[str, LoadStatus]) -> None:
    for name, told in ended.items():
        rate = f", {told.sent / told.seconds:,.0f} a second" if told.seconds > 0 else ""
        trouble = f"; failed: {told.failed}" if told.failed else ""
        out.print(f"{name}: {told.sent:,} messages in {told.seconds:.1f} s{rate}{trouble}", markup=False)
    if len(ended) > 1:
        sent, seconds = sum(t.sent for t in ended.values()), max(t.seconds for t in ended.values())
        rate = f", {sent / seconds:,.0f} a second" if seconds > 0 else ""
        out.print(f"together: {sent:,} messages in {seconds:.1f} s{rate}")


def broadcast(folder: Path, names: list[str], words: str, as_json: bool) -> int:
    """`-` for what comes on standard input."""
    nodes = chosen(folder, names)
    if len(nodes) != 1:
        there = ", ".join(node.name for node in nodes)
        raise UsageError(f"which node shall broadcast? There is {there}: say --node NAME")
    payload = sys.stdin.buffer.read() if words == "-" else words.encode()
    origin, seq = nodes[0].broadcast(payload)
    if as_json:
        print(json.dumps({"origin": origin, "seq": seq}))
    else:
        out.print(f"message {seq} of {origin}, {len(payload):,} bytes", markup=False)
    return 0
