"""A disk of one live node that lets it down."""

from pathlib import Path
from threading import Event, current_thread, main_thread

import pytest

from thence.core.storage import DiskError
from thence.runtime.files import DiskFiles


class FailingDisk:
    """Of one node: whatever is written, or synced, fails or waits while the test wants it to."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        self.fails = False
        self.goes = Event()
        """Syncs that no call in the event loop waits for wait while it is clear."""
        self.goes.set()
        write, sync = DiskFiles.write, DiskFiles.sync

        def wrote(files: DiskFiles, name: str, offset: int, data: bytes | bytearray) -> None:
            if self.full and str(folder) in files._where:
                raise DiskError("no space left on device", file=name, definite=True, full=True)
            write(files, name, offset, data)

        def synced(files: DiskFiles, name: str) -> None:
            if str(folder) in files._where:
                if current_thread() is not main_thread():
                    assert self.goes.wait(30)
                if self.fails:
                    raise DiskError("input/output error", file=name)
            sync(files, name)

        monkeypatch.setattr(DiskFiles, "write", wrote)
        monkeypatch.setattr(DiskFiles, "sync", synced)
