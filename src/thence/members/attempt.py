"""One try to become a member: rule 8 of docs/protocols/membership.md, from the joiner's side.

Ask the contacts that may be members; take the first offer; from then on this attempt belongs to that
incarnation of the contact for good, since it may have told the group already. The state comes in pieces, in
any order; a request says how far it has come, so that nothing travels twice but what was lost. When nothing
comes for too long, the attempt is over, and the next one is another incarnation: what became of this one is
for the group to find out.

Invariant: pieces of two states are never mixed; a piece of another state than the one begun counts only if it
is a first one. Of a state that is whole nothing counts any more.
"""

from thence.core.groups import Extent, JoinRequest, Offer, Piece, Rank, Running, process_of


class Attempt:
    __slots__ = (
        "_early",
        "_total",
        "_transfer",
        "asked",
        "began",
        "bound",
        "buffer",
        "contact",
        "joiner",
        "outside",
        "retry_at",
        "since",
        "until",
    )

    def __init__(
        self, joiner: str, contact: str, now: int, until: int, since: int = 0, outside: bool = True
    ) -> None:
        self.joiner = joiner
        self.outside = outside
        """Nothing of this process runs meanwhile."""
        self.since = since
        """From this number on the process has tried and never succeeded; 0: it is a member."""
        self.contact = contact
        """The process that is asked."""
        self.bound = ""
        """The incarnation of it that has offered."""
        self.began = now
        self.retry_at = now
        self.until = until
        """When this attempt is over, unless something comes."""
        self.buffer = bytearray()
        self.asked = 0
        """Up to where the state had come when it was last asked for."""
        self._early: dict[int, bytes | memoryview] = {}
        self._transfer = 0
        self._total = -1

    @property
    def complete(self) -> bool:
        return len(self.buffer) == self._total

    def request(
        self, rank: Rank, running: Running, address: str = "", extent: Extent | None = None
    ) -> JoinRequest:
        self.asked = len(self.buffer)
        told = extent if self.bound else None  # each time: a contact that has restarted makes the state anew
        return JoinRequest(
            self.joiner, self.bound, rank, running, self._transfer, self.asked, address, self.since, told
        )

    def offered(self, offer: Offer) -> bool:
        """An offer came: is it the one to take?"""
        if offer.joiner != self.joiner or self.bound:
            return False
        self.bound = offer.contact
        self.contact = process_of(offer.contact)
        return True

    def is_kept_waiting(self, offer: Offer) -> bool:
        """The contact says that it will let this joiner in, only not yet."""
        return offer.joiner == self.joiner and offer.contact == self.bound

    def came(self, piece: Piece) -> bool:
        """A piece came: is there news in it?"""
        if piece.joiner != self.joiner or piece.contact != self.bound or self.complete:
            return False
        if piece.transfer != self._transfer:
            if piece.offset:
                return False
            self._transfer, self._total = piece.transfer, piece.total
            self.buffer.clear()
            self._early.clear()
        if piece.offset < len(self.buffer) or piece.offset in self._early:
            return False
        self._early[piece.offset] = piece.data
        while (data := self._early.pop(len(self.buffer), None)) is not None:
            self.buffer += data
        return True

    @property
    def waiting(self) -> bool:
        """Pieces after one that is missing have come: it was lost, or is late."""
        return bool(self._early)
