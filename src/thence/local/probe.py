"""Nodes as they are found from outside. All are asked at once: ten that do not answer cost one short wait."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from thence.core.errors import ThenceError, UsageError
from thence.local.layout import FILE as CLUSTER
from thence.local.layout import PRINTED, holder, read_layout
from thence.runtime import process
from thence.runtime.control_file import NAME as CONTROL
from thence.runtime.folder import LOCK
from thence.runtime.incarnations import read_written
from thence.runtime.remote import Control, NoAnswer
from thence.runtime.status import Status

STATES: Final = {"gone": "crashed", "paused": "paused", "silent": "silent", "stranger": "down"}


LEFT: Final = "left"
STARTING: Final = "starting"


@dataclass(frozen=True, slots=True)
class NodeProbe:
    """A node as it was found."""

    folder: Path
    name: str
    state: str
    """running and the like as the node says; else down, starting, left, crashed, paused or silent."""
    status: Status | None = None
    why: str = ""
    """What is wrong, if anything is."""

    @property
    def well(self) -> bool:
        return self.state == LEFT or (self.status is not None and not self.why)


def look(folders: list[Path]) -> list[NodeProbe]:
    with ThreadPoolExecutor(min(32, len(folders))) as pool:
        return list(pool.map(_look, folders))


def _look(folder: Path) -> NodeProbe:
    name = folder.resolve().name
    if not (folder / CONTROL).is_file() and (left := has_left(folder)):
        return NodeProbe(folder, name, LEFT, why=f"it has left its group, {left}")
    if not (folder / CONTROL).is_file():
        if _has_begun(folder):
            return NodeProbe(folder, name, STARTING, why="it does not answer yet")
        if _is_run(folder):
            why = f"it does not answer yet; what it says: {folder / PRINTED}"
            return NodeProbe(folder, name, STARTING, why=why)
        return NodeProbe(folder, name, "down", why="it was stopped, or never started")
    try:
        control = Control.of(folder)
        name = control.name
        status = control.status()
    except NoAnswer as absence:
        return NodeProbe(folder, name, STATES[absence.absence], why=str(absence))
    except ThenceError as error:
        return NodeProbe(folder, name, "down", why=str(error))
    return NodeProbe(folder, status.name, status.state, status, status.log.trouble or "")


def _has_begun(folder: Path) -> bool:
    """A process has the data folder, and has not come to answer."""
    with suppress(OSError, ValueError):
        return process.look(int((folder / LOCK).read_text())) is not None
    return False


def _is_run(folder: Path) -> bool:
    """The cluster that the node is one of is run by a process, which starts its nodes."""
    above = folder.absolute().parent
    with suppress(UsageError):  # it is damaged, which says nothing of the node
        return (above / CLUSTER).is_file() and folder.name in read_layout(above).names and holder(above) > 0
    return False


def has_left(folder: Path) -> str:
    """How the node of a folder left its group, if that was the last that it did."""
    with suppress(ThenceError):
        written = read_written(folder)
        return written.left if written is not None else ""
    return ""
