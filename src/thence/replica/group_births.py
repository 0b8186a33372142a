"""The state that an incarnation begins with: a founder's, a returner's, and that of one who founds again."""

from collections.abc import Generator, Iterator

from thence.core.groups import ALL, Place, Span, number_of, process_of, span_of, told_apart
from thence.members.group import Final
from thence.members.operations import Operation
from thence.members.spans import Spans
from thence.members.timelines import Fork, Timelines, fork
from thence.replica.group_member import Member
from thence.replica.group_reading import goes_on
from thence.replica.group_retained import all_operations
from thence.replica.group_state import GroupState, drained


def founding(me: str, application: bytes, address: str, since: int) -> GroupState:
    """A group of one. `since`: the first number with which the process had tried to join before."""
    state = GroupState(application, view={me}, addresses={me: address}, since=since)
    if since < number_of(me):
        state.closed = ((process_of(me), since, number_of(me) - 1),)
    return state


def returning(
    state: GroupState, old: Member, leaves: bool, forgetful: bool, reads: bool
) -> Generator[int, None, None]:
    """Rule 23: what `old` had and this state lacks goes on in the next incarnation. `forgetful`: it may have
    said more than it remembers. `reads`: its program has no state (33). Yields what each operation has cost,
    in bytes; `old` does nothing meanwhile."""
    forked = any(found for *_, found in _compared(state, old))  # what was stable here need not be there
    state.orphans = yield from _unknown(state, old, forgetful or forked)
    carrying = old.carrying
    state.since, state.owes = carrying.since, True
    state.vague = forgetful or (carrying.owes and carrying.vague)
    state.ended = _ended(state, old)
    state.spent = Spans([*state.spent, *old.view.spent]).all
    state.strangers = _companions(old, forgetful)
    state.leaves = leaves or old.view.leaving > 0
    if reads:
        yield from goes_on(state, old)


def is_outdated(state: GroupState, contact: str, old: Member) -> bool:
    """Was this state made by one that was put back, or has listened to one, and has not noticed yet? It may
    lack what all members had, and what none of them keeps for that reason. On those who are gone there is
    agreement: no one there will go back on that, and what the group lacks of them is carried."""
    past = Spans(state.past)
    for name, count, theirs, found in _compared(state, old):
        if name in past or name in state.gone or name == old.me:  # of itself others know better
            continue
        if (name == contact and (found or count > theirs)) or (found and not found.behind):
            return True
    return False


def _compared(state: GroupState, old: Member) -> Iterator[tuple[str, int, int, Fork | None]]:
    """Of each incarnation of which both know starts: how many messages `old` has and how many the state, and
    whether they go on differently."""
    mine, past = old.ledger.timelines, Spans(state.past)
    for name, starts in state.starts.items():
        if name in mine.starts:
            count = old.ledger.count(name)
            count = mine.branches[name] if count == ALL else count
            theirs = state.branches[name] if name in past else state.counts.get(name, 0)
            yield name, count, theirs, fork(mine.starts[name], count, starts, theirs)


def _unknown(state: GroupState, old: Member, astray: bool) -> Generator[int, None, list[Operation]]:
    """What `old` had and the state lacks. Counters that were given twice stand for two operations. `astray`:
    those for whom something was stable here need not be all."""
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


def told_exactly(state: GroupState, old: Member) -> Generator[int, None, None]:
    """Orphans wait for a while; only then may it be known which timeline of their origin the group has."""
    exactly = old.ledger.timelines.exactly
    for at, op in enumerate(state.orphans):
        state.orphans[at] = op._replace(origin=exactly((op.origin, op.seq))[0])
        yield 0


def refounding(me: str, old: Member, address: str, leaves: bool, reads: bool) -> GroupState:
    """Alone, with what `old` had, and without all who were with it: they are evicted, itself among them."""
    state = old.state(joins=True)
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
    state.since, state.owes, state.vague = old.carrying.since, True, True
    state.ended = old.carrying.ended
    state.strangers = _companions(old, forgetful=True)
    if reads:
        drained(goes_on(state, old))
    return state


def _ended(state: GroupState, old: Member) -> tuple[Span, ...]:
    """Who was past to `old`, or to the incarnations before it, and is spoken of here: it left a side that was
    given up, or came back there, and the last of what it had is among the orphans."""
    past, before = Spans(state.past), Spans([*old.view.past, *old.carrying.ended])
    spoken = {*state.view, *state.suspects, *state.gone, *state.unknown, *(op.origin for op in state.orphans)}
    return tuple(span_of(name) for name in sorted(spoken) if name in before and name not in past)


def _companions(old: Member, forgetful: bool) -> set[str]:
    """Who was with `old`, or with the incarnations before it. Also those whom that side went on without: it
    may have let in some whom nobody else has heard of. Also those who were about to leave, if they may have
    what it has forgotten."""
    view = old.view
    found = view.view | old.carrying.strangers | view.strangers | {*view.evicted()}
    if forgetful:
        found = found | view.departing.keys()
    return {name for name in found if name not in view.past} - {old.me}
