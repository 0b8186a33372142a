"""When the branches of a tree are one tree, worked out from what nodes tell of their links."""

from collections.abc import Iterable
from itertools import groupby
from typing import Final, NamedTuple

LINKS: Final = ("lazy", "sync", "eager", "unlink")
UP: Final = ("start", "restart")
DOWN: Final = ("crash", "leave")
LIFE: Final = (*UP, *DOWN)

Row = tuple[str, int, str, str | None, int]
"""Node, position, kind, neighbour, time."""


class Stabilisation(NamedTuple):
    """After one moment at which nodes came or went; times are counted from it."""

    at_us: int
    nodes: int
    healed_us: int | None
    settled_us: int | None
    changes: int
    """Rows about links until the next such moment."""


def stabilisations(rows: Iterable[Row]) -> list[Stabilisation]:
    """In the order of time. Without a row about links there is no tree, and nothing to tell."""
    ordered = sorted(rows, key=lambda row: (row[4], row[0], row[1]))
    if not any(row[2] in LINKS for row in ordered):
        return []
    up: set[str] = set()
    live: dict[str, set[str]] = {}
    found: list[Stabilisation] = []
    for at, group in groupby(ordered, key=lambda row: row[4]):
        moment = list(group)
        for node, _, kind, neighbour, _ in moment:
            _apply(up, live, node, kind, neighbour)
        if any(row[2] in LIFE for row in moment):
            found.append(Stabilisation(at, len(up), None, None, 0))
        if found:
            links = sum(row[2] in LINKS for row in moment)
            found[-1] = _seen(found[-1], at, links, is_tree(up, live))
    return found


def _apply(up: set[str], live: dict[str, set[str]], node: str, kind: str, neighbour: str | None) -> None:
    if kind in UP:
        up.add(node)
    elif kind in DOWN:
        up.discard(node)
    if kind in LIFE:
        live.pop(node, None)
    elif neighbour is not None:
        if kind == "eager":
            live.setdefault(node, set()).add(neighbour)
        else:
            live.get(node, set()).discard(neighbour)


def _seen(last: Stabilisation, at: int, links: int, whole: bool) -> Stabilisation:
    since = at - last.at_us
    return last._replace(
        healed_us=since if whole and last.healed_us is None else last.healed_us,
        settled_us=(since if last.settled_us is None else last.settled_us) if whole else None,
        changes=last.changes + links,
    )


def is_tree(up: set[str], live: dict[str, set[str]]) -> bool:
    """The branches, live in both directions, connect all nodes that are up, without a circle."""
    links = {(node, peer) for node in up for peer in live.get(node, ())}
    if len(links) != 2 * (len(up) - 1) or any((peer, node) not in links for node, peer in links):
        return False
    return not up or len(_reached(live, min(up))) == len(up)


def _reached(live: dict[str, set[str]], start: str) -> set[str]:
    found, ahead = {start}, [start]
    while ahead:
        fresh = live.get(ahead.pop(), set()) - found
        found |= fresh
        ahead += sorted(fresh)
    return found
