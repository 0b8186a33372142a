"""A small, obvious oracle over a trace in memory: the verdicts of docs/TRACES.md, word by word.

It exists so that the distributed pipeline has something to be compared with, and so that tests of
protocols can judge a run without Spark. It therefore avoids everything clever: pasts and holdings
are sets of messages, every verdict is a loop over rows, and quadratic cost is accepted.

Readings, where the definitions leave room:

- Only counting rows make a run or a node: a (run, group) with nothing but metric rows is not listed.
  Metric rows still must not repeat a (node, pos).
- Of several send rows of one dot the first by (pos, node) gives the past and the addressees. A later
  one makes its node hold and know the message, but not the past that the first one gave it. No
  message is in its own past, not even through a circle.
- A message's sender is its origin, also where another node wrote the send row: the origin is always
  addressed, and "not sent by j" looks at the origin. The previous counter and the previous send are
  those of the node's previous send row, whatever its origin.
- Void is what any of the node's evict rows puts after its cut, so the lowest cut decides.
- Before the trace lies a message without a send row whose counter reaches at most the largest that
  an entry without a send row has in the first state row of some node. It takes part in nothing.
- A frontier that lists the same unsent entry twice counts it twice. An unsent entry stands for, and
  waits for, every send of its origin up to its counter.
- A node that left counts as a holder until its last row is a crash. Void messages cannot be lost but
  can be missed.
- A message brings its operations all at once, and those of its first send: in which order it lists them
  says nothing. One that the node holds already, by whatever message, is not got again. An operation needs
  no send row; if its origin has no rows, its process is that name and its incarnation 1. An entry with the
  counter 0 is no operation, one from before the trace is neither got nor held, and a message that carries
  only such ones brings nothing. Of two operations in the same place of a program neither is the later.
- A state that comes with a `subscribe` row orders like one of an `install`: the node knows its past, whatever
  channels that is in, and holds of it what is in this channel. A second `subscribe` adds to what is held. Of
  channels, an `install` or `restart` gives a node what it is subscribed to at that row. An `unsubscribe`
  forgets nothing that the node sent itself. Being subscribed outlives a restart.
- Any row of a node, also one for metrics, says which process and incarnation it is, and one is enough.
- A delivery taken out of a circle has nothing in its past, also where `unstable` asks; other
  deliveries of the same message have the past that its send turns out to have.
- A tag is judged against the past of the message, hence for a repeated dot against the first send's.
  Right after a restart the previous send is the largest own entry of the frontier, if that was sent.
  An entry of the tag that no node sent and that is not from before the trace makes the tag wrong; one
  from before the trace, or a previous send from there, makes the row be passed over.
"""

from collections.abc import Iterable, Iterator

import msgspec

from thence.check.facts import FRONTIER_KINDS, Facts, dot_key, dot_of, entries_of, first_state_row
from thence.check.replay import Replay
from thence.core.errors import TraceError
from thence.trace.schema import VERDICTS, Dot, Event


class Flag(msgspec.Struct, frozen=True):
    """One violation: the row it counts, or for `lost` the node that lacks the message."""

    verdict: str
    node: str
    pos: int | None
    message: str
    overtaken: tuple[tuple[Dot, Dot], ...] = ()
    """Of `program`: the operations that came late, and the last one of their process that the node had."""


class RunVerdict(msgspec.Struct, frozen=True):
    """What one run and group amounts to: rows by kind, violations by verdict, and each of them."""

    run: str
    group: str
    nodes: int
    sends: int
    deliveries: int
    stables: int
    violations: dict[str, int]
    flagged: tuple[Flag, ...]

    @property
    def ok(self) -> bool:
        return not self.flagged


def judge(events: Iterable[Event]) -> list[RunVerdict]:
    """One verdict per (run, group) that has a counting row, sorted."""
    seen: set[tuple[str, str, str, int]] = set()
    apart: dict[tuple[str, str], list[Event]] = {}
    for row in events:
        place = (row.run, row.group, row.node, row.pos)
        if place in seen:
            raise TraceError(
                f"run {row.run!r} group {row.group!r}: node {row.node!r} has pos {row.pos} twice"
            )
        seen.add(place)
        apart.setdefault((row.run, row.group), []).append(row)
    verdicts = (_judge_run(run, group, apart[run, group]) for run, group in sorted(apart))
    return [verdict for verdict in verdicts if verdict.nodes]


def _judge_run(run: str, group: str, rows: list[Event]) -> RunVerdict:
    facts = Facts(rows)
    replay = Replay(facts)
    flags = [
        *_deliveries(facts, replay),
        *_stables(facts, replay),
        *_unsent_frontiers(facts),
        *_gaps(facts),
        *_lost(facts, replay),
        *_tags(facts, replay),
    ]
    flags.sort(key=lambda flag: (flag.verdict, flag.node, -1 if flag.pos is None else flag.pos, flag.message))
    kinds = [row.kind for row in rows]
    return RunVerdict(
        run=run,
        group=group,
        nodes=len(facts.rows),
        sends=kinds.count("send"),
        deliveries=kinds.count("deliver"),
        stables=kinds.count("stable"),
        violations={verdict: sum(flag.verdict == verdict for flag in flags) for verdict in VERDICTS},
        flagged=tuple(flags),
    )


