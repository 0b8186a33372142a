"""When to sync: decided here, done by the driver.

| policy | a record is synced | a power cut loses |
| --- | --- | --- |
| `always` | before anything that follows from it leaves the node | nothing |
| `everysec` | within about a second | that second |
| `no` | when the operating system likes (and whenever a segment is sealed) | whatever it had not liked yet |

Whatever the policy, the machine may insist on a commit (`must`): it is synced before anything that follows
from it leaves the node.

One sync is under way at a time. What is committed meanwhile is covered by the next one together, however
much it is: under load the number of syncs is that of the disk, not that of the messages.
"""

from typing import Final, Literal, NamedTuple

from thence.core.errors import UsageError
from thence.core.machine import Wake
from thence.core.storage import Files

Policy = Literal["always", "everysec", "no"]


class DiskSync(NamedTuple):
    """Sync `file`, then tell the log so. Makes everything up to `position` durable; below 0 it is of the
    snapshot that is being written."""

    file: str
    size: int
    position: int
    folder: bool = False
    """Its name as well."""

    def carry_out(self, files: Files) -> None:
        files.sync(self.file)
        if self.folder:
            files.sync_folder()


class SyncPolicy:
    """A machine: commits, wake-ups and finished syncs go in, syncs and wake-ups come out."""

    __slots__ = ("_due", "_flying", "_interval_us", "_must", "_policy", "_wanted", "insisted", "lets_go")

    def __init__(self, policy: Policy, interval_us: int) -> None:
        if policy not in ("always", "everysec", "no"):
            raise UsageError(f"there is no sync policy {policy!r}: take always, everysec or no")
        self._policy: Final = policy
        self._interval_us: Final = interval_us
        self._wanted: DiskSync | None = None
        """What is committed and in no sync yet."""
        self._flying: DiskSync | None = None
        self._must = False
        """What is wanted was insisted on."""
        self.lets_go: Final = policy != "always"
        self.insisted = 0
        """Up to this position it was insisted on, whatever the policy."""
        self._due: int | None = None
        """When the outstanding wake-up is due, if there is one."""

    def committed(self, sync: DiskSync, now: int, must: bool = False) -> list[DiskSync | Wake]:
        self._wanted = sync
        if must:
            self._must, self.insisted = True, sync.position
        elif self.gathers:
            return []
        return self._next(now)

    @property
    def gathers(self) -> bool:
        """A wake-up is due that is for all that is committed until then."""
        return self._due is not None and self._policy == "everysec" and not self._must

    def wake(self, now: int) -> list[DiskSync | Wake]:
        if self._due is None:
            return []
        if now < self._due:
            return [Wake(self._due)]
        self._due = None
        return self._fly()

    def done(self, sync: DiskSync, now: int) -> list[DiskSync | Wake]:
        """A sync is finished."""
        if self._flying == sync:
            self._flying = None
        return self._next(now)

    def settled(self) -> None:
        """Everything that was committed is durable already."""
        self._wanted, self._must = None, False

    def _next(self, now: int) -> list[DiskSync | Wake]:
        if self._wanted is None or self._flying is not None:
            return []
        if self._policy == "always" or self._must:
            return self._fly()
        if self._policy == "no" or self._due is not None:
            return []
        self._due = now + self._interval_us
        return [Wake(self._due)]

    def _fly(self) -> list[DiskSync | Wake]:
        if self._wanted is None or self._flying is not None:
            return []
        self._flying, self._wanted, self._must = self._wanted, None, False
        return [self._flying]
