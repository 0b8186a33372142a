"""Whose messages a member asks others to pass on, and whom it asks.

Over session links a member's messages come from itself, for as long as there is a link to it. Of one who
cannot be heard, or must not be listened to any more, they come from somebody who has them: one at a time, so
that nothing comes from everybody at once; the next one, if nothing came for a while.
"""

from thence.members.group import GroupView
from thence.replica.group_ledger import Ledger
from thence.replica.group_links import Links
from thence.replica.group_peers import Peers
from thence.replica.group_settings import GroupSettings

Asked = tuple[str, int, int]
"""Who was asked, how many messages there were when something last came, and when that was."""


class Wants:
    __slots__ = ("_absent", "_asked", "_ledger", "_links", "_peers", "_settings", "_view")

    def __init__(
        self, ledger: Ledger, view: GroupView, links: Links, peers: Peers, settings: GroupSettings
    ) -> None:
        self._ledger = ledger
        self._view = view
        self._links = links
        self._peers = peers
        self._settings = settings
        self._absent: dict[str, int] = {}
        """Who is not heard, and since when."""
        self._asked: dict[str, Asked] = {}

    def of_each(self, now: int) -> dict[str, list[str]]:
        """Per member that is asked for something, the origins."""
        wants: dict[str, list[str]] = {}
        absent = {}
        for origin in sorted(self._view.view - {self._ledger.me}):
            if self._links.hears(origin):
                continue
            since = absent[origin] = self._absent.get(origin, now)
            # Most links come back by themselves; a suspect's will not be used again.
            if origin in self._view.suspects or now - since >= self._settings.relay_us:
                asked = self._ask(origin, now)
                if asked is not None:
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
