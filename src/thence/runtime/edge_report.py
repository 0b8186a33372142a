"""What a node on an edge tree tells about itself: `thence status` shows the tree from it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from thence.core.groups import process_of
from thence.replica.edge import EdgeMachine
from thence.runtime.report import KindFacts, linked
from thence.runtime.status import EdgeChildStatus, EdgeStatusReport, MemberStatus

if TYPE_CHECKING:
    from thence.runtime.node import Node


def edge_facts(node: "Node", machine: EdgeMachine | None, obstacle: str, now: int) -> KindFacts:
    """`obstacle`: why the parent has not said its name."""
    me = MemberStatus(name=node.settings.name, address=node.address, link="me")
    if machine is None:
        return KindFacts([me])
    tree, book = machine.tree, machine.book
    parent = tree.parent
    roles = {child.peer: child.items - child.acked for child in tree.children.values()}
    members = [me]
    for name, link in sorted(node.link_status().items()):
        told = linked(name, link, now)
        up = parent is not None and parent.peer == name
        lag = book.end - tree.stable(1) if up else roles.get(name, 0)
        members.append(replace(told, link="idle" if told.link == "down" and not up else told.link, lag=lag))
    children = [
        EdgeChildStatus(
            name=child.who, chain=list(child.chain), waits=book.end - child.cursor,
            gated=machine.holds_back(child), syncing=child.sync, groups=sorted(child.wants),
        )
        for child in tree.children.values()
    ]  # fmt: skip
    at = parent.who if parent is not None else ""
    home = tree.home
    bypassed = []
    if at and home and process_of(at) != home and home != node.settings.name:
        bypassed = [home]
    report = EdgeStatusReport(
        identity=book.me,
        rank=book.rank,
        root=book.me if book.root else book.root_name,
        parent=at,
        home=home,
        chain=list(book.chain),
        bypassed=bypassed,
        children=children,
        groups=sorted([group for group in book.groups if book.is_in(group)]),
        joining=sorted([group for group in book.groups if not book.is_in(group)]),
        have=_have(book.have, {group for group in book.groups if book.is_in(group)}),
        entries=len(book.entries),
        not_at_root=book.end - tree.at_root,
        copies=tree.copies,
        statuses_alone=tree.alone,
        held_back=sum(child.gated for child in children),
        attached=parent.since if parent is not None else 0,
        alone=tree.shrunk,
        without_parent_s=(now - tree.lost_at) / 1e6 if parent is None and not book.root else 0.0,
        obstacle=obstacle,
    )
    root = process_of(report.root)
    return KindFacts(members, held=report.held_back, root=root, parent=process_of(at), edge=report)


def _have(have: Mapping[tuple[str, str], int], groups: set[str]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {group: {} for group in sorted(groups)}
    for (origin, group), number in have.items():
        if group in groups:
            found[group][origin] = number
    return found
