"""The stages of a process in a group, as one step after another finds it (`succession`)."""

from typing import Final

from thence.core.stages import Stage, Transitions


class ProcessStage(Stage):
    OUTSIDE = "outside"
    """It was never in the group, or has left it."""
    JOINING = "joining"
    """No incarnation runs, and an attempt to become a member is under way."""
    MEMBER = "member"
    """An incarnation runs."""
    RETURNING = "returning"
    """The group goes on without the incarnation that runs, and an attempt to replace it is under way."""
    LEAVING = "leaving"
    """Its leave is out, or it waits for a member that could have what it had."""


MEMBER: Final = ProcessStage.MEMBER
"""Looked up once: on Python 3.11 a member of an enum costs a call."""

_RUNS: Final = (ProcessStage.MEMBER, ProcessStage.RETURNING, ProcessStage.LEAVING)

PROCESS: Final = Transitions(
    "a process in a group",
    (ProcessStage.OUTSIDE, ProcessStage.MEMBER, ProcessStage.LEAVING),
    [
        (ProcessStage.OUTSIDE, "founds a group", ProcessStage.MEMBER),
        (ProcessStage.OUTSIDE, "asks a contact", ProcessStage.JOINING),
        (ProcessStage.JOINING, "has installed a state", ProcessStage.MEMBER),
        (ProcessStage.JOINING, "gives up", ProcessStage.OUTSIDE),
        (ProcessStage.MEMBER, "hears that the group goes on without it", ProcessStage.RETURNING),
        (ProcessStage.RETURNING, "has installed a state, or stays after all", ProcessStage.MEMBER),
        ((ProcessStage.MEMBER, ProcessStage.RETURNING), "leaves", ProcessStage.LEAVING),
        (ProcessStage.LEAVING, "comes back first", ProcessStage.MEMBER),
        (ProcessStage.LEAVING, "has left", ProcessStage.OUTSIDE),
        (_RUNS, "was put back to an earlier state", ProcessStage.JOINING),
    ],
)
