"""The state of a member, for a joiner or for itself, and its bytes: rule 10 of docs/protocols/membership.md.

Where a member was away for long, a state holds tens of thousands of messages. What it says is fixed in the
step that lets a joiner in, and that step copies only what is as small as the membership. The long lists are
read from the log, which is only added to and is not collected while a joiner is waited for, so a reader that
was begun in that step finds the same however much is delivered meanwhile. Each later step encodes as much as
its allowance lets it (`Making`).

A joiner believes its contact about what happened, not that it can count: a state that contradicts itself
would break the joiner much later, so `check_state` refuses it.
"""

from bisect import bisect_right
from collections.abc import Generator, Iterator
from itertools import islice

from thence.core.errors import PeerError
from thence.core.groups import ALL, Extent, NamedMessage, Place
from thence.core.runs import span_of_payload
from thence.members.group import GroupView
from thence.members.operations import Operations
from thence.members.spans import Spans
from thence.replica.group.ledger.backlog import KILOBYTE_BITS, Allowance
from thence.replica.group.ledger.ledger import Ledger
from thence.replica.group.ledger.state import MemberState, Read, Sources, drained
from thence.replica.group.ledger.state_codec import Encoded
from thence.replica.group.surroundings import Application, GivesChunks
from thence.replica.group.transfer.carrying import stable_operations
from thence.replica.group.transfer.reading import Missed, Reading, handed_over


def state_of(
    ledger: Ledger,
    view: GroupView,
    operations: Operations,
    reading: Reading,
    application: Application,
    joins: bool,
    extent: Extent | None,
    forgetful: bool,
) -> tuple[MemberState, Sources]:
    """As it is now, for a reader that comes later: nothing of it changes with the member. What is as long as
    the log is in the sources only. `joins`: for joiners, all that are in the view. Else for the member
    itself: then what is in its log is left out. `extent`: how far the program of the joiner has come, if that
    was a member before and has no state; `forgetful`: and had more then."""
    me = ledger.me
    rows = {name: ledger.row(name) for name in sorted(view.view - {me})}
    rows[me] = ledger.vector()
    missed: Missed = (iter(()), ())
    if extent:
        missed = handed_over(ledger, operations, reading, extent, forgetful)
    history, lost = missed
    unstable = _unstable(ledger, ledger.written(ledger.stables())) if joins else iter(())
    retained = stable_operations(ledger, operations) if joins else iter(())
    floor = dict(zip(ledger.names, ledger.retain_from, strict=True))
    told = {name: count for name, count in floor.items() if count and name not in ledger.past}
    state = MemberState(
        counts=ledger.vector(),
        stable={name: stable for name in ledger.spoken() if (stable := ledger.stable(name))},
        context=ledger.frontier(),
        table=ledger.table(),
        view=set(view.view),
        suspects=set(view.suspects),
        gone=dict(view.gone),
        departing=dict(view.departing),
        flushed={name: set(flushed) for name, flushed in view.flushed.items()},
        addresses=dict(view.addresses),
        closing=dict(view.closing),
        closed=tuple(view.closed),
        past=tuple(view.past),
        spent=tuple(view.spent),
        unknown=set(view.strangers),
        abandoned=set(view.abandoned),
        rows=rows,
        retained=[] if joins else list(operations.inherited),
        floor={} if joins else floor,
        carried={} if joins else dict.fromkeys(operations.listed),
        starts=dict(ledger.timelines.starts),
        branches=dict(ledger.timelines.branches),
        had=ledger.told_had(),
        reach=told if joins and not operations.inherited else reading.reach,
        lost=lost,
        holders=tuple(sorted(view.side)) if lost else (),
    )
    listed = operations.listed
    carried = ((place, 0) for place in islice(listed, len(listed) if joins else 0))
    return state, Sources(_made(application), unstable, retained, history, carried)


