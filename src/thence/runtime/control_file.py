"""`control.json`: how the command line finds the node of a data folder, and proves that it may.

Written when the node has begun to listen, removed at a clean stop. It holds a token, so only its owner may
read it; and it survives a crash, so a reader asks whether the process that it names is still the same one.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from thence.core.errors import StorageError, UsageError
from thence.runtime import process
from thence.runtime.address import Address

FREE: Final = frozenset({"/health", "/metrics"})
"""Routes that need no token: what watches over many machines should not have to know any."""

NAME: Final = "control.json"
_NEW: Final = "control.json.new"


class ControlFile(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    cluster: str
    host: str
    port: int
    pid: int
    started: str
    """See `process.Seen.start`."""
    token: str
    """Empty: none is needed, since there is no secret."""

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)

    def process(self) -> process.Seen | None:
        """The process that wrote this, if it still runs."""
        seen = process.look(self.pid)
        return seen if seen is not None and seen.start == self.started else None


def write(folder: Path, file: ControlFile) -> None:
    """All of it or nothing: a reader never meets half a file."""
    new = folder / _NEW
    try:
        new.unlink(missing_ok=True)
        # Made with these rights rather than given them later: there is no moment when others may read it.
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(msgspec.json.format(msgspec.json.encode(file)) + b"\n")
        new.replace(folder / NAME)
    except OSError as error:
        raise StorageError(f"cannot write {folder / NAME}: {error.strerror or error}") from error


def remove(folder: Path) -> None:
    (folder / NAME).unlink(missing_ok=True)


def read(folder: Path) -> ControlFile:
    path = folder / NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=ControlFile)
    except FileNotFoundError:
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder}") from None
        raise UsageError(f"no node runs in {folder}") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    except msgspec.MsgspecError:
        raise UsageError(f"{path} is damaged; a node writes it anew when it starts") from None
