"""`thence fault`: links cut, slowed and mended, nodes paused, in a cluster that runs and allows it.

A link has two ends, and both are told: either alone would do, but then the other would go on dialling.

A pause is a signal from here (SIGSTOP) to the process, and not something that the node does: it stops in the
middle of whatever it was doing, answers nothing, and does not know afterwards, as when a machine stalls. The
node is asked before, so one that allows no faults is not paused. Who is signalled is the process that wrote
the node's control.json, and no other that got its number since.
"""

import signal
from collections.abc import Callable
from pathlib import Path
from time import sleep

from thence.cli.nodes import node_folder, node_folders
from thence.core.errors import ThenceError, UsageError
from thence.local.console import out, working
from thence.runtime import control_file, process
from thence.runtime.control_file import ControlFile
from thence.runtime.remote import Control


def cut(folder: Path, one: str, other: str) -> int:
    _both(folder, one, other, lambda node, peer: node.fault("cut", peer))
    out.print(f"the link between {one} and {other} is cut")
    return 0


def slow(folder: Path, one: str, other: str, delay_ms: float) -> int:
    _both(folder, one, other, lambda node, peer: node.fault("slow", peer, delay_ms))
    out.print(f"what {one} and {other} send each other leaves {delay_ms:g} ms later")
    return 0


def mend(folder: Path, one: str | None, other: str | None) -> int:
    """One link, all links of one node, or all links."""
    if one is not None and other is not None:
        _both(folder, one, other, lambda node, peer: node.fault("mend", peer))
        out.print(f"the link between {one} and {other} is mended")
        return 0
    if one is not None:
        node_folder(folder, one)  # there is such a node
    running = [each for each in node_folders(folder) if (each / control_file.NAME).is_file()]
    _all([_mending(each, one) for each in running])
    out.print("all links are mended" if one is None else f"all links of {one} are mended")
    return 0


def pause(folder: Path, name: str, seconds: float | None) -> int:
    control = Control.of(node_folder(folder, name))
    control.fault("pause")
    _signal(control.file, signal.SIGSTOP)
    if seconds is None:
        out.print(f"{name} is paused; thence fault resume {name} lets it go on")
        return 0
    try:
        with working(f"{name} is paused for {seconds:g} s"):
            sleep(seconds)
    finally:
        _signal(control.file, signal.SIGCONT)
    out.print(f"{name} was paused for {seconds:g} s and goes on")
    return 0


def resume(folder: Path, name: str) -> int:
    _signal(control_file.read(node_folder(folder, name)), signal.SIGCONT)
    out.print(f"{name} goes on")
    return 0


def _signal(file: ControlFile, what: signal.Signals) -> None:
    try:
        told = process.tell(file.pid, file.started, what)
    except PermissionError:
        raise UsageError(f"process {file.pid} of node {file.name} belongs to another user") from None
    if not told:
        raise UsageError(f"process {file.pid} of node {file.name} is gone")


def _both(folder: Path, one: str, other: str, tell: Callable[[Control, str], None]) -> None:
    if one == other:
        raise UsageError(f"{one} has no link with itself")
    first, second = node_folder(folder, one), node_folder(folder, other)
    _all([lambda: tell(Control.of(first), other), lambda: tell(Control.of(second), one)])


def _mending(folder: Path, one: str | None) -> Callable[[], None]:
    """The node itself mends all, the others their link with it."""

    def mend() -> None:
        control = Control.of(folder)
        control.fault("mend", None if one in (None, control.name) else one)

    return mend


def _all(tell: list[Callable[[], None]]) -> None:
    """Tell every node, also when some cannot be told: half a fault is better known than guessed."""
    failed: list[ThenceError] = []
    for each in tell:
        try:
            each()
        except ThenceError as error:
            failed.append(error)
    if failed:
        words = "; ".join(dict.fromkeys(str(error) for error in failed))
        told = "" if len(failed) == len(tell) else " (the others were told)"
        raise UsageError(f"{words}{told}")
