"""A tree that stays as it is, with groups that stay as they are: distances, next hops, and routes."""

from collections.abc import Mapping, Sequence
from typing import Final


class PathMap:
    """The root is a member of each group. A route is the smallest subtree with the origin and the members."""

    __slots__ = ("_balls", "_routes", "_up", "groups", "near", "root")

    def __init__(self, parents: Mapping[str, str], groups: Mapping[str, Sequence[str]]) -> None:
        """`parents`: by name, the root first, whose parent is empty."""
        self.root: Final = next(iter(parents))
        self.near: Final[dict[str, list[str]]] = {name: [] for name in parents}
        for name, parent in parents.items():
            if parent:
                self.near[name].append(parent)
                self.near[parent].append(name)
        self.groups: Final = {
            group: dict.fromkeys((self.root, *names)) for group, names in sorted(groups.items())
        }
        self._up: Final = dict(parents)
        self._balls: Final[dict[tuple[str, int], dict[str, int]]] = {}
        self._routes: Final[dict[tuple[str, str], dict[str, None]]] = {}

    def ball(self, centre: str, radius: int) -> dict[str, int]:
        """Distances of all nodes that are so near, the nearest first."""
        key = centre, radius
        if key not in self._balls:
            found, edge = {centre: 0}, [centre]
            for distance in range(1, radius + 1):
                edge = [name for one in edge for name in self.near[one] if name not in found]
                found |= dict.fromkeys(edge, distance)
            self._balls[key] = found
        return self._balls[key]

    def path(self, one: str, other: str) -> list[str]:
        """Both ends included."""
        ups, downs = self._above(one), self._above(other)
        while len(ups) > 1 and len(downs) > 1 and ups[-2] == downs[-2]:
            ups.pop()
            downs.pop()
        return ups + downs[-2::-1]

    def _above(self, name: str) -> list[str]:
        way = [name]
        while self._up[way[-1]]:
            way.append(self._up[way[-1]])
        return way

    def route(self, origin: str, group: str) -> dict[str, None]:
        """The nodes that accept a message; by name."""
        key = origin, group
        if key not in self._routes:
            ends = (origin, *self.groups[group])
            self._routes[key] = {name: None for end in ends for name in self.path(origin, end)}
        return self._routes[key]

    def beyond(self, origin: str, group: str, at: str) -> list[str]:
        """Next hops of a message at a node of its route."""
        route = self.route(origin, group)
        back = self.path(at, origin)[1:2]
        return [name for name in self.near[at] if name in route and name not in back]
