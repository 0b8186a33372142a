"""Which rows claim a place: a slow second look at the files, taken only when something is wrong."""

from collections.abc import Sequence

import numpy as np

from thence.pipeline.files import Split
from thence.pipeline.readers import read


def locate(splits: Sequence[Split], run: str, group: str, node: str, pos: int) -> str:
    """A message that names every row with this place."""
    places = []
    for split in splits:
        unit = "row" if split.suffix == ".parquet" else "line"
        for piece in read(split):
            rows = piece.rows
            if (run, group) not in rows.scopes or node not in rows.names:
                continue
            here = (rows.scope == rows.scopes.index((run, group))) & (rows.pos == pos)
            here &= rows.node == rows.names.index(node)
            places += [f"{split.path} {unit} {piece.number(int(k))}" for k in np.flatnonzero(here)]
    scope = "".join(f", {name} {value}" for name, value in (("run", run), ("group", group)) if value)
    return f"node {node} has position {pos} more than once{scope}: {'; '.join(places)}"
