"""Causal multicast on an edge tree: a node's inputs, and the parts that take them. docs/protocols/edge.md.

No clock, no log, no link of its own: inputs come with `now`, what must survive goes to the host, packets
stand in `outbox` and links that are needed in `wanted` when a step is over (`settle`).
"""

from collections.abc import Sequence
from typing import Final

from thence.core.edge import (
    EdgeAttach,
    EdgeBeat,
    EdgeBody,
    EdgeBye,
    EdgeDown,
    EdgeDrop,
    EdgeHome,
    EdgeInvite,
    EdgeInvited,
    EdgeItem,
    EdgeNames,
    EdgeOpened,
    EdgePacket,
    EdgePiece,
    EdgePlaces,
    EdgeRefused,
    EdgeRehome,
    EdgeReset,
    EdgeRun,
    EdgeState,
    EdgeStatus,
    EdgeUp,
    EdgeWant,
)
from thence.core.errors import PeerError
from thence.core.groups import RUN, process_of
from thence.core.runs import payload_run, run_payload
from thence.spread.edge_attach import (
    begin,
    heard_attach,
    heard_opened,
    is_behind,
    lose,
    refused,
    seek,
    tick_seeking,
)
from thence.spread.edge_book import MESSAGE, EdgeEntry
from thence.spread.edge_gate import announce, beat, heard_places, heard_status, held_back, settle
from thence.spread.edge_interest import (
    accept,
    drop_child,
    drop_unwanted,
    heard_drop,
    heard_state,
    heard_want,
    join,
    leave,
)
from thence.spread.edge_moving import (
    go_home,
    heard_bye,
    heard_invite,
    heard_invited,
    heard_rehome,
    leave_tree,
    rehome,
    tell_homes,
    welcome,
)
from thence.spread.edge_tree import EdgeChild, EdgeParent, EdgeStream, EdgeTree, payload_bytes

__all__ = ["EdgeTree", "held_back", "join", "leave", "leave_tree", "link_down", "link_up", "meet", "publish",
           "receive", "rehome", "settle", "start", "wake", "wake_at"]  # fmt: skip

RUN_KIND: Final = bytes((RUN,))


def start(tree: EdgeTree, now: int) -> None:
    """The process was started: sessions are over, and groups of the subtree stay wanted for a while."""
    tree.now = now
    for group in sorted(tree.book.covered):
        tree.linger[group] = now + tree.settings.linger_us
    tree.next_beat = now + tree.settings.heartbeat_us
    tree.lost_at, tree.patience_at = now, now + tree.settings.alone_us
    tree.desperate_at = now + tree.settings.attach_us
    begin(tree)


def publish(tree: EdgeTree, group: str, operations: Sequence[bytes], now: int) -> EdgeEntry:
    """What a program sends to one group in a row is one entry."""
    tree.now = now
    book, span = tree.book, len(operations)
    number = book.number + span
    back = number - book.have.get((book.me, group), 0)
    payload = run_payload(operations) if span > 1 else operations[0]
    entry = EdgeEntry(MESSAGE, book.me, group, number, back, payload, span)
    entry.past = tree.past
    accept(tree, entry)
    tree.past = book.end
    return entry


# Links


def link_up(tree: EdgeTree, peer: str, now: int) -> None:
    tree.now = now
    tree.linked.add(peer)
    welcome(tree, peer)
    seek(tree)


def meet(tree: EdgeTree, name: str, place: str, now: int) -> None:
    """The process that this node was told to be below has a name, and is there."""
    tree.now = now
    book = tree.book
    tree.home = name
    if book.places.get(name) != place:
        book.places[name] = place
        book.host.changed()
    if tree.parent is not None and tree.parent.peer != name and tree.settings.rehome_us:
        tree.parent.bodies.append(EdgeHome(name))
    if book.free and tree.contacts != (name,):
        tree.contacts = (name,)
        if tree.parent is None:
            begin(tree)


def link_down(tree: EdgeTree, peer: str, now: int) -> None:
    tree.now = now
    tree.linked.discard(peer)
    for child in [child for child in tree.children.values() if child.peer == peer]:
        drop_child(tree, child)
    if tree.parent is not None and tree.parent.peer == peer:
        lose(tree, silent=False)
    elif tree.target is not None and process_of(tree.target[0]) == peer:
        tree.target = None
        seek(tree)


# Packets


def receive(tree: EdgeTree, peer: str, packet: EdgePacket, now: int) -> None:
    tree.now = now
    if isinstance(packet, EdgeUp):
        _from_child(tree, peer, packet)
    elif isinstance(packet, EdgeDown):
        _from_parent(tree, peer, packet)
    elif isinstance(packet, EdgeAttach):
        heard_attach(tree, peer, packet)
    elif isinstance(packet, EdgeOpened):
        heard_opened(tree, peer, packet)
    elif isinstance(packet, EdgeRefused):
        refused(tree, packet.session)
    elif isinstance(packet, EdgeReset):
        _heard_reset(tree, peer, packet)
    elif isinstance(packet, EdgeInvited):
        heard_invited(tree, packet)
    else:
        assert isinstance(packet, EdgeBye)
        heard_bye(tree, peer, packet.session)


def _heard_reset(tree: EdgeTree, peer: str, reset: EdgeReset) -> None:
    if reset.up:
        for child in [child for child in tree.children.values() if child.peer == peer]:
            if child.session == reset.session:
                drop_child(tree, child)
    elif tree.parent is not None and (tree.parent.peer, tree.parent.session) == (peer, reset.session):
        lose(tree, silent=False)


def _follows(stream: EdgeStream, number: int, now: int) -> bool:
    stream.got += 1
    stream.heard = now
    return number == stream.got


