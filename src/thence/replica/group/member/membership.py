"""Changes of the view, and what follows from them: rules 11 to 19 of docs/protocols/membership.md.

The view itself is `members.group`. It changes by messages about the group that were delivered here
(`deliver`), and by what this member suspects of its own accord (`suspect`), which becomes a message at once:
a flush, before it accepts anything else.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from thence.core.groups import FLUSH, JOIN, LEAVE, Running, Span, number_of, process_of
from thence.members.group import Changes, GroupView
from thence.replica.group.channel.links import GroupLinks
from thence.replica.group.ledger.ledger import Ledger
from thence.replica.group.ledger.payloads import flush_payload, payload_flush, payload_join
from thence.replica.group.member.receiving import Receiving
from thence.replica.group.member.rows import MemberRows
from thence.replica.group.receipts.passing import Passing
from thence.replica.group.receipts.peers import Peers
from thence.replica.group.receipts.schedule import ReceiptScheduler
from thence.replica.group.surroundings import Application
from thence.replica.group.transfer.admission import StateSender

LEAVERS_MAX: Final = 64
"""More than ever leave at the same time."""

CHANGES_KEPT: Final = 64


class Membership:
    __slots__ = (
        "_application", "_broadcast", "_gate", "_ledger", "_links", "_me", "_passing",
        "_peers", "_receiving", "_rows", "_unheard_us", "_view", "_watch", "abandoned_by", "changes",
        "leavers",
    )  # fmt: skip

    def __init__(
        self,
        me: str,
        ledger: Ledger,
        view: GroupView,
        application: Application,
        rows: MemberRows,
        peers: Peers,
        gate: StateSender,
        links: GroupLinks,
        watch: ReceiptScheduler,
        passing: Passing,
        receiving: Receiving,
        broadcast: Callable[[int, bytes, int], None],
        unheard_us: int,
    ) -> None:
        """`broadcast`: send a message about the group. `unheard_us`: one that is silent for so long is not
        heard (`GroupSettings`)."""
        self._me = me
        self._ledger = ledger
        self._view = view
        self._application = application
        self._rows = rows
        self._peers = peers
        self._gate = gate
        self._links = links
        self._watch = watch
        self._passing = passing
        self._receiving = receiving
        self._broadcast = broadcast
        self._unheard_us = unheard_us
        self.abandoned_by: set[str] = set()
        """Of a leaver's side: members that run no more, and will not hear its leave."""
        self.leavers: deque[str] = deque(maxlen=LEAVERS_MAX)
        """The last members that have left: they may not know yet that they may go."""
        self.changes: deque[Changes] = deque(maxlen=CHANGES_KEPT)
        """Of the view, for the world to tell people of; the oldest go first where it does not."""

    def deliver(self, kind: int, dot: int, payload: bytes, now: int) -> None:
        origin, seq = self._ledger.place(dot)
        own = origin == self._me
        names: tuple[str, ...] = ()
        past: tuple[Span, ...] = ()
        if kind == FLUSH:
            names, past = payload_flush(payload)
        elif kind == JOIN:
            names = (self._joins(origin, seq, payload, now),)
        changes = self._view.deliver(origin, seq, kind, names, self._ledger.count, past)
        if kind == LEAVE and not own:
            self.leavers.append(origin)
        if kind == LEAVE and own:
            self._peers.upto = self._links.upto = list(self._ledger.counts)
            self._rows.left(now)
        self.follow(changes, dot, now)

    def _joins(self, contact: str, seq: int, payload: bytes, now: int) -> str:
        joiner, address, since = payload_join(payload)
        if joiner not in self._view.past:
            self._view.addresses[joiner] = address
            self._watch.coming[joiner] = contact
        if since:  # all attempts before this one came to nothing, and it has nothing from before them
            self._view.closed.add(process_of(joiner), since, number_of(joiner) - 1)
            self._view.abandon(process_of(joiner), since)
        if contact == self._me:
            self._gate.opened(joiner, seq, now)
        return joiner

    def follow(self, changes: Changes, dot: int, now: int) -> None:
        if not changes:
            return
        ledger, view = self._ledger, self._view
        for member in changes.joined:
            ledger.window.enter(ledger.number(member), dot)
        for member in changes.left + changes.evicted:
            ledger.window.drop(ledger.number(member))
        for member in changes.left + changes.suspected:
            self._peers.forget(member)
        for member in changes.evicted:
            self._peers.gone(member)
        if changes.suspected or changes.evicted:
            self._receiving.drop_pending()
        for member in changes.evicted:
            self._rows.evicted(member, view.gone[member].last, now)
        self.changes.append(changes)
        self._application.view_changed(tuple(sorted(view.view)), self._me)
        self._ledger.unswept += 1
        self._links.reconsider()
        self._receiving.lineages.judge()
        if self._links.used and (changes.suspected or changes.evicted):
            self._watch.urgent(now)
        else:
            self._watch.greet(changes.joined, now)
            self._watch.part(changes.left, now)
        for member in changes.joined:
            if early := self._passing.kept(member):
                self._receiving.receipt(*early, now)

    def flush(self, now: int) -> None:
        """Rule 17: name the suspects of this member, before it accepts anything else."""
        owed = self._view.unflushed_suspects()
        if owed:
            self._broadcast(FLUSH, flush_payload(owed, ()), now)

    def arrived(self, now: int) -> None:
        """Rule 10: the state is installed. Others may wait for a flush of those that are past here."""
        if self._view.suspects or len(self._view.past):
            self._broadcast(FLUSH, flush_payload(self._view.unflushed_suspects(), self._view.past), now)

    def suspect(self, members: list[str], now: int) -> None:
        if self._view.leaving:
            return
        self.follow(self._view.suspect(members), 0, now)
        self.flush(now)

    def ghosts(self, running: Running, now: int) -> None:
        """Rule 16: incarnations that their own process does not run, nor try to become, are dead."""
        process, known = running.process, (self._me, running.member, running.attempt)
        alike = [name for name in self._view.view if name.startswith(process) and name not in known]
        dead = [
            name
            for name in sorted(alike)
            if process_of(name) == process and number_of(name) <= running.highest and name in self._view.side
        ]
        if dead:
            self.abandoned_by.update(dead if self._view.leaving else ())
            self.suspect(dead, now)

    def deserted(self, now: int) -> bool:
        """Of a leaver: does no member of its side run any more, or can none be heard? Then its leave will be
        stable late or never, and the evicted must hear of it."""
        others = sorted(self._view.side - self.abandoned_by)
        return len(self._peers.silent(others, now - self._unheard_us, now)) == len(others)
