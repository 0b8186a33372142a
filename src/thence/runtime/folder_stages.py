"""The stages of a data folder: what it knows of the last start, and whether its newest log has everything."""

from typing import TYPE_CHECKING, Final

from thence.core.stages import Stage, Transitions

if TYPE_CHECKING:
    from thence.runtime.incarnations import Manifest


class FolderStage(Stage):
    FRESH = "fresh"
    """No process was ever here."""
    IN_USE = "in use"
    """A start was counted, and has not ended in order. The newest log has all that was written to it, as long
    as the machine runs."""
    INTERRUPTED = "interrupted"
    """The last start did not end in order, and the newest log has everything."""
    CLOSED = "closed"
    """The last start ended in order."""
    FORGETFUL = "forgetful"
    """The newest log may lack its end, so its incarnation must not go on."""
    LEFT = "left"
    """Its process has left the group: there is no log that could lack its end."""
    LEFT_FORGETFUL = "left and forgetful"
    """The same, but what it was before may not be what it remembers: it stays forgetful."""


_S: Final = FolderStage

FORGETS: Final = frozenset({_S.FORGETFUL, _S.LEFT_FORGETFUL})
HAS_LEFT: Final = frozenset({_S.LEFT, _S.LEFT_FORGETFUL})
_WHOLE: Final = (_S.IN_USE, _S.INTERRUPTED, _S.CLOSED)

FOLDER: Final = Transitions(
    "a data folder",
    _S.FRESH,
    [
        ((_S.FRESH, _S.INTERRUPTED, _S.CLOSED, _S.LEFT), "a process starts", _S.IN_USE),
        ((_S.FORGETFUL, _S.LEFT_FORGETFUL), "a process starts", _S.FORGETFUL),
        (_S.IN_USE, "the process dies", _S.INTERRUPTED),
        (_S.IN_USE, "the machine dies before a sync", _S.FORGETFUL),
        ((_S.IN_USE, _S.INTERRUPTED), "is closed in order", _S.CLOSED),
        ((*_WHOLE, _S.FORGETFUL), "its log is damaged or an old copy", _S.FORGETFUL),
        ((_S.LEFT, _S.LEFT_FORGETFUL), "its log is damaged or an old copy", _S.LEFT_FORGETFUL),
        ((_S.FORGETFUL, _S.IN_USE), "another incarnation begins", _S.IN_USE),
        ((_S.IN_USE, _S.LEFT), "its process leaves the group", _S.LEFT),
        ((_S.FORGETFUL, _S.LEFT_FORGETFUL), "its process leaves the group", _S.LEFT_FORGETFUL),
    ],
)


def found(written: "Manifest | None", machine_died: bool) -> FolderStage:
    """What the next start finds. `machine_died`: it may have, since the last one."""
    if written is None:
        return _S.FRESH
    unsynced = not written.closed and written.policy != "always"
    lacks = bool(written.boots and machine_died and unsynced)
    if written.left:
        return _S.LEFT_FORGETFUL if lacks else _S.LEFT
    if written.closed:
        return _S.CLOSED
    if lacks and not written.policy:
        return _S.FORGETFUL
    return FOLDER.after(_S.IN_USE, "the machine dies before a sync" if lacks else "the process dies")
