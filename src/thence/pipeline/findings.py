"""What a task says about a run.

`run`: how much there was. `count`: how many rows or pairs a verdict flags, with up to ten `example`s.
`marks`: rows that the blocks of a run must settle between them. `twice`: a place that two rows claim.
`lives`: a node that is two, as its rows have it.
"""

from typing import Any, Final, NamedTuple

import msgspec

EXAMPLES: Final = 10


class Finding(NamedTuple):
    """One of these; `detail` is JSON: an example's further fields, or a run's totals."""

    what: str
    verdict: str = ""
    node: str = ""
    pos: int = -1
    message: str = ""
    number: int = 0
    detail: str = ""
    payload: bytes = b""

    def row(self, run: str, group: str) -> dict[str, Any]:
        return {"run": run, "group": group, **self._asdict()}


class Totals(msgspec.Struct, frozen=True):
    """How much a run holds."""

    nodes: int
    sends: int
    deliveries: int
    stables: int


def detail(**fields: Any) -> str:
    return msgspec.json.encode(fields).decode() if fields else ""
