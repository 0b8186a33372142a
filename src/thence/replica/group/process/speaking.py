"""Who speaks: a packet's source is the peer of the link that it came over.

Names in packets are claims. The name of a link's other end was proven in its handshake, so a packet may only
speak for an incarnation of that process. Two things are passed on for others, and only where they were asked
for: messages of an origin that this member wanted over that link (`Incoming.asked_for`), and the last receipt
of a member that this one does not hear, by another member of its side.

Rules 29 and 30 of docs/protocols/membership.md.
"""

from thence.core.errors import PeerError
from thence.core.groups import (
    Flow,
    Fragment,
    FragmentReceipt,
    GroupPacket,
    JoinRequest,
    Offer,
    Passed,
    Piece,
    Receipt,
    Running,
    number_of,
    process_of,
)


def check_speaker(peer: str, packet: GroupPacket) -> None:
    """`PeerError` unless the packet speaks for the process `peer`. What a `Flow` or a `Fragment` brings
    is checked against its stream, a receipt that was passed on against the view."""
    if isinstance(packet, Flow | Fragment | FragmentReceipt) or is_passed_on(peer, packet):
        return
    if isinstance(packet, Passed):
        if not all(is_passed_on(peer, receipt) for receipt in packet.receipts):
            raise PeerError(f"{peer} passes on what no other member has said")
        return
    if isinstance(packet, JoinRequest):
        source = packet.joiner
        _check_running(peer, packet.running)
    elif isinstance(packet, Offer | Piece):
        source = packet.contact
    else:
        source = packet.source
        if isinstance(packet, Receipt):
            _check_running(peer, packet.running)
            if packet.running.member != source:
                raise PeerError(f"{peer} sends a receipt of {source}, which it does not run")
    if process_of(source) != peer:
        raise PeerError(f"{peer} speaks for {source}")


def is_passed_on(peer: str, packet: GroupPacket) -> bool:
    """A receipt of another process: it has no target and asks for nothing."""
    return (
        isinstance(packet, Receipt)
        and process_of(packet.source) != peer
        and packet.running.process == process_of(packet.source)
        and not (packet.target or packet.stream or packet.wants or packet.unheard)
    )


def _check_running(peer: str, running: Running) -> None:
    named = [name for name in (running.member, running.attempt) if name]
    if running.process != peer or any(process_of(name) != peer for name in named):
        raise PeerError(f"{peer} tells what {running.process} runs")
    if any(number_of(name) > running.highest for name in named):
        raise PeerError(f"{peer} runs a number that it never reserved")
