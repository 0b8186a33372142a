"""A program: `expected`, whose state errors of order harm.

Beside all operations its tally has those that no other has replaced. Each operation names some that its
sender's program had, and replaces them. One that is applied after an operation that named it stays, unless
the state is set right; operations that do not follow from each other commute. So equal operations give equal
states only if each took effect after what it follows from.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import msgspec

from thence.lab.chaos.expected import Tally, Tallying, run
from thence.replica.group.surroundings import Applied
from thence.runtime.node import Node

PROGRAM: Final = (sys.executable, "-m", "thence.lab.chaos.newest")

NAMED: Final = 16
"""So many does an operation replace at most: more than one, so that they stay few."""

LEFT: Final = "(not replaced)"
"""What they are called among the incarnations of a tally: how many, and their sum."""


class Newest(Tallying):
    holds = True

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._newest: dict[tuple[str, int], None] = {}

    def apply(self, one: Applied) -> None:
        super().apply(one)
        operation = one.operation
        names, _, _ = operation.payload.partition(b"\n")
        for origin, seq in msgspec.json.decode(names, type=list[tuple[str, int]]):
            self._newest.pop((origin, seq), None)
        self._newest[operation.dot] = None

    def payload(self, load: bytes) -> bytes:
        """The oldest are replaced first."""
        return msgspec.json.encode([*self._newest][:NAMED]) + b"\n" + load

    def state(self) -> bytes:
        return msgspec.msgpack.encode((super().state(), [*self._newest]))

    def install(self, state: bytes) -> None:
        tally, newest = b"", list[tuple[str, int]]()
        if state:
            tally, newest = msgspec.msgpack.decode(state, type=tuple[bytes, list[tuple[str, int]]])
        super().install(tally)
        self._newest = dict.fromkeys(newest)

    def stepped(self, node: Node, now: int) -> None:
        """Without an agreed view nothing is acknowledged."""

    @property
    def tally(self) -> Tally:
        total = sum([crc32(origin.encode(), seq) for origin, seq in self._newest])
        return {**super().tally, LEFT: (len(self._newest), total)}


def loaded(data: Path, filler: int) -> Newest:
    """A program such that the loads of this process send what its `payload` makes of theirs."""
    program, real = Newest(data, filler), Node._load

    async def load(node: Node, payloads: Sequence[bytes]) -> None:
        await real(node, [program.payload(each) for each in payloads])

    setattr(Node, "_load", load)  # noqa: B010 - not exported, on purpose
    return program


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], loaded))
