"""What the nodes of a run record: columns, which are written to its trace before they fill the memory."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import BinaryIO, Final

from thence.core.groups import process_of
from thence.sim.diaries import SimDiary
from thence.trace.parquet import ROWS_PER_FLUSH, ParquetTrace
from thence.trace.recorder import KINDS, NodeColumns


class Recording:
    def __init__(
        self, names: Sequence[str], trace: BinaryIO | None, run: str, addressed: bool = False
    ) -> None:
        """Without a trace rows are counted and forgotten. `addressed`: messages name their addressees."""
        self.names: Final = names
        self.columns: Final = [NodeColumns() for _ in names]
        """One node's each."""
        self._trace: Final = ParquetTrace(trace, list(names), run, addressed=addressed) if trace else None
        self._tally: Final = [Counter[int]() for _ in names]

    def look(self) -> None:
        """Now and then."""
        if sum(map(len, self.columns)) >= ROWS_PER_FLUSH:
            self.flush()

    def flush(self) -> None:
        for node, columns in enumerate(self.columns):
            if self._trace:
                self._trace.write(node, columns)
            self._tally[node].update(columns.kinds)
            columns.clear()

    def tell(self, totals: Sequence[Mapping[str, int]], now: int) -> None:
        """What nodes counted, as `metric` rows; after the last of the others."""
        self.flush()
        for node, counted in enumerate(totals):
            if self._trace:
                self._trace.tell(node, self.columns[node].first, counted, now)

    def close(self) -> None:
        if self._trace:
            self._trace.close()

    def count(self, kind: str) -> int:
        """Rows of a kind, written or not."""
        return sum(self.of_nodes(kind))

    def of_nodes(self, kind: str) -> list[int]:
        """The same of each node."""
        code = KINDS.index(kind)
        return [
            tally[code] + columns.kinds.count(code)
            for tally, columns in zip(self._tally, self.columns, strict=True)
        ]


def tell_bytes(
    trace: ParquetTrace,
    diaries: Mapping[str, SimDiary],
    sent: Mapping[str, int],
    numbers: Mapping[str, int],
    now: int,
) -> None:
    """What each process sent, what programs got of it, and what states took that came, as rows of its last
    incarnation. `sent`: by process; `numbers`: of the trace's names."""
    mine: dict[str, list[str]] = {}
    for name in diaries:
        mine.setdefault(process_of(name), []).append(name)
    for process, names in mine.items():
        got = sum(diaries[name].delivered_bytes for name in names)
        states = sum(diaries[name].state_bytes for name in names)
        values = {
            "sent_bytes_total": sent.get(process, 0),
            "delivered_bytes_total": got,
            "state_bytes_total": states,
        }
        trace.tell(numbers[names[-1]], len(diaries[names[-1]].rows), values, now)
