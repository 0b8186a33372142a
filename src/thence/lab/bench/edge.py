"""`bench edge`: live nodes on an edge tree, beside a mesh of as many.

CPU time of all processes for each copy of a message that one of them accepts, as fast as they go, so that
steps have runs of the same length on both; how many statuses travel alone meanwhile; and how long a node is
without a parent when two ancestors die at once, or stop to answer, beside the time after which silence is
suspected.
"""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Final

from thence.core.errors import ThenceError
from thence.lab.bench.cluster_nodes import LOOK_EVERY_S, NODES, PATIENCE_S, Nodes, cpu_us, running
from thence.lab.bench.record import Record
from thence.local.edge_file import EdgeLayout, open_edge_layout
from thence.local.layout import open_layout
from thence.runtime.profiles import PROFILES
from thence.runtime.remote import Control

MANY: Final = 15
CHILDREN: Final = 3
LINE: Final = "delta = 2\n[nodes.r]\n" + "".join(
    [f'[nodes.{name}]\nparent = "{above}"\ngroups = ["g"]\n' for above, name in ("ra", "ab", "bc")]
)


def _tree(nodes: int) -> str:
    """All but the root below one of the first, three below each; all are members of one group."""
    names = "abcdefghijklmno"[:nodes]
    return "[nodes.a]\n" + "".join(
        [
            f'[nodes.{name}]\nparent = "{names[at // CHILDREN]}"\ngroups = ["g"]\n'
            for at, name in enumerate(names[1:])
        ]
    )


def bench(quick: bool) -> Iterator[Record | str]:
    warm_s, seconds, turns = (0.5, 1.0, 1) if quick else (2.0, 4.0, 3)
    with tempfile.TemporaryDirectory(prefix="thence-bench-") as name:
        folder = Path(name)
        nodes = NODES if quick else MANY
        yield f"a mesh and an edge tree of {nodes} in turns"
        mesh, tree, statuses = [], [], []
        with (
            running(open_layout(folder / "mesh", nodes, changing=False)) as on_mesh,
            running(_laid_out(folder, "star", _tree(nodes))) as on_tree,
        ):
            _attached(on_tree)
            for _ in range(turns):
                mesh.append(cpu_us(Nodes(on_mesh).under_load(0.0, warm_s, seconds)))
                before = _sent(on_tree)
                tree.append(cpu_us(Nodes(on_tree).under_load(0.0, warm_s, seconds)))
                copies, alone = (now - then for then, now in zip(before, _sent(on_tree), strict=True))
                statuses.append(alone / copies)
        yield Record("edge tree, CPU per accepted copy", median(tree), "us", median(mesh))
        yield Record("edge tree, statuses alone per item", median(statuses), "")
        suspect_ms = int(str(PROFILES["local"]["edge.suspect_us"])) / 1000
        for what, number in (("die", signal.SIGKILL), ("stop to answer", signal.SIGSTOP)):
            yield f"two ancestors {what}"
            times = [_bypass(folder, f"{number}-{turn}", number) for turn in range(turns)]
            yield Record(
                f"edge tree, two ancestors {what}: without a parent", median(times), "ms", suspect_ms
            )


def _laid_out(folder: Path, name: str, text: str) -> EdgeLayout:
    file = folder / f"{name}.toml"
    file.write_text(text)
    return open_edge_layout(folder / name, file)


def _sent(controls: list[Control]) -> tuple[int, int]:
    """Items that went down, and packets without one."""
    reports = [report for control in controls if (report := control.status().edge)]
    return sum(report.copies for report in reports), sum(report.statuses_alone for report in reports)


def _attached(controls: list[Control]) -> None:
    for control in controls:
        _until(lambda control=control: _is_whole(control), f"{control.name} has no parent")  # type: ignore[misc]


def _is_whole(control: Control, chain: int = 1) -> bool:
    report = control.status().edge
    if report is None or report.joining:
        return False
    return report.identity == report.root or len(report.chain) >= min(chain, report.rank)


def _until(reached: Callable[[], bool], told: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not reached():
        if time.monotonic() > until:
            raise ThenceError(f"{told} after {PATIENCE_S:g} s")
        time.sleep(LOOK_EVERY_S)


def _bypass(folder: Path, name: str, number: signal.Signals) -> float:
    """Milliseconds until the lowest node of a line has attached above two that are gone."""
    with running(_laid_out(folder, name, LINE)) as controls:
        by_name = {control.name: control for control in controls}
        _until(lambda: all(_is_whole(control, 3) for control in controls), "chains are not whole")
        report = by_name["c"].status().edge
        before = report.attached if report is not None else 0
        begun = time.time()
        for doomed in "ab":
            os.kill(by_name[doomed].file.pid, number)

        def moved() -> bool:
            told = by_name["c"].status().edge
            return told is not None and told.attached > before and told.parent == "r"

        _until(moved, "it is below no node")
        told = by_name["c"].status().edge
        assert told is not None
        took_ms = 1000 * (told.attached / 1e6 - begun)
        if number == signal.SIGSTOP:
            for doomed in "ab":
                os.kill(by_name[doomed].file.pid, signal.SIGCONT)
    return took_ms
