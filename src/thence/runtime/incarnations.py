"""The disk of a process in a changing group: a log per incarnation, and what outlives them all.

    DIR/incarnations    numbers that were used, boots, the last boot's machine and policy, where others are
    DIR/oplog/N/        the log of incarnation N

Invariants. A number that was reserved, or a boot that was counted, is never handed out again: the file is
made whole at once (another name, sync, rename, sync) before anything follows from it. A log that is dropped
is out of the way in one step (renamed), so that half of one is never taken for a whole one.

What the folder knows of the last start is a stage (`folder_stages`), which is read from the file once, at the
start, and written into it with each change. So whether the newest log may lack its end is asked then
(`forgetful`): the machine went down, the node was not closed in order, and the policy allowed records to wait
for their sync.
"""

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal
from zlib import crc32

import msgspec

from thence.core.errors import StorageError, UsageError
from thence.core.storage import DamageError
from thence.oplog.log import OpLog
from thence.oplog.segment import LOG, SNAPSHOT, position_of
from thence.oplog.settings import LogSettings
from thence.runtime.files import DiskFiles
from thence.runtime.folder import OPLOG, DataFolder
from thence.runtime.folder_stages import FOLDER, FORGETS, HAS_LEFT, FolderStage, found
from thence.runtime.oserrors import failed
from thence.runtime.repair import Repaired, mended, set_aside

FILE: Final = "incarnations"
TEMPORARY: Final = "incarnations.temporary"
DROPPED: Final = "dropped"
VERSION: Final = 1

ORDERS: Final = {
    "": "order with tags",
    "none": "order none",
    "edge": "an edge tree",
    "separator": "order separator",
}
"""By what the file says."""


class Manifest(msgspec.Struct):
    """What the file says."""

    process: str
    cluster: str
    version: int = VERSION
    highest: int = 0
    since: int = 0
    """From this number on no attempt to join has succeeded."""
    boots: int = 0
    machine: str = ""
    policy: str = ""
    closed: bool = True
    """The last boot ended in order: nothing that it wrote was left to be synced."""
    contacts: dict[str, str] = msgspec.field(default_factory=dict)
    """Other processes of the group and where they were, when that last changed."""
    left: Literal["", "in order", "in disorder"] = ""
    """How the last incarnation left its group, if it did."""
    members: dict[str, str] = msgspec.field(default_factory=dict)
    """Of a closed group: all its processes, this one included, and where they are. Empty: they change."""
    order: str = ""
    """`none`: of a tree without tags; `probabilistic R/K`: of clocks that members share; `edge`: of an edge
    tree; `separator`: of a topology of zones. Empty: of a group."""


def is_shelf(folder: Path) -> bool:
    """Does this data folder have a log for each incarnation?"""
    return (folder / FILE).exists()


def logs_in(folder: Path) -> list[int]:
    """Numbers of the incarnations that have a log in this data folder, ascending."""
    try:
        names = os.listdir(folder / OPLOG)
    except OSError as error:
        raise failed(error, str(folder / OPLOG)) from error
    return sorted([int(name) for name in names if name.isascii() and name.isdigit()])


