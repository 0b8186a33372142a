"""Schedules over changing groups, written by hand: messages that hold several operations."""

from collections.abc import Callable

from support.schedules_groups import Play
from thence.sim.step_world import Air


def run_of_orphans() -> str:
    """c sends a run that nobody gets, is evicted and returns: all operations of it are carried."""
    play = Play("abc", air=Air(jitter_us=0, links=True)).together("abc")
    play.cuts("ca", "cb")
    play.send("c", count=5)
    play.passes(0.1)
    play.evicts("a", "c")
    play.passes(1)
    play.heals()
    play.passes(5)
    if play.me("c") != "c~2":
        return f"c is {play.me('c')}"
    applied = play.processes["a"].application.applied
    if missing := [seq for seq in range(1, 6) if ("c", seq) not in applied]:
        return f"a lacks {missing} of the run"
    return play.ends_well()


def run_after_a_restart() -> str:
    """a has sent runs, and restarts while b is cut off: b gets them from the log, though nothing follows."""
    play = Play("abc", air=Air(jitter_us=0, links=True)).together("abc")
    play.cuts("ab", "cb")
    for _ in range(3):
        play.send("a", count=7)
        play.passes(0.1)
    play.crash("a", power=False)
    play.boot("a")
    play.passes(1)
    play.heals()
    play.passes(5)
    applied = play.processes["b"].application.applied
    if len(applied) != 21:
        return f"b has {len(applied)} of 21 operations"
    play.send("a", count=3)
    return play.ends_well()


RUNS: dict[str, Callable[[], str]] = {
    schedule.__name__: schedule for schedule in (run_of_orphans, run_after_a_restart)
}
