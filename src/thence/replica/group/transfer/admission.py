"""Letting others in: the state on its way to joiners, and joiners that were let in and not heard of.

Rules 9 and 10 of docs/protocols/membership.md, from the contact's side. A state stays as it is until it was
handed over: what happened meanwhile reaches the joiner as messages, since the group keeps them for it. So one
state does for all joiners that were let in before it was made. It is named after its contents, so that a
request for the rest of one is not answered with another, not even by a contact that has restarted.

A state is made in steps (`handover.Making`), one state at a time; joiners that wait for it are told to.

What joiners cost is bounded: so many are let in at a time, and so many bytes of states are held, or one state
if it is larger than that. Others wait, and are let in together when there is room: then they share a state.

A joiner that dies on the way would hold stability back for ever. Its contact, which alone knows that it never
arrived, suspects it after a while; to be wrong about that costs the joiner another attempt.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping

from thence.core.group_sizes import names_fit
from thence.core.groups import JOIN, Extent, JoinRequest, Offer, Piece, process_of
from thence.members.group import GroupView
from thence.oplog.log import OpLog
from thence.replica.group.channel.links import GroupLinks
from thence.replica.group.ledger.backlog import Allowance
from thence.replica.group.ledger.ledger import Ledger
from thence.replica.group.ledger.payloads import join_payload, read_watched, watched_note
from thence.replica.group.ledger.state import MemberState, Sources
from thence.replica.group.ledger.state_codec import encoding
from thence.replica.group.settings import GroupSettings
from thence.replica.group.transfer.handover import Making

WATCHED = 1
"""Key of the log's note about joiners that were not heard of yet."""

STEP_BYTES = 1 << 18
"""Of states that leave in one step, or one piece: they are encoded and summed up then."""


class Handed:
    """A state on its way to all joiners that were let in up to the contact's message `upto`; or to one
    joiner, whose program has come so far as no other's."""

    __slots__ = ("joiners", "shared", "state", "upto")

    def __init__(self, state: Making, upto: int, shared: bool) -> None:
        self.shared = shared
        self.state = state
        self.upto = upto
        self.joiners: dict[str, int] = {}
        """And up to where each of them was sent it."""


class StateSender:
    __slots__ = (
        "_allowance", "_cut", "_left", "_log", "_settings", "_states", "_waiting", "spent", "watched",
    )  # fmt: skip

    def __init__(self, log: OpLog, settings: GroupSettings) -> None:
        self._log = log
        self._settings = settings
        self._allowance = Allowance(settings.step_max)
        """Of this step, for states in the making."""
        self.spent = False
        """Something was done of what a step may."""
        self._left = STEP_BYTES
        """Bytes of pieces that may leave in this step; one piece in any case."""
        self._cut: deque[tuple[str, Making, int]] = deque()
        """Pieces that are on their way: the joiner, the state, and from where on."""
        self._states: list[Handed] = []
        self._waiting: dict[str, tuple[JoinRequest, int]] = {}
        """By process: its request to be let in, and when that last came."""
        self.watched: dict[str, tuple[int, int]] = {}
        """Joiners that were not heard of: the number of their join, and how long to wait."""

    def opened(self, joiner: str, seq: int, now: int) -> None:
        """This member's message `seq` lets a joiner in."""
        self.watched[joiner] = seq, now + self._settings.join_timeout_us

    @property
    def busy(self) -> bool:
        return bool(self.watched)

    def waits_for(self, joiner: str) -> bool:
        return joiner in self.watched

    def arrived(self, joiner: str, own: int) -> None:
        """A joiner was heard; `own`: how many messages this member has sent."""
        if joiner in self.watched:
            self._forget(joiner)
            self._log.note(WATCHED, watched_note(own, list(self.watched)))

    def recall(self, notes: Mapping[int, bytes]) -> None:
        """After a restart: some joiners that were let in had been heard of."""
        if WATCHED in notes:
            upto, names = read_watched(notes[WATCHED])
            for joiner, (seq, _) in list(self.watched.items()):
                if seq <= upto and joiner not in names:
                    self._forget(joiner)

    def overdue(self, now: int) -> list[str]:
        """Joiners that were not heard of for too long; they are not waited for any more."""
        stuck = [joiner for joiner, (_, until) in self.watched.items() if now > until]
        for joiner in stuck:
            self._forget(joiner)
        return stuck

    @property
    def held_bytes(self) -> int:
        """Of states."""
        return sum([handed.state.size for handed in self._states])

    @property
    def room(self) -> int:
        """How many may be let in."""
        largest = max([handed.state.size for handed in self._states], default=0)
        if self.making:
            return 0  # it is not known yet how large it will be
        if largest and self.held_bytes + largest > self._settings.states_bytes:
            return 0
        return max(0, self._settings.joins_max - len(self.watched))

    def next(self, request: JoinRequest, now: int) -> list[JoinRequest]:
        """A process wants to be let in. Returns which of those that wait are, the first that came first. One
        that has not asked again in time has gone elsewhere."""
        self._waiting[process_of(request.joiner)] = request, now
        since = now - 2 * self._settings.join_retry_us
        self._waiting = {name: each for name, each in self._waiting.items() if each[1] >= since}
        return [self._waiting.pop(name)[0] for name in list(self._waiting)[: self.room]]

    def relinked(self, process: str) -> None:
        """What was under way to a process may be lost."""
        self._cut = deque([piece for piece in self._cut if process_of(piece[0]) != process])
        for handed in self._states:
            for joiner in handed.joiners:
                if process_of(joiner) == process:
                    handed.joiners[joiner] = 0

    def pieces(
        self,
        request: JoinRequest,
        state: Callable[[JoinRequest], Making],
        own: int,
        sure: bool,
        now: int,
    ) -> bool:
        """The next pieces of the state for a joiner are due (`due`); not while that is in the making. `own`:
        how many messages this member has sent; `sure`: links lose nothing while they last, so that a joiner
        which is slow is not sent the same again."""
        joiner, size = request.joiner, self._settings.piece_bytes
        seq = self.watched[joiner][0]
        self.opened(joiner, seq, now)
        handed = next((each for each in self._states if joiner in each.joiners), None)
        if handed is None:
            handed = self._made(request, state, own, seq)
            self._go_on()
            handed.joiners[joiner] = 0
        if not handed.state.whole:
            return False
        have, total = request.have if request.transfer == handed.state.transfer else 0, handed.state.size
        first, end = have, min(total, have + size * self._settings.pieces)
        if sure and handed.joiners[joiner] > have:
            first = handed.joiners[joiner]
        handed.joiners[joiner] = max(first, end)
        self._cut += [(joiner, handed.state, at) for at in range(first, end, size)]
        return True

    def due(self, contact: str) -> Iterator[Piece]:
        """Pieces that leave in this step."""
        while self._cut and self._left > 0:
            joiner, state, at = self._cut.popleft()
            data = state.read(at, self._settings.piece_bytes)
            self._left -= len(data)
            self.spent = True
            yield Piece(contact, joiner, state.transfer, at, state.size, data)

    @property
    def making(self) -> bool:
        """A state is in the making."""
        return not all(handed.state.whole for handed in self._states)

    @property
    def unfinished(self) -> bool:
        """There is more to do than one step may."""
        return bool(self._cut) or (bool(self._states) and self.making)

    def go_on(self) -> None:
        """With what is in the making. If it is whole now, joiners that wait for it get the first pieces."""
        size = self._settings.piece_bytes
        for handed in self._go_on():
            end = min(handed.state.size, size * self._settings.pieces)
            for joiner in handed.joiners:
                handed.joiners[joiner] = end
                self._cut += [(joiner, handed.state, at) for at in range(0, end, size)]

    def _go_on(self) -> list[Handed]:
        """As far as this step may: those that it has made whole. One after the other."""
        done = []
        for handed in [each for each in self._states if not each.state.whole]:
            self.spent = True
            handed.state.go_on(self._allowance)
            if not handed.state.whole:
                break
            done.append(handed)
        return done

    def step_over(self) -> None:
        self.spent = False
        self._allowance.left = self._settings.step_max
        self._left = STEP_BYTES

    def _made(
        self, request: JoinRequest, state: Callable[[JoinRequest], Making], own: int, seq: int
    ) -> Handed:
        """The newest state that all may have, if it knows of this joiner; else another one."""
        shared = request.extent is None
        good = [each for each in self._states if shared and each.shared and each.upto >= seq]
        if not good:
            good = [Handed(state(request), own, shared)]
            self._states += good
        return good[-1]

    def _forget(self, joiner: str) -> None:
        del self.watched[joiner]
        self._cut = deque([piece for piece in self._cut if piece[0] != joiner])
        for handed in self._states:
            handed.joiners.pop(joiner, None)
        self._states = [handed for handed in self._states if handed.joiners]


