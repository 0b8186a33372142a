"""What a node tells about itself, gathered when somebody asks."""

import os
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from thence.core.errors import ThenceError
from thence.oplog.log import OpLog
from thence.replica.live import Branch
from thence.runtime.peer import LinkStatus
from thence.runtime.status import Faults, LogStatus, MemberStatus, Status

if TYPE_CHECKING:
    from thence.runtime.node import Node

SECOND: Final = 1_000_000


def status_of(node: "Node") -> Status:
    driver, now, links = node.driver, node.now(), node.links()
    unstable = driver.replica.unstable
    tree = driver.tree
    found = tree.branches() if tree is not None else {}
    branches = {node.names[peer]: what for peer, what in found.items()}
    return Status(
        name=node.settings.name,
        cluster=node.settings.cluster,
        pid=os.getpid(),
        uptime_s=(now - node.started_at) / SECOND,
        state=node.state,
        boot=node.boot,
        members=[_member(node, name, links.get(name), now, branches.get(name)) for name in node.names],
        sent=driver.sent,
        delivered=driver.delivered,
        inbox=len(driver.replica.inbox),
        held=driver.replica.waiting,
        unstable=unstable,
        oldest_unstable_s=(now - node.progress_at) / SECOND if unstable else None,
        holding_stability_back=[node.names[peer] for peer in driver.replica.silent()],
        log=log_of(node.log, node.settings.log.sync, driver.trouble, driver.syncs),
        refusals=sum(link.refusals for link in links.values()),
        faults=faults_of(node.settings.allow_faults, links),
        load=node.load_status(),
        spread=node.settings.spread,
        root="" if tree is None else node.names[tree.root],
        parent="" if tree is None or tree.parent is None else node.names[tree.parent],
        clock=dict(zip(node.log.names, node.log.vector, strict=False)),
        warnings=node.settings.warnings,
    )


def _member(
    node: "Node", name: str, link: LinkStatus | None, now: int, branch: Branch | None
) -> MemberStatus:
    if link is None:
        return MemberStatus(name=name, address=str(node.settings.listen), link="me")
    progress = node.driver.mesh.progress(node.names.index(name))
    told = linked(name, link, now)
    return replace(
        told,
        link="idle" if told.link == "down" and node.driver.tree is not None else told.link,
        lag=max(0, node.log.vector[node.me] - progress.acked),
        branch=branch or "",
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


def faults_of(allowed: bool, links: dict[str, LinkStatus]) -> Faults:
    return Faults(
        allowed=allowed,
        cut=[name for name, link in links.items() if link.cut],
        slow_ms={name: link.delay_us / 1000 for name, link in links.items() if link.delay_us},
    )


def log_of(log: OpLog | None, policy: str, trouble: ThenceError | None, syncs: int) -> LogStatus:
    why = None if trouble is None else str(trouble)
    if log is None:
        return LogStatus(bytes=0, head=0, tail=0, durable=0, sync=policy, trouble=why, syncs=syncs)
    return LogStatus(
        bytes=log.size_bytes,
        head=log.head,
        tail=log.tail,
        durable=log.durable,
        sync=policy,
        trouble=why,
        appended_bytes=log.appended_bytes,
        syncs=syncs,
    )


def unwell(trouble: ThenceError | None, broken: bool) -> str | None:
    """What `/health` says of it."""
    if trouble is None:
        return None
    return f"this node must stop: {trouble}" if broken else f"cannot write: {trouble}"
