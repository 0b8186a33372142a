"""`bench edge`: live nodes on an edge tree, beside a mesh of as many.

CPU time of all processes for each copy of a message that one of them accepts, as fast as they go, so that
steps have runs of the same length on both; and how long a node is without a parent when two ancestors die at
once, or stop to answer, beside the time after which silence is suspected.
"""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Final

from thence.cli.bench.cluster_nodes import LOOK_EVERY_S, NODES, PATIENCE_S, Nodes, cpu_us, running
from thence.cli.bench.record import Record
from thence.cli.edge_file import EdgeLayout, open_edge_layout
from thence.cli.layout import open_layout
from thence.core.errors import ThenceError
from thence.runtime.remote import Control
from thence.runtime.settings import PROFILES

STAR: Final = "[nodes.a]\n" + "".join(
    [f'[nodes.{name}]\nparent = "a"\ngroups = ["g"]\n' for name in "bcdefgh"[: NODES - 1]]
)
LINE: Final = "delta = 2\n[nodes.r]\n" + "".join(
    [f'[nodes.{name}]\nparent = "{above}"\ngroups = ["g"]\n' for above, name in ("ra", "ab", "bc")]
)


def bench(quick: bool) -> Iterator[Record | str]:
    warm_s, seconds, turns = (0.5, 1.0, 1) if quick else (2.0, 4.0, 3)
    with tempfile.TemporaryDirectory(prefix="thence-bench-") as name:
        folder = Path(name)
        yield "a mesh and an edge tree in turns"
        mesh, tree = [], []
        with (
            running(open_layout(folder / "mesh", NODES, changing=False)) as on_mesh,
            running(_laid_out(folder, "star", STAR)) as on_tree,
        ):
            _attached(on_tree)
            for _ in range(turns):
                mesh.append(cpu_us(Nodes(on_mesh).under_load(0.0, warm_s, seconds)))
                tree.append(cpu_us(Nodes(on_tree).under_load(0.0, warm_s, seconds)))
        yield Record("edge tree, CPU per accepted copy", median(tree), "us", median(mesh))
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

        _until(moved, "it is below nobody")
        told = by_name["c"].status().edge
        assert told is not None
        took_ms = 1000 * (told.attached / 1e6 - begun)
        if number == signal.SIGSTOP:
            for doomed in "ab":
                os.kill(by_name[doomed].file.pid, signal.SIGCONT)
    return took_ms
