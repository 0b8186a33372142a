"""Verification in this process: the same readers and kernels as on Spark, without Spark's seconds to start.

For traces whose rows fit into the memory of one process: small ones, and gates that run often. What nodes
know of each other is worked out in blocks of columns, one after the other, so that it need not fit.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from thence.core.errors import TraceError
from thence.pipeline import files, report
from thence.pipeline.findings import EXAMPLES
from thence.pipeline.judge import judge_in_blocks
from thence.pipeline.locate import look, tell
from thence.pipeline.pack import pack
from thence.pipeline.readers import read
from thence.pipeline.shards import Payload

TOLD = pa.schema(
    [
        ("run", pa.string()),
        ("group", pa.string()),
        ("verdict", pa.string()),
        ("node", pa.string()),
        ("pos", pa.int64()),
        ("origin", pa.string()),
        ("seq", pa.int64()),
        ("detail", pa.map_(pa.string(), pa.string())),
    ]
)
"""As `frames.told` has it."""


def verify(
    path: str | Path,
    *,
    still_open: bool = False,
    findings: str | Path | None = None,
    tolerant: bool = False,
    blocks: int | None = None,
    split_bytes: int = files.SPLIT_BYTES,
    split_rows: int = files.SPLIT_ROWS,
) -> report.Report:
    """The verdicts on a trace, as `verify.verify` has them."""
    splits = files.cut(files.trace_files(Path(path)), split_bytes, split_rows, tolerant=tolerant)
    runs, torn, kinds = _read(splits)
    limit = EXAMPLES if findings is None else None
    rows = []
    for run, group in sorted(runs):
        rows += [
            finding.row(run, group) for finding in judge_in_blocks(runs.pop((run, group)), limit, blocks)
        ]
    suspect = report.suspect(rows)
    if suspect is not None:
        raise TraceError(tell(suspect, look(splits, suspect)))
    if findings is not None:
        _write(rows, Path(findings))
    return report.build(rows, torn, kinds, still_open=still_open)


def _read(splits: list[files.Split]) -> tuple[dict[tuple[str, str], list[Payload]], int, set[str]]:
    """Packed pieces by run and group, torn lines, and kinds that were passed over."""
    runs: dict[tuple[str, str], list[Payload]] = {}
    torn, kinds, errors = 0, set(), []
    for split in splits:
        try:
            for piece in read(split):
                torn += piece.torn
                for packed in pack(piece.rows):
                    runs.setdefault((packed.run, packed.group), []).append(
                        Payload(packed.bucket, packed.payload)
                    )
                    kinds.update(packed.others)
        except TraceError as error:
            errors.append(str(error))
    if errors:
        raise TraceError(min(errors))
    return runs, torn, kinds


def _write(rows: list[dict[str, Any]], folder: Path) -> None:
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(list(_told(rows)), TOLD), folder / "part-00000.parquet")
    (folder / "_SUCCESS").touch()


def _told(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        if row["what"] == "example":
            origin, _, seq = row["message"].rpartition(":")
            more = msgspec.json.decode(row["detail"]) if row["detail"] else {}
            yield {
                **row, "pos": row["pos"] if row["pos"] >= 0 else None, "origin": origin, "seq": int(seq),
                "detail": [(key, str(value)) for key, value in more.items()],
            }  # fmt: skip
