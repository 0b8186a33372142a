"""Finding a parent, and taking children: rules 7, 9 and 10 of docs/protocols/edge.md."""

from collections.abc import Iterable

from thence.core.edge import Count, EdgeAttach, EdgeOpened, EdgeRefused
from thence.core.errors import PeerError
from thence.core.groups import process_of
from thence.core.machine import NEVER
from thence.spread.edge_book import MESSAGE, NOT
from thence.spread.edge_gate import common, rooted, set_chain
from thence.spread.edge_interest import drop_child, drop_unwanted, mention, new_request
from thence.spread.edge_tree import EdgeChild, EdgeParent, EdgeTree


def lose(tree: EdgeTree, silent: bool) -> None:
    """There is no parent any more: it went `silent`, or the session ended."""
    parent, book = tree.parent, tree.book
    if parent is not None:
        for entry in book.entries:
            entry.rooted = entry.rooted or rooted(parent, entry)
    tree.parent, tree.target = None, None
    tree.lost_at = tree.now
    tree.patience_at = tree.now + tree.settings.alone_us
    tree.desperate_at = tree.now + tree.settings.attach_us
    begin(tree, last=parent.who if parent is not None and silent else "")


def begin(tree: EdgeTree, last: str = "") -> None:
    """Look for a parent: all that may be one are dialled at once, nearest first, `last` after the others."""
    book = tree.book
    if book.root or book.gone:
        return
    chain = [who for who in book.chain if who != last] + [who for who in book.chain if who == last]
    tree.candidates = list(tree.contacts[:1]) if book.free else chain
    tree.tried.clear()
    tree.wanted = {process_of(who) for who in tree.candidates}
    tree.probe_at = NEVER
    tree.retry_at = tree.now + tree.settings.attach_us
    seek(tree)


def may_use_root(tree: EdgeTree) -> bool:
    """Rule 9: does the root have all that came from above?"""
    return all(entry.rooted for entry in tree.book.entries if entry.above)


def root_of(tree: EdgeTree) -> tuple[str, ...]:
    """The root, if it is known and may be used."""
    return (tree.book.root_name,) if tree.book.root_name and may_use_root(tree) else ()


