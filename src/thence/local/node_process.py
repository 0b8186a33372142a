"""One node, as `thence up` starts it.

The same settings and the same run as with `thence node`; but the flags are read by hand, since the packages
of the command line cost every process that lives for weeks twelve megabytes.
"""

import sys
from pathlib import Path
from typing import Final

from thence.core.errors import ThenceError, UsageError
from thence.local import node

BARE: Final = frozenset({"allow_faults", "insecure", "root"})
"""Flags without a value."""

KEYS: Final = {"sync": "log.sync", "entries": "clock.entries", "keys": "clock.keys"}
"""Settings by flag, where they have other names."""


def main(arguments: list[str]) -> int:
    try:
        return node.run(*read(arguments), None)
    except ThenceError as error:
        print(f"thence: {' '.join(str(error).split())}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


def read(arguments: list[str]) -> tuple[dict[str, object], list[str]]:
    """Settings by key, and the words of `--set`, as `thence node` has them from the same arguments."""
    flags: dict[str, object] = {}
    words: list[str] = []
    join: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        key = argument.removeprefix("--").replace("-", "_")
        if key in BARE:
            flags[key] = True
            continue
        value = next(rest, None)
        if not argument.startswith("--") or value is None:
            raise UsageError(f"{argument}: a flag and its value were expected")
        if key == "set":
            words.append(value)
        elif key == "join":
            join.append(value)
        else:
            flags[KEYS.get(key, key)] = Path(value) if key in ("data", "secret_file", "trace") else value
    return {**flags, **({"join": join} if join else {})}, words


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
