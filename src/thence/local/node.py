"""`thence node`: one live node, from its settings to its exit code."""

import os
from collections.abc import Mapping
from pathlib import Path

from thence.core.errors import UsageError
from thence.runtime.settings import NodeSettings
from thence.runtime.sources import compose, of_words


def run(flags: Mapping[str, object], words: list[str], config: Path | None) -> int:
    settings = configure(flags, words, config)
    # After the settings are known to be good: a mistake on the command line is told at once.
    from thence.runtime.running import run as run_node

    return run_node(settings)


def configure(flags: Mapping[str, object], words: list[str], config: Path | None) -> NodeSettings:
    """Flags by the keys of the settings (None: not given), `--set` and the rest of the world."""
    return compose(with_words(flags, words), os.environ, config)


def with_words(flags: Mapping[str, object], words: list[str]) -> dict[str, object]:
    given = {key: value for key, value in flags.items() if value is not None}
    extra = of_words(words)
    for key in extra.keys() & given.keys():
        raise UsageError(f"--set {key}: given as a flag as well")
    return {**given, **extra}


def as_arguments(flags: Mapping[str, object]) -> list[str]:
    """Flags as the command line of another process: what `thence up` tells its nodes."""
    arguments: list[str] = []
    for key, value in flags.items():
        if value is True and "." not in key:
            arguments.append(f"--{key.replace('_', '-')}")
        elif value is not None:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            arguments += ["--set", f"{key}={text}"]
    return arguments
