"""What the rows of one run and group say by themselves, before anything is put in order.

Everything here can be read off a trace without happens-before: which messages were sent and to
which nodes, which lie before the trace, which are void for which nodes, what a frontier stands for, and which
operations a message brings. The replay and the verdicts ask these questions often; answering them
in one place keeps both plain.
"""

from collections.abc import Iterable

from thence.core.errors import TraceError
from thence.trace.schema import CHANNEL_KINDS, COUNTING_KINDS, Dot, Event

STATE_KINDS = ("install", "restart")
FRONTIER_KINDS = (*STATE_KINDS, "subscribe")
"""Rows whose `deps` are the frontier of a state."""


def dot_key(dot: Dot) -> tuple[str, int]:
    return (dot.origin, dot.seq)


def dot_of(row: Event) -> Dot:
    """The message that a row is about; a row that needs one and has none cannot be judged."""
    if row.origin is None or row.seq is None or row.seq < 0:
        raise TraceError(f"{_place(row)}: a {row.kind} row that names no message")
    return Dot(row.origin, row.seq)


def _place(row: Event) -> str:
    return f"run {row.run!r} group {row.group!r} node {row.node!r} pos {row.pos}"


def entries_of(row: Event) -> list[Dot]:
    """The entries of `deps` that say something: a counter of 0 stands for no message."""
    return [entry for entry in row.deps or [] if entry.seq != 0]


def first_state_row(rows: list[Event]) -> Event | None:
    """The install or restart with which a node enters the trace, if it enters with one."""
    for row in rows:
        if row.kind in STATE_KINDS:
            return row
        if row.kind != "start":
            return None
    return None


class Facts:
    """The rows per node in their order, and what follows from them alone."""

    def __init__(self, rows: Iterable[Event]) -> None:
        self.rows: dict[str, list[Event]] = {}
        self._process: dict[str, str] = {}
        self._incarnation: dict[str, int] = {}
        for row in sorted(rows, key=lambda row: (row.node, row.pos)):
            self._who_is(row)
            if row.kind in COUNTING_KINDS:
                self.rows.setdefault(row.node, []).append(row)
            if row.kind in CHANNEL_KINDS and not row.channel:
                raise TraceError(f"{_place(row)}: a {row.kind} row that names no channel")
        every_row = [row for rows_of_node in self.rows.values() for row in rows_of_node]
        self.first_send = self._first_sends(every_row)
        self._before_up_to = self._reach_before_the_trace()
        self._changes = self._changes_of_channels(every_row)
        self.evictions = {(row.node, dot_of(row)) for row in every_row if row.kind == "evict"}

    def _who_is(self, row: Event) -> None:
        """One row that says so is enough; two that differ are an error."""
        if row.process is not None and self._process.setdefault(row.node, row.process) != row.process:
            raise TraceError(f"{_place(row)}: another process than in an earlier row")
        number = row.incarnation
        if number is not None and self._incarnation.setdefault(row.node, number) != number:
            raise TraceError(f"{_place(row)}: another incarnation than in an earlier row")

    @staticmethod
    def _first_sends(every_row: list[Event]) -> dict[Dot, Event]:
        first: dict[Dot, Event] = {}
        for row in sorted(every_row, key=lambda row: (row.pos, row.node)):
            if row.kind == "send":
                first.setdefault(dot_of(row), row)
        return first

    @staticmethod
    def _changes_of_channels(every_row: list[Event]) -> dict[tuple[str, str], list[tuple[int, bool]]]:
        """By node and channel: from which positions on the node is a member, and is not."""
        changes: dict[tuple[str, str], list[tuple[int, bool]]] = {}
        for row in every_row:
            if row.kind in CHANNEL_KINDS and row.channel:
                change = row.pos, row.kind == "subscribe"
                changes.setdefault((row.node, row.channel), []).append(change)
        return changes

    def channel(self, dot: Dot) -> str:
        """That a sent message is addressed to; empty: none."""
        return self.first_send[dot].channel or ""

    def subscribed(self, node: str, channel: str, pos: int | None) -> bool:
        """Is it a member of a channel at one of its rows, or at the end?"""
        changes = self._changes.get((node, channel), [])
        return any([inside for at, inside in changes if pos is None or at <= pos][-1:])

    def _reach_before_the_trace(self) -> dict[str, int]:
        reach: dict[str, int] = {}
        for rows in self.rows.values():
            first = first_state_row(rows)
            for entry in entries_of(first) if first else []:
                if not self.sent(entry):
                    reach[entry.origin] = max(entry.seq, reach.get(entry.origin, 0))
        return reach

    def sent(self, dot: Dot) -> bool:
        return dot in self.first_send

    def before_trace(self, dot: Dot) -> bool:
        return not self.sent(dot) and dot.seq <= self._before_up_to.get(dot.origin, -1)

    def addressed(self, dot: Dot, node: str, pos: int | None) -> bool:
        """At one of the node's rows, or at the end (None)?"""
        if channel := self.channel(dot):
            return node == dot.origin or self.subscribed(node, channel, pos)
        dest = self.first_send[dot].dest
        return not dest or node in dest or node == dot.origin

    def void(self, dot: Dot, node: str) -> bool:
        return any(
            at == node and cut.origin == dot.origin and dot.seq > cut.seq for at, cut in self.evictions
        )

    def parted(self, one: str, other: str) -> bool:
        """Did one of the two evict the other?"""
        return any((at, cut.origin) in ((one, other), (other, one)) for at, cut in self.evictions)

    def unsent(self, row: Event) -> bool:
        """Is this deliver or stable row about something that the node could not have got?"""
        dot = dot_of(row)
        return not self.sent(dot) or not self.addressed(dot, row.node, row.pos) or self.void(dot, row.node)

    def names(self, row: Event) -> set[Dot]:
        """The sent messages that a deliver, install, restart or subscribe row says the node has from here on.

        A frontier entry that no node sent stands for the sends of its origin up to its counter; one
        from before the trace stands for nothing that the trace knows.
        """
        if row.kind == "deliver":
            return {dot_of(row)} & self.first_send.keys()
        if row.kind not in FRONTIER_KINDS:
            return set()
        named: set[Dot] = set()
        for entry in entries_of(row):
            if self.sent(entry):
                named.add(entry)
            elif not self.before_trace(entry):
                named |= {d for d in self.first_send if d.origin == entry.origin and d.seq <= entry.seq}
        return named

    def brings(self, dot: Dot) -> set[Dot]:
        """The operations that come with a sent message; those from before the trace come to no node."""
        carried = self.first_send[dot].carries
        if not carried:
            return {dot}
        return {entry for entry in carried if entry.seq != 0 and not self.before_trace(entry)}

    def process(self, operation: Dot) -> str:
        return self._process.get(operation.origin, operation.origin)

    def program_key(self, operation: Dot) -> tuple[int, int]:
        """Where an operation stands in its process's program."""
        return (self._incarnation.get(operation.origin, 1), operation.seq)

    def left(self, node: str) -> bool:
        return any(row.kind == "leave" for row in self.rows[node])

    def down(self, node: str) -> bool:
        return self.rows[node][-1].kind == "crash"
