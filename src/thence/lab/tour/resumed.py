"""What a node that was killed came back with, read from the traces."""

import re
from pathlib import Path
from typing import NamedTuple

import msgspec

from thence.core.errors import ThenceError
from thence.runtime.tracing import file_name


class Resumed(NamedTuple):
    own: int
    """Its own messages, the last number."""
    others: int
    """Messages of others that it had delivered."""
    completed: int
    """Rows of the trace that it wrote from its log, because it was killed before it could write them."""


class _Row(msgspec.Struct):
    kind: str
    seq: int = 0


def resumed(trace: Path, node: str, boot: int) -> Resumed:
    """Everything that the traces of this node say up to the row of its return."""
    own = others = completed = 0
    for number in range(1, boot + 1):
        for line in _lines(trace / file_name(node, number)):
            row = msgspec.json.decode(line, type=_Row)
            if number == boot and row.kind == "restart":
                return Resumed(own, others, completed)
            own = row.seq if row.kind == "send" else own
            others += row.kind == "deliver"
            completed += number == boot
    raise ThenceError(f"{node} left no word of its return in {trace / file_name(node, boot)}")


def seen_elsewhere(trace: Path, node: str) -> int:
    """The last message of a node that any other has delivered."""
    needle = re.compile(rb'"kind":"deliver","origin":%s,"seq":(\d+)' % re.escape(msgspec.json.encode(node)))
    own = re.compile(re.escape(file_name(node, 0).removesuffix("0.jsonl")) + r"\d+\.jsonl")
    return max(
        (
            int(match[1])
            for path in trace.glob("*.jsonl")
            if not own.fullmatch(path.name)
            for match in needle.finditer(path.read_bytes())
        ),
        default=0,
    )


def _lines(path: Path) -> list[bytes]:
    """Whole lines: a killed node may have left half a one."""
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []
