"""A data folder of version 1 of a closed group: its log becomes that of incarnation 1.

In version 1 a node whose members were named at its start had one log, `oplog/*.log`. It held what the order
had released, with marks of what the program had taken. Here a message is in the log once it was taken. So
what was taken is written anew, in the order in which that happened; what was not is handed over to the
machine, as if it had just come, and comes again from its senders should this process end before it is taken:
they keep it until then.

Invariant: until the new log is whole and in its place, the old one is untouched. The file of incarnations,
which says that this is a folder of the new version, is written next, and the old log goes last; an upgrade
that was cut short is begun again, or finished.
"""

import os
import shutil
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from thence.core.codec import Codec
from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, STEP, newest_of
from thence.core.errors import PeerError, UsageError
from thence.core.groups import OPERATION, NamedMessage, Place
from thence.core.message import Message
from thence.core.storage import DamageError
from thence.oplog.log import OpLog
from thence.oplog.record import BOOT_BITS, Note, Stored, Taken
from thence.oplog.settings import LogSettings
from thence.replica.group.ledger.ledger import CODEC
from thence.replica.group.ledger.state import MemberState
from thence.replica.group.ledger.state_codec import encode_state
from thence.replica.history import understood
from thence.runtime.files import DiskFiles
from thence.runtime.folder import OPLOG, DataFolder
from thence.runtime.incarnations import Manifest, is_shelf, write_written
from thence.runtime.oserrors import failed
from thence.runtime.settings import NodeSettings
from thence.runtime.version1 import (
    FRONTIER,
    POLICY,
    NotedGroup,
    may_have_forgotten,
    noted_frontier,
    recall,
    unmark,
    was_closed,
)

NEW: Final = "new"


@dataclass
class _Old:
    """What a log of version 1 says, from its oldest record on."""

    names: list[str]
    before: tuple[int, ...]
    """Counters of what came before that, and was taken and stable."""
    context: tuple[int, ...] = ()
    taken: list[Message] = field(default_factory=list)
    untaken: deque[tuple[int, Message]] = field(default_factory=deque)


def upgrade(folder: DataFolder, settings: NodeSettings, now: int) -> list[NamedMessage]:
    """Returns what the order had released and the program has not taken."""
    if is_shelf(folder.path):
        _remove_old(folder)
        return []
    log, roster = _opened(folder, settings, settings.log, now)
    old = _read(log, roster.names, roster.names.index(settings.name), settings.order == "vector")
    members = {member.name: member.address for member in roster.members}
    _write_new(folder, old, log.stable, members, settings.log, now)
    write_written(folder.path, _written(folder, log, roster, settings))
    _remove_old(folder)
    return [_named(message, old.names) for _, message in old.untaken]


def upgrade_tree(folder: DataFolder, settings: NodeSettings, now: int) -> None:
    """The same of a tree without tags, whose log is as it was: it moves. `UsageError`: it has tags."""
    if is_shelf(folder.path):
        _remove_old(folder)
        return
    log, roster = _opened(folder, settings, settings.log_settings, now)
    if any(log.stable) or not all(_is_plain(stored, len(roster.names)) for stored in log.since(log.head)):
        raise UsageError(
            f"the data in {folder.path} is of a tree with tags: open it with order graph or vector, not none"
        )
    log.close(now)
    new, there = folder.path / OPLOG / NEW, folder.path / OPLOG / "1"
    try:
        for half in (new, there):
            shutil.rmtree(half, ignore_errors=True)
        new.mkdir(mode=0o700)
        for name in folder.files.names():
            if (folder.path / OPLOG / name).is_file():
                os.link(folder.path / OPLOG / name, new / name)
        with DiskFiles(new) as files:
            files.sync_folder()
        new.rename(there)
        folder.files.sync_folder()
    except OSError as error:
        raise failed(error, str(new)) from error
    write_written(folder.path, _written(folder, log, roster, settings, order="none"))
    _remove_old(folder)


def _is_plain(stored: Stored, size: int) -> bool:
    try:
        message = Codec(size, stamps_are_dots=True).decode(stored.data)
    except PeerError:
        return False  # a vector
    return isinstance(message, Message) and not message.context


