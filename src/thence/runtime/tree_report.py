"""What people see of a node over a tree without tags."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from thence.replica.open_tree import OpenTree, root_number
from thence.runtime.report import KindFacts, linked
from thence.runtime.status import GroupStatus, MemberStatus

if TYPE_CHECKING:
    from thence.runtime.node import Node


def tree_facts(node: "Node", machine: OpenTree | None, closed: bool, now: int) -> KindFacts:
    """Of a node over a tree without tags: the nodes that it has links to, and those that it knows besides."""
    me = MemberStatus(name=node.settings.name, address=node.address, link="me")
    if machine is None:
        return KindFacts([me])
    overlay, processes, links = machine.overlay, machine.processes, node.link_status()
    branches = {processes.name(peer): branch for peer, branch in overlay.branches().items()}
    lags = {processes.name(peer): overlay.progress(peer) for peer in overlay.members.active}
    members = [me]
    for name in sorted({*machine.members, *links, *machine.contacts} - {node.settings.name}):
        if name not in links:
            members.append(MemberStatus(name=name, address=machine.contacts.get(name, ""), link="idle"))
            continue
        told = linked(name, links[name], now)
        lag = lags[name].sent - lags[name].acked if name in lags else 0
        members.append(replace(
            told, link="idle" if told.link == "down" else told.link, lag=lag, branch=branches.get(name, "")
        ))  # fmt: skip
    names = {root_number(name): name for name in processes.names}
    return KindFacts(
        members,
        held=machine.replica.order.waiting,
        doubts=machine.replica.doubts,
        clock=machine.counts,
        root=names.get(overlay.root, f"{overlay.root:010x}"),
        parent="" if overlay.parent is None else processes.name(overlay.parent),
        group=GroupStatus(
            incarnation=machine.me, phase=node.kind.phase(), view=list(machine.members), closed=closed
        ),
    )
