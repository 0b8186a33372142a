"""Groups: interests of children, joins, states. Rule 8 of docs/protocols/edge.md."""

from collections.abc import Iterator
from typing import Final

from thence.core.edge import EdgeDrop, EdgeState, EdgeWant
from thence.core.errors import PeerError, UsageError
from thence.spread.edge_book import IN, MESSAGE, STATE, EdgeBook, EdgeEntry, InstalledGroup
from thence.spread.edge_tree import EdgeChild, EdgeParent, EdgeTree

WHOLE: Final = 1 << 40
"""Bytes that no state has."""


def mention(tree: EdgeTree, group: str) -> None:
    """The root is a member of each group from its first mention."""
    book = tree.book
    if book.root and group not in book.groups:
        book.groups[group] = IN
        book.host.joined(group)
        book.host.changed()


def accept(tree: EdgeTree, entry: EdgeEntry) -> bool:
    """Rule 1. Returns whether it is new."""
    book = tree.book
    mention(tree, entry.group)
    had = book.have.get((entry.origin, entry.group), 0)
    if entry.number <= had:
        return False
    if book.covers(entry.group) and entry.number - entry.back != had:
        raise PeerError(
            f"{entry.origin}:{entry.number} in {entry.group!r} follows {entry.number - entry.back}, not {had}"
        )
    book.note(entry, tree.now)
    book.host.accepted(entry)
    if book.is_in(entry.group):
        tree.past = book.end
    return True


def join(tree: EdgeTree, group: str) -> None:
    book = tree.book
    mention(tree, group)
    if group in book.groups:
        return
    book.groups[group] = book.end
    book.host.changed()


def leave(tree: EdgeTree, group: str) -> None:
    book = tree.book
    if book.root:
        raise UsageError("the root is a member of every group")
    if group not in book.groups:
        return
    was_in = book.is_in(group)
    del book.groups[group]
    tree.joins = {request: other for request, other in tree.joins.items() if other != group}
    if was_in:
        make_states(tree, WHOLE)
        book.host.left(group)
    book.host.changed()
    drop_unwanted(tree)


def send_wants(tree: EdgeTree, parent: EdgeParent) -> None:
    """Requests that the parent does not know of yet. While a full state is due, none but for that: it would
    overtake what answers the others."""
    if tree.full_request:
        if tree.full_request not in parent.told:
            parent.told.add(tree.full_request)
            parent.bodies.append(EdgeWant(tree.full_request, tree.asked, True))
        return
    if not (tree.joins or tree.pending) and all(since == IN for since in tree.book.groups.values()):
        return
    asked = set(tree.joins.values())
    for group, since in tree.book.groups.items():
        if since != IN and group not in asked:
            tree.joins[new_request(tree)] = group
    requests: dict[int, tuple[str, ...]] = {request: (group,) for request, group in tree.joins.items()}
    requests |= {request: asked_for[3] for request, asked_for in tree.pending.items()}
    for request, groups in requests.items():
        if request not in parent.told:
            parent.told.add(request)
            parent.sub.update(groups)
            parent.bodies.append(EdgeWant(request, groups, False))


def new_request(tree: EdgeTree) -> int:
    tree.book.request += 1
    open_ = {tree.full_request, *tree.joins, *tree.pending}
    tree.asked_at = {request: at for request, at in tree.asked_at.items() if request in open_}
    tree.asked_at[tree.book.request] = tree.now
    tree.host.changed()
    return tree.book.request


def drop_unwanted(tree: EdgeTree) -> None:
    book = tree.book
    if book.root:
        return
    wanted = tree.want()
    if not book.covered <= wanted:
        book.covered &= wanted
        book.host.changed()
    parent = tree.parent
    if parent is not None and (unwanted := parent.sub - wanted):
        parent.sub -= unwanted
        parent.bodies.append(EdgeDrop(tuple(sorted(unwanted))))


def heard_drop(tree: EdgeTree, child: EdgeChild, groups: tuple[str, ...]) -> None:
    child.wants.difference_update(groups)
    drop_unwanted(tree)


def heard_want(tree: EdgeTree, child: EdgeChild, want: EdgeWant) -> None:
    book = tree.book
    for group in want.groups:
        mention(tree, group)
    child.wants.update(want.groups)
    if all(book.is_in(group) for group in want.groups):
        covers = {(origin, group): number for origin, group, number in book.restricted(want.groups)}
        making = book.host.make_states(want.groups)
        entry = serve(tree, child, want.request, want.full, EdgeState(0, want.groups, (), ()), covers)
        entry.making = making
        tree.makes.append(entry)
        return
    request = new_request(tree)
    tree.pending[request] = (child.who, child.session, want.request, want.groups, want.full)


