"""Redis' own suite in Tcl (the sources of Redis 7.0, folder `tests`) against a store: `compat.py` runs it.

It needs `tclsh`. Tests that need replication, debugging, saving or another process are left out by their
tags, as Redis does for servers that it did not start. Those that are listed are skipped: one that breaks off
leaves its connection in a state that breaks the next ones.
"""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

RUNS: Final = "runtest"
UNITS: Final = (
    "type/string", "type/incr", "type/set", "type/hash", "type/zset", "scan", "keyspace", "expire", "multi",
    "bitops", "bitfield", "protocol", "auth", "quit", "info-command", "slowlog", "querybuf", "limits",
)  # fmt: skip
"""Of kinds and commands that are there."""
TAGS: Final = (
    "-needs:repl -needs:debug -needs:save -needs:config-maxmemory -needs:pfdebug -large-memory -slow"
)
UNIT_S: Final = 600
COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


def results(folder: Path, port: int, skipped: Iterable[str]) -> dict[str, bool]:
    """By unit and test: whether it passed. What a unit does not come to is not in it; its name alone is, as
    one that failed."""
    found: dict[str, bool] = {}
    names = [test.partition(".")[2] for test in skipped]
    without = [word for name in names for word in ("--skiptest", name)]
    for unit in UNITS:
        command = [
            "./runtest", "--host", "127.0.0.1", "--port", str(port), "--durable", "--ignore-encoding",
            "--ignore-digest", "--tags", TAGS, "--single", f"unit/{unit}", *without,
        ]  # fmt: skip
        try:
            ended = subprocess.run(command, cwd=folder, check=False, capture_output=True, timeout=UNIT_S)
            out = ended.stdout
        except subprocess.TimeoutExpired as late:
            out = late.stdout or b""
        found.update(told(unit, out.decode(errors="replace")))
    return found


def told(unit: str, out: str) -> dict[str, bool]:
    text = COLOURS.sub("", out).partition("The End")[0]
    found = {}
    for verdict, name in re.findall(r"(?m)^\[(ok|err)\]: (.*)$", text):
        test = re.sub(r" \(\d+ ms\)$", "", name) if verdict == "ok" else name.rpartition(" in tests/unit/")[0]
        found[f"{unit}.{test.replace(': ', ':')}"] = verdict == "ok"
    if f"unit/{unit} (" not in text:
        found[unit] = False
    return found
