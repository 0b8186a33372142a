"""Which rows are to blame: a slow second look at the files, taken only when something is wrong.

The look is taken split by split, wherever the splits are read; what it finds is short and told in one place.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from thence.pipeline.files import Split
from thence.pipeline.readers import SplitRows, read

PLACES_MAX: Final = 10
"""Named at most; what is wrong more often than that is wrong everywhere."""


class Suspect(NamedTuple):
    """A node, and the place that several of its rows claim; -1: rows tell it to be two."""

    run: str
    group: str
    node: str
    pos: int


class Clue(NamedTuple):
    """A row that is to blame, and what it says."""

    what: str
    place: str


def look(splits: Sequence[Split], suspect: Suspect) -> list[Clue]:
    """What these splits have to say."""
    if suspect.pos >= 0:
        rows = _rows_of(splits, suspect)
        return [Clue("", place) for place, piece, index in rows if piece.rows.pos[index] == suspect.pos]
    found: dict[str, str] = {}
    for place, piece, index in _rows_of(splits, suspect):
        process, number = piece.rows.process, piece.rows.incarnation
        if process is not None and process[index] >= 0:
            found.setdefault(f"process {piece.rows.names[process[index]]}", place)
        if number is not None and number[index] >= 0:
            found.setdefault(f"incarnation {number[index]}", place)
    return [Clue(what, place) for what, place in found.items()]


def tell(suspect: Suspect, clues: Iterable[Clue]) -> str:
    """A message that names every row with the place; or, of each process and incarnation that rows tell the
    node to be, the first row."""
    scope = "".join(
        f", {name} {value}" for name, value in (("run", suspect.run), ("group", suspect.group)) if value
    )
    if suspect.pos >= 0:
        places = [clue.place for clue in clues]
        more = f"; and {len(places) - PLACES_MAX} more" if len(places) > PLACES_MAX else ""
        named = "; ".join(places[:PLACES_MAX]) + more
        return f"node {suspect.node} has position {suspect.pos} more than once{scope}: {named}"
    found: dict[str, str] = {}
    for clue in clues:
        found.setdefault(clue.what, clue.place)
    told = "; ".join([f"{what} in {place}" for what, place in sorted(found.items())])
    return f"node {suspect.node} is not the same in all rows{scope}: {told}"


def _rows_of(splits: Sequence[Split], suspect: Suspect) -> Iterator[tuple[str, SplitRows, int]]:
    scope, node = (suspect.run, suspect.group), suspect.node
    for split in splits:
        unit = "row" if split.suffix == ".parquet" else "line"
        for piece in read(split):
            rows = piece.rows
            if scope not in rows.scopes or node not in rows.names:
                continue
            here = (rows.scope == rows.scopes.index(scope)) & (rows.node == rows.names.index(node))
            for index in np.flatnonzero(here).tolist():
                yield f"{split.path} {unit} {piece.number(index)}", piece, index
