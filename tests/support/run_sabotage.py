"""Ways to break a run, one or more for everything that a verdict is about.

Each way changes the rows of the nodes in place and says whether it found something to change. None
of them promises a violation: a message delivered earlier may still be in time. The point is that
every corner of the definitions is visited, alone and in company.
"""

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from support.run_rows import placed
from thence.trace.schema import COUNTING_KINDS, Dot, Event

Place = tuple[str, int]


class Wreck:
    """The rows of one run by node, in order, and chance."""

    def __init__(self, rng: Random, events: list[Event]) -> None:
        self.rng = rng
        self.rows: dict[str, list[Event]] = {}
        for event in sorted(events, key=lambda event: (event.node, event.pos)):
            self.rows.setdefault(event.node, []).append(event)

    def places(self, *kinds: str) -> list[Place]:
        return [(n, i) for n, rows in self.rows.items() for i, row in enumerate(rows) if row.kind in kinds]

    def at(self, place: Place) -> Event:
        return self.rows[place[0]][place[1]]

    def put(
        self, node: str, index: int, kind: str, dot: Dot | None = None, deps: list[Dot] | None = None
    ) -> None:
        origin, seq = (dot.origin, dot.seq) if dot else (None, None)
        self.rows[node].insert(index, Event(node=node, pos=0, kind=kind, origin=origin, seq=seq, deps=deps))

    def change(self, place: Place, **changes: object) -> None:
        self.rows[place[0]][place[1]] = replace(self.at(place), **changes)

    def anywhere(self) -> Place:
        node = self.rng.choice(sorted(self.rows))
        return node, self.rng.randint(0, len(self.rows[node]))

    def sent(self) -> list[Dot]:
        return [Dot(row.origin or "", row.seq or 0) for row in map(self.at, self.places("send"))]

    def some_dot(self) -> Dot:
        """Mostly a sent message; else one that the origin never sent, or of an unknown origin."""
        sent = self.sent()
        if sent and self.rng.random() < 0.7:
            return self.rng.choice(sent)
        return Dot(self.rng.choice([*sorted(self.rows), "unknown"]), self.rng.randint(0, 9))

    def some_dots(self) -> list[Dot]:
        return sorted({self.some_dot() for _ in range(self.rng.randint(0, 3))}, key=str)


def drop_row(w: Wreck) -> bool:
    return _drop_one(w, w.places(*COUNTING_KINDS))


def drop_delivery(w: Wreck) -> bool:
    return _drop_one(w, w.places("deliver"))


def drop_end(w: Wreck) -> bool:
    return _drop_one(w, w.places("crash", "leave", "evict"))


def _drop_one(w: Wreck, places: list[Place]) -> bool:
    if not places:
        return False
    node, index = w.rng.choice(places)
    del w.rows[node][index]
    return True


def double_row(w: Wreck) -> bool:
    places = w.places("deliver", "deliver", "send", "stable", "install", "restart")
    if not places:
        return False
    node, index = w.rng.choice(places)
    w.rows[node].insert(w.rng.randint(index + 1, len(w.rows[node])), w.rows[node][index])
    return True


def swap_rows(w: Wreck) -> bool:
    node = w.rng.choice(sorted(w.rows))
    if len(w.rows[node]) < 2:
        return False
    one, other = w.rng.sample(range(len(w.rows[node])), 2)
    w.rows[node][one], w.rows[node][other] = w.rows[node][other], w.rows[node][one]
    return True


def hasten_delivery(w: Wreck) -> bool:
    places = [place for place in w.places("deliver") if place[1]]
    if not places:
        return False
    node, index = w.rng.choice(places)
    w.rows[node].insert(w.rng.randint(0, index - 1), w.rows[node].pop(index))
    return True


def forge_delivery(w: Wreck) -> bool:
    w.put(*w.anywhere(), "deliver", w.some_dot())
    return True


def misaddress(w: Wreck) -> bool:
    places = w.places("send")
    if not places:
        return False
    names = [*sorted(w.rows), "unknown"]
    w.change(w.rng.choice(places), dest=w.rng.sample(names, w.rng.randint(0, len(names) - 1)))
    return True


def lower_cut(w: Wreck) -> bool:
    places = w.places("evict")
    if not places:
        return False
    place = w.rng.choice(places)
    w.change(place, seq=w.rng.randint(0, max(0, (w.at(place).seq or 0) - 1)))
    return True


def add_eviction(w: Wreck) -> bool:
    w.put(*w.anywhere(), "evict", w.some_dot())
    return True


def bend_counter(w: Wreck) -> bool:
    """Skip, repeat or go back, for one send or for all that follow it too."""
    places = w.places("send")
    if not places:
        return False
    node, index = w.rng.choice(places)
    by = w.rng.choice((-2, -1, -1, 1, 1, 2))
    for place in w.places("send") if w.rng.random() < 0.5 else [(node, index)]:
        if place[0] == node and place[1] >= index:
            w.change(place, seq=max(0, (w.at(place).seq or 0) + by))
    return True


