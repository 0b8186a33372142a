"""What flows over the sessions of an edge tree, and when: rules 2 to 6 of docs/protocols/edge.md.

All of it happens at the end of a step, once for everything that the step has brought.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from thence.core.edge import EdgeBeat, EdgeInvite, EdgeItem, EdgePlaces, EdgeRun, EdgeState, EdgeStatus
from thence.core.errors import PeerError
from thence.core.groups import process_of
from thence.core.machine import NEVER
from thence.spread.edge_book import IN, INVITATION, MESSAGE, NOT, STATE, EdgeEntry
from thence.spread.edge_interest import make_states, send_wants
from thence.spread.edge_tree import EdgeChild, EdgeParent, EdgeTree

PLACES_MAX: Final = 64
"""Addresses in one packet; twice as many are remembered. A chain has a handful."""


def settle(tree: EdgeTree) -> None:
    """The step is over: send what may go."""
    if tree.makes:
        make_states(tree, tree.settings.turn_bytes)
    if tree.parent is not None:
        # A link to the next of the chain is kept ready: a repair then costs no dialling.
        tree.wanted = {process_of(who) for who in tree.book.chain[:2]}
        if tree.homing:
            tree.wanted.add(process_of(tree.homing))
        send_up(tree, tree.parent)
        if tree.parent.cursor == tree.book.end:  # a request follows all that this node has
            send_wants(tree, tree.parent)
        advance(tree, tree.parent)
    if tree.children:
        mark = (tree.book.end, tree.at_root, *tree.st)
        for child in tree.children.values():
            send_down(tree, child)
            report(tree, child, mark)
    trim(tree)
    tree.flush()


# Up (rule 2)


def send_up(tree: EdgeTree, parent: EdgeParent) -> None:
    book = tree.book
    settings = tree.settings
    if parent.down - parent.beaten >= settings.window // 2 or parent.news_bytes >= settings.window_bytes // 2:
        beat(parent)
    while parent.cursor < book.end and parent.has_room(settings):
        entry = book.entries[parent.cursor - book.base]
        parent.cursor += 1
        if entry.down != NOT or entry.up != NOT:
            continue
        if entry.kind == MESSAGE:
            parent.up += 1
            put_item(parent, entry)
        entry.up = parent.up


def put_item(stream: EdgeParent | EdgeChild, entry: EdgeEntry) -> None:
    origin, group = stream.spell(entry.origin, entry.group)
    kind = EdgeItem if entry.span == 1 else EdgeRun
    stream.flies(kind(origin, group, entry.number, entry.back, entry.payload))


def beat(parent: EdgeParent) -> None:
    """This node lives, and has so many items."""
    parent.bodies.append(EdgeBeat(parent.down))
    parent.beaten, parent.news_bytes = parent.down, 0


# Stability (rule 3)


def known(parent: EdgeParent, entry: EdgeEntry, level: int) -> bool:
    """Have the first `level` nodes of the chain this entry?"""
    if entry.down != NOT:
        return level == 1 or parent.downs[level - 1] >= entry.down
    return entry.up != NOT and parent.ups[level - 1] >= entry.up


def rooted(parent: EdgeParent, entry: EdgeEntry) -> bool:
    if entry.down != NOT:
        return parent.downs_root >= entry.down
    return entry.up != NOT and parent.ups_root >= entry.up


def advance(tree: EdgeTree, parent: EdgeParent) -> None:
    book = tree.book
    limit = book.end
    for level in range(1, len(book.chain) + 1):
        at = tree.st[level - 1]
        while at < limit and known(parent, book.entries[at - book.base], level):
            at += 1
        tree.st[level - 1] = limit = at
    while tree.rooted_st < book.end:
        entry = book.entries[tree.rooted_st - book.base]
        if not (entry.rooted or rooted(parent, entry)):
            break
        entry.rooted = True
        tree.rooted_st += 1


def heard_status(tree: EdgeTree, parent: EdgeParent, status: EdgeStatus) -> None:
    chain = status.chain
    if chain[:1] != (parent.who,) or not len(chain) == len(status.up) == len(status.down):
        raise PeerError("a status that makes no sense")
    parent.ups, parent.downs = status.up, status.down
    parent.arrived(parent.up - status.up[0])
    parent.ups_root, parent.downs_root = status.up_root, status.down_root
    set_chain(tree, chain)


# Announced chains (rule 4)


def set_chain(tree: EdgeTree, chain: tuple[str, ...]) -> None:
    book = tree.book
    if chain == book.chain:
        return
    grown = chain[: len(book.chain)] == book.chain
    book.chain = chain
    tree.host.changed()
    if grown:
        tree.st += [book.base] * (len(chain) - len(tree.st))
        return
    tree.st = [book.base] * len(chain)
    for child in tree.children.values():
        child.chain = (book.me, *common(chain, child.chain))


def common(chain: Sequence[str], among: Sequence[str]) -> tuple[str, ...]:
    """The longest beginning of a chain whose nodes are all among these."""
    count = 0
    while count < len(chain) and chain[count] in among:
        count += 1
    return tuple(chain[:count])


def is_whole(tree: EdgeTree) -> bool:
    """Is it attached, so that chains may grow?"""
    return tree.parent is not None and not tree.shrunk


def reach(tree: EdgeTree) -> int:
    """How many nodes of the own chain a child's chain is to have."""
    return min(tree.settings.delta, len(tree.book.chain))