def serve(
    tree: EdgeTree,
    child: EdgeChild | None,
    request: int,
    full: bool,
    state: EdgeState,
    covers: dict[tuple[str, str], int],
    down: int = -1,
) -> EdgeEntry:
    """A state takes its place in the log; on its way to a child, if that is still there."""
    entry = EdgeEntry(STATE)
    entry.groups, entry.covers, entry.states = state.groups, covers, state.states
    entry.request, entry.full, entry.down, entry.above = request, full, down, down >= 0
    if child is not None:
        entry.target = child.who, child.session
        if full and child.sync:
            child.transfer = tree.book.end
    tree.book.append(entry, tree.now)
    return entry


def make_states(tree: EdgeTree, most: int) -> None:
    """Go on with states that are being made. One that no neighbour waits for any more is given up."""
    while tree.makes and most > 0:
        entry = tree.makes[0]
        child = tree.children.get(entry.target[0])
        making = entry.making
        if child is None or child.session != entry.target[1]:
            entry.making = None
        elif making is not None:
            try:
                most -= making.go_on(most)
            except PeerError as error:
                child.trouble = str(error)
            else:
                if not making.over:
                    return
                entry.states, entry.making = making.states(), None
        del tree.makes[0]


def heard_state(tree: EdgeTree, parent: EdgeParent, state: EdgeState) -> None:
    book, host = tree.book, tree.host
    full = state.request == tree.full_request
    joined = tree.joins.get(state.request, "")
    if not (full or joined or state.request in tree.pending):
        return
    if full:  # only what was wanted without a break
        state = restrict(state, [group for group in state.groups if group in book.covered])
    make_states(tree, WHOLE)  # of a program that is about to be another
    host.begin_from(
        {group: data for group, data in named(state) if is_for_program(book, group, full, joined)}
    )
    asked = tree.pending.pop(state.request, None)
    host.installed(state, full, joined)
    if full or joined:
        host.synced(parent.who, tree.now - tree.asked_at.get(state.request, tree.now), state)
    grown = take_state(book, state, full, joined)
    covers = {(origin, group): number for origin, group, number in state.covers}
    child = tree.children.get(asked[0]) if asked else None
    if child is not None and asked is not None and child.session == asked[1]:
        serve(tree, child, asked[2], asked[4], state, covers, parent.down)
    else:
        serve(tree, None, 0, False, state, covers, parent.down)
    tree.past = book.end
    if joined:
        del tree.joins[state.request]
    if full:
        tree.full_request = 0
        for other in [child for child in tree.children.values() if child.wants & grown]:
            tree.reset(other.peer, other.session, False)
            drop_child(tree, other)


def restrict(state: EdgeState, groups: list[str]) -> EdgeState:
    states = dict(named(state))
    covers = tuple([count for count in state.covers if count[1] in groups])
    return EdgeState(state.request, tuple(groups), covers, tuple([states[group] for group in groups]))


def named(state: InstalledGroup) -> Iterator[tuple[str, bytes]]:
    return zip(state.groups, state.states, strict=True)


def is_for_program(book: EdgeBook, group: str, full: bool, joined: str) -> bool:
    """Does the program begin anew from this group of a state?"""
    return group == joined or (full and book.is_in(group))


def take_state(book: EdgeBook, state: InstalledGroup, full: bool, joined: str) -> set[str]:
    """What a state changes in the book and the program: when it comes, and again when the log is read.
    Returns groups of which it has something that was not here."""
    grown = book.merge(state.covers, state.groups)
    book.cover(state.groups)
    for group, data in named(state):
        joins = group == joined
        if not is_for_program(book, group, full, joined):
            continue
        since = book.groups[group] if joins else book.base
        book.groups[group] = IN
        covers = [count for count in state.covers if count[1] == group]
        upto = {origin: number for origin, _, number in covers}
        again = [
            entry
            for entry in book.entries[since - book.base :]
            if entry.kind == MESSAGE and entry.group == group and entry.number > upto.get(entry.origin, 0)
        ]
        book.host.install(group, data, covers, again, joins)
    return grown


def drop_child(tree: EdgeTree, child: EdgeChild, lingers: bool = True) -> None:
    """Its session is over. Its groups stay wanted for a while: it may come back."""
    if tree.children.get(child.who) is not child:
        return
    del tree.children[child.who]
    if lingers:
        until = tree.now + tree.settings.linger_us
        for group in sorted(child.wants):
            tree.linger[group] = max(until, tree.linger.get(group, 0))
    mine = (child.who, child.session)
    tree.pending = {request: kept for request, kept in tree.pending.items() if kept[:2] != mine}
    drop_unwanted(tree)
