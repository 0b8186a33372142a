"""When to tell others what this client has seen: phantoms.

Section 5.4 of the tagged causal broadcast document: a member that only listens would hold stability
back for ever, so it says now and then what it has seen, without a message. Here a phantom is the
context that the client's next message would carry.

State. `_untold`: the client has taken something since it last spoke, by message or phantom, at
`_spoke_at`.
`_progress_at`, `_ask_after_us`: since when nothing has become stable although something should, and
how long to put up with it. `_wake_at`: the outstanding wake-up.

Invariants. A client that takes something speaks within twice `tell_every_us`; one that sends more often
than that needs no phantoms. A phantom may be lost: a client that misses one
asks the members that are not known to have seen everything, and they answer; the wait
between two questions doubles. A node whose client has spoken and for which all is stable is silent.
"""

from dataclasses import dataclass

from thence.core.errors import UsageError
from thence.core.machine import NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class PhantomSettings:
    tell_every_us: int = 1_000_000
    """Long enough that a member which sends once a second needs no phantoms at all."""
    ask_after_us: int = 3_000_000
    """Several tellings: what is missing then was lost, not late."""
    ask_max_us: int = 24_000_000
    """How long a healed link may go unnoticed."""

    def __post_init__(self) -> None:
        if not 0 < self.tell_every_us <= self.ask_after_us <= self.ask_max_us:
            raise UsageError("phantom settings: need 0 < tell_every <= ask_after <= ask_max")


class PhantomSchedule:
    """Decides when to tell, and when to ask which members; what is told and asked is not its business."""

    __slots__ = ("_ask_after_us", "_progress_at", "_settings", "_spoke_at", "_untold", "_wake_at")

    def __init__(self, settings: PhantomSettings | None = None) -> None:
        self._settings = settings or PhantomSettings()
        self._untold = False
        self._spoke_at = -self._settings.tell_every_us
        self._wake_at = NEVER
        self._progress_at = 0
        self._ask_after_us = self._settings.ask_after_us

    @property
    def resting(self) -> bool:
        return self._wake_at == NEVER

    def saw(self, own: bool, now: int) -> None:
        """The client took a message, or sent one, which tells everything that it has seen."""
        if own:
            self._untold = False
            self._spoke_at = now
        else:
            self._untold = True

    def rouse(self, now: int) -> int:
        """There is, or will be, something to tell: the wake-up to ask for."""
        self.progress(now)
        return self._rest(now)

    def resume(self, now: int) -> int:
        """The outstanding wake-up was lost in a crash, and so was, perhaps, what others told."""
        return self.rouse(now)

    def progress(self, now: int) -> None:
        """Something has become stable."""
        self._progress_at = now
        self._ask_after_us = self._settings.ask_after_us

    def wake(self, now: int, idle: bool) -> tuple[bool, bool, int]:
        """Tell all members? Ask those that hold stability back? And the next wake-up, or `NEVER`. `idle`:
        all is stable, and nothing waits for the client."""
        if now < self._wake_at:
            return False, False, NEVER
        tell = self._untold and now - self._spoke_at >= self._settings.tell_every_us
        if tell:
            self._untold = False
            self._spoke_at = now
        ask = not idle and now - self._progress_at >= self._ask_after_us
        if ask:
            self._progress_at = now
            self._ask_after_us = min(2 * self._ask_after_us, self._settings.ask_max_us)
        if idle and not self._untold:
            self._wake_at = NEVER
            return tell, ask, NEVER
        return tell, ask, self._rest(now)

    def _rest(self, now: int) -> int:
        self._wake_at = now + self._settings.tell_every_us
        return self._wake_at
