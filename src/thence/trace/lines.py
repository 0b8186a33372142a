"""The recorder of a live node: each event becomes a line of JSON at once, ready to be written.

A live node writes the rows of a step before the step's packets leave, so there is no later moment at which
columns could be turned into something a reader knows. A row is one f-string around pieces that were encoded
beforehand: what is constant for the node, for a kind and for an origin.

A position is the boot count above and the number of the row below, as in the log: whatever became of the last
rows of an earlier boot, no position is used twice.
"""

from collections.abc import Sequence
from json import dumps
from typing import Final

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.trace.recorder import KINDS

POSITION_BITS: Final = 40
"""Rows of one boot; the log numbers its records the same way."""

_KINDS: Final = tuple([f',"kind":"{kind}"' for kind in KINDS])


def head_of(node: str, run: str) -> str:
    """How every row of a node begins, up to its position."""
    told = f'"run":{dumps(run)},' if run else ""
    return f'{{{told}"node":{dumps(node)},"pos":'


class Lines:
    """A `Recorder`. `names` belongs to the caller and may grow: an index stands for the name there."""

    __slots__ = ("_clock_us", "_head", "_known", "_names", "_next", "_origins", "_rows")

    def __init__(self, node: str, names: Sequence[str], boot: int, clock_us: int = 0, run: str = "") -> None:
        """`clock_us` is added to every time: the clock of a driver may start anywhere, the times in a trace
        are compared between nodes."""
        self._names = names
        self._head = head_of(node, run)
        self._next = boot << POSITION_BITS
        self._clock_us = clock_us
        self._rows: list[str] = []
        self._origins: list[str] = []
        self._known: list[str] = []

    def __len__(self) -> int:
        """How many rows wait to be taken."""
        return len(self._rows)

    def record(self, kind: int, dot: int, now: int) -> None:
        position = self._next
        self._next = position + 1
        about = ""
        if dot:
            origin = dot & ORIGIN_MASK
            if origin >= len(self._origins):
                self._learn()
            about = f"{self._origins[origin]}{dot >> ORIGIN_BITS}"
        self._rows.append(f'{self._head}{position}{_KINDS[kind]}{about},"at_us":{now + self._clock_us}}}\n')

    def record_deps(self, kind: int, dot: int, deps: tuple[int, ...], now: int) -> None:
        position = self._next
        self._next = position + 1
        known = self._known
        if len(known) < len(self._names):
            self._learn()
        about = f"{self._origins[dot & ORIGIN_MASK]}{dot >> ORIGIN_BITS}" if dot else ""
        if len(deps) == 1:  # what most sends name
            named = f"{known[deps[0] & ORIGIN_MASK]}{deps[0] >> ORIGIN_BITS}}}"
        else:
            named = ",".join([f"{known[dep & ORIGIN_MASK]}{dep >> ORIGIN_BITS}}}" for dep in deps])
        self._rows.append(
            f'{self._head}{position}{_KINDS[kind]}{about},"at_us":{now + self._clock_us},"deps":[{named}]}}\n'
        )

    def take_bytes(self) -> bytes:
        """All lines since the last call."""
        data = "".join(self._rows).encode("ascii")  # names were escaped to that
        self._rows.clear()
        return data

    def _learn(self) -> None:
        for name in self._names[len(self._known) :]:
            quoted = dumps(name)
            self._origins.append(f',"origin":{quoted},"seq":')
            self._known.append(f'{{"origin":{quoted},"seq":')
