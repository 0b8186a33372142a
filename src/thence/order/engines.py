"""Every engine by its name."""

from thence.core.errors import UsageError
from thence.order.engine import Engine
from thence.order.graph import GRAPH
from thence.order.unordered import NONE
from thence.order.vector import VECTOR
from thence.order.vector_e2e import VECTOR_E2E

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (GRAPH, VECTOR, VECTOR_E2E, NONE)}


def engine(name: str) -> Engine:
    try:
        return ENGINES[name]
    except KeyError:
        raise UsageError(f"unknown order {name!r}; there is {', '.join(ENGINES)}") from None
