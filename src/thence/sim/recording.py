"""What the nodes of a run record: columns, which are written to its trace before they fill the memory."""

from collections import Counter
from collections.abc import Sequence
from typing import BinaryIO, Final

from thence.trace.parquet import ROWS_PER_FLUSH, ParquetTrace
from thence.trace.recorder import KINDS, Columns


class Recording:
    def __init__(
        self, names: Sequence[str], trace: BinaryIO | None, run: str, addressed: bool = False
    ) -> None:
        """Without a trace rows are counted and forgotten. `addressed`: messages are not for everyone."""
        self.names: Final = names
        self.columns: Final = [Columns() for _ in names]
        """One node's each."""
        self._trace: Final = ParquetTrace(trace, list(names), run, addressed=addressed) if trace else None
        self._tally: Final = Counter[int]()

    def look(self) -> None:
        """Now and then."""
        if sum(map(len, self.columns)) >= ROWS_PER_FLUSH:
            self.flush()

    def flush(self) -> None:
        for node, columns in enumerate(self.columns):
            if self._trace:
                self._trace.write(node, columns)
            self._tally.update(columns.kinds)
            columns.clear()

    def close(self) -> None:
        if self._trace:
            self._trace.close()

    def count(self, kind: str) -> int:
        """Rows of a kind, written or not."""
        code = KINDS.index(kind)
        return self._tally[code] + sum(columns.kinds.count(code) for columns in self.columns)
