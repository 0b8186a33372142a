"""What verification has written of all that it found (`--findings`)."""

from collections.abc import Iterator
from pathlib import Path


def read_findings(folder: Path, run: str | None = None) -> Iterator[dict[str, object]]:
    """As a report shows its examples; of one run, or of all."""
    import pyarrow.parquet as pq

    for row in pq.read_table(folder).to_pylist():
        if run not in (None, row["run"]):
            continue
        place = {} if row["pos"] is None else {"pos": row["pos"]}
        message = f"{row['origin']}:{row['seq']}"
        yield {
            "kind": row["verdict"], "node": row["node"], **place, "message": message, **dict(row["detail"])
        }  # fmt: skip
