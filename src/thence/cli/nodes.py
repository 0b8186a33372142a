"""Which nodes a folder is about: its own, or those of a cluster that keeps each in a folder of its name."""

from contextlib import suppress
from pathlib import Path

from thence.core.errors import UsageError
from thence.local.layout import FILE as CLUSTER
from thence.local.layout import PRINTED, read_layout
from thence.runtime.control_file import NAME as CONTROL
from thence.runtime.folder import IDENTITY
from thence.runtime.remote import Control


def node_folders(folder: Path) -> list[Path]:
    """The data folders that this one is or holds; at least one."""
    if not folder.is_dir():
        raise UsageError(
            f"there is no folder {folder}: `thence up` makes one, or say where the data of your nodes is"
        )
    if _holds(folder, CONTROL, IDENTITY):
        return [folder]
    found = {child for child in folder.iterdir() if _holds(child, CONTROL, IDENTITY, PRINTED)}
    if _holds(folder, CLUSTER):
        with suppress(UsageError):  # its nodes may not have come as far as to have folders
            found |= {folder / name for name in read_layout(folder).names}
    if not found:
        raise UsageError(f"no node keeps its data in {folder}")
    return sorted(found)


def node_folder(folder: Path, name: str) -> Path:
    """The data folder of the node of this name."""
    found = node_folders(folder)
    for candidate in found:
        if candidate.resolve().name == name:
            return candidate
    for candidate in found:
        # A single node may keep its data under any name; while it runs, its file says who it is.
        if _holds(candidate, CONTROL) and Control.of(candidate).name == name:
            return candidate
    there = ", ".join(candidate.resolve().name for candidate in found)
    raise UsageError(f"there is no node {name!r} in {folder}: there is {there}")


def chosen(folder: Path, names: list[str]) -> list[Control]:
    """Clients of these nodes; of all that run in the folder if none is named."""
    if names:
        return [Control.of(node_folder(folder, name)) for name in dict.fromkeys(names)]
    running = []
    for one in node_folders(folder):
        with suppress(UsageError):
            running.append(Control.of(one))
    if not running:
        raise UsageError(f"no node runs in {folder}")
    return running


def _holds(folder: Path, *names: str) -> bool:
    return any((folder / name).is_file() for name in names)
