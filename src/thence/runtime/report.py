"""What a node tells about itself, gathered when somebody asks."""

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from thence.replica.open_tree import OpenTree, root_number
from thence.runtime.peer import LinkStatus
from thence.runtime.status import EdgeStatusReport, Faults, GroupStatus, LogStatus, MemberStatus, Status

if TYPE_CHECKING:
    from thence.runtime.node import Node

SECOND: Final = 1_000_000

ONE_GROUP: Final = "this node has one group: others are of edge trees (spread edge)"


class Facts(NamedTuple):
    """What a node's kind knows of it."""

    members: list[MemberStatus]
    unstable: int = 0
    held: int = 0
    behind: Sequence[str] = ()
    """Members that hold the oldest unstable message back."""
    clock: Mapping[str, int] = MappingProxyType({})
    group: GroupStatus | None = None
    root: str = ""
    parent: str = ""
    edge: EdgeStatusReport | None = None
    doubts: int = 0


def status_of(node: "Node") -> Status:
    driver, now, links = node.driver, node.clock(), node.link_status()
    facts = node.kind.facts(now)
    return Status(
        name=node.settings.name,
        cluster=node.settings.cluster,
        pid=os.getpid(),
        uptime_s=(now - node.started_at) / SECOND,
        state=node.state,
        boot=node.kind.boot,
        members=facts.members,
        sent=driver.sent if driver else 0,
        delivered=driver.steps.taken if driver else 0,
        inbox=driver.machine.waiting if driver else 0,
        held=facts.held,
        doubts=facts.doubts,
        unstable=facts.unstable,
        oldest_unstable_s=(now - node.progress_at) / SECOND if facts.unstable else None,
        holding_stability_back=list(facts.behind),
        log=_log(node),
        refusals=sum(link.refusals for link in links.values()),
        faults=_faults(node.settings.allow_faults, links),
        load=node.load_status(),
        spread=node.settings.spread,
        neighbours=node.settings.tree.neighbours if node.settings.spread not in ("mesh", "edge") else 0,
        order=node.settings.order,
        entries=node.settings.clock.entries if node.settings.order == "probabilistic" else 0,
        keys=node.settings.clock.keys if node.settings.order == "probabilistic" else 0,
        root=facts.root,
        parent=facts.parent,
        clock=dict(facts.clock),
        group=facts.group,
        edge=facts.edge,
        warnings=node.settings.warnings,
    )


def tree_facts(node: "Node", machine: OpenTree | None, closed: bool, now: int) -> Facts:
    """Of a node over a tree without tags: whom it has links to, and whom it knows besides."""
    me = MemberStatus(name=node.settings.name, address=node.address, link="me")
    if machine is None:
        return Facts([me])
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
    return Facts(
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


def linked(name: str, link: LinkStatus, now: int) -> MemberStatus:
    """A member as its link tells it."""
    return MemberStatus(
        name=name,
        address=str(link.address),
        link="cut" if link.cut else "up" if link.up else "down",
        since_s=(now - link.since_us) / SECOND,
        queued_bytes=link.queued_bytes,
        reconnects=link.reconnects,
        cut_offs=link.cut_offs,
        refusals=link.refusals,
        received_bytes=link.bytes_in,
        sent_bytes=link.bytes_out,
    )


def _faults(allowed: bool, links: dict[str, LinkStatus]) -> Faults:
    return Faults(
        allowed=allowed,
        cut=[name for name, link in links.items() if link.cut],
        slow_ms={name: link.delay_us / 1000 for name, link in links.items() if link.delay_us},
    )


def _log(node: "Node") -> LogStatus:
    driver, policy = node.driver, node.settings.log_settings.sync
    if driver is None:
        return LogStatus(bytes=0, head=0, tail=0, durable=0, sync=policy, trouble=None, syncs=0)
    log, why = driver.machine.log, None if driver.trouble is None else str(driver.trouble)
    if log is None:
        return LogStatus(bytes=0, head=0, tail=0, durable=0, sync=policy, trouble=why, syncs=driver.syncs)
    return LogStatus(
        bytes=log.size_bytes,
        head=log.head,
        tail=log.tail,
        durable=log.durable,
        sync=policy,
        trouble=why,
        appended_bytes=log.appended_bytes,
        writes=log.writes,
        syncs=driver.syncs,
    )
