"""What is stable, and what follows from that: rules 7, 14 and 27 of docs/protocols/membership.md.

A message is stable when all members have it, as their receipts say. Then its program may hear of it, the log
need not keep it, a leaver whose leave it is may go, and what is gone for good is past.
"""

from collections.abc import Iterable, Sequence

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.groups import Farewell, Place, Post, process_of
from thence.core.tag import Tag
from thence.members.group import GroupView
from thence.members.operations import Operations
from thence.oplog.log import OpLog
from thence.replica.group.channel.links import GroupLinks
from thence.replica.group.ledger.ledger import SWEEP_EVERY, Ledger
from thence.replica.group.member.membership import Membership
from thence.replica.group.member.receiving import Receiving
from thence.replica.group.member.rows import MemberRows
from thence.replica.group.member.tag_book import TagBook
from thence.replica.group.receipts.peers import Peers
from thence.replica.group.settings import GroupSettings
from thence.replica.group.surroundings import Application
from thence.replica.group.transfer.carrying import operations_of
from thence.replica.group.transfer.reading import Reading
from thence.replica.life_tag import LifeTag


class Stability:
    __slots__ = (
        "_application", "_book", "_ledger", "_links", "_log", "_me", "_membership", "_operations",
        "_peers", "_posts", "_reading", "_receiving", "_rows", "_settings", "_view", "_withheld",
    )  # fmt: skip

    def __init__(
        self,
        me: str,
        log: OpLog,
        ledger: Ledger,
        view: GroupView,
        operations: Operations,
        book: TagBook,
        reading: Reading,
        application: Application,
        rows: MemberRows,
        peers: Peers,
        links: GroupLinks,
        membership: Membership,
        receiving: Receiving,
        settings: GroupSettings,
        posts: list[Post],
    ) -> None:
        self._me = me
        self._log = log
        self._ledger = ledger
        self._view = view
        self._operations = operations
        self._book = book
        self._reading = reading
        self._application = application
        self._rows = rows
        self._peers = peers
        self._links = links
        self._membership = membership
        self._receiving = receiving
        self._settings = settings
        self._posts = posts
        self._withheld: dict[str, LifeTag] = {}
        """By origin, the last operation that is stable and was not told as that: a missed member may lack it.
        Only with `stable_waits`."""
        if settings.stable_waits:
            self._withhold([(operation.dot, None) for operation in operations.inherited])

    def sweep(self, now: int, least: int = SWEEP_EVERY) -> None:
        """Rule 7: announce what has become stable, if so much has happened that it is worth looking."""
        ledger = self._ledger
        if self._ledger.unswept < least or (ledger.window.unfinished and least > 1):
            return  # the rest of an unfinished look is for the next wake-up, once per step
        self._peers.settle()
        found = ledger.window.sweep(self._settings.step_max)
        self._ledger.unswept = int(ledger.window.unfinished)
        for tag in found if self._rows.writes else ():
            self._rows.stable_up_to(tag.dot, now)
        if found:
            self._tell_stable(found)
            self._log.mark_stable(ledger.stables())
        settled = self._settle(now) or bool(found) or bool(self._withheld)
        if settled and not (self._view.suspects or self._view.strangers):
            if self._withheld:
                self._application.stable(list(self._withheld.values()))
                self._withheld.clear()
            if self._operations.inherited:
                self._reading.cleared(ledger)
            ledger.all_are_here()
            self._operations.inherited = []  # a state in the making may still read the old list

    def _tell_stable(self, found: Sequence[Tag]) -> None:
        told = self._book.swept(found)
        if self._settings.stable_waits and (self._view.suspects or self._view.strangers):
            self._withhold(told)
            return
        self._application.stable([LifeTag(tag, self._me, place, self._book) for place, tag in told])

    def _withhold(self, told: Iterable[tuple[Place, Tag | None]]) -> None:
        """It says the same of all before it of its origin."""
        for place, tag in told:
            last = self._withheld.get(place[0])
            if last is None or last.seq < place[1]:
                self._withheld[place[0]] = LifeTag(tag, self._me, place, self._book)

    def _settle(self, now: int) -> bool:
        """Rules 14 and 27: leavers whose leave all members have are gone, and what is gone for good is past.
        Returns whether that became true of any."""
        ledger, view = self._ledger, self._view
        for member, seq in list(view.departing.items()):
            # One that settles may settle the eviction of another.
            if member in view.departing and ledger.stable(member) >= seq:
                self._membership.follow(view.leave_is_stable(member, ledger.count), 0, now)
                if self._links.used and not view.leaving:
                    # It gets no receipts any more, and may not have heard from all who have its leave.
                    self._posts.append((process_of(member), Farewell(self._me, member, seq)))
        before = view.past.version
        for member in view.forget(ledger.stable) if view.gone or view.closing or view.strangers else ():
            ledger.forget(member)
            self._peers.gone(member)
        if view.past.version == before:
            return False
        # Of one that was closed before anything of it came the name may be known, from the table of a peer.
        unheard = [member for member in ledger.spoken() if member in view.past]
        for member in unheard:
            ledger.forget(member)
        if unheard and ledger.orderer.waiting:
            self._receiving.drop_pending()  # perhaps for one of these
        ledger.timelines.forget(view.past)
        self._operations.forget(view.past)
        return True

    def recovered(self, seen: list[int], stable: tuple[int, ...], now: int) -> None:
        """The log was replayed: of what was seen so much had been announced."""
        ledger = self._ledger
        past = [dot for dot in seen if dot >> ORIGIN_BITS <= _at(stable, dot & ORIGIN_MASK)]
        tags = [tag for tag in map(ledger.window.tag_of, past) if tag is not None]
        ledger.window.recall_stable(stable)
        for dot in past:
            self._rows.stable_up_to(dot, now)
        if self._settings.stable_waits:  # also what came before the state that the log goes on from
            held = [
                (dot, data)
                for dot, data in ledger.written(ledger.retain_from)
                if dot >> ORIGIN_BITS <= _at(stable, dot & ORIGIN_MASK)
            ]
            for dot, data in held:
                self._withhold([(operation.dot, None) for operation in operations_of(ledger, dot, data)])
        if tags:
            self._tell_stable(tags)
        self._settle(now)


def _at(counts: Sequence[int], index: int) -> int:
    return counts[index] if index < len(counts) else 0