def extend(tree: EdgeTree, child: EdgeChild) -> None:
    chain = tree.book.chain
    while len(child.chain) - 1 < reach(tree) and is_whole(tree):
        level = len(child.chain)
        passed = child.passed if level > 1 else child.passed_first
        if tree.stable(level) < max(passed, child.attached):
            return
        child.chain = (*child.chain, chain[level - 1])


def count_known(places: list[int], cut: int, upto: int, first: int) -> int:
    """The last item whose place is not above `upto`; -1: it is one that is not remembered."""
    found = bisect_right(places, upto)
    return first + cut + found - 1 if found or not cut else -1


def status_of(tree: EdgeTree, child: EdgeChild) -> EdgeStatus:
    levels = [tree.stable(level) for level in range(len(child.chain))]
    up = tuple([count_known(child.ups, child.ups_cut, level, 0) for level in levels])
    down = tuple([count_known(child.downs, child.downs_cut, level, 1) for level in levels])
    at_root = tree.at_root
    return EdgeStatus(
        child.chain,
        up,
        down,
        count_known(child.ups, child.ups_cut, at_root, 0),
        count_known(child.downs, child.downs_cut, at_root, 1),
    )


def announce(tree: EdgeTree, child: EdgeChild) -> None:
    """Tell a child how things are."""
    child.status = status_of(tree, child)
    child.status_due, child.looked = NEVER, ()
    tell_places(tree, child)
    child.bodies.append(child.status)
    forget_known(child)


def tell_places(tree: EdgeTree, child: EdgeChild, *more: tuple[str, str]) -> None:
    """Where those are that the child may attach to; once, and again when it has changed."""
    book = tree.book
    named = dict.fromkeys([process_of(who) for who in (*child.chain, book.root_name)])
    places = {name: book.places.get(name, "") for name in named}
    places[process_of(book.me)] = tree.place
    places.update(more)
    fresh = {name: at for name, at in places.items() if at and child.told_places.get(name) != at}
    if fresh:
        child.told_places.update(fresh)
        child.bodies.append(EdgePlaces(tuple([word for pair in fresh.items() for word in pair])))


def heard_places(tree: EdgeTree, body: EdgePlaces) -> None:
    """Kept for the next start, as far as they are about the chain, the root or the node's home."""
    words = body.words
    if len(words) % 2 or len(words) > 2 * PLACES_MAX:
        raise PeerError("places that make no sense")
    tree.book.places.update(zip(words[::2], words[1::2], strict=True))
    if len(tree.book.places) > 2 * PLACES_MAX:
        forget_places(tree)
    tree.host.changed()


def forget_places(tree: EdgeTree) -> None:
    book = tree.book
    kept = {process_of(who) for who in (*book.chain, book.root_name, tree.homing)} | {
        tree.home,
        *tree.contacts,
    }
    book.places = {name: at for name, at in book.places.items() if name in kept}


def forget_known(child: EdgeChild) -> None:
    """Items that the root and the whole chain have need no place any more, but for the last."""
    status = child.status
    assert status is not None
    upto = min(*status.up, status.up_root) - child.ups_cut
    if upto > 0:
        del child.ups[:upto]
        child.ups_cut += upto
    upto = min(*status.down, status.down_root) - 1 - child.downs_cut
    if upto > 0:
        del child.downs[:upto]
        child.downs_cut += upto


def report(tree: EdgeTree, child: EdgeChild, mark: tuple[int, ...]) -> None:
    """News of stability travel with data, or after a while alone. `mark`: how far the log is known. There can
    be none where neither that has changed nor what the child has."""
    told = child.status
    if told is not None and child.status_due == NEVER:
        looked = mark, child.chain, child.ups_cut + len(child.ups), child.items
        if looked != child.looked:
            child.looked = looked
            if status_of(tree, child) != told:
                child.status_due = tree.now + tree.settings.status_us
    if child.status_due != NEVER and (child.bodies or tree.now >= child.status_due):
        announce(tree, child)


# Down (rule 5)


