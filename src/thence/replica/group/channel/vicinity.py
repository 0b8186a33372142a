"""Which processes a process keeps links to: all that it knows of in a mesh, its neighbours on the rings in a
tree (`spread/rings.py`).

State. Per link that is up, since when; which peers are *reached*; which are *sought*, and until when the next
one on a ring is not. A link over which its other end is not heard, since that runs as an incarnation that is
not known here, or suspects this one, reaches no peer: what would tell of it has to come another way.

Invariant: processes that reach each other are connected by links that they want, whichever others are down.
"""

from collections.abc import Iterable, Mapping

from thence.core.groups import process_of
from thence.members.group import GroupView
from thence.replica.group.settings import GroupSettings
from thence.replica.group.surroundings import Shelf
from thence.spread.rings import Rings


class Vicinity:
    __slots__ = (
        "_contacts", "_me", "_patience_us", "_reached", "_rings", "_shelf", "_sought", "_up_since",
        "changed", "linked", "links", "wide",
    )  # fmt: skip

    def __init__(self, me: str, settings: GroupSettings, shelf: Shelf) -> None:
        self._me = me
        self._shelf = shelf
        self._patience_us = settings.relay_us
        self._rings = Rings(settings.rings) if settings.rings else None
        self._up_since: dict[str, int] = {}
        self._reached: set[str] = set()
        self._sought: dict[str, int] = {}
        """0: not any more."""
        self._contacts: dict[str, str] = {}
        """Processes to which links are wanted, and their addresses."""
        self.linked: dict[str, str] = {}
        """Addresses by incarnation, when it was last looked which links are wanted."""
        self.links: dict[str, str | None] | None = None
        """Changes of that, for the world."""
        self.changed = False
        """Others may be wanted than when that was last asked."""
        self.wide = True
        """All were wanted then: this process is on its way into the group, and any of them may be needed."""

    def up(self, peer: str, now: int) -> None:
        self._up_since[peer] = now

    def down(self, peer: str) -> None:
        self._up_since.pop(peer, None)

    def look(self, heard: Iterable[str], wide: bool, now: int) -> None:
        """`heard`: members whose messages come over links."""
        if self._rings is None:
            return
        near, recent = set(map(process_of, heard)), now - self._patience_us
        reached = {peer for peer, since in self._up_since.items() if since > recent or peer in near}
        overdue = any(0 < until <= now for until in self._sought.values())
        self.changed = self.changed or reached != self._reached or overdue or wide != self.wide
        self._reached = reached
        self._sought = {name: until if until > now else 0 for name, until in self._sought.items()}

    def wanted(self, contacts: Mapping[str, str], wide: bool, now: int) -> dict[str, str]:
        """Of all processes that are known, with their addresses, those to which there shall be links."""
        self.changed, self.wide = False, wide
        if self._rings is None or wide:
            return dict(contacts)
        self._rings.keep([self._me, *contacts])
        until, sought, reached = now + self._patience_us, self._sought, self._reached
        near = self._rings.wanted(
            self._me, lambda name: name in reached or sought.setdefault(name, until) > now
        )
        self._sought = {name: sought[name] for name in near if name not in reached}
        return {name: contacts[name] for name in near}

    def relink(self, view: GroupView, seeds: Iterable[str], wide: bool, now: int) -> None:
        """Keep links to members, suspects, leavers and the evicted. The addresses of joiners are on disk
        before anything that follows from their joining leaves: a process that has forgotten everything else
        still knows its contacts."""
        contacts = {name: at for name, at in view.by_process().items() if name != self._me}
        if view.addresses != self.linked:
            self.linked = dict(view.addresses)
            self._shelf.keep_contacts(contacts)
        wanted = self.wanted(contacts, wide, now)
        gone = {name: None for name in (*seeds, *self._contacts) if name not in wanted}
        self.links = {**(self.links or {}), **wanted, **gone}
        self._contacts = wanted
