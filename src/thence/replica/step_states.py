"""The states of a process that takes steps (`steps`)."""

from typing import Final

from thence.core.stages import Stage, Transitions


class StepState(Stage):
    READY = "ready"
    """Every output has left; an input makes a step."""
    WAITING = "waiting"
    """Outputs wait for a sync; an input makes a step."""
    STALLED = "stalled"
    """A write failed, and what the log holds is known: packets are dropped, calls are refused."""
    BROKEN = "broken"
    """A sync failed, or a bug was met: unknown what the disk holds, or what the machine would do. No step is
    taken any more."""
    CLOSED = "closed"
    """The end."""


RUNS: Final = (StepState.READY, StepState.WAITING)
LIVES: Final = (*RUNS, StepState.STALLED)

STEP: Final = Transitions(
    "a step",
    StepState.READY,
    [
        (StepState.READY, "an output waits for a sync", StepState.WAITING),
        (StepState.WAITING, "all outputs have left", StepState.READY),
        (RUNS, "a write fails", StepState.STALLED),
        (RUNS, "the incarnation must not go on", StepState.STALLED),
        (StepState.STALLED, "the machine is built from its log", StepState.READY),
        (LIVES, "a sync fails", StepState.BROKEN),
        (LIVES, "a bug is met", StepState.BROKEN),
        ((*LIVES, StepState.BROKEN), "is closed", StepState.CLOSED),
    ],
)
"""`Steps._release` goes between *ready* and *waiting* without asking: it does so in each step."""
