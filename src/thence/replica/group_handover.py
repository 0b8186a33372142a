"""The state of a member, for a joiner or for itself: rule 10 of docs/protocols/membership.md."""

from thence.core.groups import Extent
from thence.members.group import GroupView
from thence.members.operations import Operations
from thence.replica.group_ledger import Ledger
from thence.replica.group_reading import Reading, handed_over
from thence.replica.group_retained import stable_operations
from thence.replica.group_state import GroupState


def state_of(
    ledger: Ledger,
    view: GroupView,
    operations: Operations,
    reading: Reading,
    application: bytes,
    joiner: str,
    extent: Extent | None,
    forgetful: bool,
) -> GroupState:
    """Without a joiner, for the member itself: then what is in its log is left out. `extent`: how far the
    joiner's program has come, if it was a member before and has no state; `forgetful`: and had more then."""
    me = ledger.me
    rows = {name: ledger.row(name) for name in sorted(view.view - {me, joiner})}
    rows[me] = ledger.vector()
    history, lost = handed_over(ledger, operations, reading, extent, forgetful) if extent else ([], ())
    floor = dict(zip(ledger.names, ledger.floor, strict=True))
    told = {name: count for name, count in floor.items() if count and name not in ledger.past}
    return GroupState(
        application=application,
        counts=ledger.vector(),
        stable={name: stable for name in ledger.spoken() if (stable := ledger.stable(name))},
        context=ledger.frontier(),
        table=ledger.table(),
        log=[ledger.named(message) for message in ledger.unstable()] if joiner else [],
        view=view.view,
        suspects=view.suspects,
        gone=view.gone,
        departing=view.departing,
        flushed=view.flushed,
        addresses=view.addresses,
        closing=view.closing,
        closed=tuple(view.closed),
        past=tuple(view.past),
        spent=tuple(view.spent),
        unknown=view.strangers,
        abandoned=view.abandoned,
        rows=rows,
        retained=stable_operations(ledger, operations) if joiner else operations.inherited,
        floor={} if joiner else floor,
        carried=operations.carried,
        reach=told if joiner and not operations.inherited else reading.reach,
        history=history,
        lost=lost,
        holders=tuple(sorted(view.side - {joiner})) if lost else (),
    )
