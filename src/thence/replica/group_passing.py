"""Receipts of others, passed on from neighbour to neighbour: in a tree most members have no link to each
other, and what is stable depends on all of them.

A receipt goes the way of its source's messages: to those that want these from here (`group_wants`), after a
moment in which others may join it. It has a number, and only the newest of each member counts; over a link it
says which counts have grown since the last one that went that way. So it crosses as many links as there are
members, as a message does.

Invariant: what a link was told, and what came over it, is with its other end, or the link breaks. Still, what
one end has passed over (`group_lineage`) it does not get again: now and then everything is told anew.
"""

from thence.core.groups import Passed, Post, Receipt, process_of
from thence.core.machine import NEVER
from thence.members.group import GroupView
from thence.replica.group_links import Links
from thence.replica.group_peers import Peers
from thence.replica.group_settings import CROWD, GroupSettings

COUNT_BYTES = 64
"""That a count in a receipt takes at most, with its share of all that is beside it."""

ANEW = 4
"""Of the longest wait between two receipts: how often a link is told everything again."""


class Passing:
    __slots__ = ("_links", "_me", "_peers", "_posts", "_settings", "_view", "at")

    def __init__(
        self, me: str, view: GroupView, peers: Peers, links: Links, settings: GroupSettings, posts: list[Post]
    ) -> None:
        self._me = me
        self._view = view
        self._peers = peers
        self._links = links
        self._settings = settings
        self._posts = posts
        self.at = NEVER
        """When to look what is to be passed on."""

    def came(self, receipt: Receipt, via: str, now: int) -> None:
        """A receipt that is newer than the last came over the link to the process `via`."""
        if not self._settings.rings or receipt.source == self._me:
            return
        link = self._links.to(via)
        if link is not None and link.passed is not None:
            link.passed[receipt.source] = receipt.number, receipt.counts
        self.at = min(self.at, now + self._gather_us)

    @property
    def _gather_us(self) -> int:
        """What is passed on grows with the group."""
        return self._settings.gather_us * (1 + len(self._view.view) // CROWD)

    def greet(self, now: int) -> None:
        """There is a link over which nothing was passed on yet."""
        if self._settings.rings:
            self.at = min(self.at, now)

    def pass_on(self, now: int) -> None:
        self.at = NEVER
        most = self._settings.frame_bytes // COUNT_BYTES
        for member in self._links.audible():
            link = self._links.to(member)
            if link is None or link.outgoing is None:
                continue
            if link.passed is None or now - link.passed_at > ANEW * self._settings.receipt_idle_us:
                link.passed, link.passed_at = {}, now
            words: list[Receipt] = []
            size = 0
            for source in link.outgoing.relays:  # which the other end knows, or it would not want them
                word = self._news(link.passed, source)
                if word is None:
                    continue
                if words and size + len(word.counts) > most:
                    self._posts.append(Post(process_of(member), Passed(tuple(words))))
                    words, size = [], 0
                words.append(word)
                size += len(word.counts)
            if words:
                self._posts.append(Post(process_of(member), Passed(tuple(words))))

    def _news(self, passed: dict[str, tuple[int, dict[str, int]]], source: str) -> Receipt | None:
        """What the other end of a link has not heard of this one."""
        last = self._peers.last(source)
        number, told = passed.get(source, (-1, {}))
        if last is None or last.number <= number:
            return None
        passed[source] = last.number, last.counts
        counts = {name: count for name, count in last.counts.items() if told.get(name) != count}
        return last._replace(counts=counts, target="", stream=0, wants=(), unheard=())
