"""Where people look: plain output on standard output, progress on standard error of a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False)


@contextmanager
def counting(title: str) -> Iterator["ReportProgress"]:
    """A bar for long work, fed with (done, total); silent where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total, what=None: None  # noqa: ARG005
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total, what=None: progress.update(
            task, completed=done, total=total or None, description=what
        )


@contextmanager
def working(title: str) -> Iterator[None]:
    """A spinner for work of unknown length; silent where standard error is no terminal."""
    if sys.stderr.isatty():
        with err.status(title):
            yield
    else:
        yield


@contextmanager
def table_below() -> Iterator[Callable[[RenderableType], None]]:
    """A place for the table where there is a terminal; in a pipe it is passed over."""
    if not out.is_terminal:
        yield lambda _: None
        return
    with Live(console=out, auto_refresh=False, transient=True) as live:
        yield lambda table: live.update(table, refresh=True)


class ReportProgress(Protocol):
    def __call__(self, done: int, total: int, what: str | None = None) -> None: ...
