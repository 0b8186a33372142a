"""Passing on what others sent, to a member that cannot reach them.

Over a mesh only its origin brings a message to the others. If one link is down, or an origin died in the
middle of its sends, somebody lacks messages that others have, and holds back everything that follows from
them. So a member whose link to an origin stays down asks another member for that origin's messages, and is
sent them from that one's log, now and as they come, until the link is back. One is asked at a time, and the
next if nothing comes; whoever has nothing more than the asker sends nothing.

State. Asking: per origin that is out of reach, when to look, whom we asked last, and how much we had then.
Serving: per peer the origins that it has asked for, and up to where they were sent to it.

Invariant: what is sent to a peer of an origin begins, after each time that it asks, with the first message
that the peer has not acknowledged, and goes on without a gap. So the receiver needs nothing more than to drop
what it knows; and what does not fit, because it forgot something in between, comes again when it asks again.
"""

from collections.abc import Iterable, Sequence

from thence.core.machine import NEVER


class _Need:
    """An origin that cannot be reached."""

    __slots__ = ("asked", "due", "had")

    def __init__(self, due: int) -> None:
        self.due = due
        self.asked = -1
        self.had = -1


class Relays:
    __slots__ = ("_after_us", "_again_us", "_needs", "_wants")

    def __init__(self, after_us: int, again_us: int) -> None:
        self._after_us = after_us
        self._again_us = again_us
        self._needs: dict[int, _Need] = {}
        self._wants: dict[int, dict[int, int]] = {}

    # Asking

    def lost(self, peer: int, now: int) -> int:
        """The link to `peer` is down, as an origin and as one that was asked. When to look again."""
        self._wants.pop(peer, None)
        if self._after_us:
            self._needs.setdefault(peer, _Need(now + self._after_us))
        for need in self._needs.values():
            if need.asked == peer:
                need.asked, need.had, need.due = -1, -1, min(need.due, now + self._after_us)
        return self.due

    def reached(self, peer: int) -> list[int]:
        """The link to `peer` is up again: those who were asked for its messages need not send them."""
        need = self._needs.pop(peer, None)
        return [] if need is None or need.asked < 0 else [need.asked]

    @property
    def due(self) -> int:
        return min([need.due for need in self._needs.values()], default=NEVER)

    def asks(self, now: int, kept: Sequence[int], peers: Sequence[int]) -> list[int]:
        """The peers of which something else is wanted from now on: see `wanted_from`."""
        changed: dict[int, None] = {}
        for origin, need in self._needs.items():
            if need.due > now:
                continue
            need.due = now + self._again_us
            if need.asked >= 0 and kept[origin] > need.had:
                need.had = kept[origin]  # it comes: stay with whoever sends it
                continue
            others = [peer for peer in peers if peer != origin]
            if not others:
                continue
            if need.asked >= 0:
                changed[need.asked] = None
            # The next one in a circle.
            need.asked = min(others, key=lambda peer: (peer <= need.asked, peer))
            need.had = kept[origin]
            changed[need.asked] = None
        return list(changed)

    def wanted_from(self, peer: int) -> tuple[int, ...]:
        return tuple([origin for origin, need in self._needs.items() if need.asked == peer])

    def asked_for(self, origin: int) -> int:
        """Who sends us the messages of this origin; -1: it does so itself."""
        need = self._needs.get(origin)
        return -1 if need is None else need.asked

    # Serving

    def wanted_by(self, peer: int, origins: Iterable[int]) -> None:
        """`peer` asks for these, and for no others any more."""
        wants = dict.fromkeys(origins, 0)
        if wants:
            self._wants[peer] = wants
        else:
            self._wants.pop(peer, None)

    def wanted(self, origin: int) -> bool:
        """Does anybody wait for messages of this origin?"""
        return any(origin in wants for wants in self._wants.values())

    def serves(self, peer: int) -> bool:
        """Has `peer` asked for anything?"""
        return peer in self._wants

    def gaps(
        self, peer: int, theirs: Sequence[int], kept: Sequence[int], most: int
    ) -> list[tuple[int, int, int]]:
        """What to send to `peer`: an origin, above which counter, and how many at most."""
        found = []
        for origin, sent in self._wants.get(peer, {}).items():
            above = max(sent, theirs[origin])
            room = theirs[origin] + most - above
            if above < kept[origin] and room > 0:
                found.append((origin, above, room))
        return found

    def sent(self, peer: int, origin: int, upto: int) -> None:
        self._wants[peer][origin] = upto
