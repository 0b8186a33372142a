"""What processes of a simulated group have forgotten of what they sent themselves (`check.forgotten`): the
world sees each operation when it is sent, and what a process knows when it begins anew."""

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from thence.check.forgotten import Forgotten
from thence.core.groups import Place, process_of


class _Sent(NamedTuple):
    """After how many losses of its process an operation was sent."""

    first: int
    last: int
    """That it was sent again."""


class _SeenLoss(NamedTuple):
    number: int
    """Of the losses of its process, from 1."""
    unknown: frozenset[Place]
    sent: Mapping[Place, _Sent]

    def forgot(self, place: Place) -> bool:
        """What its disk had no room for, and its process has sent under the same name since, is another."""
        return place in self.unknown and place in self.sent and self.sent[place].first < self.number

    def precedes(self, place: Place) -> bool:
        return place in self.sent and self.sent[place].last >= self.number


class SeenForgotten(Forgotten):
    def __init__(self) -> None:
        super().__init__()
        self._sent: dict[str, dict[Place, _Sent]] = {}

    def sends(self, process: str, place: Place, carried: bool) -> None:
        """A process sends an operation; `carried`: again, since the group never had it."""
        if process_of(place[0]) != process:
            return
        sent, now = self._sent.setdefault(process, {}), len(self._losses.get(process, ()))
        sent[place] = _Sent(sent[place].first if carried and place in sent else now, now)

    def forgets(self, process: str, remembers: Container[Place]) -> None:
        """A process remembers nothing but this."""
        self._lose(process, [place for place in self._sent.get(process, ()) if place not in remembers])

    def declines(self, process: str, place: Place) -> None:
        """A process does not send an operation again that the group never had."""
        if process_of(place[0]) == process:
            self._lose(process, [place])

    def renamed(self, names: Mapping[Place, Place]) -> "SeenForgotten":
        """The same with other names of the operations."""
        other = SeenForgotten()
        for process, sent in self._sent.items():
            other._sent[process] = {names[place]: when for place, when in sent.items() if place in names}
        for process, losses in self._losses.items():
            for loss in losses:
                assert isinstance(loss, _SeenLoss)
                unknown = frozenset([names[place] for place in loss.unknown if place in names])
                other._add(process, _SeenLoss(loss.number, unknown, other._sent.get(process, {})))
        return other

    def _lose(self, process: str, places: Iterable[Place]) -> None:
        if unknown := frozenset(places):
            number = len(self._losses.get(process, ())) + 1
            self._add(process, _SeenLoss(number, unknown, self._sent.setdefault(process, {})))