def gated(tree: EdgeTree, child: EdgeChild) -> int:
    """How many nodes of the own chain must know what a child does not get: all of its chain that is to be."""
    level = len(child.chain) - 1
    return max(level, reach(tree)) if is_whole(tree) else level


def may_pass(tree: EdgeTree, child: EdgeChild, position: int) -> bool:
    """The gate: is everything before this position known at the child's whole chain?"""
    level = gated(tree, child)
    is_open = tree.book.root or level == 0 or not tree.settings.gate
    return is_open or tree.stable(level) >= position


def may_follow(tree: EdgeTree, child: EdgeChild, entry: EdgeEntry, skip: int) -> bool:
    """The gate for a message, to a child that did not get all before `skip`. Where the chain is the parent
    alone, what comes from there may pass: the parent has all that it follows from."""
    had = entry.down != NOT and gated(tree, child) == 1
    return had or may_pass(tree, child, min(skip, entry.past))


def send_down(tree: EdgeTree, child: EdgeChild) -> None:
    extend(tree, child)
    if child.status is None or child.status.chain != child.chain:
        announce(tree, child)  # before any further item
    if child.sync and not send_transfer(tree, child):
        return
    book, end = tree.book, tree.book.end
    while child.cursor < end and child.has_room(tree.settings):
        at = child.cursor
        entry = book.entries[at - book.base]
        if entry.kind == MESSAGE:
            if entry.source == child.who or entry.number <= child.filter.get((entry.origin, entry.group), 0):
                pass  # it has that
            elif entry.group in child.wants:
                if not may_follow(tree, child, entry, child.skip):
                    return
                put_item(child, entry)
                sent(child, at)
                passed = min(child.skip, entry.past)
                child.passed = max(child.passed, passed)
                if entry.down == NOT:
                    child.passed_first = max(child.passed_first, passed)
            else:
                child.skip = max(child.skip, at + 1)
        elif entry.target == (child.who, child.session) and not (entry.kind == STATE and entry.full):
            if entry.making is not None or not may_pass(tree, child, at + 1):
                return
            send_entry(child, entry, at)
        child.cursor = at + 1


def held_back(tree: EdgeTree, child: EdgeChild) -> int:
    """How many messages for a child wait behind something that its chain may lack. For people."""
    book, count, skip = tree.book, 0, child.skip
    for at in range(child.cursor, book.end):
        entry = book.entries[at - book.base]
        if entry.kind != MESSAGE or entry.source == child.who:
            continue
        if entry.group not in child.wants:
            skip = at + 1
        elif entry.number > child.filter.get((entry.origin, entry.group), 0):
            count += 0 if may_follow(tree, child, entry, skip) else entry.span
    return count


def sent(child: EdgeChild, at: int) -> None:
    child.items += 1
    last = child.downs[-1] if child.downs else 0
    child.downs.append(max(last, at + 1))
    child.past = max(child.past, at + 1)


def send_entry(child: EdgeChild, entry: EdgeEntry, at: int) -> None:
    """A state, or an invitation."""
    if entry.kind == INVITATION:
        child.flies(EdgeInvite(entry.origin, entry.number))
    else:
        covers = tuple([(*pair, number) for pair, number in entry.covers.items()])
        child.flies(EdgeState(entry.request, entry.groups, covers, entry.states))
    sent(child, at)
    child.skip = max(child.skip, at + 1)
    child.passed = child.passed_first = child.skip


def send_transfer(tree: EdgeTree, child: EdgeChild) -> bool:
    """A full state goes before anything else. Returns whether it has gone."""
    at = child.transfer
    if at < 0 or not may_pass(tree, child, at + 1):
        return False
    entry = tree.book.entries[at - tree.book.base]
    if entry.making is not None:
        return False
    send_entry(child, entry, at)
    for pair, number in entry.covers.items():
        child.filter[pair] = max(number, child.filter.get(pair, 0))
    child.sync, child.transfer = False, -1
    return True


# Trimming (rule 6)


def trim(tree: EdgeTree) -> None:
    book, oldest = tree.book, tree.now - tree.settings.keep_us
    if not book.entries or book.entries[0].at > oldest:
        return
    limit = min(tree.stable(len(book.chain)), tree.at_root)
    for child in tree.children.values():
        limit = min(limit, child.cursor)
        if child.transfer >= 0:
            limit = min(limit, child.transfer)
    if tree.full_request:
        limit = min(limit, tree.full_at)
    for since in book.groups.values():
        if since != IN:
            limit = min(limit, since)
    count = 0
    while book.base + count < limit and book.entries[count].at <= oldest:
        count += 1
    if count:
        book.trim(count)
        tree.st = [max(at, book.base) for at in tree.st]
        tree.rooted_st = max(tree.rooted_st, book.base)