def _from_child(tree: EdgeTree, peer: str, packet: EdgeUp) -> None:
    children = [child for child in tree.children.values() if child.peer == peer]
    if not children or children[0].session != packet.session:
        tree.reset(peer, packet.session, False)
        return
    child = children[0]
    if not _follows(child, packet.number, tree.now):
        tree.reset(peer, packet.session, False)
        drop_child(tree, child)
        return
    if child.trouble:
        raise PeerError(child.trouble)
    for body in packet.bodies:
        if tree.children.get(child.who) is not child:
            return  # it went away by something that it said
        if isinstance(body, EdgePiece):
            if (whole := child.join(body)) is None:
                continue
            body = whole
        _heard_from_child(tree, child, body)


def _heard_from_child(tree: EdgeTree, child: EdgeChild, body: EdgeBody) -> None:
    if isinstance(body, EdgeItem | EdgeRun):
        _item(tree, child, body, None)
        child.ups.append(tree.book.end)
        child.past = tree.book.end  # also if it came before, by another way
    elif isinstance(body, EdgeNames):
        child.learn(body.names)
    elif isinstance(body, EdgeBeat):
        child.acked = max(child.acked, min(body.items, child.items))
        child.arrived(child.items - child.acked)
    elif isinstance(body, EdgeWant):
        heard_want(tree, child, body)
    elif isinstance(body, EdgeDrop):
        heard_drop(tree, child, body.groups)
    elif isinstance(body, EdgeRehome):
        heard_rehome(tree, child, body)
    elif isinstance(body, EdgeHome):
        child.home, child.told_home = body.who, ""
    else:
        raise PeerError(f"{type(body).__name__} from a child")


def _from_parent(tree: EdgeTree, peer: str, packet: EdgeDown) -> None:
    parent = tree.parent
    if parent is None or parent.peer != peer or parent.session != packet.session:
        tree.reset(peer, packet.session, True)
        return
    if not _follows(parent, packet.number, tree.now):
        tree.reset(peer, packet.session, True)
        lose(tree, silent=False)
        return
    for body in packet.bodies:
        if tree.parent is not parent:
            return
        if isinstance(body, EdgePiece):
            if (whole := parent.join(body)) is None:
                continue
            body = whole
        parent.news_bytes += payload_bytes(body)
        _heard_from_parent(tree, parent, body)


def _heard_from_parent(tree: EdgeTree, parent: EdgeParent, body: EdgeBody) -> None:
    if isinstance(body, EdgeItem | EdgeRun):
        parent.down += 1
        _item(tree, parent, body, parent)
    elif isinstance(body, EdgeStatus):
        heard_status(tree, parent, body)
    elif isinstance(body, EdgeNames):
        parent.learn(body.names)
    elif isinstance(body, EdgeState):
        parent.down += 1
        if not len(body.groups) == len(body.states) == len({*body.groups}):
            raise PeerError("a state for each group is due")
        heard_state(tree, parent, body)
    elif isinstance(body, EdgeInvite):
        parent.down += 1
        heard_invite(tree, parent, body)
    elif isinstance(body, EdgePlaces):
        heard_places(tree, body)
    elif isinstance(body, EdgeHome):
        tree.homing = body.who
    else:
        raise PeerError(f"{type(body).__name__} from a parent")


def _item(tree: EdgeTree, stream: EdgeStream, item: EdgeItem | EdgeRun, parent: EdgeParent | None) -> None:
    origin, group = stream.name(item.origin), stream.name(item.group)
    span = span_of_run(item) if isinstance(item, EdgeRun) else 1
    if is_behind(tree, [(origin, group, item.number)]):
        raise PeerError(tree.behind)
    entry = EdgeEntry(MESSAGE, origin, group, item.number, item.back, item.payload, span)
    entry.source = stream.who
    if parent is not None:
        entry.above, entry.down = True, parent.down
    elif isinstance(stream, EdgeChild):
        entry.past = stream.past
    accept(tree, entry)


def span_of_run(run: EdgeRun) -> int:
    """All of it is looked at: a node passes nothing on that others could not read."""
    span = len(payload_run(run.payload)) if run.payload[:1] == RUN_KIND else 0
    if not 1 < span <= run.back:
        raise PeerError(f"a run of {span} messages, {run.back} after the one before it")
    return span


# Time


def wake_at(tree: EdgeTree) -> int:
    if tree.is_busy:
        return tree.now
    at = tree.next_beat
    for child in tree.children.values():
        if child.status_due < at:
            at = child.status_due
    if tree.parent is None and not (tree.book.root or tree.book.gone):
        times = [at, tree.retry_at, tree.patience_at, tree.waits_until]
        if tree.probe_at > tree.now:
            times.append(tree.probe_at)
        if tree.target is not None:
            times.append(tree.target[2])
        return min(times)
    return at


def wake(tree: EdgeTree, now: int) -> None:
    tree.now = now
    if tree.next_beat <= now:
        tree.next_beat = now + tree.settings.heartbeat_us
        _beat(tree)
    tick_seeking(tree)


def _beat(tree: EdgeTree) -> None:
    """Send heartbeats, and look which neighbours send none."""
    now, settings = tree.now, tree.settings
    if tree.parent is not None and now - tree.parent.heard > settings.suspect_us:
        lose(tree, silent=True)
    for child in [child for child in tree.children.values() if now - child.heard > settings.drop_us]:
        tree.reset(child.peer, child.session, False)
        drop_child(tree, child)
    if tree.parent is not None:
        beat(tree.parent)
    tell_homes(tree)
    for child in tree.children.values():
        announce(tree, child)
    go_home(tree)
    if over := [group for group, until in tree.linger.items() if until <= now]:
        for group in over:
            del tree.linger[group]
        drop_unwanted(tree)
