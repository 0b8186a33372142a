"""A store as it was when its node had delivered an operation: from a copy of the data folder, without a node.

What a node has delivered is in its log in an order in which no effect comes before its causes, so that the
operations up to any one of them are a state that the store had, whole. It goes back to the oldest checkpoint
that the log keeps, and the first operation after that.
"""

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from thence.core.errors import ApplicationError, StorageError, UsageError
from thence.core.groups import Place
from thence.oplog.reading import OutOfReachError
from thence.oplog.segment import SNAPSHOT, position_of
from thence.oplog.settings import LogSettings
from thence.oplog.snapshots import read_snapshot
from thence.replica.events import Delivered
from thence.replica.group.ledger.state import drained
from thence.replica.group.process.node import GroupNode
from thence.replica.group.settings import GroupSettings, Order
from thence.replica.group.surroundings import Applied, OperationRun
from thence.replica.life_tag import LifeTag
from thence.runtime.files import DiskFiles
from thence.runtime.folder import BESIDE, LOCK, OPLOG, DataFolder
from thence.runtime.incarnations import IncarnationStore, logs_in, read_written
from thence.runtime.store_node import StoreProgram
from thence.runtime.trace_files import TraceWriters
from thence.store.replicated import ReplicatedStore
from thence.store.state import StoreState

Clock = dict[str, int]
"""By incarnation, how many of its messages."""

COPIES: Final = 5
"""While a node runs, a file of its log may go before it was copied: then all is copied once more."""


class UpTo(StoreProgram):
    """Takes operations up to this one."""

    def __init__(self, state: StoreState, place: Place) -> None:
        super().__init__(ReplicatedStore(state), lambda _: None)
        self._place: Final = place
        self.found = False

    def apply(self, one: Applied) -> None:
        if not self.found:
            super().apply(one)
            self.found = (one.operation.origin, one.operation.seq) == self._place

    def deliver(self, event: Delivered, own: bool) -> None:
        if not self.found:
            super().deliver(event, own)
            self.found = (event.origin, event.seq) == self._place

    def apply_run(self, run: OperationRun) -> None:
        if self.found:
            return
        origin, seq = self._place
        if origin == run.origin and run.first <= seq < run.first + len(run.payloads):
            run = run._replace(payloads=run.payloads[: seq - run.first + 1])
            self.found = True
        super().apply_run(run)

    def stable(self, found: Sequence[LifeTag]) -> None:
        if not self.found:
            super().stable(found)


def store_at(data: Path, place: Place, order: Order) -> StoreState:
    """The data folder may be in use."""
    try:
        written = read_written(data)
    except StorageError as error:
        raise UsageError(f"{data}: {error}") from error
    if written is None or written.order:
        raise UsageError(f"{data} is no data folder of a node that has a store")
    try:
        return _replayed(data, place, order, remove_wins=False)
    except ApplicationError as error:
        if "set-wins" not in str(error):
            raise UsageError(f"{data}: {error}") from error
    return _replayed(data, place, order, remove_wins=True)


def _replayed(data: Path, place: Place, order: Order, remove_wins: bool) -> StoreState:
    """From the newest checkpoint that the operation is not in; what comes after one is in the log."""
    oldest: Clock | None = None
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "data"
        _copied(data, copy)
        try:
            for clock in _clocks(copy):
                if place[1] > clock.get(place[0], 0):
                    state = _from_newest(copy, place, order, remove_wins)
                    if state is not None:
                        return state
                oldest = clock
        except (StorageError, OutOfReachError) as error:
            if oldest is None:
                raise UsageError(f"{data}: {error}") from error
            # an older checkpoint is damaged, or what follows it is not all there any more
    raise UsageError(_why_not(oldest or {}, place))


def _copied(data: Path, copy: Path) -> None:
    for attempt in range(1, COPIES + 1):
        try:
            shutil.copytree(data, copy, ignore=shutil.ignore_patterns(LOCK, *BESIDE))
        except OSError as error:
            shutil.rmtree(copy, ignore_errors=True)
            if attempt == COPIES:
                raise UsageError(f"{data} cannot be copied: {error}") from error
        else:
            return


def _clocks(copy: Path) -> Iterator[Clock]:
    """What each checkpoint has, newest first. It is the newest one while it is looked at."""
    for number in logs_in(copy)[-1:]:
        where = copy / OPLOG / str(number)
        for path in sorted(where.glob(f"*{SNAPSHOT}"), reverse=True):
            with DiskFiles(where) as files:
                clock = dict(read_snapshot(files, position_of(path.name, SNAPSHOT) or 0).clock)
            yield clock
            path.unlink()


def _from_newest(copy: Path, place: Place, order: Order, remove_wins: bool) -> StoreState | None:
    """None: the operation is not among those that follow the newest checkpoint."""
    now = time.time_ns() // 1000
    with DataFolder(copy) as folder:
        written = read_written(copy)
        assert written is not None
        shelf = IncarnationStore(folder, written.process, written.cluster, LogSettings(), order=None)
        state = StoreState(f"{written.process}~0", remove_wins)
        program, diaries = UpTo(state, place), TraceWriters(None, 0, "")
        machine = GroupNode(
            written.process, shelf, program, diaries, (), GroupSettings(order=order), now, recovers=False
        )
        program.recovering(True)
        try:
            drained(machine.recovering(now, forgetful=False))
        finally:
            program.recovering(False)
            shelf.close(in_order=False)
        return state if program.found else None


def _why_not(oldest: Clock, place: Place) -> str:
    origin, seq = place
    if seq > oldest.get(origin, 0):
        return f"{origin}:{seq} was not delivered here"
    reach = ", ".join(f"{name}:{count}" for name, count in sorted(oldest.items()) if count)
    return f"{origin}:{seq} is older than what the log holds one by one, which follows {reach}"
