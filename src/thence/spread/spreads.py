"""Every spread by its name."""

from thence.core.errors import UsageError
from thence.spread.batched import Batched
from thence.spread.mesh import MESH
from thence.spread.spread import Spread, SpreadKind

SPREADS: dict[str, SpreadKind] = {kind.name: kind for kind in (MESH,)}


def build(name: str, me: int, size: int, batch_us: int = 0) -> Spread:
    """The part of member `me`, with messages batched if `batch_us` says so."""
    made = spread(name).make(me, size)
    return Batched(made, batch_us) if batch_us else made


def spread(name: str) -> SpreadKind:
    try:
        return SPREADS[name]
    except KeyError:
        raise UsageError(f"unknown spread {name!r}; there is {', '.join(SPREADS)}") from None
