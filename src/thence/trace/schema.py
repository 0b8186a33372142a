"""One row of a trace (docs/TRACES.md), and the kinds that count.

Verification looks only at the counting kinds; every other kind serves metrics. `dot` pairs are
(origin, seq) with the origin's name: a trace speaks of names, never of a node's inner indices.
"""

from typing import Final

import msgspec

CHANNEL_KINDS: Final = ("subscribe", "unsubscribe")

COUNTING_KINDS: Final = (
    "start", "send", "deliver", "stable", "install", "restart", "leave", "crash", "evict", *CHANNEL_KINDS,
)  # fmt: skip

VERDICTS: Final = ("order", "duplicate", "unsent", "gap", "lost", "program", "unstable", "tag")

FORGIVEN: Final = tuple([verdict for verdict in VERDICTS if verdict != "program"])
"""What is judged of a run in which a process forgot or declined an operation of its own, or left: others may
bring that late (rule 32 of docs/protocols/membership.md)."""

NO_OPERATION: Final = ("-", 0)
"""What a message carries that brings no operation, not even its own: one that changes the membership."""


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
    process: str | None = None
    incarnation: int | None = None
    carries: list[Dot] | None = None
    channel: str | None = None
