"""The state that an incarnation begins with: a founder's, a returner's, and that of one who founds again."""

from thence.core.groups import Span, number_of, process_of, span_of
from thence.members.group import Final
from thence.members.spans import Spans
from thence.replica.group_member import Member
from thence.replica.group_reading import goes_on
from thence.replica.group_retained import all_operations
from thence.replica.group_state import GroupState


def founding(me: str, application: bytes, address: str, since: int) -> GroupState:
    """A group of one. `since`: the first number with which the process had tried to join before."""
    state = GroupState(application, view={me}, addresses={me: address}, since=since)
    if since < number_of(me):
        state.closed = ((process_of(me), since, number_of(me) - 1),)
    return state


def returning(state: GroupState, old: Member, leaves: bool, forgetful: bool, reads: bool) -> None:
    """Rule 23: what `old` had and this state lacks goes on in the next incarnation. `forgetful`: it may have
    said more than it remembers. `reads`: its program has no state (30)."""
    counts, carried, past = state.counts, state.carried, Spans(state.past)
    unknown = {
        (op.origin, op.seq): op
        for op in all_operations(old.ledger, old.operations)
        if op.seq > counts.get(op.origin, 0) and (op.origin, op.seq) not in carried and op.origin not in past
    }
    state.orphans = list(unknown.values())
    carrying = old.carrying
    state.since, state.owes = carrying.since, True
    state.vague = forgetful or (carrying.owes and carrying.vague)
    state.ended = _ended(state, old)
    state.spent = Spans([*state.spent, *old.view.spent]).all
    state.strangers = _companions(old, forgetful)
    state.leaves = leaves or old.view.leaving > 0
    if reads:
        goes_on(state, old)


def refounding(me: str, old: Member, address: str, leaves: bool, reads: bool) -> GroupState:
    """Alone, with what `old` had, and without all who were with it: they are evicted, itself among them."""
    state = old.state(me)
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
        goes_on(state, old)
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
