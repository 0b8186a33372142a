"""Schedules over changing groups, written by hand: to whom one returns, and to whom not."""

from collections.abc import Callable

from support.schedules_groups import Play
from thence.core.groups import GroupPacket, JoinRequest
from thence.sim.air import Air


def _unanswered(sender: str, receiver: str, packet: GroupPacket) -> GroupPacket | None:
    """No member is asked to let one of the other side in."""
    other = (sender in "ab") != (receiver in "ab")
    return None if isinstance(packet, JoinRequest) and other else packet


def returner_that_is_not_answered() -> str:
    """Two sides of two have evicted each other; those of one are told first, and no member of the other lets
    them in for a while. To return to each other would not bring them there, again and again."""
    play = Play("abcd", air=Air(jitter_us=0, links=True)).together("abcd")
    play.cuts("ac", "ad", "bc", "bd")
    play.evicts("c", "a")
    play.evicts("c", "b")
    play.passes(2)
    play.send("a")
    play.send("c")
    play.passes(1)
    play.cut.clear()
    play.filter = _unanswered
    play.passes(40)
    if found := [me for name in "ab" if (me := play.me(name)) != name]:
        return f"returned to their own side: {found}"
    return play.ends_well()


RETURNING: dict[str, Callable[[], str]] = {
    schedule.__name__: schedule for schedule in (returner_that_is_not_answered,)
}