def _made(application: Application) -> Iterator[bytes]:
    if isinstance(application, GivesChunks):
        return application.state_chunks()
    return iter((application.state(),))


def _unstable(ledger: Ledger, written: Iterator[tuple[int, bytes]]) -> Iterator[Read[NamedMessage]]:
    """What was delivered and is not stable, in the order of delivery."""
    for dot, data in written:
        yield ledger.named(ledger.read(dot, data)), len(data)


def at_once(state: MemberState, sources: Sources) -> MemberState:
    """A state with everything that it holds in it."""
    state.application = b"".join(sources.application)
    state.log = [named for named, _ in sources.log if named]
    state.retained = [operation for operation, _ in sources.retained if operation]
    state.history = [operation for operation, _ in sources.history if operation]
    state.carried = {place: None for place, _ in sources.carried if place}
    return state


def check_state(state: MemberState, joiner: str) -> None:
    drained(checking(state, joiner))


def checking(state: MemberState, joiner: str) -> Generator[int, None, None]:
    """`PeerError` unless this can be the state of a member that has let `joiner` in."""
    if joiner not in state.view:
        raise PeerError(f"a state for {joiner} in which it is no member")
    past, reached = Spans(state.past), dict(state.stable)
    for message in state.log:
        _check_context(message.context, reached, past)
        before = reached.get(message.origin, 0)
        if message.seq - span_of_payload(message.payload) != before:
            raise PeerError(f"a state with {message.origin}:{message.seq} after {before} of its messages")
        reached[message.origin] = message.seq
        yield 0
    counts = {name: count for name, count in state.counts.items() if count}
    if counts != {name: count for name, count in reached.items() if count} or any(
        count >= ALL for count in counts.values()
    ):
        raise PeerError("a state that does not hold what it counts")
    _check_context(state.context, reached, past)
    if endless := [name for name in state.starts if name in past and name not in state.branches]:
        raise PeerError(f"a state that does not tell where the messages of {endless[0]} end")


def _check_context(context: tuple[Place, ...], reached: dict[str, int], past: Spans) -> None:
    names = [name for name, _ in context]
    if len(set(names)) != len(names):
        raise PeerError("a context that names an origin twice")
    for name, seq in context:
        if seq > reached.get(name, 0) and name not in past:
            raise PeerError(f"a context with {name}:{seq}, before that message")


class Making:
    """A state that is encoded in steps, and then read in pieces."""

    __slots__ = ("_parts", "_rest", "_starts", "size", "transfer")

    def __init__(self, rest: Generator[int, None, Encoded]) -> None:
        """`rest` yields the bytes that each item has cost."""
        self._rest: Generator[int, None, Encoded] | None = rest
        self._parts: list[bytes] = []
        self._starts: list[int] = []
        self.size = 0
        """In bytes; as far as it is known, while it is in the making."""
        self.transfer = 0
        """Named after the contents, once they are known."""

    @property
    def whole(self) -> bool:
        return self._rest is None

    def go_on(self, allowance: Allowance) -> None:
        """Encode as much as is allowed."""
        if self._rest is None:
            return
        try:
            while allowance.left > 0:
                cost = next(self._rest)
                self.size += cost
                allowance.left -= 1 + (cost >> KILOBYTE_BITS)
        except StopIteration as end:
            self._rest = None
            self._finish(end.value)

    def _finish(self, made: Encoded) -> None:
        self._parts, self.size = made.parts, 0
        for part in made.parts:
            self._starts.append(self.size)
            self.size += len(part)
        self.transfer = made.sum << 24 | self.size & 0xFFFFFF

    def read(self, first: int, size: int) -> bytes:
        """So many bytes from one on, or as many as there are."""
        at, found, end = bisect_right(self._starts, first) - 1, [], min(first + size, self.size)
        while first < end:
            offset = first - self._starts[at]
            found.append(memoryview(self._parts[at])[offset : offset + end - first])
            first += len(found[-1])
            at += 1
        return b"".join(found)
