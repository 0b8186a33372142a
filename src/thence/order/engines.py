"""Every engine by its name; besides the probabilistic one, which has parameters, and the separator engine,
which needs a topology and is made where there is one (`order/separator.py`)."""

from typing import Final

from thence.core.errors import UsageError
from thence.order.engine import SEPARATOR, Engine
from thence.order.graph import GRAPH
from thence.order.unordered import NONE
from thence.order.vector import VECTOR
from thence.order.vector_e2e import VECTOR_E2E

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (GRAPH, VECTOR, VECTOR_E2E, NONE)}

PROBABILISTIC: Final = "probabilistic"


def engine(name: str) -> Engine:
    try:
        return ENGINES[name]
    except KeyError:
        raise UsageError(f"unknown order {name!r}; there is {', '.join(ENGINES)}") from None


def chosen(
    name: str, entries: int | None = None, keys: int | None = None, recent: int | None = None
) -> Engine:
    """An engine by its name, or the probabilistic one with what was asked for."""
    if name == PROBABILISTIC:
        from thence.order.probabilistic import ENTRIES, KEYS, RECENT, probabilistic  # most never need it

        return probabilistic(
            ENTRIES if entries is None else entries,
            KEYS if keys is None else keys,
            RECENT if recent is None else recent,
        )
    for flag, value in (("entries", entries), ("keys", keys), ("recent", recent)):
        if value is not None:
            raise UsageError(f"--{flag} is for --order {PROBABILISTIC}")
    if name not in ENGINES:
        raise UsageError(
            f"unknown order {name!r}; there is {', '.join(ENGINES)}, {PROBABILISTIC}, {SEPARATOR}"
        )
    return ENGINES[name]
