"""Where people look: plain output on standard output, progress on standard error of a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False)


@contextmanager
def counting(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for long work, fed with (done, total); silent where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None  # noqa: ARG005
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
