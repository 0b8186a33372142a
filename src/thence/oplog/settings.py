"""What can be chosen about a log, with the reason for each default."""

from dataclasses import dataclass

from thence.core.errors import UsageError
from thence.oplog.policy import Policy

SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class LogSettings:
    sync: Policy = "everysec"
    """What most Redis installations run with: a second at risk, and only if the machine goes down."""

    sync_interval_us: int = SECOND_US

    segment_bytes: int = 16 << 20
    """A segment is what is scanned at opening (well under a second) and what collection gives back."""

    segment_age_us: int = 3600 * SECOND_US
    """Without it the last messages of a quiet log would never be in a sealed segment, nor be collected."""

    spacing: int = 64
    """Messages of one origin between two index entries: some kilobytes read in vain for each catch-up,
    against an index of a thousandth of the log."""

    keep_bytes: int | None = None
    """Size above which segments that a snapshot stands in for go, needed or not. None: no such limit."""

    keep_us: int | None = None
    """Age above which they go. None: no such limit."""

    verify_sealed: bool = True
    """Compare sealed segments with their checksums at opening. Costs one reading of the log; without it
    damage is found when it is read."""

    def __post_init__(self) -> None:
        for name in ("sync_interval_us", "segment_bytes", "segment_age_us", "spacing"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be positive")
