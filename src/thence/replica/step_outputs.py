"""What a step gives: rows of the trace, and effects for a driver or a simulator to carry out in order.

Docs: docs/protocols/steps.md.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from thence.core.errors import ThenceError
from thence.oplog.log import OpLog
from thence.oplog.policy import DiskSync
from thence.replica.life_tag import Sent

C = TypeVar("C")
"""A call: how its answer finds the caller."""


class TraceSink(Protocol):
    def write(self, data: Any) -> None:
        """`StorageError`: it keeps what it was given, and writes that first the next time."""
        ...


Rows = Sequence[tuple[TraceSink, Any]]


class Trace(Protocol):
    """Rows of the step, as the machine records them."""

    @property
    def waiting(self) -> bool:
        """Some could not be written: they go first."""
        ...

    def take(self) -> Rows:
        """Those of the step, which is committed."""
        ...

    def take_back(self) -> None:
        """The step never happened."""
        ...

    def write_waiting(self) -> None: ...


class Release(Struct, Generic[C], frozen=True):
    """Effect: the outputs of a step may leave, in this order."""

    posts: Sequence[tuple[str, Any]]
    links: Mapping[str, str | None] | None
    events: Sequence[Any]
    answers: Sequence[tuple[C, Sequence[Sent]]]


class RefuseCalls(NamedTuple, Generic[C]):
    """Effect: tell these calls so."""

    calls: Sequence[C]
    error: ThenceError


class BeginSync(NamedTuple):
    """Effect: sync a file of this log, then say `synced` or `sync_failed`."""

    log: OpLog
    sync: DiskSync


class BeginAnew(NamedTuple):
    """Effect: drop every link; make new ones once the process runs again."""

    why: str


class Stop(NamedTuple):
    """Effect: the process must end."""

    why: ThenceError


Effect = Release[C] | RefuseCalls[C] | BeginSync | BeginAnew | Stop
