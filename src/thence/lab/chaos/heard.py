"""What a program without a state was told, written down by it as it comes, and whether that is right.

Beside its data folder such a node keeps `NAME.heard`, a line for each event. The program names the position
of the last line when it is started again, so that its node and its file agree, however it ended.

A program has what it should if of everything that took effect since its node first joined, but for what it
sent itself, each message came once, those of an origin in their order, or is named in a Gap before any later
one of that origin.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import Struct

from thence.core.groups import Place, number_of, process_of

Places = dict[str, list[tuple[int, int]]]
"""By incarnation: the numbers of its operations, from and to, as they took effect."""


def add_place(places: Places, origin: str, seq: int) -> None:
    spans = places.setdefault(origin, [])
    if spans and spans[-1][1] + 1 == seq:
        spans[-1] = spans[-1][0], seq
    else:
        spans.append((seq, seq))


def each(places: Places) -> Iterator[Place]:
    for origin, spans in places.items():
        for first, last in spans:
            for seq in range(first, last + 1):
                yield origin, seq


class FirstLine(Struct, frozen=True, array_like=True, tag="begun"):
    """The first line."""

    position: int
    places: Places
    """What had taken effect before: none of the program's business."""


class ToldLine(Struct, frozen=True, array_like=True, tag="told"):
    position: int
    origin: str
    seq: int
    what: int
    """What is added to the tally for it."""


class Missed(Struct, frozen=True, array_like=True, tag="missed"):
    """A Gap."""

    position: int
    first: dict[str, int]
    last: dict[str, int]

    def names(self, place: Place) -> bool:
        origin, seq = place
        if origin in self.first and self.first[origin] <= seq <= self.last.get(origin, seq):
            return True
        return any(
            process_of(name) == process_of(origin) and number_of(name) > number_of(origin)
            for name in self.first.keys() - self.last.keys()
        )


Line = FirstLine | ToldLine | Missed


def heard_file(data: Path) -> Path:
    return data.with_name(f"{data.name}.heard")


class HeardFile:
    """The file, as its program has it."""

    def __init__(self, data: Path) -> None:
        lines = read_heard(data)
        self.position: int | None = lines[-1].position if lines else None
        """Of the last event in it."""
        self._file = os.open(heard_file(data), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, line: Line) -> None:
        os.write(self._file, msgspec.json.encode(line) + b"\n")
        self.position = line.position

    def close(self) -> None:
        os.close(self._file)


def read_heard(data: Path) -> list[Line]:
    try:
        lines = heard_file(data).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    return [msgspec.json.decode(line, type=Line) for line in lines]


@dataclass(slots=True)
class Hearing:
    """One program's."""

    put_back: Collection[str] = ()
    """Incarnations whose disk was put back: their numbers may stand for two operations."""
    may_follow: Callable[[Place, Place], bool] = lambda late, early: False  # noqa: ARG005
    """May an operation come after one of a later incarnation of its process? See `forgotten`."""
    told: dict[Place, int] = field(default_factory=dict)
    missed: int = 0
    """Messages that took effect and are only named in a Gap."""
    wrong: list[str] = field(default_factory=list)
    _before: set[Place] = field(default_factory=set)
    _gaps: list[tuple[Missed, dict[str, int]]] = field(default_factory=list)
    """With the last message of each origin that came before."""
    _latest: dict[str, int] = field(default_factory=dict)
    _newest: dict[str, Place] = field(default_factory=dict)
    """By process: the first operation of the last of its incarnations that was heard of."""

    @property
    def gaps(self) -> int:
        return len(self._gaps)

    def hear(self, lines: Iterable[Line]) -> None:
        for line in lines:
            if isinstance(line, FirstLine):
                self._before |= set(each(line.places))
            elif isinstance(line, Missed):
                self._gaps.append((line, dict(self._latest)))
            else:
                self._hear(line)

    def _hear(self, line: ToldLine) -> None:
        place = line.origin, line.seq
        newest = self._newest.setdefault(process_of(line.origin), place)
        number, last_number = number_of(line.origin), number_of(newest[0])
        if line.origin not in self.put_back:
            if place in self.told:
                self.wrong.append(f"{place} is told twice")
            elif line.seq < (last := self._latest.get(line.origin, 0)):
                self.wrong.append(f"{place} is told after {last}")
            elif number < last_number and not self.may_follow(place, newest):
                self.wrong.append(f"{place} is told after messages of incarnation {last_number}")
        self.told[place] = line.what
        self._latest[line.origin] = max(line.seq, self._latest.get(line.origin, 0))
        if number > last_number:
            self._newest[process_of(line.origin)] = place

    def compare(self, process: str, places: Places, tally: Mapping[str, tuple[int, int]]) -> None:
        """With what took effect by now, and what that amounts to."""
        took = set(each(places))
        others = {place for place in took if process_of(place[0]) != process}
        untold = sorted(others - self._before - self.told.keys())
        silent = [place for place in untold if not self._is_named(place)]
        self.missed = len(untold) - len(silent)
        self.wrong += [f"{place} took effect and is neither told nor named in a Gap" for place in silent]
        unknown = [p for p in self.told if p not in took and p[0] not in self.put_back]
        self.wrong += [f"{place} is told and took no effect" for place in unknown]
        whole = {origin for origin, _ in others} - {origin for origin, _ in {*untold, *self._before}}
        for origin in sorted(whole - set(self.put_back)):
            total = sum(what for place, what in self.told.items() if place[0] == origin) % (1 << 64)
            if total != tally[origin][1]:
                self.wrong.append(f"messages of {origin} are told with other contents")

    def _is_named(self, place: Place) -> bool:
        """Before any later message of that origin."""
        origin, seq = place
        early = origin in self.put_back
        return any(gap.names(place) and (early or before.get(origin, 0) < seq) for gap, before in self._gaps)


def told_of(hearings: Sequence[Hearing]) -> str:
    """For people."""
    count = sum(len(hearing.told) for hearing in hearings)
    gaps, missed = sum(hearing.gaps for hearing in hearings), sum(hearing.missed for hearing in hearings)
    programs = f"{len(hearings)} program{'s' if len(hearings) != 1 else ''} without a state"
    return (
        f"{programs} got {count:,} messages, each once and in order; {gaps:,} Gap{'s' if gaps != 1 else ''}"
        f" for {missed:,} more"
    )
