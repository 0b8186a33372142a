"""When to sync: decided here, done by the driver.

| policy | a record is synced | a power cut loses |
| --- | --- | --- |
| `always` | before anything that follows from it leaves the node | nothing |
| `everysec` | within about a second | that second |
| `no` | when the operating system likes (and whenever a segment is sealed) | whatever it had not liked yet |

Whatever the policy, somebody may insist on a commit (`must`): it is synced before anything that follows
from it leaves the node.

One sync is under way at a time. What is committed meanwhile is covered by the next one together, however
much it is: under load the number of syncs is that of the disk, not that of the messages.
"""

from typing import Final, Literal, NamedTuple

from thence.core.errors import UsageError
from thence.core.machine import Wake

Policy = Literal["always", "everysec", "no"]


class Sync(NamedTuple):
    """Sync `file`, then tell the log so. Makes everything up to `position` durable."""

    file: str
    size: int
    position: int


class SyncPolicy:
    """A machine: commits, wake-ups and finished syncs go in, syncs and wake-ups come out."""

    __slots__ = ("_due", "_flying", "_interval_us", "_must", "_policy", "_wanted", "insisted", "lets_go")

    def __init__(self, policy: Policy, interval_us: int) -> None:
        if policy not in ("always", "everysec", "no"):
            raise UsageError(f"there is no sync policy {policy!r}: take always, everysec or no")
        self._policy: Final = policy
        self._interval_us: Final = interval_us
        self._wanted: Sync | None = None
        """What is committed and in no sync yet."""
        self._flying: Sync | None = None
        self._must = False
        """Somebody insists on what is wanted."""
        self.lets_go: Final = policy != "always"
        self.insisted = 0
        """Up to this position it was insisted on, whatever the policy."""
        self._due: int | None = None
        """When the outstanding wake-up is due, if there is one."""

    def committed(self, sync: Sync, now: int, must: bool = False) -> list[Sync | Wake]:
        self._wanted = sync
        if must:
            self._must, self.insisted = True, sync.position
        elif self._due is not None and self._policy == "everysec" and not self._must:
            return []  # that wake-up is for this one as well
        return self._next(now)

    def required(self, position: int) -> int:
        """How much has to be durable before what follows from this position may leave the node."""
        return self.insisted if self.lets_go else position

    def wake(self, now: int) -> list[Sync | Wake]:
        if self._due is None:
            return []
        if now < self._due:
            return [Wake(self._due)]
        self._due = None
        return self._fly()

    def done(self, sync: Sync, now: int) -> list[Sync | Wake]:
        """A sync is finished."""
        if self._flying == sync:
            self._flying = None
        return self._next(now)

    def settled(self) -> None:
        """Everything that was committed is durable already."""
        self._wanted, self._must = None, False

    def _next(self, now: int) -> list[Sync | Wake]:
        if self._wanted is None or self._flying is not None:
            return []
        if self._policy == "always" or self._must:
            return self._fly()
        if self._policy == "no" or self._due is not None:
            return []
        self._due = now + self._interval_us
        return [Wake(self._due)]

    def _fly(self) -> list[Sync | Wake]:
        if self._wanted is None or self._flying is not None:
            return []
        self._flying, self._wanted, self._must = self._wanted, None, False
        return [self._flying]
