"""Which rows are to blame: a slow second look at the files, taken only when something is wrong."""

from collections.abc import Iterator, Sequence

import numpy as np

from thence.pipeline.files import Split
from thence.pipeline.readers import Piece, read


def locate(splits: Sequence[Split], run: str, group: str, node: str, pos: int) -> str:
    """A message that names every row with this place."""
    rows = _rows_of(splits, run, group, node)
    places = [place for place, piece, index in rows if piece.rows.pos[index] == pos]
    return f"node {node} has position {pos} more than once{_scope(run, group)}: {'; '.join(places)}"


def locate_lives(splits: Sequence[Split], run: str, group: str, node: str) -> str:
    """A message that names, of each process and incarnation that rows tell this node to be, the first row."""
    found: dict[str, str] = {}
    for place, piece, index in _rows_of(splits, run, group, node):
        process, number = piece.rows.process, piece.rows.incarnation
        if process is not None and process[index] >= 0:
            found.setdefault(f"process {piece.rows.names[process[index]]}", place)
        if number is not None and number[index] >= 0:
            found.setdefault(f"incarnation {number[index]}", place)
    told = "; ".join([f"{what} in {place}" for what, place in sorted(found.items())])
    return f"node {node} is not the same in all rows{_scope(run, group)}: {told}"


def _rows_of(splits: Sequence[Split], run: str, group: str, node: str) -> Iterator[tuple[str, Piece, int]]:
    for split in splits:
        unit = "row" if split.suffix == ".parquet" else "line"
        for piece in read(split):
            rows = piece.rows
            if (run, group) not in rows.scopes or node not in rows.names:
                continue
            here = (rows.scope == rows.scopes.index((run, group))) & (rows.node == rows.names.index(node))
            for index in np.flatnonzero(here).tolist():
                yield f"{split.path} {unit} {piece.number(index)}", piece, index


def _scope(run: str, group: str) -> str:
    return "".join(f", {name} {value}" for name, value in (("run", run), ("group", group)) if value)
