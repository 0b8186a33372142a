"""What a node tells about itself, gathered when it is asked."""

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from thence.runtime.peer import LinkStatus
from thence.runtime.status import (
    EdgeStatusReport,
    Faults,
    GroupStatus,
    LogStatus,
    MemberStatus,
    Status,
    ZonesStatus,
)

if TYPE_CHECKING:
    from thence.runtime.node import Node

SECOND: Final = 1_000_000

ONE_GROUP: Final = "this node has one group: others are of edge trees (spread edge)"


class KindFacts(NamedTuple):
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
    zones: ZonesStatus | None = None
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
        zones=facts.zones,
        warnings=node.settings.warnings,
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
    log, syncs = driver.machine.log, driver.syncs
    why = None if driver.trouble is None else str(driver.trouble)
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
        writes=log.writes,
        syncs=syncs,
    )
