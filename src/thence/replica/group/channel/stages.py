"""The stages of a channel to another process (`directions.GroupLink`)."""

from typing import Final

from thence.core.stages import Stage, Transitions


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
