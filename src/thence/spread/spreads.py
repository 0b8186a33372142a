"""Every spread by its name."""

from thence.core.errors import UsageError
from thence.spread.mesh import MESH
from thence.spread.spread import SpreadKind

SPREADS: dict[str, SpreadKind] = {kind.name: kind for kind in (MESH,)}


def spread(name: str) -> SpreadKind:
    try:
        return SPREADS[name]
    except KeyError:
        raise UsageError(f"unknown spread {name!r}; there is {', '.join(SPREADS)}") from None
