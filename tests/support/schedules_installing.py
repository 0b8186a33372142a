"""Schedules over changing groups in which a program cannot install the state of a contact: the contact lies,
or the program is wrong.

Each returns what is wrong, nothing if all is well.
"""

from collections.abc import Callable
from dataclasses import replace

from support.schedules_groups import Play
from thence.core.groups import GroupPacket, Offer
from thence.replica.group.settings import GroupSettings
from thence.sim.air import Air

SETTINGS = GroupSettings()


def garbles(play: Play, *names: str) -> None:
    """These hand over states that no program can install."""
    for name in names:
        play.processes[name].application.state = lambda: b"no state"  # type: ignore[method-assign]


def breaks(play: Play, name: str) -> None:
    """Its program has forgotten what it was by the time that it finds that it cannot install a state."""
    application = play.processes[name].application
    install = application.install

    def broken(state: bytes) -> None:
        application.order.clear()
        application.applied.clear()
        install(state)

    application.install = broken  # type: ignore[method-assign]


def playing(names: str, links: bool, together: str) -> Play:
    settings = replace(SETTINGS, join_timeout_us=1_000_000)
    return Play(names, settings, air=Air(jitter_us=0, links=links)).together(together)


def asks_another(links: bool = True) -> str:
    """a is the first to make an offer, each time, and lies about the state; b does not."""
    play = playing("abc", links, "ab")
    play.send("b")
    play.passes(1)
    garbles(play, "a")

    def late(one: str, other: str, packet: GroupPacket) -> GroupPacket | None:
        if one != "b" or not isinstance(packet, Offer):
            return packet
        play.at(play.now + 100_000, lambda: play.forge(one, other, packet))
        return None

    play.filter = late
    play.join("c")
    play.passes(5)
    return play.problem or ("" if play.me("c") else "c is no member") or play.ends_well()


def asks_another_over_lossy_links() -> str:
    return asks_another(links=False)


def asks_again() -> str:
    """b does not answer for a while: a is asked again, which has become honest."""
    play = playing("abc", True, "ab")
    play.send("b")
    play.passes(1)
    garbles(play, "a")
    play.cuts("bc")
    play.join("c")
    play.passes(0.5)
    del play.processes["a"].application.state
    play.passes(5)
    return play.problem or ("" if play.me("c") else "c is no member") or play.ends_well()


def gives_up() -> str:
    """No contact has a state that its program can install: then the program hears of it."""
    play = playing("abc", True, "ab")
    garbles(play, "a", "b")
    play.join("c")
    play.passes(30)
    return "" if "c: a state that is none" in play.problem else f"c goes on: {play.problem}"


def gives_up_on_the_only_one() -> str:
    """The others are not there."""
    play = playing("abc", True, "ab")
    garbles(play, "a")
    play.crash("b")
    play.join("c")
    play.passes(30)
    return "" if "c: a state that is none" in play.problem else f"c goes on: {play.problem}"


def member_goes_on() -> str:
    """a, alone, has evicted d, which is to return to it, and a lies about the state. d is with no other
    member, and goes on as the same incarnation until a has become honest."""
    play = playing("abd", True, "abd")
    play.send("d")
    play.passes(1)
    garbles(play, "a")
    breaks(play, "d")
    play.crash("b")
    play.evicts("a", "b")
    play.evicts("a", "d")
    application = play.processes["d"].application
    had = set(application.applied)
    for _ in range(20):
        play.passes(1)
        if not had or not had <= application.applied:
            return f"its program has {sorted(application.applied)}, and had {sorted(had)}"
        if play.problem or play.me("d") != "d":
            return play.problem or f"it is {play.me('d')}"
    del play.processes["a"].application.state
    play.boot("b")
    return play.ends_well()


INSTALLING: dict[str, Callable[[], str]] = {
    schedule.__name__: schedule
    for schedule in (
        asks_another, asks_another_over_lossy_links, asks_again, gives_up, gives_up_on_the_only_one,
        member_goes_on,
    )
}  # fmt: skip
