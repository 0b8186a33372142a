"""A round of a trial whose messages gossip spreads and shared clocks order: order errs, and says so.

Everything of `open_trees`; members leave and lose their disks with `--changing` only. The clock is drawn from
the seed, small ones too, for errors; nodes remember so many deliveries that none goes undetected.
A delivery before its cause is let pass if the trace has a doubt of it at that node, or if the node was gone
before the cause came, which is when it would have noticed. In the end the states of all programs must be
equal: errors harm them (`newest.py`) until they are set right.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from thence.core.errors import ThenceError
from thence.lab.chaos import expected
from thence.lab.chaos.newest import PROGRAM
from thence.lab.chaos.open_trees import OpenTreeRound
from thence.lab.chaos.plan import COMING, Kind, draw_plan, draw_setup
from thence.lab.chaos.rounds import tell
from thence.pipeline.where import Where
from thence.replica.live import PROBABILISTIC
from thence.spread.overlays import GOSSIP
from thence.trace.schema import FORGIVEN, Event

CLOCKS: Final = ((1, 1), (3, 1), (8, 2), (100, 4))
"""Entries and keys."""

RECENT: Final = 50_000
"""Deliveries that a node remembers: more than a round has while a node is away."""


class GossipRound(OpenTreeRound):
    besides: Mapping[Kind, tuple[float, float]] | None = None
    """Trouble that is drawn as well."""

    def __init__(
        self,
        seed: int,
        nodes: int,
        seconds: float,
        folder: Path,
        netem: bool = False,
        spread: str = "mesh",
    ) -> None:
        del spread  # it is gossip
        entries, keys = Random(f"{seed}/clock").choice(CLOCKS)
        setup = replace(draw_setup(seed, nodes), order=PROBABILISTIC, spread=GOSSIP)
        flags = {**setup.flags(), "clock.entries": entries, "clock.keys": keys, "clock.recent": RECENT}
        words = f"{setup}; clocks of {entries} entries, {keys} of each member"
        layout = self._make(seed, nodes, seconds, folder, netem, words, flags, PROGRAM, changing=True)
        self._setup = setup
        self._plan = draw_plan(seed, layout.names, seconds, self.besides)
        self._early = self._unnoticed = 0

    def _stop(self) -> None:
        super()._stop()
        folders = self._cluster.folders
        tallies = {name: tally for name in folders if (tally := expected.read_tally(folders[name]))}
        if lacking := folders.keys() - tallies.keys():
            raise ThenceError(f"{', '.join(sorted(lacking))} stopped and left no tally")
        if wrong := expected.compare(tallies, {}):
            raise ThenceError(f"states: {wrong}")

    @cached_property
    def _doubts(self) -> set[tuple[str, str]]:
        """Nodes, each with a delivery that it doubted."""
        return self._rows(b'"doubt"')

    @cached_property
    def _deliveries(self) -> set[tuple[str, str]]:
        return self._rows(b'"deliver"')

    def _rows(self, kind: bytes) -> set[tuple[str, str]]:
        """Nodes, each with a message of which it has such a row."""
        found, decoder = set(), msgspec.json.Decoder(Event)
        for path in self._trace.iterdir():
            whole, _, _ = path.read_bytes().rpartition(b"\n")
            for line in whole.splitlines():
                if kind in line:
                    row = decoder.decode(line)
                    found.add((row.node, f"{row.origin}:{row.seq}"))
        return found

    def _forgives(self, violation: Mapping[str, object]) -> bool:
        if violation["kind"] != "order":
            return violation["kind"] not in FORGIVEN
        node = str(violation["node"])
        if (node, str(violation["message"])) in self._doubts:
            self._early += 1
            return True
        self._unnoticed += 1
        return "missing" in violation and (node, str(violation["missing"])) not in self._deliveries

    def _judge(self, where: Where) -> None:
        super()._judge(where)
        doubts = f"{len(self._doubts):,} were doubted"
        tell(f"states are equal; {self._early:,} deliveries before a cause, each of them doubted; {doubts}")
        if self._unnoticed:
            tell(f"{self._unnoticed:,} more at processes that were gone for good before the cause came")


class ChangingGossipRound(GossipRound):
    besides = COMING
