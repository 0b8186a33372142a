"""`thence store backup` and `restore`: a store as a folder from which another one, or Redis, can be made.

`commands.resp` holds requests as a client sends them (`redis-cli --pipe` takes them as well), `backup.json`
what they are and their SHA-256. A backup is whole or not there: it is written beside, and renamed. What is
restored are writes of their own: a restored store is another one, and is never taken for the one that was
backed up.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec

from thence.core.errors import ThenceError, UsageError
from thence.local.console import counting, out
from thence.local.redis_client import RedisClient
from thence.replica.group.settings import Order
from thence.runtime.address import Address, parse_address
from thence.runtime.store_at import store_at
from thence.store.dump import Dump
from thence.store.reply import Fail, encode
from thence.store.resp import BadRequest, Requests
from thence.store.state import COUNT_BITS

COMMANDS: Final = "commands.resp"
ABOUT: Final = "backup.json"
FORM: Final = 1
PASSWORD: Final = "REDISCLI_AUTH"  # the name of an environment variable
READ_BYTES: Final = 1 << 20
AT_ONCE: Final = 256
"""Requests that are under way."""
PATIENCE_S: Final = 60.0


class About(msgspec.Struct):
    """`backup.json`."""

    form: int
    made: str
    """When it began."""
    source: str
    session: str
    """What the node had by then, for THENCE.ATTACH."""
    keys: int
    hidden: int
    """Keys with concurrent values of other kinds, which are not in it."""
    bytes: int
    sha256: str


class BackupSource(Protocol):
    """What is written down."""

    @property
    def session(self) -> str: ...

    def pieces(self) -> Iterator[bytes]: ...

    def end(self) -> tuple[int, int]:
        """How many keys there were, and how many of them had others hidden."""
        ...


def backup(folder: Path, source: str) -> int:
    """All keys, as clients of this node see them at one moment."""
    address = parse_address(source)
    made = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        return _write(folder, made, str(address), lambda: _connected(address), BackupRequest)
    except Fail as error:
        raise UsageError(f"the store at {address}: {error.text}") from error


def at(tag: str, data: Path, folder: Path, order: Order) -> int:
    """The same as a node had them right after it had delivered an operation."""
    origin, mark, seq = tag.rpartition(":")
    if not (origin and mark and seq.isdigit()):
        raise UsageError(f"an operation is named like a:1041 (THENCE.TAG key tells), not {tag}")
    state = store_at(data, (origin, int(seq)), order)
    moment = state.time >> COUNT_BITS
    made = datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec="seconds")
    return _write(folder, made, f"{data} at {tag}", lambda: nullcontext(Dump(state.space, moment)), Replayed)


C = TypeVar("C")


def _write(
    folder: Path,
    made: str,
    source: str,
    opened: Callable[[], AbstractContextManager[C]],
    by: Callable[[C], BackupSource],
) -> int:
    folder = folder.absolute()
    if folder.exists():
        raise UsageError(f"{folder} is there already: a backup is not written over anything")
    beside = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        with opened() as there:
            about = _fetch(beside, made, source, by(there))
        beside.rename(folder)
        _sync(folder.parent)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror or error}") from error
    finally:
        if beside is not None:
            shutil.rmtree(beside, ignore_errors=True)
    out.print(f"{about.keys:,} keys, {about.bytes:,} bytes in {folder}")
    if about.hidden:
        out.print(f"{about.hidden:,} of them had concurrent values of other kinds, which are not in it")
    return 0


class BackupRequest:
    """A node's store."""

    def __init__(self, ask: RedisClient) -> None:
        self._ask: Final = ask
        self.session: Final[str] = ask("THENCE.DUMP", "BEGIN").decode()

    def pieces(self) -> Iterator[bytes]:
        while (data := self._ask("THENCE.DUMP", "NEXT")) is not None:
            yield data

    def end(self) -> tuple[int, int]:
        keys, hidden = self._ask("THENCE.DUMP", "END")
        return keys, hidden


class Replayed:
    """A store without a node: nothing can be attached to what it had seen."""

    session: Final = ""

    def __init__(self, dump: Dump) -> None:
        self._dump: Final = dump

    def pieces(self) -> Iterator[bytes]:
        while data := self._dump.next():
            yield data

    def end(self) -> tuple[int, int]:
        return self._dump.keys, self._dump.hidden


