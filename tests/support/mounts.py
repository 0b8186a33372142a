"""Small file systems of a test's own, where the machine allows it."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True, capture_output=True)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of this size at the folder, which need not exist. Skips the test where none can be had."""
    folder.mkdir(exist_ok=True)
    if not shutil.which("mount"):
        pytest.skip("a disk that can be filled up needs the program `mount`")
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a disk that can be filled up needs the right to mount one: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)