def _flag(verdict: str, row: Event, dot: Dot | None = None) -> Flag:
    return Flag(verdict, row.node, row.pos, str(dot or dot_of(row)))


def _deliveries(facts: Facts, replay: Replay) -> Iterator[Flag]:
    """`order`, `duplicate`, and the deliver rows of `unsent`: at most one of them per row. `program`."""
    for node, rows in facts.rows.items():
        for row in rows:
            if row.kind == "deliver" and not facts.before_trace(dot_of(row)) and facts.unsent(row):
                yield _flag("unsent", row)
        for step in replay.steps[node]:
            if step.row.kind != "deliver" or facts.unsent(step.row):
                continue
            missed = [p for p in step.lacking if facts.addressed(p, node, step.row.pos) and p.origin != node]
            if step.held:
                yield _flag("duplicate", step.row)
            elif missed or step.circular:
                yield _flag("order", step.row)
            if step.overtaken:
                found = _flag("program", step.row)
                yield msgspec.structs.replace(found, overtaken=step.overtaken)


def _stables(facts: Facts, replay: Replay) -> Iterator[Flag]:
    """`unstable`, and the stable rows of `unsent`."""
    for steps in replay.steps.values():
        for index, step in enumerate(steps):
            dot = dot_of(step.row)
            if step.row.kind != "stable" or facts.before_trace(dot):
                continue
            later = [s for s in steps[index + 1 :] if s.row.kind == "deliver" and not facts.unsent(s.row)]
            if facts.unsent(step.row):
                yield _flag("unsent", step.row)
            elif not step.held or any(dot != dot_of(s.row) and dot not in s.past for s in later):
                yield _flag("unstable", step.row)


def _unsent_frontiers(facts: Facts) -> Iterator[Flag]:
    for rows in facts.rows.values():
        for row in rows:
            for entry in entries_of(row) if row.kind in FRONTIER_KINDS else []:
                if not facts.sent(entry) and not facts.before_trace(entry):
                    yield _flag("unsent", row, entry)


def _own_entry(row: Event) -> Dot | None:
    own = [entry for entry in entries_of(row) if entry.origin == row.node]
    return max(own, key=dot_key, default=None)


def _gaps(facts: Facts) -> Iterator[Flag]:
    for node, rows in facts.rows.items():
        first = first_state_row(rows)
        own = _own_entry(first) if first else None
        previous = own.seq if own else 0
        for row in rows:
            if row.kind != "send":
                continue
            dot = dot_of(row)
            if dot.seq != previous + 1 or dot.origin != node or facts.first_send[dot] is not row:
                yield _flag("gap", row)
            previous = dot.seq


def _lost(facts: Facts, replay: Replay) -> Iterator[Flag]:
    holders = [node for node in facts.rows if not facts.down(node)]
    for node in holders:
        if facts.left(node):
            continue
        sources = [other for other in holders if not facts.parted(node, other)]
        within_reach = set().union(*(replay.held_at_end(other) for other in sources))
        for dot in within_reach - replay.held_at_end(node):
            if facts.addressed(dot, node, None) and not facts.void(dot, node):
                yield Flag("lost", node, None, str(dot))


def _tags(facts: Facts, replay: Replay) -> Iterator[Flag]:
    for rows in facts.rows.values():
        first = first_state_row(rows)
        previous: Dot | None = None
        for row in rows:
            if row.kind == "restart" or row is first:
                previous = _previous_by_state(facts, row)
            elif row.kind == "send":
                if _tag_is_wrong(facts, replay, row, previous):
                    yield _flag("tag", row)
                previous = dot_of(row)


def _previous_by_state(facts: Facts, row: Event) -> Dot | None:
    """The previous send of a node that comes back, or comes into the trace, with a state."""
    own = _own_entry(row)
    if own and (facts.before_trace(own) or (row.kind == "restart" and facts.sent(own))):
        return own
    return None


def _tag_is_wrong(facts: Facts, replay: Replay, row: Event, previous: Dot | None) -> bool:
    dot = dot_of(row)
    past = replay.pasts[dot]
    spelled_by = entries_of(row) + ([previous] if previous else [])
    unclear = dot in replay.unclear or not replay.unclear.isdisjoint(past)
    if row.deps is None or unclear or any(facts.before_trace(entry) for entry in spelled_by):
        return False
    if not all(facts.sent(entry) for entry in spelled_by):
        return True
    spelled: set[Dot] = set()
    for entry in spelled_by:
        spelled |= {entry} | replay.pasts[entry]
    return spelled != past