def _fetch(folder: Path, made: str, source: str, there: BackupSource) -> About:
    digest, size = sha256(), 0
    with (folder / COMMANDS).open("xb") as file, counting("backup") as told:
        for data in there.pieces():
            file.write(data)
            digest.update(data)
            size += len(data)
            told(size, 0, "bytes")
        keys, hidden = there.end()
        file.flush()
        os.fsync(file.fileno())
    about = About(FORM, made, source, there.session, keys, hidden, size, digest.hexdigest())
    with (folder / ABOUT).open("xb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(about)) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    _sync(folder)
    return about


def restore(folder: Path, target: str, merge: bool) -> int:
    """Everything in a backup, into a store that holds nothing, unless `merge`."""
    about, address = read_about(folder), parse_address(target)
    with _connected(address) as ask, counting("restore") as told:
        if not merge and (held := _keys(ask)):
            raise UsageError(
                f"the store at {address} holds {held:,} keys: take an empty one, or add to it with --merge"
            )
        done = 0
        for batch in _batches(folder / COMMANDS, merge):
            done += _play(ask, batch, done)
            told(done, 0, "commands")
    out.print(f"{about.keys:,} keys of {about.made} restored at {address}, as writes of its own")
    return 0


def read_about(folder: Path) -> About:
    """Of a backup that is whole."""
    try:
        about = msgspec.json.decode((folder / ABOUT).read_bytes(), type=About)
        if about.form != FORM:
            raise UsageError(f"{folder} is a backup of form {about.form}: this version reads {FORM}")
        with (folder / COMMANDS).open("rb") as file:
            digest, size = sha256(), 0
            while data := file.read(READ_BYTES):
                digest.update(data)
                size += len(data)
    except OSError as error:
        raise UsageError(f"{folder} is no backup: {error.strerror}: {error.filename}") from error
    except msgspec.MsgspecError as error:
        raise UsageError(f"{folder} is no backup: {ABOUT}: {error}") from error
    if (size, digest.hexdigest()) != (about.bytes, about.sha256):
        raise UsageError(f"{folder} is damaged: {COMMANDS} is not as {ABOUT} says; nothing was restored")
    return about


def _connected(address: Address) -> RedisClient:
    ask = RedisClient(address, PATIENCE_S)
    try:
        if password := os.environ.get(PASSWORD):
            ask("AUTH", password)
        ask("PING")
    except Fail as error:
        ask.close()
        hint = f"; give its password in {PASSWORD}" if error.text.startswith("NOAUTH") else ""
        raise UsageError(f"the store at {address}: {error.text}{hint}") from error
    except BaseException:
        ask.close()
        raise
    return ask


def _keys(ask: RedisClient) -> int:
    told = ask("INFO", "keyspace").decode()
    lines = [line.partition("keys=")[2].partition(",")[0] for line in told.splitlines()]
    return sum(int(count) for count in lines if count)


def _batches(path: Path, anew: bool) -> Iterator[list[list[bytes]]]:
    """`anew`: what there is of a key goes in the same operation in which it begins to be made."""
    batch: list[list[bytes]] = []
    for several in _keys_anew(_requests(path)) if anew else ([one] for one in _requests(path)):
        batch += several
        if len(batch) >= AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _requests(path: Path) -> Iterator[list[bytes]]:
    requests = Requests()
    with path.open("rb") as file:
        while data := file.read(READ_BYTES):
            requests.feed(data)
            while (found := requests.next()) is not None:
                yield found
    if requests.waiting:
        raise BadRequest("the last request is cut off")


def _keys_anew(requests: Iterable[list[bytes]]) -> Iterator[list[list[bytes]]]:
    key = None
    for one in requests:
        if one[0] in (b"SELECT", b"SET") or one[1] == key:
            yield [one]
        else:
            yield [[b"MULTI"], [b"DEL", one[1]], one, [b"EXEC"]]
        key = None if one[0] == b"SELECT" else one[1]


def _play(ask: RedisClient, batch: list[list[bytes]], before: int) -> int:
    parts: list[bytes] = []
    for words in batch:
        encode(words, 2, parts)
    for words, reply in zip(batch, ask.send(b"".join(parts), len(batch)), strict=True):
        for told in reply if isinstance(reply, list) else [reply]:
            if isinstance(told, Fail):
                what = b" ".join(words[:2]).decode(errors="backslashreplace")
                raise ThenceError(
                    f"{what}: {told.text}. The store holds what came before, some {before:,} commands"
                )
    return len(batch)


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
