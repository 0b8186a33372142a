"""A round of a trial with a tree without tags whose members come and go, without any agreement.

Everything of `rounds`; and members leave and come again, or come again without their disks, as other
incarnations. In the end all logs must hold the same messages of the same members.
"""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from thence.lab.chaos.crash_points import PROGRAM
from thence.lab.chaos.plan import COMING, Act, draw_plan, draw_setup
from thence.lab.chaos.rounds import Round
from thence.lab.chaos.storm import Storm, StormError
from thence.runtime.remote import Control
from thence.trace.schema import FORGIVEN

LEAVE_S: Final = 30.0


class OpenStorm(Storm):
    def _hit(self, act: Act) -> None:
        if act.kind == "leave":
            self._leave(act.nodes[0])
            return
        super()._hit(act)
        if act.kind == "lose disk":
            self._lose_disk(act.nodes[0])

    def _leave(self, name: str) -> None:
        self._ask(name, Control.leave)
        code = self._exit_code(name, LEAVE_S)
        self._phases[name] = "down"
        if code:
            raise StormError(f"{name} left with exit code {code}; {self._said(name)}")

    def _lose_disk(self, name: str) -> None:
        """All but what it printed."""
        for path in self._cluster.folders[name].iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path != self._cluster.nodes[name].log:
                path.unlink()


class OpenTreeRound(Round):
    storm = OpenStorm

    def __init__(
        self, seed: int, nodes: int, seconds: float, folder: Path, netem: bool = False, spread: str = "tree"
    ) -> None:
        setup = replace(draw_setup(seed, nodes, spread), order="none")
        layout = self._make(
            seed, nodes, seconds, folder, netem, str(setup), setup.flags(), PROGRAM, changing=True
        )
        self._setup = setup
        self._plan = draw_plan(seed, layout.names, seconds, COMING)

    def _forgives(self, violation: Mapping[str, object]) -> bool:
        return violation["kind"] not in FORGIVEN
