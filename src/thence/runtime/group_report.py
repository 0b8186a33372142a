"""What a node of a changing group tells about itself, gathered when it is asked."""

from collections.abc import Set
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from thence.core.groups import process_of
from thence.replica.group.process.node import GroupNode
from thence.runtime.report import KindFacts, linked
from thence.runtime.status import GroupStatus, MemberStatus

if TYPE_CHECKING:
    from thence.replica.group.member.member import Member
    from thence.runtime.node import Node

Role = Literal["member", "suspect", "leaving", "evicted", "stranger"]


def facts_of(node: "Node", machine: GroupNode | None, waits_for: list[str], now: int) -> KindFacts:
    """`waits_for`: what a process waits for that is no member."""
    member = machine.member if machine else None
    return KindFacts(
        _members(node, member, now),
        len(member.ledger.window) if member else 0,
        member.ledger.orderer.waiting if member else 0,
        _behind(member),
        member.ledger.vector() if member else {},
        _group(node, machine, waits_for),
    )


def _group(node: "Node", machine: GroupNode | None, waits_for: list[str]) -> GroupStatus:
    member = machine.member if machine else None
    phase = machine.status if machine else "outside"
    if machine is None or member is None or node.driver is None:
        return GroupStatus(
            incarnation="", phase=phase, view=[], waiting_for=waits_for, rollback=rollback_of(machine),
            closed=machine is not None and bool(machine.admits),
        )  # fmt: skip
    return GroupStatus(
        incarnation=member.me,
        phase=phase,
        view=sorted(member.view.view),
        suspects=sorted(member.view.open),
        departing=sorted(member.view.departing),
        orphans=len(member.operations.orphans),
        unread=machine.unread,
        waiting_broadcasts=len(node.driver.steps.calls.queue),
        unsettled=list(member.carrying.waits_for),
        closed=bool(machine.admits),
    )


def rollback_of(machine: GroupNode | None) -> str:
    found = machine.rollback if machine is not None else None
    if found is None:
        return ""
    return (
        f"{found.source} has {found.theirs} messages of {found.origin}, "
        f"and only the first {found.agreed} of them are those of this node's data folder: "
        f"it is a copy from before, or {found.origin}'s is"
    )


def _behind(member: "Member | None") -> list[str]:
    """Processes that are not known to have delivered the oldest message that is not stable."""
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
    kinds: list[tuple[Role, Set[str]]] = [
        ("evicted", set(view.evicted())), ("leaving", view.departing.keys()),
        ("suspect", view.view & view.suspects), ("member", view.side),
    ]  # fmt: skip
    for role, names in kinds:
        for name in sorted(names):
            roles[process_of(name)] = role, name
    return roles


def _members(node: "Node", member: "Member | None", now: int) -> list[MemberStatus]:
    roles, links, mesh = _roles(member), node.link_status(), node.settings.spread == "mesh"
    me = node.settings.name
    told = [MemberStatus(name=me, address=node.address, link="me", incarnation=member.me if member else "")]
    for name in sorted((roles.keys() | links.keys()) - {me}):
        role, incarnation = roles.get(name, ("stranger", ""))
        link = links.get(name)
        if link is None:
            one = MemberStatus(name=name, address="", link="down" if mesh else "idle")
        else:
            one = replace(linked(name, link, now), address=str(link.address) if link.address.host else "")
        lag = lag_of(member, incarnation) if role in ("member", "suspect") else 0
        told.append(replace(one, lag=lag, role=role, incarnation=incarnation))
    return sorted(told, key=lambda one: one.name)


def lag_of(member: "Member | None", other: str) -> int:
    """Own messages that the other is not known to have delivered."""
    if member is None:
        return 0
    return max(0, member.ledger.count(member.me) - member.ledger.row(other).get(member.me, 0))
