"""The disk of a node of a trial: its data folder, and what its program keeps beside it. It is lost,
copied, and put back to the copy, while the node does not run."""

import shutil
from pathlib import Path
from typing import Final

from thence.core.groups import incarnation, number_of
from thence.lab.chaos.expected import acknowledged_file, read_acknowledged
from thence.lab.chaos.heard import heard_file
from thence.runtime.incarnations import logs_in

NOT_COPIED: Final = ("lock", "control.json")


class NodeDisk:
    def __init__(self, name: str, folder: Path, log: Path) -> None:
        """`log`: what the node prints; it is on no disk that is lost."""
        self._name: Final = name
        self._folder: Final = folder
        self._log: Final = log
        self._copy: Final = folder.with_name(f"{folder.name}.copy")

    def newest(self) -> int:
        """The number of the last incarnation that may have sent anything."""
        return max([*logs_in(self._folder), *map(number_of, read_acknowledged(self._folder))], default=0)

    def lose(self) -> None:
        """All but what it printed. What it alone had cannot be asked for."""
        for path in self._folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path != self._log:
                path.unlink()
        for path in (acknowledged_file(self._folder), heard_file(self._folder)):
            path.unlink(missing_ok=True)

    def copy(self) -> dict[str, int]:
        """Back it up; how many operations each incarnation had acknowledged by then."""
        folder, ignored = self._folder, shutil.ignore_patterns(self._log.name, *NOT_COPIED)
        shutil.copytree(folder, self._copy, ignore=ignored)
        if heard_file(folder).exists():  # what a program makes of what it hears is on the same disk
            shutil.copyfile(heard_file(folder), heard_file(self._copy))
        begun = {incarnation(self._name, number): 0 for number in logs_in(folder)}  # perhaps it sent nothing
        return begun | read_acknowledged(folder)

    def put_back(self) -> None:
        """What it acknowledged since the copy is on it no more, and may be nowhere else."""
        self.lose()
        shutil.copytree(self._copy, self._folder, dirs_exist_ok=True)
        shutil.rmtree(self._copy)
        if heard_file(self._copy).exists():
            heard_file(self._copy).replace(heard_file(self._folder))

    def drop_copy(self) -> None:
        shutil.rmtree(self._copy)
        heard_file(self._copy).unlink(missing_ok=True)
