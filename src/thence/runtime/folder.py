"""The folder that a node keeps everything in, and the right to use it.

    lock        held by the process that uses the folder; says which one that is
    identity    the log's id, made with the folder
    oplog/      the files of the log
    …           whatever the node or its supervisor puts beside them: control.json, log.txt, …

Invariants: one process at a time writes to a folder, and none to a folder of another user. A log has
one id for as long as it lives; peers tell by it that a node under a known name is not the one they knew.

    identity = magic (8 bytes) version (2) reserved (2) id (16) crc32 (4, of all before it)

It is written before the log's first file and made whole at once (another name, sync, rename, sync): a folder
with a log and without an identity has been damaged, and gets no new one.

The lock is on the file and on the folder itself. The kernel lets go of both when the process ends, however it
ends; so a lock is never stale, and to remove the file, as people do who think it is, opens nothing.
"""

import errno
import fcntl
import os
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import Final
from zlib import crc32

from thence.core.errors import UsageError
from thence.core.storage import DamageError
from thence.oplog.log import OpLog
from thence.oplog.segment import LOG, position_of
from thence.oplog.settings import LogSettings
from thence.runtime.files import DiskFiles
from thence.runtime.home import watch
from thence.runtime.oserrors import failed

LOCK, IDENTITY, OPLOG, TEMPORARY = "lock", "identity", "oplog", "identity.temporary"

BESIDE: Final = frozenset({"control.json", "control.json.new", "listen", "log.txt", "trace"})
"""What may be there before a node was: its supervisor may have begun to write already."""

MAGIC: Final = b"thenceID"
VERSION: Final = 1
BODY: Final = Struct("<8sHH16s")
CRC: Final = Struct("<I")
ID_BYTES: Final = 16

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
BOOT_APART: Final = "THENCE_TEST_BOOT"
"""A variable for tests: nodes that have another text in it take themselves for booted at another time. It is
mixed with the boot id, so it hides no power cut; where the kernel tells none, it stands alone."""

FORBIDDEN: Final = frozenset(
    {errno.EACCES, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EPERM, errno.EROFS}
)
"""Another folder, or other rights to this one, would help; a better disk would not."""


def machine_id(source: Path = BOOT_ID) -> bytes:
    """Names the time since this machine was switched on: whatever was written under the same name can only
    have been lost by the disk. Empty where the system does not tell."""
    try:
        boot = bytes.fromhex(source.read_text().strip().replace("-", ""))
    except (OSError, ValueError):
        boot = b""
    apart = os.environ.get(BOOT_APART, "")
    return blake2b(boot + apart.encode(), digest_size=ID_BYTES).digest() if apart else boot


def is_fixed(path: Path) -> bool:
    """Does this folder hold one log, of a node over a tree or of version 1? (Else each incarnation has a
    folder for its log.)"""
    try:
        return any(position_of(name, LOG) is not None for name in os.listdir(path / OPLOG))
    except OSError:
        return False


def encode_identity(log_id: bytes) -> bytes:
    body = BODY.pack(MAGIC, VERSION, 0, log_id)
    return body + CRC.pack(crc32(body))


def decode_identity(data: bytes, file: str) -> bytes:
    def damaged(what: str, offset: int = 0) -> DamageError:
        return DamageError(what, file=file, offset=offset, affected="the id of the log in this folder")

    if len(data) < BODY.size + CRC.size:
        raise damaged("the file is cut short", len(data))
    magic, version, _, log_id = BODY.unpack_from(data)
    if magic != MAGIC:
        raise damaged("this is no identity of a log")
    if version != VERSION:
        raise damaged(f"an identity of version {version}; this is version {VERSION}", len(MAGIC))
    if len(data) > BODY.size + CRC.size:
        raise damaged("the file has bytes left over", BODY.size + CRC.size)
    if crc32(data[: BODY.size]) != CRC.unpack_from(data, BODY.size)[0]:
        raise damaged("the checksum does not match")
    return bytes(log_id)


