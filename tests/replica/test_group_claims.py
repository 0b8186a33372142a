"""Receipts that were passed on say what has grown; and when it is said of whom that it is closed."""

from typing import Any

from thence.core.groups import ALL, Receipt, Running
from thence.members.group import GroupView
from thence.members.operations import Operation, Operations
from thence.members.spans import Spans
from thence.replica.group.ledger.state import MemberState
from thence.replica.group.receipts.peers import Peers
from thence.replica.group.settings import GroupSettings
from thence.replica.group.transfer.carrying import Carrying

RUNS = Running("b", "b", "", 1)


def said(number: int, counts: dict[str, int], past: tuple[tuple[str, int, int], ...] = ()) -> Receipt:
    return Receipt("b", counts, (), (), RUNS, past=past, number=number)


def test_what_a_part_of_a_receipt_does_not_name_is_as_it_was() -> None:
    """A part that was taken for all would make others send, and count, what is there."""
    nothing: Any = None
    peers = Peers(nothing, nothing, GroupSettings())
    peers.hold(said(1, {"a": 3, "b": 4, "c": 5}), {}, 0)
    whole = peers.whole(said(2, {"a": 7}))
    assert whole is not None
    assert whole.counts == {"a": 7, "b": 4, "c": 5}
    past = peers.whole(said(2, {"a": 7}, (("c", 1, 1),)))
    assert past is not None
    assert (past.counts, past.past) == ({"a": 7, "b": 4}, (("c", 1, 1),))
    assert peers.whole(said(1, {"a": 9})) is None, "an older one"


class Counts:
    """Of a ledger, what `Carrying` asks."""

    me = "a~2"

    def count(self, name: str) -> int:
        del name
        return ALL


def test_no_incarnation_is_closed_by_one_that_has_not_brought_what_it_has() -> None:
    """What it is about to carry may be all that is left of whom it would close."""
    orphan = Operation("a", 3, b"only here")
    operations, state = Operations((), [orphan]), MemberState()
    view = GroupView("a~2", view={"a~2", "b"}, spent=Spans([("c", 1, 1)]))
    ledger: Any = Counts()
    carrying = Carrying(ledger, view, operations, state, 1 << 20)
    assert (carrying.busy, carrying.closable()) == (True, [])
    operations.orphans.clear()
    assert (carrying.busy, carrying.closable()) == (False, [("c", 1, 1)])
