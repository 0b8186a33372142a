"""The stages of a process in a group (`succession`), as one step after another finds it, and of its channel
to another process (`channel.GroupLink`)."""

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


class ChannelStage(Stage):
    DOWN = "down"
    """There is no link."""
    UNASKED = "unasked"
    """There is a link, and no receipt over it has said under which number to send."""
    OPEN = "open"
    """What the other end lacks goes out under the number that it gave, a window at a time."""
    HELD = "held"
    """The incarnation that gave the number is suspected, or gone: nothing more goes out."""


CHANNEL: Final = Transitions(
    "a channel",
    ChannelStage.DOWN,
    [
        (ChannelStage.DOWN, "a link comes up", ChannelStage.UNASKED),
        (
            (ChannelStage.UNASKED, ChannelStage.OPEN, ChannelStage.HELD),
            "a receipt gives a number",
            ChannelStage.OPEN,
        ),
        (ChannelStage.OPEN, "its member is not believed", ChannelStage.HELD),
        (ChannelStage.HELD, "its member departs", ChannelStage.OPEN),
        (
            (ChannelStage.UNASKED, ChannelStage.OPEN, ChannelStage.HELD),
            "the link breaks",
            ChannelStage.DOWN,
        ),
    ],
)
"""Whether one that is open is behind is no stage, but a comparison of what was sent with what there is: it
would change with each message."""