def _opened(
    folder: DataFolder, settings: NodeSettings, log_settings: LogSettings, now: int
) -> tuple[OpLog, NotedGroup]:
    try:
        log = folder.open_log(log_settings, now)
    except DamageError as damage:
        raise UsageError(f"{damage}. `thence repair {folder.path}` cuts it off there") from damage
    return log, recall(log, settings.cluster, settings.name, settings.members)


def _written(
    folder: DataFolder, log: OpLog, roster: NotedGroup, settings: NodeSettings, order: str = ""
) -> Manifest:
    members = {member.name: member.address for member in roster.members}
    whole = not may_have_forgotten(folder, log)
    return Manifest(
        settings.name, settings.cluster, highest=1, since=1, boots=log.tail >> BOOT_BITS,
        machine=log.machine.hex() if whole else "",
        policy=log.notes.get(POLICY, b"").decode() if whole else "",
        closed=whole and was_closed(log),
        contacts={name: where for name, where in members.items() if name != settings.name},
        members=members, order=order,
    )  # fmt: skip


def _read(log: OpLog, names: list[str], me: int, vectors: bool) -> _Old:
    codec, old = Codec(len(names), stamps_are_dots=not vectors), _Old(names, log.start)
    for position, record in log.records(log.head):
        if isinstance(record, Note) and record.key == FRONTIER and not (old.taken or old.untaken):
            _, _, context = noted_frontier(record.data)
            old.context = newest_of(context) if vectors else context
        elif isinstance(record, Taken):
            while old.untaken and old.untaken[0][0] <= record.upto:
                old.taken.append(old.untaken.popleft()[1])
        elif isinstance(record, Stored):
            message = understood(codec, record)
            context = message.context
            if vectors:  # which count the message itself
                context = tuple([dot if dot != message.dot else dot - STEP for dot in newest_of(context)])
                context = tuple(sorted([dot for dot in context if dot >> ORIGIN_BITS]))
            operation = Message(message.dot, context, bytes((OPERATION,)) + message.payload)
            if message.dot & ORIGIN_MASK == me:
                old.taken.append(operation)
            else:
                old.untaken.append((position, operation))
    return old


def _write_new(
    folder: DataFolder,
    old: _Old,
    stable: tuple[int, ...],
    members: dict[str, str],
    settings: LogSettings,
    now: int,
) -> None:
    path = folder.path / OPLOG / NEW
    counts = {name: seq for name, seq in zip(old.names, old.before, strict=False) if seq}
    state = MemberState(
        counts=counts,
        stable=dict(counts),
        context=tuple([_place(dot, old.names) for dot in old.context]),
        view=set(members),
        addresses=members,
        goes_on=bool(counts),
    )
    try:
        for half in (path, path.with_name("1")):
            shutil.rmtree(half, ignore_errors=True)
        path.mkdir(mode=0o700)
        with DiskFiles(path) as files:
            log = OpLog.open(files, settings, now)
            log.boot(1, folder.machine_id(), now)
            for name in old.names:
                log.member(name)
            log.commit_only()
            log.snapshot(log.tail, [counts.get(name, 0) for name in old.names], encode_state(state), now)
            for message in old.taken:
                log.append(message.dot, CODEC.encode(message))
            log.commit_only()
            log.mark_stable([min(pair) for pair in zip(stable, log.vector, strict=False)])
            log.sync(now)
            log.close(now)
        path.rename(path.with_name("1"))
        folder.files.sync_folder()
    except OSError as error:
        raise failed(error, str(path)) from error


def _named(message: Message, names: list[str]) -> NamedMessage:
    context = tuple([_place(dot, names) for dot in message.context])
    return NamedMessage(*_place(message.dot, names), context, message.payload)


def _place(dot: int, names: list[str]) -> Place:
    return names[dot & ORIGIN_MASK], dot >> ORIGIN_BITS


def _remove_old(folder: DataFolder) -> None:
    unmark(folder.path)
    for name in folder.files.names():
        if (folder.path / OPLOG / name).is_file():
            folder.files.remove(name)
