"""When a member sends receipts, and which members it misses: rules 4 and 16 of docs/protocols/membership.md.

Receipts follow soon after something was delivered, and more rarely the longer nothing happens. Over session
links one that would say nothing new is left out, but for a rare heartbeat. A member that comes, goes or has
just been linked gets one at once, or it would wait for nothing; if all did, each change would make as many
receipts as the square of the group's size.

In a mesh of many members so do those that go by the clock. There one member is the *collector*, the smallest
that is not suspected: the others tell it what they have, and it passes that on to all (`passing`). A
member that hears the collector says so in its receipts (`via`), and gets none by the clock from others that
hear it as well. What is urgent, or about one link, goes from each to each as ever.

In a tree of many members there is one tree for the receipts of all, the *trunk*: the ways to that member.
Receipts by the clock go over its branches alone, and are passed on over them in both directions.
"""

from collections.abc import Iterable
from typing import Final

from thence.core.groups import START_BITS, Post, Receipt, Running, number_of, process_of
from thence.core.machine import NEVER
from thence.members.group import GroupView
from thence.replica.group.channel.links import GroupLinks
from thence.replica.group.ledger.ledger import Ledger
from thence.replica.group.receipts.peers import Peers
from thence.replica.group.receipts.relays import RelayRequests
from thence.replica.group.settings import CROWD, GroupSettings
from thence.replica.group.transfer.admission import StateSender

NUMBER_BITS, MILLISECOND_BITS = 44, 10
"""Of the number of a receipt, those that count receipts of one start: five hundred years of milliseconds, and
a member tells less than one in each."""

FEW: Final = 16
"""Messages taken since a neighbour was told of any: so many are told of without the trunk, since they may
have come from there, and its window is to move."""


