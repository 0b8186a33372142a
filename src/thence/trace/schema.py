"""One row of a trace (docs/TRACES.md), and the kinds that count.

Verification looks only at the counting kinds; every other kind serves metrics. `dot` pairs are
(origin, seq) with the origin's name: a trace speaks of names, never of a node's inner indices.
"""

from typing import Final

import msgspec

COUNTING_KINDS: Final = (
    "start", "send", "deliver", "stable", "install", "restart", "leave", "crash", "evict",
)  # fmt: skip

VERDICTS: Final = ("order", "duplicate", "unsent", "gap", "lost", "unstable", "tag")


class Dot(msgspec.Struct, frozen=True, array_like=False):
    """A message's name inside a trace: its sender and the sender's counter."""

    origin: str
    seq: int

    def __str__(self) -> str:
        return f"{self.origin}:{self.seq}"


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row. Field order and names are the columns of the format."""

    node: str
    pos: int
    kind: str
    run: str = ""
    group: str = ""
    origin: str | None = None
    seq: int | None = None
    at_us: int | None = None
    deps: list[Dot] | None = None
    dest: list[str] | None = None
