"""Happens-before, by replaying the rows of all nodes with sets of messages.

Every node keeps two sets. `known` is what happened before its next row: it gives a message its
past when the node sends it. `held` is what the node has: it sent it, delivered it or got it with a
state. They differ, since knowing a message brings its whole past but holding it does not. Of the
operations that came with what it holds it keeps the set, and the latest one of each process.

A row that names messages (deliver, install, restart, subscribe) waits for their sends. If no node can move,
the waiting nodes form circles with trees of others hanging on them. Only the rows on a circle are
then taken as they stand, with nothing in the past of what is not sent yet; the others still wait.
"""

from typing import NamedTuple

from thence.check.facts import FRONTIER_KINDS, Facts, dot_key, dot_of
from thence.trace.schema import Dot, Event

NOTHING: frozenset[Dot] = frozenset()


class ReplayStep(NamedTuple):
    """A deliver or stable row at the moment when the node came to it."""

    row: Event
    held: bool
    """Did the node hold the message already?"""
    past: frozenset[Dot]
    """Of a deliver row: the message's past, as far as this row may rely on it."""
    lacking: frozenset[Dot]
    """The part of `past` that the node did not hold."""
    circular: bool
    overtaken: tuple[tuple[Dot, Dot], ...]
    """Of a deliver row: the operations that it brings although the node has a later one of that process, and
    the last one that it has."""


class _Node:
    def __init__(self, rows: list[Event]) -> None:
        self.rows = rows
        self.next = 0
        self.held: set[Dot] = set()
        self.known: set[Dot] = set()
        self.operations: set[Dot] = set()
        self.latest: dict[str, Dot] = {}
        self.unclear = False  # took a row out of a circle since its last restart

    def done(self) -> bool:
        return self.next == len(self.rows)


class Replay:
    """The outcome: `pasts` of all sent messages, `steps` per node, what is `held` at the end.

    `unclear` are messages sent after a row on a circle: neither their past can be worked out nor
    that of anything which has one of them in its past.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._nodes = {name: _Node(rows) for name, rows in facts.rows.items()}
        self.pasts: dict[Dot, frozenset[Dot]] = {}
        self.unclear: set[Dot] = set()
        self.steps: dict[str, list[ReplayStep]] = {name: [] for name in facts.rows}
        self._run()

    def held_at_end(self, node: str) -> set[Dot]:
        return self._nodes[node].held

    def _run(self) -> None:
        while not all(node.done() for node in self._nodes.values()):
            moved = False
            for node in self._nodes.values():
                while not node.done() and not self._missing(node):
                    self._take(node, circular=False)
                    moved = True
            if not moved:
                for name in self._on_circles():
                    self._take(self._nodes[name], circular=True)

    def _missing(self, node: _Node) -> set[Dot]:
        return {dot for dot in self._facts.names(node.rows[node.next]) if dot not in self.pasts}

    def _on_circles(self) -> list[str]:
        """Following one wait per node for as many hops as there are nodes ends on a circle, from
        anywhere; and every place on a circle is reached from some place on it."""
        waits_for = {
            name: self._facts.first_send[min(self._missing(node), key=dot_key)].node
            for name, node in self._nodes.items()
            if not node.done()
        }
        reached = set(waits_for)
        for _ in range(len(waits_for)):
            reached = {waits_for[name] for name in reached}
        return sorted(reached)

    def _take(self, node: _Node, circular: bool) -> None:
        row = node.rows[node.next]
        node.next += 1
        if row.kind == "restart":
            node.held.clear()
            node.known.clear()
            node.operations.clear()
            node.latest.clear()
            node.unclear = False
        node.unclear = node.unclear or circular
        if row.kind == "send":
            self._send(node, row)
        elif row.kind == "stable":
            self._note(node, row, NOTHING, circular=False)
        elif row.kind == "deliver":
            self._deliver(node, row, circular)
        elif row.kind == "unsubscribe":
            kept = {dot for dot in node.held if not self._is_of(dot, row) or dot.origin == row.node}
            node.held, node.operations, node.latest = set(), set(), {}
            self._hold(node, kept)
        elif row.kind in FRONTIER_KINDS:
            for dot in self._facts.names(row):
                state = {dot} | self.pasts.get(dot, NOTHING)
                self._hold(node, {part for part in state if self._is_in(part, row)})
                node.known |= state

    def _is_of(self, dot: Dot, row: Event) -> bool:
        return self._facts.channel(dot) == row.channel

    def _is_in(self, dot: Dot, row: Event) -> bool:
        """Has a node this message by a state that it gets? Of channels, if it is subscribed to them then."""
        if row.kind == "subscribe":
            return self._is_of(dot, row)
        return not self._facts.channel(dot) or self._facts.addressed(dot, row.node, row.pos)

    def _send(self, node: _Node, row: Event) -> None:
        dot = dot_of(row)
        if self._facts.first_send[dot] is row:
            self.pasts[dot] = frozenset(node.known - {dot})
            if node.unclear:
                self.unclear.add(dot)
        self._hold(node, {dot})
        node.known.add(dot)

    def _deliver(self, node: _Node, row: Event, circular: bool) -> None:
        dot = dot_of(row)
        if not self._facts.sent(dot):
            return
        past = self.pasts.get(dot, NOTHING)
        self._note(node, row, past, circular)
        self._hold(node, {dot})
        node.known |= {dot} | past

    def _hold(self, node: _Node, dots: set[Dot]) -> None:
        facts = self._facts
        for dot in dots - node.held:
            for operation in facts.brings(dot):
                process = facts.process(operation)
                node.operations.add(operation)
                last = node.latest.setdefault(process, operation)
                if facts.program_key(operation) > facts.program_key(last):
                    node.latest[process] = operation
        node.held |= dots

    def _note(self, node: _Node, row: Event, past: frozenset[Dot], circular: bool) -> None:
        held = dot_of(row) in node.held
        overtaken = self._overtaken(node, dot_of(row)) if row.kind == "deliver" and not held else ()
        self.steps[row.node].append(ReplayStep(row, held, past, past - node.held, circular, overtaken))

    def _overtaken(self, node: _Node, dot: Dot) -> tuple[tuple[Dot, Dot], ...]:
        facts = self._facts
        brought = sorted(facts.brings(dot) - node.operations, key=facts.program_key)
        latest = ((operation, node.latest.get(facts.process(operation))) for operation in brought)
        return tuple(
            [
                (operation, last)
                for operation, last in latest
                if last is not None and facts.program_key(operation) < facts.program_key(last)
            ]
        )