class ReceiptScheduler:
    __slots__ = (
        "_branches", "_everyone", "_gate", "_hasty", "_ledger", "_links", "_number", "_peers", "_posts",
        "_settings", "_via", "_view", "_wait", "_wants", "at", "branched", "coming", "hasty_at",
    )  # fmt: skip

    def __init__(
        self,
        ledger: Ledger,
        view: GroupView,
        peers: Peers,
        links: GroupLinks,
        gate: StateSender,
        settings: GroupSettings,
        posts: list[Post],
        now: int,
        start: int,
    ) -> None:
        self._ledger = ledger
        self._view = view
        self._peers = peers
        self._links = links
        self._gate = gate
        self._settings = settings
        self._posts = posts
        self._wants = RelayRequests(ledger, view, links, peers, settings)
        # They go on where the last member of this name ended: starts count upwards, and so does the clock.
        self._number = (start >> START_BITS << NUMBER_BITS) + (now >> MILLISECOND_BITS)
        self._wait = settings.receipt_every_us
        self._everyone = True
        """The next receipts are for all, also for those that hear of them from the collector."""
        self._via = ""
        self._branches: set[str] = set()
        """In a tree: neighbours on the way to the collector, or on whose way this member is."""
        self.branched = False
        """There is another branch."""
        self.at = now
        """When the next receipts are due."""
        self._hasty: set[str] = set()
        """Members that are to be told before that, and when."""
        self.hasty_at = NEVER
        self.coming: dict[str, str] = {}
        """Joiners that were not heard here yet, and their contacts."""

    def news(self, now: int) -> None:
        """Something happened that others should hear of soon."""
        wait = self._wait = self._every
        if now + wait < self.at:
            self.at = now + wait

    @property
    def _every(self) -> int:
        """What a receipt costs grows with the group, and so does the number of members that get one."""
        every = self._settings.receipt_every_us * (1 + len(self._view.view) // CROWD)
        return every // 2 if self._via else every  # what is collected waits once more, there

    def urgent(self, now: int) -> None:
        """Something happened that others must hear of, or they wait for nothing."""
        self.soon(now)
        self._everyone = True

    def soon(self, now: int) -> None:
        """The same for members that lack something of it."""
        self.news(now)
        self.at = now

    def greet(self, members: Iterable[str], now: int) -> None:
        """The same, for these; the others should hear of it soon."""
        self.news(now)
        if self._links.used:
            self._hasty.update(members)
            self.hasty_at = now

    def part(self, leavers: Iterable[str], now: int) -> None:
        """The same for leavers: they wait for all, unless the collector tells them of all."""
        self.greet([one for one in leavers if not (self._via and self._is_collected(one))], now)

    def _is_collected(self, member: str) -> bool:
        """Does it hear of this member's receipts from the collector, or over the same trunk?"""
        link = self._links.to(member)
        if link is None or link.last is None:
            return False
        return link.last.via == self._via if self._settings.rings else bool(link.last.via)

    def serves(self, receipt: Receipt) -> bool:
        """Before a receipt counts: did its source hear of this member's from the collector so far?"""
        return self._is_collected(receipt.source)

    def _collector(self, now: int) -> str:
        """The member by way of which this one hears of others' receipts; in a tree, by the ways to it.
        None: from themselves."""
        view, links, rings = self._view, self._links, self._settings.rings
        if len(view.view) < self._settings.collect_from:
            return ""
        first, me = min(view.side - self.coming.keys(), default=""), self._ledger.me
        if first in ("", me):
            return me if first and rings else ""
        if not (links.hears(self._wants.way(first)) if rings else links.hears(first)):
            return ""
        return "" if self._peers.silent([first], now - self._settings.unheard_us, now) else first

    def _branch(self, via: str) -> None:
        """In a tree: over which links receipts are told and passed on."""
        found = set[str]()
        if via and self._settings.rings:
            way = self._wants.way(via)
            for member in self._links.audible():
                link = self._links.to(member)
                wants = link.outgoing.relays if link is not None and link.outgoing is not None else ()
                if via == self._ledger.me or member == way or via in wants:
                    found.add(member)
        self.branched = self.branched or not found <= self._branches
        self._branches = found

    def passes(self, member: str) -> bool | None:
        """In a tree: are the receipts of all passed on to this neighbour? None: those of the origins that it
        wants from here."""
        if not (self._via and self._is_collected(member)):
            return None
        return member in self._branches

    def _choose(self, now: int) -> str:
        """The collector. One that is not heard any more was to tell of the others: they had no chance to be
        heard since it was."""
        via = self._collector(now)
        if self._via and not via:
            for member in self._view.side - {self._via}:
                self._peers.heard(member, now)
        self._via = via
        self._branch(via)
        return via

    def heard(self, member: str, now: int) -> None:
        self._peers.heard(member, now)
        if self.coming:
            self.coming.pop(member, None)
        if member in self._gate.watched:
            self._gate.arrived(member, self._ledger.sent)

    def tell(self, running: Running, drained: bool, now: int) -> None:
        """Rule 4: receipts for all that should have one."""
        receipt = self.about(running, drained, now)
        self._hasty.clear()
        self.hasty_at = NEVER
        if self._links.used:
            self._links.reconsider()
            self._over_links(receipt, now, now + self._wait)
            self._everyone = False
        else:
            for member in sorted((self._view.view - {self._ledger.me}) | self._view.departing.keys()):
                self._posts.append((process_of(member), receipt))
        settings = self._settings
        longest = settings.receipt_idle_us if drained else max(settings.receipt_busy_us, self._every)
        self.at = now + self._wait
        self._wait = min(2 * self._wait, longest)

    def tell_hasty(self, running: Running, drained: bool, now: int) -> None:
        """Receipts for members that are not to wait."""
        hasty, self._hasty, self.hasty_at = self._hasty, set(), NEVER
        self._over_links(self.about(running, drained, now), now, self.at, hasty)

    def _over_links(self, receipt: Receipt, now: int, then: int, only: set[str] | None = None) -> None:
        """`then`: when the next ones will be due. A sign of life does not wait for longer than it may."""
        view, wants = self._view, self._wants.of_each(now)
        members = (view.view - {self._ledger.me}) | view.departing.keys() | wants.keys()
        if only is not None:
            members &= only
        # A suspect may be newer than what runs: an attempt that was let in somewhere and came to nothing.
        ranked = sorted(members, key=lambda member: (member not in view.suspects, number_of(member)))
        newest = {process_of(member): member for member in ranked}
        via, rings = self._choose(now), self._settings.rings
        receipt = receipt._replace(via=via)
        for process, member in sorted(newest.items()):
            link = self._links.to(member)
            if link is None:
                continue
            wanted = tuple(wants.get(member, ()))
            lends = bool(wanted) and member not in view.view
            stream = self._links.opened(member, lends)
            said = (receipt.suspects, receipt.unheard, member, stream, wanted, via if rings else bool(via))
            told = member in self._branches if rings else member == via
            if via and not told and not self._everyone and self._is_collected(member):
                # The collector tells it the rest; a leaver sends nothing more, under whichever number.
                due = said != link.said and member not in view.departing
                due = due or (rings > 0 and self._ledger.delivered - link.said_delivered >= FEW)
            else:
                idle = then - link.said_at > self._settings.receipt_idle_us
                due = idle or said != link.said or self._ledger.delivered != link.said_delivered
            if due:
                link.said, link.said_delivered, link.said_at = said, self._ledger.delivered, now
                self._links.asks(member, wanted)
                knows, version = link.past_said
                past = view.past.since(version if knows == member else 0)
                link.past_said = member, view.past.version
                one = _to_one(receipt, member, lends)
                self._posts.append(
                    (process, one._replace(target=member, stream=stream, wants=wanted, past=past))
                )

    def about(self, running: Running, drained: bool, now: int) -> Receipt:
        view = self._view
        others = sorted(view.side - {self._ledger.me} - self.coming.keys())
        unheard = [] if drained else self._peers.silent(others, now - self._settings.unheard_us, now)
        counts, suspects = self._ledger.vector(), tuple(sorted(view.suspects))
        self._number += 1
        return Receipt(
            self._ledger.me, counts, suspects, tuple(unheard), running, past=view.past.all,
            number=self._number,
        )  # fmt: skip

    def missed(self, now: int) -> list[str]:
        """Rule 16: members that should have been heard by now, and were not."""
        view = self._view
        stuck = [joiner for joiner in self._gate.overdue(now) if joiner in view.side]
        silence = self._settings.silence_us
        if silence is None or view.leaving:
            return stuck
        # A joiner says nothing while its state is on the way, however long that takes.
        coming = {joiner for joiner, contact in self.coming.items() if contact in view.side - set(stuck)}
        others = sorted(view.side - {self._ledger.me, *stuck} - coming)
        silent = self._peers.silent(others, now - silence, now)
        # A majority, so that two sides of a partition do not evict each other by themselves.
        if silent and 2 * (len(others) + 1 - len(silent)) > len(view.view - coming):
            stuck += silent
        return stuck


def _to_one(receipt: Receipt, member: str, lends: bool) -> Receipt:
    """For one member. A lender gets nothing from here before its JOIN was delivered, and is to ask others for
    that; no collector tells it of this one, nor this one of it."""
    if not lends and member not in receipt.unheard:
        return receipt  # nearly always
    others = tuple([other for other in receipt.unheard if other != member])
    return receipt._replace(unheard=(*others, member), via="") if lends else receipt._replace(unheard=others)
