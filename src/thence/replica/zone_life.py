"""What a process of a topology has been through: everything that happens is written down, and done.

A restart reads what was written, and does it once more in the same way; so nothing is done here that was not
noted first. What follows from it (hops, what the program is given, rows of the trace) follows each time.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from thence.core.codec import Codec
from thence.core.dots import ORIGIN_BITS, STEP
from thence.core.errors import UsageError
from thence.core.groups import Place
from thence.core.message import Message
from thence.core.runs import span_of_payload
from thence.members.operations import Operation
from thence.oplog.log import OpLog
from thence.order.history import Rules
from thence.order.topology import Topology
from thence.replica.group.lifecycle.checkpoints import Checkpoints
from thence.replica.group.surroundings import Application, Applied
from thence.replica.zone_core import Item, ZoneCore, operations_of, origin_of
from thence.replica.zone_journal import (
    Came,
    Closes,
    Happened,
    Own,
    OwnRun,
    Tells,
    Took,
    ZoneHeard,
    ZoneJournal,
)
from thence.trace.recorder import DELIVER, SEND


class ZoneDiary(Protocol):
    """Rows of the process's trace. `dest`: the addressees of a message."""

    def row(
        self,
        kind: int,
        about: Place | None,
        deps: tuple[Place, ...] | None,
        now: int,
        *,
        dest: tuple[str, ...] = (),
        size: int = 0,
    ) -> None: ...


class ZoneLife:
    __slots__ = (
        "_application", "_checkpoints", "_codec", "_diary", "_journal", "_log", "_me", "_rules", "_topology",
        "core", "position", "taken",
    )  # fmt: skip

    def __init__(
        self,
        me: int,
        topology: Topology,
        rules: Rules,
        log: OpLog,
        application: Application,
        diary: ZoneDiary,
    ) -> None:
        """`UsageError`: its log says that it has come to its end, or is of another topology."""
        name = topology.names[me]
        self._me: Final = me
        self._topology: Final = topology
        self._rules: Final = rules
        self._log: Final = log
        self._application: Final = application
        self._diary: Final = diary
        self._codec: Final = Codec(len(topology), False, hops=True, run_span=span_of_payload)
        self._journal: Final = ZoneJournal(log, self._codec)
        if why := self._journal.ended:
            raise UsageError(f"{name} cannot go on: {why}")
        if not self._journal.belongs(topology.digest()):
            raise UsageError(
                f"the data of {name} is of another topology: which processes and zones there are is decided "
                "once, at the first start"
            )
        self._checkpoints: Final = Checkpoints()
        self.position = self.taken = 0
        """Of what happened last; and of what the program took last."""
        self.core = self._fresh_core()
        kept, after = self._journal.read()
        if kept is not None:
            self.core.restore(kept.core)
            application.install(kept.state)
        for position, what in self._journal.happened(after):
            self.position = position
            self._do(what)

    def _fresh_core(self) -> ZoneCore:
        return ZoneCore(self._me, self._topology, self._rules, self._codec)

    # What happens to it

    def happens(self, what: Happened, item: Item | None = None) -> None:
        """`item`: of what came, taken apart."""
        self.position = self._journal.note(what)
        self._do(what, item)

    def close(self, who: int) -> None:
        """For good. What came of it, and of others before it, is passed on to those that may lack it."""
        self.happens(Closes(who))
        self.happens(Tells(tuple(self.core.passes())))
        self._log.insist()

    def end(self, why: str) -> None:
        """It may not go on, ever."""
        self._journal.ends(why)
        self._log.insist()

    def _do(self, what: Happened, item: Item | None = None) -> None:
        core = self.core
        if isinstance(what, Own):
            self._tell_sent(core.submit((what.payload,), what.dest), (what.payload,), what.at)
        elif isinstance(what, OwnRun):
            self._tell_sent(core.submit(what.payloads, what.dest), what.payloads, what.at)
        elif isinstance(what, Came):
            core.came(what.peer, item or core.parse(what.peer, what.item))
        elif isinstance(what, ZoneHeard):
            core.heard(what.peer, what.hops)
        elif isinstance(what, Took):
            self.taken = self.position
            for _ in range(what.messages):
                self._tell_taken(core.took(), what.at)
        elif isinstance(what, Closes):
            core.close(what.who)
        else:
            core.tell(what.passes)

    # What follows, for trace and program

    def _tell_sent(self, message: Message, operations: Sequence[bytes], at: int) -> None:
        names = self._topology.names
        to = message.dest or self._topology.applications  # gateways have no client
        dest = tuple([names[process] for process in to])
        for place, payload in self._each(message, operations):
            self._diary.row(SEND, place, None, at, dest=dest)
            if self._me in to:
                self._apply(place, payload, True)

    def _tell_taken(self, message: Message, at: int) -> None:
        for place, payload in self._each(message, operations_of(message)):
            self._diary.row(DELIVER, place, None, at, size=len(payload))
            self._apply(place, payload, False)

    def _apply(self, place: Place, payload: bytes, own: bool) -> None:
        self._application.apply(Applied(Operation(*place, payload), own, position=self.position))

    def _each(self, message: Message, operations: Sequence[bytes]) -> Iterator[tuple[Place, bytes]]:
        """The operations of a message, each with its name."""
        name, first = self._topology.names[origin_of(message)], (message.before + STEP) >> ORIGIN_BITS
        for seq, payload in enumerate(operations, first):
            yield (name, seq), payload

    # Its log

    @property
    def long(self) -> bool:
        """Is the log to be shortened?"""
        return self._checkpoints.wanted(self._log)

    def shorten(self, now: int) -> None:
        """Write everything down, so that the log may begin here; and go on from what was written, as after a
        restart: hops that became deliverable together come in the same order then."""
        kept = self.core.kept()
        self._journal.keep(kept, self._application.state(), now)
        self._checkpoints.made(self._log)
        self.core = self._fresh_core()
        self.core.restore(kept)
