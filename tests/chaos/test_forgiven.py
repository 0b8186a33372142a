"""What a round of a trial passes over in its trace, and that nothing else hides behind it."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pipeline.layouts import write_jsonl
from support.run_text import rows

from thence.core.errors import ThenceError
from thence.lab.chaos.rounds import Round
from thence.pipeline.findings import EXAMPLES
from thence.pipeline.where import Where
from thence.trace.schema import Event

LATE = EXAMPLES + 5


class ForgivingRound(Round):
    """The process c has forgotten what it had sent."""

    def __init__(self, trace: Path) -> None:
        self._trace = trace

    def _forgives(self, violation: Mapping[str, object]) -> bool:
        return violation["kind"] == "program" and str(violation["operation"]).startswith("c:")


def late(process: str, operations: int) -> tuple[list[Event], list[str]]:
    """The rows of a process that was evicted after its first message, and has come back: its operations from
    the second on are carried after a later one. And what others deliver then."""
    last, lines = operations + 2, [f"send {process}:{seq}" for seq in range(1, operations + 3)]
    back = [f"install deps={process}:1 process={process} incarnation=2", f"evict {process}:1"]
    carried = [last, *range(2, last)]
    back += [f"send {process}~2:{seq} carries={process}:{each}" for seq, each in enumerate(carried, 1)]
    back.append("crash")
    told = [f"deliver {process}:1", f"evict {process}:1"]
    told += [f"deliver {process}~2:{seq}" for seq in range(1, len(carried) + 1)]
    return [*rows(process, *lines, "crash"), *rows(f"{process}~2", *back)], told


def judge(folder: Path, *processes: tuple[str, int]) -> None:
    (folder / "trace").mkdir()
    events, told = [], []
    for process, operations in processes:
        sent, delivered = late(process, operations)
        events += sent
        told += delivered
    write_jsonl(folder / "trace" / "all.jsonl", [*events, *rows("a", *told)])
    ForgivingRound(folder / "trace")._judge(Where(engine="local"))


def test_what_a_process_forgot_may_come_late(tmp_path: Path) -> None:
    judge(tmp_path, ("c", LATE))


def test_behind_whatever_is_forgiven_all_else_is_found(tmp_path: Path) -> None:
    with pytest.raises(ThenceError, match=r"^kind program, node a, .* operation d:2[^;]*$"):
        judge(tmp_path, ("c", LATE), ("d", 1))
