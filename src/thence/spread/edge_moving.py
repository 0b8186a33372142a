"""Moving below another node, and leaving the tree: rules 11 and 12 of docs/protocols/edge.md."""

from thence.core.edge import EdgeBye, EdgeHome, EdgeInvite, EdgeInvited, EdgeRehome, EdgeState
from thence.core.errors import UsageError
from thence.core.groups import process_of
from thence.spread.edge_attach import ask, lose
from thence.spread.edge_book import INVITATION, EdgeEntry
from thence.spread.edge_gate import tell_places
from thence.spread.edge_interest import drop_child, leave
from thence.spread.edge_tree import EdgeChild, EdgeParent, EdgeTree


def rehome(tree: EdgeTree, under: str) -> None:
    """Ask the parent to be moved below another of its children."""
    parent = tree.parent
    if parent is None:
        raise UsageError("it has no parent to ask")
    if parent.rest:  # the request would wait behind it, and the session ends
        raise UsageError("something large is on its way to its parent")
    parent.bodies.append(EdgeRehome(under))
    tree.flush()
    tree.invited, tree.homing = under, ""
    lose(tree, silent=False)
    tree.waits_until = tree.now + 2 * tree.settings.attach_us
    tree.wanted.add(process_of(under))


def tell_homes(tree: EdgeTree) -> None:
    """A child whose home is another child of this node by now may move there."""
    by_peer = {child.peer: child for child in tree.children.values()}
    for child in tree.children.values():
        host = by_peer.get(child.home)
        if host is None or host.sync or host.rank >= child.rank or child.told_home == host.who:
            continue
        child.told_home = host.who
        tell_places(tree, child, (host.peer, host.place))
        child.bodies.append(EdgeHome(host.who))


def go_home(tree: EdgeTree) -> None:
    """Move under the node that this one was told to be below, once there is a link to it: slowly, since the
    subtree is silent meanwhile."""
    parent, after_us = tree.parent, tree.settings.rehome_us
    if parent is None or not tree.homing or not after_us or tree.full_request or tree.joins or parent.rest:
        return
    if tree.now - parent.since >= after_us and process_of(tree.homing) in tree.linked:
        rehome(tree, tree.homing)


def heard_rehome(tree: EdgeTree, child: EdgeChild, body: EdgeRehome) -> None:
    """The child is gone; the other one may invite it, once it has all that this log holds by now."""
    host = tree.children.get(body.under)
    drop_child(tree, child)
    if host is None or host.sync or host.rank >= child.rank:
        return
    entry = EdgeEntry(INVITATION, child.who, "", child.session)
    entry.target = host.who, host.session
    tree.book.append(entry, tree.now)


def heard_invite(tree: EdgeTree, parent: EdgeParent, invite: EdgeInvite) -> None:
    tree.host.installed(EdgeState(0, (), (), ()), False, "")
    entry = EdgeEntry(INVITATION, invite.guest, "", invite.session)
    entry.down, entry.above = parent.down, True
    tree.book.append(entry, tree.now)
    peer = process_of(invite.guest)
    tree.guests[peer] = invite.session
    welcome(tree, peer)


def welcome(tree: EdgeTree, peer: str) -> None:
    """Invite a process as soon as it has made a link."""
    if peer in tree.guests and peer in tree.linked:
        tree.post(peer, EdgeInvited(tree.book.me, tree.guests.pop(peer)))


def heard_invited(tree: EdgeTree, invited: EdgeInvited) -> None:
    if tree.parent is None and tree.target is None and invited.session == tree.book.session and tree.invited:
        ask(tree, invited.host, tree.settings.attach_us)


def leave_tree(tree: EdgeTree) -> bool:
    """Leave for good, if nothing is lost by that; whether it has."""
    book = tree.book
    if book.root:
        raise UsageError("the root stays")
    if book.gone:
        return True
    for group in sorted(book.groups):
        leave(tree, group)
    ready = all(not child.sync and len(child.chain) > 1 for child in tree.children.values())
    if not ready or tree.rooted_st < book.end or tree.parent is None:
        return False
    tree.flush()
    for child in tree.children.values():
        tree.post(child.peer, EdgeBye(child.session))
    tree.post(tree.parent.peer, EdgeBye(tree.parent.session))
    tree.children.clear()
    tree.parent = None
    book.gone = True
    book.host.changed()
    return True


def heard_bye(tree: EdgeTree, peer: str, session: int) -> None:
    parent = tree.parent
    if parent is not None and parent.peer == peer and parent.session == session:
        lose(tree, silent=True)
    for child in [child for child in tree.children.values() if child.peer == peer]:
        if child.session == session:
            drop_child(tree, child, lingers=False)
