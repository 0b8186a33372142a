"""The secret of a user: what nodes on the loopback use when they are given none.

A file in the user's state folder, made once and readable by its owner alone, so that all nodes of one user
find each other without set-up, and those of other users of the machine are strangers.

Invariants. The file appears whole or not at all, and never changes: of several processes that make it at the
same time one wins, and all read what that one wrote. A file that another user owns, may read or could have
written is refused.
"""

import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from thence.core.errors import UsageError

FILE: Final = "thence/secret"
SECRET_BYTES_MIN: Final = 16
"""A process that can connect sees a proof made with the secret and may try guesses against it."""

WAYS_OUT: Final = "give one (`secret_file`, THENCE_SECRET) or set XDG_STATE_HOME to a folder of yours"


def user_secret(environment: Mapping[str, str]) -> bytes:
    """The secret of the user who runs this, made if there is none."""
    path = where(environment)
    try:
        if not path.exists():
            _make(path)
        return _read(path)
    except OSError as error:
        raise UsageError(
            f"cannot use {path} as the secret of nodes without one ({error.strerror}): {WAYS_OUT}"
        ) from None


def where(environment: Mapping[str, str]) -> Path:
    state = environment.get("XDG_STATE_HOME", "")
    if os.path.isabs(state):  # others count as not set: so say the rules of XDG
        return Path(state) / FILE
    home = environment.get("HOME", "")
    if not os.path.isabs(home):
        raise UsageError(f"no secret is given, and without HOME there is no place for one: {WAYS_OUT}")
    return Path(home) / ".local" / "state" / FILE


def _make(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{secrets.token_hex(32)}\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another process was faster: its secret counts
            os.link(new, path)
    finally:
        new.unlink()


def _read(path: Path) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        found = os.fstat(file.fileno())
        secret = file.read(4096).strip()
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        raise UsageError(f"{path} is no file of the user who runs this node: {WAYS_OUT}")
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        raise UsageError(
            f"others may use the secret in {path} (mode {mode:o}): chmod 600 it if none has, else remove "
            "it, and the next node makes a new one"
        )
    if len(secret) < SECRET_BYTES_MIN:
        raise UsageError(f"{path} holds no secret of {SECRET_BYTES_MIN} bytes: remove it, or {WAYS_OUT}")
    return secret
