"""The stages of an incarnation, as one member of the group sees it (`group`)."""

from typing import Final

from thence.core.stages import Stage, Transitions


class IncarnationStage(Stage):
    UNKNOWN = "unknown"
    """The view does not name it: it was never heard of, or it was closed; or it is this member itself, whose
    leave is out."""
    STRANGER = "stranger"
    """A companion of a process that has returned, of which nothing else was heard."""
    UNSEEN_SUSPECT = "unseen suspect"
    """A flush has named it, and no join of it was delivered."""
    MEMBER = "member"
    """It is in the view."""
    SUSPECT = "suspect"
    """It is in the view, and is not listened to any more: some members have still to flush it."""
    DEPARTING = "departing"
    """Its leave was delivered, and some members may lack it."""
    DEPARTING_SUSPECT = "departing suspect"
    """The same, and it is suspected as well: what settles first, its leave or the suspicion, counts."""
    LEFT = "left"
    """All members have its leave."""
    LEFT_SUSPECT = "left suspect"
    """The same, and it is suspected as well, which changes nothing any more."""
    EVICTED = "evicted"
    """The group goes on without it, and agrees on its last message."""
    PAST = "past"
    """Nothing of it is to come, and it is not spoken of by name."""


_S: Final = IncarnationStage

SUSPECTED: Final = frozenset(
    {_S.UNSEEN_SUSPECT, _S.SUSPECT, _S.DEPARTING_SUSPECT, _S.LEFT_SUSPECT, _S.EVICTED}
)
INSIDE: Final = frozenset({_S.MEMBER, _S.SUSPECT})
DEPARTS: Final = frozenset({_S.DEPARTING, _S.DEPARTING_SUSPECT})
GONE: Final = frozenset({_S.LEFT, _S.LEFT_SUSPECT, _S.EVICTED})

INCARNATION: Final = Transitions(
    "an incarnation, as a member sees it",
    _S.UNKNOWN,
    [
        (_S.UNKNOWN, "was with one that has returned", _S.STRANGER),
        ((_S.UNKNOWN, _S.STRANGER), "is let in", _S.MEMBER),
        (_S.UNSEEN_SUSPECT, "is let in", _S.SUSPECT),
        ((_S.UNKNOWN, _S.STRANGER), "is suspected", _S.UNSEEN_SUSPECT),
        (_S.MEMBER, "is suspected", _S.SUSPECT),
        (_S.DEPARTING, "is suspected", _S.DEPARTING_SUSPECT),
        (_S.LEFT, "is suspected", _S.LEFT_SUSPECT),
        (_S.MEMBER, "leaves", _S.DEPARTING),
        (_S.SUSPECT, "leaves", _S.DEPARTING_SUSPECT),
        (_S.MEMBER, "is this member, and leaves", _S.UNKNOWN),
        (_S.DEPARTING, "all have its leave", _S.LEFT),
        (_S.DEPARTING_SUSPECT, "all have its leave", _S.LEFT_SUSPECT),
        ((_S.UNSEEN_SUSPECT, _S.SUSPECT, _S.DEPARTING_SUSPECT), "all have flushed it", _S.EVICTED),
        ((_S.LEFT, _S.LEFT_SUSPECT, _S.EVICTED), "is closed, and all of it is stable", _S.PAST),
        (_S.STRANGER, "is closed", _S.UNKNOWN),
        ((_S.UNKNOWN, _S.STRANGER), "is closed, and no member let it in", _S.PAST),
    ],
)
"""A member that begins with a state, of its contact or its own, takes the stages over from there
(`stage_in_state`). Those that were never named go from *unknown* to *past* in spans of numbers
(`GroupView._never_known`)."""


def stage_in_state(
    inside: bool, suspected: bool, departing: bool, evicted: bool | None, stranger: bool
) -> IncarnationStage:
    """Of an incarnation that a state has in these of its lists. `evicted`: None, if it is not gone. An honest
    state has it in lists that fit each other; where a contact lies, the later stage counts."""
    if evicted is not None:
        if evicted:
            return _S.EVICTED
        return _S.LEFT_SUSPECT if suspected else _S.LEFT
    if departing:
        return _S.DEPARTING_SUSPECT if suspected else _S.DEPARTING
    if inside:
        return _S.SUSPECT if suspected else _S.MEMBER
    if suspected:
        return _S.UNSEEN_SUSPECT
    return _S.STRANGER if stranger else _S.UNKNOWN