class Contact:
    """A member as the one that others join through: rule 9."""

    __slots__ = (
        "_broadcast", "_ledger", "_links", "_log", "_me", "_post", "_sender", "_settings", "_state",
        "_view",
    )  # fmt: skip

    def __init__(
        self,
        me: str,
        log: OpLog,
        ledger: Ledger,
        view: GroupView,
        links: GroupLinks,
        sender: StateSender,
        settings: GroupSettings,
        state: Callable[[bool, Extent | None, bool], tuple[MemberState, Sources]],
        broadcast: Callable[[int, bytes, int], None],
        post: Callable[[str, Offer | Piece], None],
    ) -> None:
        """`state`: what a joiner begins with (`handover.state_of`). `broadcast`: send a message about the
        group. `post`: send a packet to an incarnation."""
        self._me = me
        self._log = log
        self._ledger = ledger
        self._view = view
        self._links = links
        self._sender = sender
        self._settings = settings
        self._state = state
        self._broadcast = broadcast
        self._post = post

    def admit(self, request: JoinRequest, now: int) -> None:
        """Rule 9: let a joiner in, or go on handing over the state."""
        joiner, served = request.joiner, [request]
        if not self._view.is_superseded(joiner):
            due = self._sender.next(request, now)
            served = [each for each in due if not self._view.is_superseded(each.joiner)]
            for each in served:  # all of them before the state is made, which they share
                self._broadcast(JOIN, join_payload(each.joiner, each.address, each.since), now)
                self._log.insist()  # a contact that forgets its joiners cannot name them
            if request not in served:
                self._post(joiner, Offer(self._me, joiner))
        elif joiner not in self._view.side or not self._sender.waits_for(joiner):
            return
        for each in served:
            if not self._sender.pieces(each, self._handed, self._ledger.sent, self._links.used, now):
                self._post(each.joiner, Offer(self._me, each.joiner))  # it is in the making
        self.post_pieces()

    def post_pieces(self) -> None:
        for piece in self._sender.due(self._me):
            self._post(piece.joiner, piece)

    def _handed(self, request: JoinRequest) -> Making:
        state, sources = self._state(True, request.extent, not request.running.member)
        state.holders = tuple([name for name in state.holders if name != request.joiner])
        return Making(encoding(state, sources))

    @property
    def has_room(self) -> bool:
        """Can a joiner be let in now?"""
        return self._sender.room > 0

    def can_name(self, joiner: str) -> bool:
        """Members of a group are named in receipts, which must fit a packet."""
        past = [process for process, _, _ in self._view.past]
        return names_fit([joiner, *self._ledger.spoken(), *past], self._settings.frame_bytes)