class DataFolder:
    """A data folder that this process may use, until it is closed."""

    __slots__ = ("__weakref__", "_lock", "_machine", "_root", "created", "files", "log_id", "path")

    def __init__(self, path: Path, machine: bytes | None = None) -> None:
        """Opens the folder; makes it where there is none, or an empty one. `machine`: see `machine_id`."""
        self.path: Final = path
        self._machine: Final = machine_id() if machine is None else machine
        _make(path)
        _check_own(path)
        with DiskFiles(path) as root:
            self._root = _open(path, path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                self._lock = _open(path, path / LOCK, os.O_RDWR | os.O_CREAT)
                try:
                    self._take()
                    self.created: Final = IDENTITY not in root.names()
                    """Was there no identity before?"""
                    self.log_id: Final = self._found(root) if self.created else self._known(root)
                    self.files: Final = DiskFiles(path / OPLOG)
                    """The log's."""
                except BaseException:
                    os.close(self._lock)
                    raise
            except BaseException:
                os.close(self._root)
                raise
        watch(self)

    def forked(self) -> None:
        """Else the folder would stay locked for as long as this process lives."""
        if self._lock >= 0:
            os.close(self._lock)
            os.close(self._root)
            self._lock = self._root = -1

    def __enter__(self) -> "DataFolder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the folder. The lock file stays: to remove it might remove another process's."""
        if self._lock < 0:
            return
        self.files.close()
        with suppress(OSError):
            os.ftruncate(self._lock, 0)
        os.close(self._lock)
        os.close(self._root)
        self._lock = self._root = -1

    def machine_id(self) -> bytes:
        """What to boot the log with."""
        return self._machine

    def power_lost(self, log_machine: bytes) -> bool:
        """May the machine have gone down since a log was booted on `log_machine`? Where that cannot be
        known, yes. (A log that was never booted has nothing to lose; its incarnation is 0.)"""
        return not self._machine or log_machine != self._machine

    def open_log(self, settings: LogSettings, now: int, files: DiskFiles | None = None) -> OpLog:
        """The log in this folder, or in `files`. What a disk that lost its power does to a file is taken for
        a torn end only if this one may have, and for damage otherwise."""
        files = files or self.files
        try:
            return OpLog.open(files, settings, now)
        except DamageError:
            # Nothing was changed, and a log that has no damage opens the same either way.
            if not self._may_be_torn(files):
                raise
        return OpLog.open(files, settings, now, power_lost=True)

    def _may_be_torn(self, files: DiskFiles) -> bool:
        """Which boot the log's end is from cannot be asked of a log that does not open. But whatever bears
        the name of the machine's present boot was written since: a boot mark, or the header of a segment
        that was begun after one."""
        if not self._machine:
            return True
        logs = [name for name in files.names() if position_of(name, LOG) is not None]
        return not logs or self._machine not in files.read(logs[-1], 0, files.size(logs[-1]))

    def _take(self) -> None:
        for descriptor in (self._lock, self._root):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(self._lock, 20, 0).strip().decode("ascii", "replace")
                by = f"process {holder}" if holder.isdigit() else "another process"
                raise UsageError(f"data folder {self.path} is in use by {by}") from None
            except OSError as error:
                if descriptor == self._lock:
                    raise failed(error, str(self.path / LOCK)) from error
                # Some network file systems lock files only.
        with suppress(OSError):  # on a full disk, say: it is locked all the same
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, b"%d\n" % os.getpid(), 0)

    def _found(self, root: DiskFiles) -> bytes:
        """Make this the folder of a new log."""
        oplog = self.path / OPLOG
        try:
            # Not for other users to look into, even if the folder around it is.
            oplog.mkdir(mode=0o700, exist_ok=True)
            holds = bool(os.listdir(oplog))
        except OSError as error:
            raise _refused(self.path, error, oplog) from error
        if holds:
            raise DamageError(
                "the file is missing, though there is a log",
                file=str(self.path / IDENTITY),
                offset=0,
                affected="the id of the log in this folder",
            )
        log_id = os.urandom(ID_BYTES)
        if TEMPORARY in root.names():
            root.remove(TEMPORARY)
        root.write(TEMPORARY, 0, encode_identity(log_id))
        root.sync(TEMPORARY)
        root.rename(TEMPORARY, IDENTITY)
        root.sync_folder()
        return log_id

    def _known(self, root: DiskFiles) -> bytes:
        log_id = decode_identity(root.read(IDENTITY, 0, BODY.size + CRC.size + 1), str(self.path / IDENTITY))
        if not (self.path / OPLOG).is_dir():
            raise DamageError(
                "the folder is missing", file=str(self.path / OPLOG), offset=0, affected="the whole log"
            )
        return log_id


def _make(path: Path) -> None:
    """The folder, and those around it, to stay."""
    missing = []
    try:
        while not path.exists():
            missing.append(path)
            path = path.parent
        if not path.is_dir():
            raise UsageError(f"{path} is a file; a data folder is a folder")
        for folder in reversed(missing):
            # Other users must not look into it; those around it may hold other things.
            folder.mkdir(mode=0o700 if folder == missing[0] else 0o777, exist_ok=True)
        for folder in missing:
            with DiskFiles(folder.parent) as around:
                around.sync_folder()
    except OSError as error:
        raise _refused(path, error, path) from error


def _check_own(path: Path) -> None:
    """Before anything is written into it."""
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        raise _refused(path, error, path) from error
    if IDENTITY in names:
        return
    foreign = [name for name in names if name not in (LOCK, OPLOG, TEMPORARY) and name not in BESIDE]
    if foreign:
        shown = ", ".join(foreign[:3]) + (", …" if len(foreign) > 3 else "")
        raise UsageError(
            f"{path} is no data folder of a node and not empty (it holds {shown}); name a folder of its own"
        )


def _open(folder: Path, path: Path, flags: int) -> int:
    try:
        return os.open(path, flags, 0o600)
    except OSError as error:
        raise _refused(folder, error, path) from error


def _refused(folder: Path, error: OSError, path: Path) -> Exception:
    if error.errno in FORBIDDEN:
        return UsageError(f"data folder {folder} cannot be used: {path}: {error.strerror}")
    return failed(error, str(path))
