"""The log's kit once more, over real files."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from support.conformance_oplog import OPLOG_CHECKS
from support.twin_disk import TwinDisk

from thence.oplog.log import OpLog

MEMORY = Path("/dev/shm")
"""Thousands of syncs: what they cost on a disk is not what is tested."""


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(dir=MEMORY if os.access(MEMORY, os.W_OK) else tmp_path))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("check", OPLOG_CHECKS)
def test_a_log_over_real_files_passes(check: str, room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("conformance_oplog", "conformance_oplog_disk", "oplog_model"):
        monkeypatch.setattr(f"support.{module}.Disk", partial(TwinDisk, root=room))
    OPLOG_CHECKS[check](OpLog)
