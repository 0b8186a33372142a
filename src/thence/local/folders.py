"""Folders that a command writes its results to, and may throw away the next time."""

import shutil
from pathlib import Path

from thence.core.errors import UsageError


def fresh_folder(folder: Path, mark: str) -> None:
    """An empty folder with the mark in it. What an earlier run of the same command left there, as the mark
    says, is replaced; anything else that is not empty is refused."""
    try:
        if folder.exists():
            if any(folder.iterdir()) and not (folder / mark).exists():
                raise UsageError(f"{folder} holds something else: give --out a folder of its own")
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        (folder / mark).touch()
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from error
