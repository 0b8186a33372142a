"""What the others have, by their receipts: which rows may grow, and what to retransmit to which member.

Rule 5 of docs/protocols/membership.md. A receipt counts for stability once everything that its sender had
sent by then was delivered here; until then the newest is held, and what it counts beyond what was delivered
here counts when that was.

Where links are no sessions, what the sender of a receipt lacks is retransmitted, by its origin and by any
member that has it: of suspects and leavers soon, since they may not be there to do it; of others later, when
their origin has had its chance. So two members that cannot see each other hear of each other through the
rest."""

from itertools import islice

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.groups import Data, NamedMessage, Receipt
from thence.members.group import GroupView
from thence.members.spans import Spans
from thence.replica.group.ledger.ledger import Ledger
from thence.replica.group.settings import GroupSettings


class PeerRecord:
    """What is known of one member: when it was heard, what it acknowledged, what it was last sent."""

    __slots__ = ("heard_at", "held", "last", "served", "told")

    def __init__(self, now: int) -> None:
        self.heard_at = now
        self.last: Receipt | None = None
        self.told: dict[str, Receipt] = {}
        """Of each other member, the last receipt that this one was told of."""
        self.held: dict[str, int] = {}
        """What it said that it has, as long as not all of that is in its row."""
        self.served: dict[str, tuple[int, int]] = {}
        """Per origin: what it had, and when that was last found, or something sent for it."""


class Peers:
    __slots__ = ("_ledger", "_peers", "_settings", "_view", "upto")

    def __init__(self, ledger: Ledger, view: GroupView, settings: GroupSettings) -> None:
        self._ledger = ledger
        self._view = view
        self._settings = settings
        self._peers: dict[str, PeerRecord] = {}
        self.upto: list[int] | None = None
        """A leaver passes on only what it had delivered before its leave."""

    def of(self, member: str, now: int) -> PeerRecord:
        peer = self._peers.get(member)
        if peer is None:
            peer = self._peers[member] = PeerRecord(now)
        return peer

    def heard(self, member: str, now: int) -> None:
        peer = self._peers.get(member) or self.of(member, now)
        peer.heard_at = now

    def forget(self, member: str) -> None:
        """What a member said does not count any more."""
        if member in self._peers:
            self._peers[member].held.clear()
            self._peers[member].last = None

    def gone(self, member: str) -> None:
        """This member is never asked about again."""
        self._peers.pop(member, None)
        for peer in self._peers.values():
            peer.told.pop(member, None)
            peer.served.pop(member, None)

    def last(self, member: str) -> Receipt | None:
        """What a member said last, as far as it still counts."""
        peer = self._peers.get(member)
        return peer.last if peer is not None else None

    def whole(self, receipt: Receipt) -> Receipt | None:
        """One that was passed on may say only which counts have grown, and what is past if that is news.
        None: a newer one is here."""
        last = self.last(receipt.source)
        if last is None:
            return receipt
        if receipt.number <= last.number:
            return None
        counts, past = last.counts, last.past
        if receipt.past:  # what has become past is not counted any more
            news, both = Spans(receipt.past), Spans(past)
            counts = {name: count for name, count in counts.items() if name not in news}
            for span in receipt.past:
                both.add(*span)
            past = both.all
        return receipt._replace(counts=counts | receipt.counts, past=past)

    def hold(self, receipt: Receipt, grown: dict[str, int], now: int) -> None:
        """`grown`: of its counts, those that are news."""
        peer = self.of(receipt.source, now)
        peer.last, held = receipt, peer.held
        for name, count in grown.items():
            if count > held.get(name, 0):
                held[name] = count

    def settle(self) -> None:
        """Before a search for what is stable: what the others said, as far as it counts by now."""
        for member, peer in self._peers.items():
            came = self._ledger.count(member) >= peer.held.get(member, 0)
            if peer.held and came and self._ledger.known(member, peer.held):
                peer.held = {}

    def said(self, member: str) -> dict[str, int]:
        """What a member has delivered, as far as it is known, whether or not that counts already."""
        known = self._ledger.row(member)
        held = self._peers[member].held if member in self._peers else {}
        return {name: max(known.get(name, 0), held.get(name, 0)) for name in known | held}

    def counted(self, member: str, origin: str) -> int:
        """How many messages of `origin` a member said that it has."""
        peer = self._peers.get(member)
        return peer.last.counts.get(origin, 0) if peer and peer.last else 0

    def last_word(self, member: str, to: str) -> Receipt | None:
        """The last receipt of `member`, for one that does not hear it itself; once. Members that are not
        heard are left out of it: what is passed on must not make others pass on more."""
        said, asker = self._peers.get(member), self._peers.get(to)
        if said is None or said.last is None or asker is None:
            return None
        word = said.last._replace(target="", stream=0, wants=(), unheard=(), via="")
        if asker.told.get(member) == word:
            return None
        asker.told[member] = word
        return word

    def silent(self, members: list[str], since: int, now: int) -> list[str]:
        return [member for member in members if self.of(member, now).heard_at < since]

    def serve(self, me: str, receipt: Receipt, now: int) -> Data | None:
        """What the sender of a receipt needs to get again, if it is time for that."""
        limits = self._ledger.counts if self.upto is None else self.upto
        names = list(zip(self._ledger.names, limits, strict=False))
        lacking = [name for name, count in names if count > receipt.counts.get(name, 0)]
        lacking = [name for name in lacking if name not in self._view.past]
        if not lacking:
            return None
        urgent = self._view.suspects | set(receipt.suspects) | self._view.departing.keys() | {me}
        served = self.of(receipt.source, now).served
        due = set()
        for name in lacking:
            has = receipt.counts.get(name, 0)
            had, since = served.get(name, (-1, 0))
            wait = self._settings.repeat_us if name in urgent else self._settings.relay_us
            if has > had:
                served[name] = (has, now)
            elif now - since >= wait:
                served[name] = (has, now)
                due.add(name)
        messages = self._missing(due, receipt.counts, limits)
        return Data(me, receipt.source, tuple(messages)) if messages else None

    def _missing(self, due: set[str], counts: dict[str, int], limits: list[int]) -> list[NamedMessage]:
        ledger = self._ledger
        had = ledger.above({name: counts.get(name, 0) for name in due})
        good = (
            (dot, data)
            for dot, data in (ledger.written(had) if due else ())
            if dot & ORIGIN_MASK < len(limits) and dot >> ORIGIN_BITS <= limits[dot & ORIGIN_MASK]
        )
        return [ledger.named(ledger.read(dot, data)) for dot, data in islice(good, self._settings.burst)]