class IncarnationStore:
    """`group.surroundings.Shelf` over a data folder, and the counting of boots."""

    __slots__ = ("_behind", "_files", "_folder", "_root", "_settings", "_written", "stage")

    def __init__(
        self,
        folder: DataFolder,
        process: str,
        cluster: str,
        settings: LogSettings,
        members: Mapping[str, str] | None = None,
        order: str | None = "",
    ) -> None:
        """`members`: of a closed group, as they are named at this start; None: as at the first. `order`: see
        `Manifest`; None: any."""
        self._folder: Final = folder
        self._settings: Final = settings
        self._root: Final = DiskFiles(folder.path)
        self._files: dict[int, DiskFiles] = {}
        self._behind = False
        read = read_written(folder.path)
        self._written: Final = read or Manifest(
            process, cluster, members=dict(members or {}), order=order or ""
        )
        _check_owner(self._written, process, cluster)
        if order is not None and self._written.order != order:
            has, asked = (ORDERS.get(each, f"order {each}") for each in (self._written.order, order))
            raise UsageError(f"the data in {folder.path} is of {has}, and stays so: not of {asked}")
        if members:
            self._take_members(members)
        self.stage = found(read, folder.power_lost(bytes.fromhex(self._written.machine)))

    def _take_members(self, members: Mapping[str, str]) -> None:
        """The same ones at every start; their addresses may change."""
        known = self._written.members
        if not known:
            raise UsageError(f"the data in {self.path} is of a group whose members change: name none")
        if known.keys() != members.keys():
            raise UsageError(
                f"this data folder knows a group of {', '.join(sorted(known))}: members must be the same"
            )
        self._behind = self._behind or known != members
        self._written.members = dict(members)

    @property
    def fresh(self) -> bool:
        """Nothing was ever done here. To be asked before it is booted."""
        return self.stage is FolderStage.FRESH

    @property
    def forgetful(self) -> bool:
        """The newest log may lack its end."""
        return self.stage in FORGETS

    @property
    def has_left(self) -> bool:
        """Was leaving its group the last that this process did? To be asked before it is booted."""
        return self.stage in HAS_LEFT

    def _move(self, cause: str) -> None:
        """The file is to say what the next start must find (`folder_stages.found`)."""
        self.stage = FOLDER.after(self.stage, cause)
        self._written.closed = self.stage in (FolderStage.CLOSED, FolderStage.LEFT)
        if self.stage not in HAS_LEFT:
            self._written.left = ""
        if self.stage is FolderStage.IN_USE:
            self._written.machine = self._folder.machine_id().hex()
            self._written.policy = self._settings.sync
        elif self.forgetful:  # while anything may be missing, another crash must find it so
            self._written.machine = self._written.policy = ""

    def boot(self) -> int:
        """Count this start; from now on it is not closed in order until `closed` says so."""
        fresh = self.fresh
        self._written.boots += 1
        self._move("a process starts")
        if fresh:
            self._behind = True  # nothing follows from it before a number is reserved, which writes both
        else:
            self._write()
        self._sweep()
        return self._written.boots

    def mend(self, damage: DamageError, now: int) -> None:
        """The newest log is damaged: what comes before the damage is kept, and may lack its end. Of one
        whose state is damaged nothing can be used. The log as it was found is kept beside."""
        number = self.kept()[-1]
        path = self._path(number)
        self.let_go()
        if position_of(Path(damage.file).name, LOG) is not None:
            with DiskFiles(path) as files:
                mended(self._folder, files, path, self._settings, now)
        else:
            set_aside(self._folder.path, path)
            self.drop(number)
        self.forget()

    def forget(self) -> None:
        """From here on the newest log counts as one that may lack its end, across starts."""
        self._move("its log is damaged or an old copy")
        self._written.since = 0  # one of them may have been a member whose log is damaged
        self._write()

    def remembered(self) -> None:
        """What the log lacked does not matter any more: a new incarnation has taken its place."""
        self._move("another incarnation begins")
        self._write()

    @property
    def path(self) -> Path:
        return self._folder.path

    @property
    def members(self) -> dict[str, str]:
        """All processes of a closed group, and where they are."""
        return dict(self._written.members)

    @property
    def contacts(self) -> dict[str, str]:
        return dict(self._written.contacts)

    def knows(self, name: str) -> bool:
        """Is it a contact that is stored?"""
        return name in self._written.contacts

    def keep_contacts(self, contacts: dict[str, str]) -> None:
        """Store the addresses of contacts. The first ones are durable when it returns: a process that forgets
        that it had let others in would go on alone. Later changes are written by `catch_up`: old addresses
        help as well. Before there is an incarnation they are written with its first number."""
        if contacts != self._written.contacts:
            first = not self._written.contacts and self._written.highest > 0
            self._written.contacts = dict(contacts)
            self._behind = True
            if first:
                self._write()

    def catch_up(self) -> None:
        """Write down what was put off."""
        if self._behind:
            self._write()

    def left(self, unclean: bool) -> None:
        """The process is in no group any more, and no member waits for it: it has no log that could lack its
        end."""
        self._move("its process leaves the group")
        self._written.left = "in disorder" if unclean else "in order"
        self._written.contacts = {}
        self._write()

    def files(self, number: int) -> DiskFiles:
        """Of an incarnation's log that is open."""
        return self._files[number]

    def close(self, in_order: bool) -> None:
        """`in_order`: nothing was left to be synced. What was missing before still is."""
        if in_order:
            with suppress(StorageError):  # then the next start is more careful than it need be
                if self.stage in (FolderStage.IN_USE, FolderStage.INTERRUPTED):
                    self._move("is closed in order")
                    self._write()
                elif not self.forgetful:
                    self.catch_up()
        self.let_go()
        self._root.close()

    def let_go(self) -> None:
        """Of all logs: they will be opened anew."""
        for files in self._files.values():
            files.close()
        self._files.clear()

    # What the process calls (`Shelf`).

    @property
    def highest(self) -> int:
        return self._written.highest

    def kept(self) -> list[int]:
        return logs_in(self._folder.path)

    @property
    def since(self) -> int:
        return self._written.since

    def reserve(self, number: int, since: int = 0) -> None:
        self._written.highest = max(number, self._written.highest)
        self._written.since = since
        self._write()

    def open(self, number: int, now: int) -> OpLog:
        if number in self._files:
            self._files.pop(number).close()
        path = self._path(number)
        try:
            if not path.exists():
                path.mkdir(mode=0o700)
                self._folder.files.sync_folder()
            files = self._files[number] = DiskFiles(path)
        except OSError as error:
            raise failed(error, str(path)) from error
        log = self._folder.open_log(self._settings, now, files)
        if log.has_snapshot and log.load() is None:
            # An incarnation without its state is nothing; but this one had one, and must not go unnoticed.
            name = next((name for name in files.names() if name.endswith(SNAPSHOT)), f"any{SNAPSHOT}")
            what = "the state is damaged"
            raise DamageError(what, file=name, offset=0, affected="everything that this incarnation knew")
        log.boot(number, self._folder.machine_id(), now)
        return log

    def drop(self, number: int) -> None:
        if number in self._files:
            self._files.pop(number).close()
        path = self._path(number)
        aside = path.with_name(f"{DROPPED}-{number}")
        with suppress(OSError):  # it is passed over at the next start, and goes then
            path.rename(aside)
            shutil.rmtree(aside)

    def ended(self, number: int, since: int) -> None:
        """Written down before the log goes: or a former member would be taken for an attempt that failed."""
        if self._written.since != since:
            self._written.since = since
            self._behind = True
        self.catch_up()
        self.drop(number)

    def _sweep(self) -> None:
        """What a crash in the middle of dropping left behind."""
        for aside in (self._folder.path / OPLOG).glob(f"{DROPPED}-*"):
            shutil.rmtree(aside, ignore_errors=True)

    def _path(self, number: int) -> Path:
        return self._folder.path / OPLOG / str(number)

    def _write(self) -> None:
        _put(self._root, self._written)
        self._behind = False