def seek(tree: EdgeTree) -> None:
    """Attach to the nearest that there is a link to; but wait a moment for a nearer one."""
    if tree.parent is not None or tree.target is not None or tree.invited or tree.book.gone or tree.behind:
        return
    open_ones = [who for who in tree.candidates if who not in tree.tried and process_of(who) in tree.linked]
    if not open_ones:
        return
    nearest = next(who for who in tree.candidates if who not in tree.tried)
    if open_ones[0] != nearest and tree.now < tree.probe_at:
        if tree.probe_at == NEVER:
            tree.probe_at = tree.now + tree.settings.probe_us
        return
    ask(tree, open_ones[0], tree.settings.attach_us // (3 if len(open_ones) > 1 else 1))


def ask(tree: EdgeTree, who: str, patience_us: int) -> None:
    """`patience_us`: less where another could be asked. A link to a process that died may seem to be up."""
    book = tree.book
    book.session += 1
    book.host.changed()
    tree.target = (who, book.session, tree.now + patience_us)
    groups = tree.asked = tuple(sorted(book.covered & tree.want()))
    logged = tuple([(*pair, number) for pair, number in book.logged().items()])
    have, named = book.restricted(groups), "" if book.free else who
    home = tree.home if tree.settings.rehome_us and tree.home != process_of(who) else ""
    tree.post(
        process_of(who),
        EdgeAttach(
            book.me, named, book.session, book.rank, groups, have, logged, book.chain, tree.place, home
        ),
    )  # fmt: skip


def refused(tree: EdgeTree, session: int) -> None:
    target = tree.target
    if target is not None and target[1] == session:
        tree.tried.add(target[0])
        tree.target = None
        seek(tree)


def tick_seeking(tree: EdgeTree) -> None:
    """Time passes without a parent."""
    if tree.parent is not None or tree.book.root or tree.book.gone:
        return
    if tree.waits_until <= tree.now:  # not invited
        tree.invited, tree.waits_until = "", NEVER
        begin(tree)
    if tree.target is not None and tree.target[2] <= tree.now:
        refused(tree, tree.target[1])
    if tree.retry_at <= tree.now:
        tree.retry_at = tree.now + tree.settings.attach_us
        tree.tried.clear()
        if tree.desperate_at <= tree.now:
            more = tree.contacts if tree.book.free else root_of(tree)
            tree.candidates += [who for who in more if who not in tree.candidates]
            tree.wanted.update([process_of(who) for who in more])
    if tree.patience_at <= tree.now:
        shrink(tree)
    seek(tree)


def shrink(tree: EdgeTree) -> None:
    """Rule 10: the subtree goes on by itself."""
    tree.shrunk, tree.patience_at = True, NEVER
    for child in tree.children.values():
        child.chain = (tree.book.me,)


# As a parent


def heard_attach(tree: EdgeTree, peer: str, attach: EdgeAttach) -> None:
    book = tree.book
    old = tree.children.get(attach.child)
    if old is not None and old.session >= attach.session:
        return
    unfit = book.free or book.gone or (0 < attach.rank <= book.rank) or process_of(attach.child) != peer
    if unfit or attach.parent not in ("", book.me):
        tree.post(peer, EdgeRefused(attach.session))
        return
    for other in [child for child in tree.children.values() if child.peer == peer]:
        drop_child(tree, other)
    for group in attach.groups:
        mention(tree, group)
    have = {(origin, group): number for origin, group, number in attach.have}
    covered = all(book.covers(group) for group in attach.groups) and all(
        have.get(pair, 0) >= number for pair, number in book.trimmed.items() if pair[1] in attach.groups
    )
    rank = attach.rank or book.rank + 1
    child = EdgeChild(attach.child, attach.session, tree.now, rank, attach.groups, book.end)
    child.filter, child.sync = have, not covered
    child.place, child.home = attach.place, attach.home
    child.chain = (book.me, *common(book.chain[: tree.settings.delta], attach.chain))
    child.cursor = book.base if covered else book.end
    child.skip = child.passed = child.passed_first = 0 if covered else book.end
    tree.children[child.who] = child
    named = dict.fromkeys([(origin, group) for origin, group, _ in attach.logged])
    named |= dict.fromkeys([pair for pair in book.have if pair[0] == attach.child])
    mine = tuple([(*pair, book.have[pair]) for pair in named if pair in book.have])
    root = book.me if book.root else book.root_name
    tree.post(peer, EdgeOpened(book.me, child.session, book.rank, mine, covered, child.chain, root))


# As a child


def is_behind(tree: EdgeTree, have: Iterable[Count]) -> bool:
    """A process whose disk was put back, unknown to it, must not go on counting where its log ends."""
    book = tree.book
    for origin, group, number in have:
        if origin == book.me and number > book.have.get((origin, group), 0):
            lacks = f"others have message {number} of {origin}, which its log lacks"
            tree.behind = f"{lacks}: it was put back to an earlier state"
    return bool(tree.behind)


def heard_opened(tree: EdgeTree, peer: str, opened: EdgeOpened) -> None:
    book = tree.book
    if tree.target is None or tree.target[1] != opened.session or tree.parent is not None:
        tree.reset(peer, opened.session, True)
        return
    if opened.chain[:1] != (opened.parent,) or process_of(opened.parent) != peer:
        raise PeerError("an answer of another than was asked")
    if is_behind(tree, opened.have):
        tree.reset(peer, opened.session, True)
        refused(tree, opened.session)
        return
    if opened.root and book.root_name not in ("", opened.root):
        tree.foreign = opened.root
        tree.reset(peer, opened.session, True)
        refused(tree, opened.session)
        return
    parent = EdgeParent(opened.parent, opened.session, tree.now, book.base, len(opened.chain))
    tree.parent, tree.target, tree.shrunk = parent, None, False
    tree.patience_at = tree.probe_at = tree.retry_at = tree.waits_until = NEVER
    tree.invited = tree.homing = tree.foreign = ""
    tree.wanted = {peer}
    if book.free or book.root_name != opened.root:
        book.rank = opened.rank + 1 if book.free else book.rank
        book.free, book.root_name = False, opened.root or book.root_name
        book.host.changed()
    set_chain(tree, opened.chain)
    have = {(origin, group): number for origin, group, number in opened.have}
    for entry in book.entries:
        entry.down = NOT
        has = entry.kind != MESSAGE or entry.number <= have.get((entry.origin, entry.group), 0)
        entry.up = 0 if has else NOT
    for child in tree.children.values():
        child.passed_first = child.passed  # what had come from above was not from this parent
    parent.sub = set(tree.asked)
    tree.full_request = 0
    if not opened.covered:
        tree.full_request, tree.full_at = new_request(tree), book.base
    drop_unwanted(tree)
