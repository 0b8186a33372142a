"""Schedules over session links: a world that shows what travels."""

from collections import Counter

from support.schedules_groups import Play
from thence.core.groups import Flow, GroupPacket
from thence.replica.group.member.member import Member
from thence.replica.group.settings import GroupSettings
from thence.sim.air import Air


class Linked(Play):
    """A world whose links tell when they come and go, and which counts what travels over them."""

    def __init__(self, names: str, settings: GroupSettings | None = None, take_us: int = 0) -> None:
        self.seen: list[tuple[str, str, GroupPacket]] = []
        super().__init__(names, settings, take_us, Air(jitter_us=0, links=True, wire=True))
        self.filter = self._watch

    def _watch(self, sender: str, receiver: str, packet: GroupPacket) -> GroupPacket:
        self.seen.append((sender, receiver, packet))
        return packet

    def heals(self) -> None:
        super().heals()
        self.filter = self._watch

    def bodies(self) -> Counter[tuple[str, str, bytes]]:
        flows = [(s, r, packet) for s, r, packet in self.seen if isinstance(packet, Flow)]
        return Counter([(s, r, body) for s, r, flow in flows for body in flow.bodies])

    def member(self, name: str) -> Member:
        node = self.processes[name].node
        assert node is not None
        assert node.member is not None
        return node.member
