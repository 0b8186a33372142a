"""Receipts of others, passed on: what is stable depends on all members. In a tree they go from neighbour to
neighbour, since most members have no link to each other; in a large mesh from one member to all others
(`receipts`).

A receipt goes over the trunk, one tree for those of all (`receipts`), or, where that is not agreed on, the
way of its source's messages: to those that want these from here (`relays`). It waits a moment, in which
others may join it. It has a number, and only the newest of each member counts; over a link it says which
counts have grown since the last one that went that way. So it crosses as many links as there are members, as
a message does.

Invariant: what a link was told, and what came over it, is with its other end, or the link breaks. Still, what
one end has passed over (`lineage`) it does not get again: now and then everything is told anew.
"""

from collections.abc import Callable, Iterable

from thence.core.groups import Passed, Post, Receipt, process_of
from thence.core.machine import NEVER
from thence.members.group import GroupView
from thence.members.spans import Spans
from thence.replica.group.channel.links import GroupLinks
from thence.replica.group.receipts.peers import Peers
from thence.replica.group.settings import CROWD, GroupSettings

COUNT_BYTES = 64
"""That a count in a receipt takes at most, with its share of all that is beside it."""

ANEW = 4
"""Of the longest wait between two receipts: how often a link is told everything again."""

EARLY_MOST = 64
"""Receipts that are kept until their sources are members here: a group that grows by so many at a time."""

COLLECTED_ANEW = 16
"""The same of a collector, which has a link to every member."""


class Passing:
    __slots__ = (
        "_asked", "_early", "_links", "_me", "_passes", "_peers", "_posts", "_round", "_settings", "_told",
        "_view", "at",
    )  # fmt: skip

    def __init__(
        self, me: str, view: GroupView, peers: Peers, links: GroupLinks, settings: GroupSettings,
        posts: list[Post], passes: Callable[[str], bool | None],
    ) -> None:  # fmt: skip
        """`passes`: what goes over a link (`Watch.passes`)."""
        self._me = me
        self._passes = passes
        self._view = view
        self._peers = peers
        self._links = links
        self._settings = settings
        self._posts = posts
        self._asked = False
        """A member takes this one for the collector."""
        self._told: dict[str, Receipt] = {}
        """Of each member the newest receipt that a collector has passed on to all that listen."""
        self._round = 0
        """How often it did; by link: up to which of these the other end has them."""
        self.at = NEVER
        """When to look what is to be passed on."""
        self._early: dict[str, tuple[Receipt, str]] = {}
        """Receipts that came before the JOIN of their source, and over which link."""

    def came(self, receipt: Receipt, via: str, now: int) -> None:
        """A receipt that is newer than the last came over the link to the process `via`."""
        if receipt.source == self._me:
            return
        if self._settings.rings:
            link = self._links.to(via)
            if link is not None and link.passed is not None:
                link.passed[receipt.source] = receipt
        elif not self._asked:
            return
        self.at = min(self.at, now + self._gather_us)

    def keep(self, receipt: Receipt, via: str) -> None:
        """Its source may be a member soon: it is not told again, and the next says only what has grown."""
        before, _ = self._early.get(receipt.source, (None, ""))
        if before is None and len(self._early) >= EARLY_MOST:
            return
        if before is not None:
            if receipt.number <= before.number:
                return
            past = Spans(before.past)
            for span in receipt.past:
                past.add(*span)
            receipt = receipt._replace(counts=before.counts | receipt.counts, past=past.all)
        self._early[receipt.source] = receipt, via

    def kept(self, member: str) -> tuple[Receipt, str] | None:
        """It is a member now."""
        return self._early.pop(member, None)

    def dropped(self) -> None:
        """What came from or through others may not be believed any more."""
        self._early.clear()

    @property
    def _gather_us(self) -> int:
        """What is passed on grows with the group."""
        settings, more = self._settings, 1 + len(self._view.view) // CROWD
        return (settings.gather_us if settings.rings else settings.receipt_every_us // 2) * more

    def greet(self, now: int) -> None:
        """There is a link over which nothing was passed on yet."""
        if self._settings.rings:
            self.at = min(self.at, now)

    def asked(self, now: int) -> None:
        """A member hears of others from this one."""
        if not self._asked:
            self._asked = True
            self.at = min(self.at, now)

    def pass_on(self, now: int) -> None:
        self.at = NEVER
        if not self._settings.rings:
            self._collect(now)
            return
        members = sorted(self._view.view | self._view.departing.keys())
        for member in self._links.audible():
            link = self._links.to(member)
            if link is None or link.outgoing is None:
                continue
            if link.passed is None or now - link.passed_at > ANEW * self._settings.receipt_idle_us:
                link.passed, link.passed_at = {}, now
            passes = self._passes(member)
            if passes is None:
                # Of those that it wants, which the other end knows, or it would not want them.
                sources: Iterable[str] = link.outgoing.relays
            else:
                sources = members if passes else ()
            words = self._news(link.passed, sources)
            self._posts += [(process_of(member), packet) for packet in self._packets(words)]

    def _collect(self, now: int) -> None:
        """To all that hear of others from this member: what is new, the same for all; to one that is new
        itself, everything."""
        sources = sorted(self._view.view | self._view.departing.keys())
        fresh, whole = self._packets(self._news(self._told, sources)), list[Passed]()
        before, self._round = self._round, self._round + bool(fresh)
        self._asked = False
        for member in self._links.audible():
            link = self._links.to(member)
            if link is None or link.last is None or link.last.via != self._me:
                continue
            self._asked = True
            packets, idle = fresh, self._settings.receipt_idle_us
            if not link.round or link.round != before or now - link.passed_at > COLLECTED_ANEW * idle:
                packets = whole = whole or self._packets(self._news({}, sources))
                link.passed_at = now
            link.round = self._round
            self._posts += [(process_of(member), packet) for packet in packets]

    def _packets(self, words: list[Receipt]) -> list[Passed]:
        """As few as carry them."""
        packets, size, most = list[list[Receipt]](), 0, self._settings.frame_bytes // COUNT_BYTES
        for word in words:
            cost = len(word.counts) + len(word.past)
            if not packets or size + cost > most:
                packets.append([])
                size = 0
            packets[-1].append(word)
            size += cost
        return [Passed(tuple(some)) for some in packets]

    def _news(self, told: dict[str, Receipt], sources: Iterable[str]) -> list[Receipt]:
        """What was not told of these so far; from here on it was."""
        found = []
        for source in sources:
            last, before = self._peers.last(source), told.get(source)
            if last is None or (before is not None and last.number <= before.number):
                continue
            told[source] = last
            counts, past = last.counts, last.past
            if before is not None:
                had = before.counts
                # What the source had sent is always told: it may be the first that the other end may count.
                counts = {name: n for name, n in counts.items() if had.get(name) != n or name == source}
                if past is not before.past:
                    past = tuple([span for span in past if span not in before.past])
            found.append(
                last._replace(counts=counts, past=past, target="", stream=0, wants=(), unheard=(), via="")
            )
        return found
