"""The group as a node has it written down: who is in, where, and by which log each was first met.

Kept as a note in the log. The order of the names is the order of their indices, which all members share.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from thence.core.errors import UsageError
from thence.core.storage import DamageError
from thence.oplog.log import OpLog
from thence.runtime.address import Address, parse_address
from thence.runtime.introductions import leap

ROSTER_NOTE: Final = 3
"""The key of the note."""


class Member(msgspec.Struct):
    name: str
    address: str
    log_id: str = ""
    """In hexadecimal; empty: never met."""
    boot: int = 0
    """The newest that it was met with."""


class Written(msgspec.Struct):
    cluster: str
    me: str
    members: list[Member]


class Roster:
    def __init__(self, log: OpLog, written: Written) -> None:
        self._log: Final = log
        self._written: Final = written
        self.names: Final = [member.name for member in written.members]
        self._by_name: Final = {member.name: member for member in written.members}

    def address(self, name: str) -> Address:
        return parse_address(self._by_name[name].address)

    def meet(self, name: str, log_id: bytes, boot: int) -> str | None:
        """Somebody proved to be `name`, with this log: a reason to refuse it, or None."""
        member = self._by_name.get(name)
        if member is None:
            return f"{name} is not a member of this group"
        if member.log_id and member.log_id != log_id.hex():
            return (
                f"{name} is known here with another log: two nodes with one name, or one that lost its data"
            )
        if boot < member.boot:
            return f"{name} was here with a newer boot ({member.boot}, not {boot}): a copy of its data folder"
        absurd = leap(name, boot, member.boot)
        if absurd is not None:
            return absurd
        if not member.log_id or boot > member.boot:
            member.log_id, member.boot = log_id.hex(), boot
            self.write()
        return None

    def write(self) -> None:
        """Part of the next commit."""
        self._log.note(ROSTER_NOTE, msgspec.json.encode(self._written))


def found(log: OpLog, cluster: str, me: str, members: Sequence[tuple[str, Address]]) -> Roster:
    """The group of a log that has none yet."""
    listed = [Member(name, str(address)) for name, address in sorted(members)]
    roster = Roster(log, Written(cluster, me, listed))
    for name in roster.names:
        log.member(name)
    roster.write()
    return roster


def recall(log: OpLog, cluster: str, me: str, members: Sequence[tuple[str, Address]]) -> Roster | None:
    """The group that the log knows, if it knows one; it must be the one that the settings name. Addresses
    may have changed."""
    note = log.notes.get(ROSTER_NOTE)
    if note is None:
        return None
    try:
        written = msgspec.json.decode(note, type=Written)
    except msgspec.MsgspecError as error:
        raise DamageError(
            f"the note about the group cannot be read: {error}",
            file="log", offset=0, affected="who is in the group",
        ) from error  # fmt: skip
    if written.me != me:
        raise UsageError(f"this data folder belongs to {written.me}, not to {me}")
    if written.cluster != cluster:
        raise UsageError(f"this data folder belongs to the cluster {written.cluster!r}, not to {cluster!r}")
    names = [member.name for member in written.members]
    if members:
        if [name for name, _ in sorted(members)] != names:
            raise UsageError(
                f"this data folder knows a group of {', '.join(names)}: members must be the same"
            )
        for member, (_, address) in zip(written.members, sorted(members), strict=True):
            member.address = str(address)
    return Roster(log, written)
