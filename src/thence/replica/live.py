"""The replica that a live node runs, by names: what `runtime` needs of engines and spreads."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from thence.core.codec import Codec
from thence.core.errors import UsageError
from thence.core.message import Message
from thence.oplog.log import OpLog
from thence.order.engines import ENGINES, engine
from thence.order.herald import HeraldSettings
from thence.replica.durable import INBOX_MAX, DurableReplica
from thence.replica.history import LogHistory
from thence.spread.sessions import SessionMesh, SessionSettings
from thence.trace.recorder import Recorder

__all__ = ["DURABLE", "HeraldSettings", "Live", "LiveSettings", "SessionSettings", "live"]

DURABLE = tuple([name for name, kind in ENGINES.items() if kind.prompt and kind.witness is not None])
"""Engines whose messages are written down as they were tagged."""


SWEEP_EVERY = 256
"""The driver looks for what is stable every few milliseconds; this is for when there is much in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSettings:
    order: str = "graph"
    spread: str = "mesh"
    sessions: SessionSettings
    herald: HeraldSettings
    stability: bool = True
    inbox_max: int = INBOX_MAX
    recovering: bool = False
    """The log may lack messages that this node has sent: see `spread/sessions.py`."""


class Live(NamedTuple):
    """One node's replica, and what its driver needs beside it."""

    replica: DurableReplica
    mesh: SessionMesh
    codec: Codec
    predecessors: Callable[[Message], tuple[int, ...] | None]


def live(
    me: int, size: int, settings: LiveSettings, recorder: Recorder, log: OpLog, taken: int, now: int
) -> Live:
    if settings.order not in DURABLE:
        raise UsageError(f"a live node orders by {' or '.join(DURABLE)}, not {settings.order!r}")
    if settings.spread != "mesh":
        raise UsageError(f"a live node spreads by mesh, not {settings.spread!r}")
    kind = engine(settings.order)
    codec = Codec(size, kind.stamps_are_dots)
    mesh = SessionMesh(me, size, LogHistory(log, codec), settings.sessions, settings.recovering)
    replica = DurableReplica(
        me,
        size,
        kind,
        mesh,
        recorder,
        log,
        taken,
        now,
        settings.stability,
        settings.inbox_max,
        settings.herald,
        SWEEP_EVERY,
    )
    if settings.recovering:
        replica.regain()
    return Live(replica, mesh, codec, kind.predecessors)
