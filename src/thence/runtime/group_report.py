"""What a node of a changing group tells about itself, gathered when somebody asks."""

import os
from typing import TYPE_CHECKING, Final, Literal

from msgspec.structs import replace

from thence.core.groups import process_of
from thence.runtime.peer import LinkStatus
from thence.runtime.report import faults_of, linked, log_of
from thence.runtime.status import GroupStatus, MemberStatus, Status

if TYPE_CHECKING:
    from thence.replica.group_member import Member
    from thence.runtime.group_node import ChangingNode

SECOND: Final = 1_000_000

Role = Literal["member", "suspect", "leaving", "evicted", "stranger"]


def status_of(node: "ChangingNode") -> Status:
    driver, now, links = node.driver, node.now(), node.links()
    member = driver.node.member if driver else None
    unstable = len(member.ledger.window) if member else 0
    return Status(
        name=node.settings.name,
        cluster=node.settings.cluster,
        pid=os.getpid(),
        uptime_s=(now - node.started_at) / SECOND,
        state=node.state,
        boot=node.boot,
        members=_members(node, member, links, now),
        sent=driver.sent if driver else 0,
        delivered=driver.taken if driver else 0,
        inbox=driver.node.waiting if driver else 0,
        held=member.ledger.orderer.waiting if member else 0,
        unstable=unstable,
        oldest_unstable_s=(now - node.progress_at) / SECOND if unstable else None,
        holding_stability_back=_behind(member),
        log=log_of(
            driver.log if driver else None,
            node.settings.log.sync,
            driver.trouble if driver else None,
            driver.syncs if driver else 0,
        ),
        refusals=sum(link.refusals for link in links.values()),
        faults=faults_of(node.settings.allow_faults, links),
        load=node.controls.load_status(),
        clock=member.ledger.vector() if member else {},
        group=_group(node, member),
        warnings=node.settings.warnings,
    )


def _group(node: "ChangingNode", member: "Member | None") -> GroupStatus:
    driver = node.driver
    phase = driver.node.status if driver else "outside"
    if driver is None or member is None:
        return GroupStatus(
            incarnation="", phase=phase, view=[], waiting_for=node.waiting_for, rollback=rollback_of(node)
        )
    return GroupStatus(
        incarnation=member.me,
        phase=phase,
        view=sorted(member.view.view),
        suspects=sorted(member.view.open),
        departing=sorted(member.view.departing),
        orphans=len(member.operations.orphans),
        unread=driver.node.unread,
        waiting_broadcasts=len(driver.backlog),
        unsettled=list(member.carrying.waits_for),
    )


def rollback_of(node: "ChangingNode") -> str:
    found = node.driver.node.rollback if node.driver else None
    if found is None:
        return ""
    return (
        f"{found.source} has {found.theirs} messages of {found.origin}, "
        f"and only the first {found.agreed} of them are those of this node's data folder: "
        f"it is a copy from before, or {found.origin}'s is"
    )


def _behind(member: "Member | None") -> list[str]:
    """Who is not known to have delivered the oldest message that is not stable, by process."""
    if member is None:
        return []
    names = [member.ledger.names[index] for index in member.ledger.window.silent()]
    return sorted({process_of(name) for name in names if name != member.me})


def _roles(member: "Member | None") -> dict[str, tuple[Role, str]]:
    """Of each process: what it is, and under which name. The later kinds count more."""
    roles: dict[str, tuple[Role, str]] = {}
    if member is None:
        return roles
    view = member.view
    evicted = set(view.evicted()) - view.view
    kinds: list[tuple[Role, set[str]]] = [
        ("evicted", evicted), ("leaving", set(view.departing)), ("suspect", view.view & view.suspects),
        ("member", view.side),
    ]  # fmt: skip
    for role, names in kinds:
        for name in sorted(names):
            roles[process_of(name)] = role, name
    return roles


def _members(
    node: "ChangingNode", member: "Member | None", links: dict[str, LinkStatus], now: int
) -> list[MemberStatus]:
    roles = _roles(member)
    me = node.settings.name
    told = [MemberStatus(name=me, address=node.address, link="me", incarnation=member.me if member else "")]
    for name in sorted((roles.keys() | links.keys()) - {me}):
        role, incarnation = roles.get(name, ("stranger", ""))
        link = links.get(name)
        if link is None:
            told.append(MemberStatus(name=name, address="", link="down", role=role, incarnation=incarnation))
            continue
        told.append(
            replace(
                linked(name, link, now),
                address=str(link.address) if link.address.host else "",
                lag=_lag(member, incarnation) if role in ("member", "suspect") else 0,
                role=role,
                incarnation=incarnation,
            )
        )
    return sorted(told, key=lambda one: one.name)


def _lag(member: "Member | None", other: str) -> int:
    """Own messages that the other is not known to have delivered."""
    if member is None:
        return 0
    return max(0, member.ledger.count(member.me) - member.ledger.row(other).get(member.me, 0))
