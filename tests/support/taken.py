"""Which transitions of a table are taken while something runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from thence.core.stages import Stage, Transition, Transitions


@contextmanager
def taken(table: Transitions[Any]) -> Iterator[set[Transition[Any]]]:
    """Rows of the table, as `after` leads along them."""
    found: set[Transition[Any]] = set()
    real = Transitions.after

    def after(asked: Transitions[Any], before: Stage, cause: str) -> Stage:
        result: Stage = real(asked, before, cause)
        if asked is table:
            found.add(Transition(before, cause, result))
        return result

    Transitions.after = after  # type: ignore[assignment, method-assign]
    try:
        yield found
    finally:
        Transitions.after = real  # type: ignore[method-assign]
