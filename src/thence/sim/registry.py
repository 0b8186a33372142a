"""The named scenarios of all simulated worlds: one table, by world and name.

A scenario brings what suits it, and a plan of what happens, made before the run; a storm draws both from its
seed. Worlds of steps plan by themselves, so that they are here by name alone (`tell`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Generic, TypeVar

from thence.core.errors import UsageError

S = TypeVar("S")
P = TypeVar("P")

Draw = Callable[[Random], Mapping[str, object]]

MESH, STEPS, VIEWS = "a mesh", "the steps of live nodes", "partial views"
"""What nodes are in: a mesh of lossy links; a world of steps; an overlay of neighbours that they choose."""

TOLD: dict[str, dict[str, str]] = {MESH: {}, STEPS: {}, VIEWS: {}}
"""By world and name: what a scenario says. A mesh and partial views have some names in common."""


def tell(world: str, name: str, says: str) -> None:
    TOLD[world][name] = says


def known(*worlds: str) -> tuple[str, ...]:
    """All names, of these worlds alone if any are given, in an order that no import changes."""
    return tuple(dict.fromkeys([name for world in worlds or TOLD for name in sorted(TOLD[world])]))


@dataclass(frozen=True, slots=True)
class Scenario(Generic[S, P]):
    name: str
    says: str
    defaults: Mapping[str, object] | Draw
    """What suits it; or a function that draws it, for scenarios that differ from seed to seed."""
    plan: Callable[[S, Random], P]


class Scenarios(dict[str, Scenario[S, P]]):
    """Those of one world. To add one, write a function from settings and a seeded Random to a plan, and
    register it under its name with its defaults."""

    def __init__(self, world: str) -> None:
        super().__init__()
        self._world = world

    def __call__(
        self, name: str, says: str, draw: Draw | None = None, **defaults: object
    ) -> Callable[[Callable[[S, Random], P]], Callable[[S, Random], P]]:
        def register(plan: Callable[[S, Random], P]) -> Callable[[S, Random], P]:
            self[name] = Scenario(name, says, draw or MappingProxyType(defaults), plan)
            tell(self._world, name, says)
            return plan

        return register

    def find(self, name: str) -> Scenario[S, P]:
        try:
            return self[name]
        except KeyError:
            raise UsageError(f"no scenario {name!r} for {self._world}; there is {', '.join(self)}") from None

    def defaults(self, name: str, seed: object) -> dict[str, object]:
        defaults = self.find(name).defaults
        return dict(defaults(Random(f"{seed}/settings")) if callable(defaults) else defaults)
