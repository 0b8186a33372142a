"""What a process of a topology tells about itself: `thence status` shows zones and gateways from it."""

from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from thence.replica.zone import ZoneMachine
from thence.runtime.report import KindFacts, linked
from thence.runtime.status import MemberStatus, SeparatorStatus, ZonesStatus

if TYPE_CHECKING:
    from thence.runtime.node import Node


def zone_facts(node: "Node", machine: ZoneMachine | None, now: int) -> KindFacts:
    me = MemberStatus(name=node.settings.name, address=node.address, link="me")
    if machine is None:
        return KindFacts([me])
    core, topology, links = machine.core, machine.topology, node.link_status()
    members = [me]
    for peer in core.near:
        name = topology.names[peer]
        gone = peer in core.closed
        if name in links and not gone:
            lag = len(core.streams[peer].items)
            members.append(replace(linked(name, links[name], now), lag=lag))
        else:
            role: Literal["member", "evicted"] = "evicted" if gone else "member"
            members.append(MemberStatus(name=name, address="", link="idle", role=role))
    zones = topology.zones_of(core.me)
    separators = [
        SeparatorStatus(
            zones=[topology.zones[zone].name for zone in topology.separators[number].zones],
            members=[topology.names[each] for each in topology.separators[number].members],
            gone=[
                topology.names[each] for each in topology.separators[number].members if each in core.closed
            ],
        )
        for number in sorted({number for zone in zones for number in topology.zones[zone].separators})
    ]  # fmt: skip
    report = ZonesStatus(
        zones=[topology.zones[zone].name for zone in zones],
        gateway=topology.is_gateway(core.me),
        active=core.active,
        separators=separators,
        gone=[topology.names[each] for each in core.closed],
        flushing=[topology.names[each] for each in core.closed if each not in core.flushed],
        forwards=core.forwards,
        history=len(core.history),
        hops=sum(stream.have for stream in core.streams.values()),
        exposed=machine.talk.exposed,
        silent=list(machine.waits_for),
    )
    return KindFacts(members, held=core.orderer.waiting, zones=report)