def write_written(folder: Path, written: Manifest) -> None:
    """From here on this is the folder of a process with a log for each incarnation."""
    with DiskFiles(folder) as root:
        _put(root, written)


def _put(root: DiskFiles, written: Manifest) -> None:
    body = msgspec.json.encode(written) + b"\n"
    if TEMPORARY in root.names():
        root.remove(TEMPORARY)
    root.write(TEMPORARY, 0, b"%08x %b" % (crc32(body), body))
    root.sync(TEMPORARY)
    root.rename(TEMPORARY, FILE)
    root.sync_folder()


def read_written(folder: Path) -> Manifest | None:
    path = folder / FILE

    def damaged(what: str) -> DamageError:
        return DamageError(
            what, file=str(path), offset=0, affected="which numbers were used, and where the others are"
        )

    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise failed(error, str(path)) from error
    check, _, body = data.partition(b" ")
    if check != b"%08x" % crc32(body):
        raise damaged("the checksum does not match")
    try:
        written = msgspec.json.decode(body, type=Manifest)
    except msgspec.MsgspecError as error:
        raise damaged(f"the file cannot be read: {error}") from error
    if written.version != VERSION:
        raise damaged(f"a file of version {written.version}; this is version {VERSION}")
    return written


def _check_owner(written: Manifest, process: str, cluster: str) -> None:
    if written.process != process:
        raise UsageError(f"this data folder belongs to {written.process}, not to {process}")
    if written.cluster != cluster:
        raise UsageError(f"this data folder belongs to the cluster {written.cluster!r}, not to {cluster!r}")


def repair_shelf(path: Path, settings: LogSettings, now: int, forgetful: bool) -> Repaired:
    """`thence repair` of a data folder in a changing group; see `repair.repair`."""
    with DataFolder(path) as folder:
        written = read_written(path)
        assert written is not None
        shelf = IncarnationStore(folder, written.process, written.cluster, settings, order=None)
        try:
            kept = shelf.kept()
            if not kept:
                return Repaired()
            where = path / OPLOG / str(kept[-1])
            with DiskFiles(where) as files:
                _, result = mended(folder, files, where, settings, now)
            if result.damages or forgetful:
                shelf.forget()
            return result
        finally:
            shelf.close(in_order=False)
