"""What nodes of version 1 wrote into their logs, besides messages."""

from collections.abc import Sequence

import msgspec

from thence.oplog.log import OpLog
from thence.runtime.address import Address
from thence.runtime.version1 import CLOSED, POLICY, ROSTER


def found(log: OpLog, cluster: str, me: str, members: Sequence[tuple[str, Address]]) -> None:
    """The group, and its names."""
    listed = [
        {"name": name, "address": str(address), "log_id": "", "boot": 0} for name, address in sorted(members)
    ]
    for name, _ in sorted(members):
        log.member(name)
    log.note(ROSTER, msgspec.json.encode({"cluster": cluster, "me": me, "members": listed}))


def note_policy(log: OpLog, policy: str) -> None:
    log.note(POLICY, policy.encode())


def note_closed(log: OpLog) -> None:
    """The last record of a log that is closed in order; nothing may be gathered."""
    # The log puts a mark of its own before the first record of a commit: where this one comes to stand is
    # known only after another.
    before = log.note(CLOSED, b"")
    log.note(CLOSED, (before + 1).to_bytes(8, "little"))
