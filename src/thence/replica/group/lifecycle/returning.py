"""What an incarnation begins with: a founder's state, a returner's, a second founder's. Rules 10, 22 and 23
of docs/protocols/membership.md.

Where a member was away for long, a state holds tens of thousands of messages. It is decoded and checked, the
log of the new incarnation is written and its order built up; until then the old incarnation works on. What
that one had and the state lacks can only be told when it does nothing more: from there on it is *silent*, and
what comes for it is kept, should its program be unable to begin from the state and it go on. In the last step
the state is written down and the new incarnation takes its place (`Installing`). Before that there is nothing
on the disk that a restart would find whole: a process that crashes on the way begins anew.

Operations that the group never had are *orphans*. They are sent again, unless the application declines one.
Then what follows from it is not sent again either: no program sees an effect without its cause. Other members
may have what was declined, and bring it; until none can any more, the former incarnation is not closed
(`vague`), as if it had forgotten it.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from thence.core.dots import pack
from thence.core.errors import PeerError
from thence.core.groups import ALL, Lost, Place, Span, number_of, process_of, span_of, told_apart
from thence.core.tag import Tag
from thence.members.attempt import Attempt
from thence.members.extents import Progress
from thence.members.group import Final
from thence.members.operations import Operation
from thence.members.spans import Spans
from thence.members.timelines import Fork, Timelines, fork
from thence.replica.group.ledger.backlog import Allowance
from thence.replica.group.ledger.ledger import Ledger
from thence.replica.group.ledger.state import MemberState, drained
from thence.replica.group.ledger.state_codec import decoding
from thence.replica.group.lifecycle.incarnations import Incarnations, NewIncarnation
from thence.replica.group.member.member import Member
from thence.replica.group.surroundings import Application, Orphan
from thence.replica.group.transfer.carrying import all_operations, operations_in
from thence.replica.group.transfer.handover import checking


class OutdatedError(PeerError):
    """The maker of a state was put back to an earlier one, and does not know."""


class Before(NamedTuple):
    """What runs here, or ran here last."""

    old: Member | None
    leaves: bool
    """It is to leave."""
    forgetful: bool
    """It may have said more than it remembers."""


class Ready(NamedTuple):
    """An incarnation that can begin."""

    begun: NewIncarnation
    state: MemberState
    written: bytes
    old: Member | None
    orphans: list[Orphan]


class Installing:
    __slots__ = ("_rest", "attempt", "silent")

    def __init__(
        self,
        attempt: Attempt,
        lives: Incarnations,
        application: Application,
        before: Callable[[], Before],
        now: int,
    ) -> None:
        self.attempt = attempt
        self.silent = False
        """What ran here before does nothing more."""
        self._rest = self._steps(lives, application, before, now)

    def go_on(self, allowance: Allowance) -> Ready | None:
        """As far as is allowed; the incarnation, if that was all. `PeerError`: no correct peer makes such a
        state."""
        done = allowance.spend_on(self._rest)
        return done[0] if done is not None else None

    def _steps(
        self, lives: Incarnations, application: Application, before: Callable[[], Before], now: int
    ) -> Generator[int, None, Ready]:
        attempt, orphans = self.attempt, list[Orphan]()
        state = yield from decoding(bytes(attempt.buffer))
        yield from checking(state, attempt.joiner)
        begun = yield from lives.beginning(attempt.joiner, state, now)
        old, leaves, forgetful = before()
        if old is not None and is_outdated(state, attempt.bound, old):
            raise OutdatedError(f"{attempt.bound} was put back to an earlier state")
        self.silent = True
        if old is None:
            state.since = attempt.since
        else:
            yield from returning(state, old, leaves, forgetful, application.reads)
            orphans = yield from decided(state, old, application)
            yield from told_exactly(state, old)
        written = yield from lives.writing(begun, state)
        return Ready(begun, state, written, old, orphans)


def founding(me: str, application: bytes, address: str, since: int, others: Mapping[str, str]) -> MemberState:
    """A group of one, or of all that were named. `since`: the first number with which the process had tried
    to join before. `others`: first incarnations, and where they are."""
    view = {me, *others}
    addresses = {**others, me: address}
    table = sorted(view)  # all have the same indices for the same names
    state = MemberState(application, table=table, view=view, addresses=addresses, since=since)
    if since < number_of(me):
        state.closed = ((process_of(me), since, number_of(me) - 1),)
    return state


def returning(
    state: MemberState, old: Member, leaves: bool, forgetful: bool, reads: bool
) -> Generator[int, None, None]:
    """Rule 23: what `old` had and this state lacks goes on in the next incarnation. `forgetful`: it may have
    said more than it remembers. `reads`: its program has no state (33). Yields what each operation has cost,
    in bytes; `old` does nothing meanwhile."""
    forked = any(found for *_, found in _compared(state, old))  # what was stable here need not be there
    state.orphans = yield from _unknown(state, old, forgetful or forked)
    carrying = old.carrying
    state.since, state.must_announce = carrying.since, True
    state.tail_lost = forgetful or (carrying.must_announce and carrying.tail_lost)
    state.settled_before = _ended(state, old)
    state.spent = Spans([*state.spent, *old.view.spent]).all
    state.strangers = _companions(old, forgetful)
    state.leaves = leaves or old.view.leaving > 0
    if reads:
        yield from goes_on(state, old)


def is_outdated(state: MemberState, contact: str, old: Member) -> bool:
    """Was this state made by a member that was put back, or listened to one, and has not noticed yet? It may
    lack what all members had, and what none of them keeps for that reason. On members that are gone there is
    agreement: no member goes back on that, and what the group lacks of them is carried."""
    past = Spans(state.past)
    for name, count, theirs, found in _compared(state, old):
        if name in past or name in state.gone or name == old.me:  # of itself others know better
            continue
        if (name == contact and (found or count > theirs)) or (found and not found.behind):
            return True
    return False


def _compared(state: MemberState, old: Member) -> Iterator[tuple[str, int, int, Fork | None]]:
    """Of each incarnation of which both know starts: how many messages `old` has and how many the state, and
    whether they go on differently."""
    mine, past = old.ledger.timelines, Spans(state.past)
    for name, starts in state.starts.items():
        if name in mine.starts:
            count = old.ledger.count(name)
            count = mine.branches[name] if count == ALL else count
            theirs = state.branches[name] if name in past else state.counts.get(name, 0)
            yield name, count, theirs, fork(mine.starts[name], count, starts, theirs)


def _unknown(state: MemberState, old: Member, astray: bool) -> Generator[int, None, list[Operation]]:
    """What `old` had and the state lacks. Counters that were given twice stand for two operations. `astray`:
    there may be members for which it was not stable here."""
    past, theirs, mine = Spans(state.past), Timelines(state.starts, state.branches), old.ledger.timelines
    found: dict[Place, Operation] = {}
    for op in all_operations(old.ledger, old.operations, astray):
        place = mine.exactly((op.origin, op.seq))
        member, start = told_apart(place[0])
        told = start and (member not in past or theirs.knows(member))  # else counters are all there is
        count = ALL if member in past else state.counts.get(member, 0)
        known = op.seq <= (theirs.reach(member, start, count) if told else count)
        if not (known or place in state.carried):
            found.setdefault(place, op)
        yield len(op.payload)
    return list(found.values())


def told_exactly(state: MemberState, old: Member) -> Generator[int, None, None]:
    """Orphans wait for a while; only then may it be known which timeline of their origin the group has."""
    exactly = old.ledger.timelines.exactly
    for at, op in enumerate(state.orphans):
        state.orphans[at] = replace(op, origin=exactly((op.origin, op.seq))[0])
        yield 0


def refounding(me: str, old: Member, address: str, leaves: bool, reads: bool) -> MemberState:
    """Alone, with what `old` had, and without all that were with it: they are evicted, itself among them."""
    state = old.state()
    for name in sorted(state.view | {old.me}):
        state.gone = state.gone | {name: Final(old.ledger.count(name), True)}
    for name, last in state.departing.items():
        state.gone = state.gone | {name: Final(last, False)}
    state.suspects = state.suspects | state.view | {old.me}
    state.view, state.departing, state.flushed = {me}, {}, {}
    state.rows = {me: dict(state.counts)}
    state.addresses = state.addresses | {me: address}
    state.orphans = list(old.operations.orphans)
    state.leaves = leaves
    state.since, state.must_announce, state.tail_lost = old.carrying.since, True, True
    state.settled_before = old.carrying.settled_before
    state.strangers = _companions(old, forgetful=True)
    if reads:
        drained(goes_on(state, old))
    return state


def goes_on(state: MemberState, old: Member) -> Generator[int, None, None]:
    """From here on `state` says what the program of `old` has missed. Yields what each operation has cost, in
    bytes; `old` does nothing meanwhile."""
    reading, ledger = old.reading, old.ledger
    state.extent = reading.extent(ledger, old.operations)
    progress, timelines = Progress(state.extent), Timelines(state.starts, state.branches)
    came = (
        operation
        for named in state.log
        for operation in operations_in(named[:2], named.payload, named.context)
    )
    known: set[Place] = set()
    """One that was carried may have come as itself, too."""
    missed = []
    for operation in chain(state.history, state.retained, came):
        place = timelines.exactly((operation.origin, operation.seq))
        if place not in known and not progress.covers(place, timelines.exactly):
            missed.append(operation)
        known.add(place)
        yield len(operation.payload)
    lost = [
        one._replace(first=max(one.first, progress.count(one.origin, state.starts.get(one.origin, ())) + 1))
        for one in state.lost
    ]
    unknown = []
    for each in state.carried:
        place = timelines.exactly(each)
        if place not in known and not progress.covers(place, timelines.exactly):
            unknown.append(place)
        known.add(place)
        yield 0
    state.lost = (
        *reading.untold,
        *[one for one in lost if one.first <= one.last],
        *[Lost(told_apart(origin)[0], seq, seq) for origin, seq in sorted(unknown)],
    )
    state.holders = tuple(sorted({*reading.holders, *state.holders} if reading.untold else state.holders))
    state.unread = [*reading.unread, *missed]
    state.history = []
    state.former = number_of(old.me), sum(ledger.counts), 0


def _ended(state: MemberState, old: Member) -> tuple[Span, ...]:
    """Incarnations that were past to `old`, or before it, and that the state still names: they left a side
    that was given up, or came back there; the last of what they had is among the orphans."""
    past, before = Spans(state.past), Spans([*old.view.past, *old.carrying.settled_before])
    spoken = {*state.view, *state.suspects, *state.gone, *state.unknown, *(op.origin for op in state.orphans)}
    return tuple(span_of(name) for name in sorted(spoken) if name in before and name not in past)


def _companions(old: Member, forgetful: bool) -> set[str]:
    """Incarnations that may have messages of `old`: its view, its strangers, and the members that its side
    evicted, which may have let in joiners of their own. If `old` has forgotten something, leavers too."""
    view = old.view
    found = view.view | old.carrying.strangers | view.strangers | {*view.evicted()}
    if forgetful:
        found = found | view.departing.keys()
    return {name for name in found if name not in view.past} - {old.me}


def decided(state: MemberState, old: Member, application: Application) -> Generator[int, None, list[Orphan]]:
    """All orphans of `old`, and whether they are sent again; `state` keeps those that are. Yields what each
    has cost, in bytes; `old` does nothing meanwhile."""
    orphans, declined = [], set()
    for operation in state.orphans:
        orphan = Orphan(operation, _tag(old.ledger, operation), old.me)
        orphans.append(orphan)
        if not application.sends_again(orphan):
            declined.add(_place(operation))
        yield len(operation.payload)
    if declined:
        declined = yield from _with_followers(old, declined)
        state.orphans = [operation for operation in state.orphans if _place(operation) not in declined]
        state.tail_lost = True
        orphans = [orphan._replace(again=_place(orphan.operation) not in declined) for orphan in orphans]
    return orphans


def _place(operation: Operation) -> Place:
    return operation.origin, operation.seq


def _tag(ledger: Ledger, operation: Operation) -> Tag | None:
    if not ledger.knows(operation.origin):
        return None
    return ledger.window.tag_of(pack(ledger.number(operation.origin), operation.seq))


def _with_followers(old: Member, declined: set[Place]) -> Generator[int, None, set[Place]]:
    """Causes first: what a state had brought, then messages, then what was still to be carried. What is in no
    message of this log follows from everything before it, for all that is known."""
    found, operations, ledger = set(declined), old.operations, old.ledger
    _decline_after(operations.inherited, found)
    everything = any(_place(operation) in found for operation in operations.inherited)
    touched: set[int] = set()
    for dot, data in ledger.written(ledger.retain_from):
        message = ledger.read(dot, data)
        inside = operations_in(ledger.place(dot), message.payload)
        follows = everything or not touched.isdisjoint(message.context)
        if follows:
            found.update(map(_place, inside))
        else:
            _decline_after(inside, found)
        if follows or any(_place(operation) in found for operation in inside):
            touched.add(dot)
        yield len(data)
    if touched or everything:
        found.update(map(_place, operations.orphans))
    _decline_after(list(operations.orphans), found)
    return found


def _decline_after(operations: Sequence[Operation], found: set[Place]) -> None:
    """Of those that come together, all from the first that was declined."""
    at = next((at for at, operation in enumerate(operations) if _place(operation) in found), len(operations))
    found.update(map(_place, operations[at:]))
