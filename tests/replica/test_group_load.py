"""Much to do at once: a step does a bounded part of it, counted in messages and bytes, never in time."""

from collections.abc import Callable

import pytest
from support.schedules_groups import Play
from support.schedules_load import LOAD

from thence.core.groups import Flow, GroupPacket
from thence.replica.group_settings import GroupSettings
from thence.sim.groups import Air


@pytest.mark.parametrize("schedule", LOAD.values(), ids=LOAD)
def test_no_step_does_more_than_its_share(schedule: Callable[[], str]) -> None:
    assert schedule() == ""


def test_a_large_message_counts_for_as_many_as_it_has_kilobytes() -> None:
    settings = GroupSettings(step_max=32, window=4)
    play = Play("ab", settings, 0, Air(jitter_us=0, links=True, wire=False)).together("ab")
    play.crash("b")
    play.passes(1)
    for _ in range(20):
        play.send("a", bytes(20_000))
        play.passes(0.01)
    sizes: list[int] = []

    def watch(_: str, receiver: str, packet: GroupPacket) -> GroupPacket:
        if receiver == "b" and isinstance(packet, Flow):
            sizes.append(sum(map(len, packet.bodies)))
        return packet

    play.filter = watch
    play.boot("b")
    assert play.run(play.now + 30_000_000, lambda: not play.unsettled())
    assert sum(sizes) >= 20 * 20_000
    assert max(sizes) <= 32 * 1024 + 20_500