def change_origin(w: Wreck) -> bool:
    places = w.places("send")
    if not places:
        return False
    w.change(w.rng.choice(places), origin=w.rng.choice([*sorted(w.rows), "unknown"]))
    return True


def copy_send(w: Wreck) -> bool:
    """The same dot sent by two nodes, or twice by one."""
    places = w.places("send")
    if not places:
        return False
    row = w.at(w.rng.choice(places))
    node, index = w.anywhere()
    copy = replace(row, node=node, deps=w.rng.choice((None, row.deps)), process=None, incarnation=None)
    w.rows[node].insert(index, copy)
    return True


def change_life(w: Wreck) -> bool:
    """A node is another process, or another incarnation of it, than the one that it was."""
    node = w.rng.choice(sorted(w.rows))
    process = w.rng.choice((None, *sorted(w.rows)))
    number = w.rng.choice((None, 0, 1, 2, 3))
    for index in range(len(w.rows[node])):
        w.change((node, index), process=process, incarnation=number)
    return True


def bend_carries(w: Wreck) -> bool:
    """A message brings other operations than it did: more, fewer, none, or no longer just its own."""
    places = w.places("send")
    if not places:
        return False
    for place in w.rng.sample(places, w.rng.randint(1, min(3, len(places)))):
        w.change(place, carries=_bent(w, w.at(place).carries or []))
    return True


def bend_tag(w: Wreck) -> bool:
    places = w.places("send")
    if not places:
        return False
    place = w.rng.choice(places)
    w.change(place, deps=_bent(w, w.at(place).deps or []))
    return True


def bend_frontier(w: Wreck) -> bool:
    places = w.places("install", "restart")
    if not places:
        return False
    place = w.rng.choice(places)
    w.change(place, deps=_bent(w, w.at(place).deps or []))
    return True


def _bent(w: Wreck, deps: list[Dot]) -> list[Dot]:
    if deps and w.rng.random() < 0.5:
        index = w.rng.randrange(len(deps))
        bent = Dot(deps[index].origin, max(0, deps[index].seq + w.rng.choice((-1, 1, 3))))
        middle = [] if w.rng.random() < 0.5 else [bent]
        return [dot for dot in deps if dot not in (deps[index], bent)] + middle
    return [dot for dot in deps if w.rng.random() < 0.9] + [d for d in w.some_dots() if d not in deps]


def false_stable(w: Wreck) -> bool:
    w.put(*w.anywhere(), "stable", w.some_dot())
    return True


def add_restart(w: Wreck) -> bool:
    w.put(*w.anywhere(), "restart", deps=w.some_dots())
    return True


def add_install(w: Wreck) -> bool:
    w.put(*w.anywhere(), "install", deps=w.some_dots())
    return True


def add_end(w: Wreck) -> bool:
    node, index = w.anywhere()
    w.put(node, w.rng.choice((index, len(w.rows[node]))), w.rng.choice(("crash", "leave")))
    return True


def reuse_dot(w: Wreck) -> bool:
    """A restart that forgot a send, whose counter is then used again."""
    places = w.places("send")
    if not places:
        return False
    node, index = w.rng.choice(places)
    deps = w.some_dots()
    w.rows[node].insert(index + 1, replace(w.rows[node][index], deps=deps, dest=None))
    w.put(node, index + 1, "restart", deps=deps)
    return True


def circle(w: Wreck) -> bool:
    """One to three nodes that have each other's messages before sending their own, and sometimes
    a node that hangs on the circle without being on it."""
    senders = sorted({node for node, _ in w.places("send")})
    if not senders:
        return False
    ring = w.rng.sample(senders, w.rng.randint(1, min(3, len(senders))))
    chosen = [w.rng.choice([place for place in w.places("send") if place[0] == node]) for node in ring]
    dots = [Dot(w.at(place).origin or "", w.at(place).seq or 0) for place in chosen]
    for k, (node, index) in enumerate(chosen):
        before = w.rng.randint(0, index)
        if w.rng.random() < 0.8:
            w.put(node, before, "deliver", dots[k - 1])
        else:
            w.put(node, before, w.rng.choice(("install", "restart")), deps=[dots[k - 1], *w.some_dots()])
    if w.rng.random() < 0.5:
        w.put(*w.anywhere(), "deliver", w.rng.choice(dots))
    return True


WAYS: tuple[Callable[[Wreck], bool], ...] = (
    drop_row, drop_delivery, drop_end, double_row, swap_rows, hasten_delivery, forge_delivery, misaddress,
    lower_cut, add_eviction, bend_counter, change_origin, copy_send, bend_tag, bend_frontier, false_stable,
    add_restart, add_install, add_end, reuse_dot, circle, change_life, bend_carries,
)  # fmt: skip


def sabotage(rng: Random, events: list[Event]) -> list[Event]:
    """A run (one run and group) broken in one to three ways, with places given anew."""
    wreck = Wreck(rng, events)
    wanted = rng.randint(1, 3)
    for way in rng.sample(WAYS, len(WAYS)):
        if wanted and way(wreck):
            wanted -= 1
    rows = [row for node in sorted(wreck.rows) for row in wreck.rows[node]]
    return placed(rng, rows, events[0].run, events[0].group)
