"""What processes have forgotten of what they sent themselves, and what may come late therefore.

Everywhere operations of one process take effect in the order in which it sent them, over its incarnations:
rule 32 of docs/protocols/membership.md. A process can keep to that as far as it remembers. What it has
forgotten (with its disk, since that was put back to an earlier state, or since it left in order and began
with nothing) or declined to send again, others may still bring, also after what it has sent since. Nothing
else may come late: not what it remembered, and not what it has forgotten after something that it sent before
it forgot.

Trials on real processes and storms share the rule, for what took effect and for rows `program` of a trace.
How they know of a loss differs: a trial counts what a disk knew, a storm sees what is sent when.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

from thence.core.groups import Place, number_of, process_of


class Loss(Protocol):
    """At one moment a process has forgotten something of what it had sent."""

    def forgot(self, place: Place) -> bool:
        """Had it sent this by then, and did not know it any more?"""
        ...

    def precedes(self, place: Place) -> bool:
        """Has it sent this, or sent it again, since then?"""
        ...


class Forgotten:
    """By process: all of its losses."""

    def __init__(self) -> None:
        self._losses: Final[dict[str, list[Loss]]] = {}

    def __bool__(self) -> bool:
        return bool(self._losses)

    def _add(self, process: str, loss: Loss) -> None:
        self._losses.setdefault(process, []).append(loss)

    def may_follow(self, late: Place, early: Place) -> bool:
        """May an operation take effect after a later one of its process? Numbers say which is later: one that
        was put back may have sent the later one before, and not know of it any more."""
        losses = self._losses.get(process_of(late[0]), ())
        return any(
            loss.forgot(one) and loss.precedes(other)
            for loss in losses
            for one, other in ((late, early), (early, late))
        )

    def excuses(self, finding: Mapping[str, object]) -> bool:
        """Is this row of verification an operation that may come late?"""
        if finding["kind"] != "program" or "operation" not in finding or "held" not in finding:
            return False
        late, early = (parse_place(str(finding[what])) for what in ("operation", "held"))
        return self.may_follow(late, early)

    def inversions(self, order: Iterable[Place]) -> Iterator[tuple[Place, Place]]:
        """What took effect in this order although it may not: each such operation, and a later one of its
        process that came before."""
        came: dict[str, list[Place]] = {}
        latest: dict[str, tuple[int, int]] = {}
        for place in order:
            process, key = process_of(place[0]), _key(place)
            if key < latest.get(process, key):
                before = (early for early in came[process] if _key(early) > key)
                if (early := next((e for e in before if not self.may_follow(place, e)), None)) is not None:
                    yield place, early
            latest[process] = max(key, latest.get(process, key))
            came.setdefault(process, []).append(place)


def parse_place(text: str) -> Place:
    """As findings name an operation: `c~2:4`."""
    origin, _, seq = text.rpartition(":")
    return origin, int(seq)


def _key(place: Place) -> tuple[int, int]:
    """Where it stands in its process's program."""
    return number_of(place[0]), place[1]
