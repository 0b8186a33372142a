"""Who speaks: a packet counts for the process at the other end of its link, and for no other."""

import pytest
from support.schedules_groups import Play, without
from support.schedules_rollback import put_back, rolling, sends

from thence.core.dots import pack
from thence.core.errors import PeerError
from thence.core.groups import (
    OPERATION,
    Data,
    Farewell,
    Flow,
    GroupPacket,
    JoinRequest,
    Lineage,
    NamedMessage,
    Notice,
    Offer,
    Piece,
    Receipt,
    Running,
)
from thence.core.message import Message
from thence.replica.group.ledger.ledger import CODEC
from thence.replica.group.process.node import GroupNode
from thence.replica.group.process.speaking import check_speaker
from thence.sim.air import Air

RUNS_B = Running("b", "b", "", 1)

FORGED: dict[str, GroupPacket] = {
    "a message": Data("b", "a", (NamedMessage("b", 1, (), bytes((OPERATION,))),)),
    "a receipt": Receipt("b", {"b": 3}, (), (), RUNS_B, "a", 7),
    "a receipt that wants something": Receipt("b", {}, (), (), RUNS_B, wants=("c",)),
    "what runs": Receipt("g", {}, (), (), RUNS_B),
    "an incarnation that it does not run": Receipt("g", {}, (), (), Running("g", "g~2", "", 2)),
    "a number that it never had": Receipt("g~9", {}, (), (), Running("g", "g~9", "", 1)),
    "a join": JoinRequest("b~2", "a", (2, 0, "", ""), RUNS_B, 0, 0),
    "a join that buries": JoinRequest("g", "a", (2, 0, "", ""), Running("b", "", "", 9), 0, 0),
    "an offer": Offer("b", "a"),
    "a state": Piece("b", "a", 1, 0, 1, b"x"),
    "a notice": Notice("b", "a", ("b", "c"), 0),
    "a farewell": Farewell("b", "a", 9),
}


@pytest.mark.parametrize("packet", FORGED.values(), ids=FORGED.keys())
def test_a_packet_that_speaks_for_another_process_is_a_peers_error(packet: GroupPacket) -> None:
    with pytest.raises(PeerError):
        check_speaker("g", packet)


def linked() -> tuple[Play, GroupNode]:
    play = Play("abc", air=Air(links=True)).together("abc")
    node = play.processes["a"].node
    assert node is not None
    return play, node


def test_a_guest_cannot_send_under_the_number_of_a_member() -> None:
    play, node = linked()
    assert node.member
    number = node.member.links.opened("b")
    with pytest.raises(PeerError, match="given to b"):
        node.receive("g", Flow(number, 0, (), ()), play.now)
    node.receive("b", Flow(number, 0, (), ()), play.now)


def test_a_member_passes_on_only_what_it_was_asked_for() -> None:
    play, node = linked()
    assert node.member
    ledger = node.member.ledger
    message = Message(pack(ledger.number("c"), ledger.count("c") + 1), (), bytes((OPERATION,)))
    number = node.member.links.opened("b")
    flow = Flow(number, len(ledger.names), (), (CODEC.encode(message),))
    with pytest.raises(PeerError, match="unasked"):
        node.receive("b", flow, play.now)
    node.member.links.asks("b", ["c"])
    node.receive("b", flow, play.now)
    assert node.waiting


def test_what_a_guest_passes_on_of_a_member_does_not_count() -> None:
    """A receipt of c that says that c runs no member would make the others suspect c."""
    play, node = linked()
    assert node.member
    lie = Receipt("c~2", {}, (), (), Running("c", "c~2", "", 2))
    node.receive("g", lie, play.now)
    assert "c" in node.member.view.side
    node.receive("b", lie, play.now)
    assert "c" not in node.member.view.side, "of a member it is believed"


def test_a_state_is_taken_from_a_contact_that_was_asked() -> None:
    play = Play("abz").together("ab")
    play.filter = without(Offer)
    play.join("z")
    play.passes(0.1)
    joiner = play.processes["z"].node
    assert joiner is not None
    attempt = joiner._entry.attempt
    assert attempt is not None
    bound = []
    for contact in ("g", "b"):
        joiner.receive(contact, Offer(contact, attempt.joiner), play.now)
        bound.append(attempt.bound)
    assert bound == ["", "b"]


def test_a_guest_cannot_use_up_the_numbers_of_one_that_was_put_back() -> None:
    play = rolling("abc")
    sends(play, "c", 2)
    play.passes(1)
    play.save("c")
    sends(play, "c", 3)
    play.passes(1)
    play.filter = without(Offer)
    put_back(play, "c")
    play.passes(1)
    node = play.processes["c"].node
    assert node is not None
    assert node.former is not None, "it has heard that it was put back, and has not come back"
    highest = node._lives.highest
    node.receive("g", Lineage("g", {}, {}, f"c~{1 << 62}", {}), play.now)
    assert node._lives.highest == highest
    node.receive("a", Lineage("a", {}, {}, "c~9999", {}), play.now)
    assert node._lives.highest >= 9999


def test_a_guest_that_knows_a_start_is_believed_by_one_that_has_restarted_since() -> None:
    """That one cannot know: a folder is put back while its process is down."""
    play = rolling("abc")
    sends(play, "c", 2)
    play.passes(1)
    play.crash("c")
    play.boot("c")
    node = play.processes["c"].node
    assert node is not None
    assert node.member is not None
    starts = node.member.ledger.timelines.starts["c"]
    node.receive("g", Lineage("g", {"c": 2}, {"c": starts}, "c~2", {}), play.now)
    assert node.rollback is not None
