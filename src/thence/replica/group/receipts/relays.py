"""Which members' messages a member asks others to relay, and which of them it asks.

Over session links a member's messages come from itself, for as long as there is a link to it. Of a member
that cannot be heard, or must not be listened to any more, they come from another that has them: one at a
time, so that nothing comes from all at once; the next one, if nothing came for a while. If no member has
them, an unknown incarnation may (`GroupLinks.lenders`).

In a tree most members have no link to each other, and are not expected to. Which one to ask follows from the
rings (`spread/rings.py`); they know nothing of links that are down elsewhere, so where another neighbour is
ahead for a while, by its receipts, that one is asked instead, until the ways change.
"""

from thence.core.groups import process_of
from thence.members.group import GroupView
from thence.replica.group.channel.links import GroupLinks
from thence.replica.group.ledger.ledger import Ledger
from thence.replica.group.receipts.peers import Peers
from thence.replica.group.settings import GroupSettings
from thence.spread.rings import Rings

Asked = tuple[str, int, int]
"""The member that was asked, how many messages there were when one last came, and when that was."""


class RelayRequests:
    __slots__ = (
        "_absent", "_asked", "_first", "_ledger", "_links", "_peers", "_rings", "_routes", "_settings",
        "_view", "_ways",
    )  # fmt: skip

    def __init__(
        self, ledger: Ledger, view: GroupView, links: GroupLinks, peers: Peers, settings: GroupSettings
    ) -> None:
        self._ledger = ledger
        self._view = view
        self._links = links
        self._peers = peers
        self._settings = settings
        self._absent: dict[str, int] = {}
        """Members that are not heard, and since when."""
        self._asked: dict[str, Asked] = {}
        self._rings = Rings(settings.rings)
        """Of the members that are not suspected."""
        self._first: list[str] = []
        """Neighbours that are heard, when ways were last looked for."""
        self._routes: dict[str, str] = {}
        self._ways: dict[str, str] = {}
        """Which route an origin was last asked for by."""

    def of_each(self, now: int) -> dict[str, list[str]]:
        """Per member that is asked for something, the origins."""
        if self._settings.rings:
            return self._of_tree(now)
        wants: dict[str, list[str]] = {}
        absent = {}
        for origin in sorted(self._view.view - {self._ledger.me}):
            if self._links.hears(origin):
                continue
            since = absent[origin] = self._absent.get(origin, now)
            # Most links come back by themselves; a suspect's will not be used again.
            if origin in self._view.suspects or now - since >= self._settings.relay_us:
                asked = self._ask(origin, now) or self._lender(origin)
                if asked:
                    wants.setdefault(asked, []).append(origin)
        self._absent = absent
        for origin in [origin for origin in self._asked if origin not in absent]:
            del self._asked[origin]
        return wants

    def _ask(self, origin: str, now: int) -> str | None:
        have = self._ledger.count(origin)
        others = [
            member
            for member in sorted(self._view.side - {self._ledger.me})
            if self._links.hears(member) and self._peers.counted(member, origin) > have
        ]
        if not others:
            return None
        asked, had, since = self._asked.get(origin, ("", -1, now))
        if have > had:
            had, since = have, now
        if asked not in others or now - since >= 2 * self._settings.relay_us:
            asked = next((member for member in others if member > asked), others[0])
            since = now
        self._asked[origin] = (asked, had, since)
        return asked

    def _lender(self, origin: str) -> str:
        """Rule 5: an unknown incarnation to ask for a member's messages, where no member has more of them.
        Of a suspect they count from members alone: the others' cut follows from what those had."""
        return next(iter(self._links.lenders(origin)), "") if origin in self._view.side else ""

    # In a tree

    def way(self, origin: str) -> str:
        """The neighbour that an origin's messages come from, as was last asked."""
        if self._links.hears(origin):
            return origin
        return self._asked.get(origin, ("", 0, 0))[0]

    def _of_tree(self, now: int) -> dict[str, list[str]]:
        view, me = self._view, self._ledger.me
        heard = {process_of(member): member for member in self._links.audible()}
        first = sorted(heard)
        if self._rings.keep([process_of(member) for member in view.side]) or first != self._first:
            self._first = first
            self._routes = self._rings.routes(process_of(me), first)
        wants: dict[str, list[str]] = {}
        for origin in sorted(view.view - {me}):
            way = self._routes.get(process_of(origin), "") if origin in view.side else ""
            if heard.get(process_of(origin)) != origin:
                came = self._links.came.get(self._ledger.index(origin), 0)
                have = max(self._ledger.count(origin), came)
                ahead = [member for member in heard.values() if self._peers.counted(member, origin) > have]
                asked = self._along(origin, heard.get(way, ""), heard, have, ahead, now)
                if asked:
                    wants.setdefault(asked, []).append(origin)
                if not ahead and (lender := self._lender(origin)):
                    wants.setdefault(lender, []).append(origin)
        for gone in sorted(self._asked.keys() - view.view):
            del self._asked[gone]
            self._ways.pop(gone, None)
        return wants

    def _along(
        self, origin: str, way: str, heard: dict[str, str], have: int, ahead: list[str], now: int
    ) -> str:
        """The member to ask for an origin that rings say is reached by this way. `ahead`: neighbours that
        have more of it than has come."""
        asked, had, since = self._asked.get(origin, ("", -1, now))
        if asked not in heard.values() or way != self._ways.get(origin, ""):
            asked, since = way or next(iter(ahead), ""), now
        elif have > had or not ahead:
            since = now
        elif now - since >= self._settings.overdue_us:
            asked, since = next((member for member in ahead if member > asked), ahead[0]), now
        self._ways[origin] = way
        self._asked[origin] = (asked, have, since)
        return asked
