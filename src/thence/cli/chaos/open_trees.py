"""A round of a trial with a tree without tags whose members come and go, in nobody's agreement.

Everything of `rounds`; and members leave and come again, or come again without their disks, as other
incarnations. In the end all logs must hold the same messages of the same members.
"""

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from thence.cli.chaos.doomed import PROGRAM
from thence.cli.chaos.plan import COMING, Act, draw_plan, draw_setup
from thence.cli.chaos.rounds import Round
from thence.cli.chaos.storm import STOP_S, TICK_S, Storm, StormError
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
        process, until = self._cluster.nodes[name].process, time.monotonic() + LEAVE_S
        while process is not None and process.poll() is None:
            if time.monotonic() > until:
                raise StormError(f"{name} is still leaving; {self._said(name)}")
            time.sleep(TICK_S)
        self._phases[name] = "down"
        if code := self._cluster.stop(name, grace_s=STOP_S)[name]:
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

    def _verdicts(self) -> tuple[str, ...]:
        return FORGIVEN
