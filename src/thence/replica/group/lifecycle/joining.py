"""A process's way into the group: one attempt after another, through one contact after another.

Rules 8 and 22 of docs/protocols/membership.md, from the joiner's side; what one attempt is, is in
`members.attempt`. A process outside asks every contact that it has a link to, and takes the first offer; a
member that was told to return goes to the member that said so first.

A contact whose state the program could not install is passed over until all others had their turn. If that
happens again and again, it is the program that is wrong.
"""

from collections import Counter, deque
from collections.abc import Callable, Set
from contextlib import suppress
from typing import Final

from thence.core.errors import ApplicationError
from thence.core.groups import Extent, Offer, Piece, Post, Rank, Running, process_of
from thence.members.attempt import Attempt
from thence.replica.group.channel.links import Wires
from thence.replica.group.settings import GroupSettings

About = Callable[[], tuple[Rank, Running]]
"""How good a side this process is on, and what it runs."""

Extents = Callable[[], Extent | None]
"""How far the program of this process has come, if it has no state."""

REFUSALS_MAX: Final = 3
"""Of states of one contact, while no other one had a better state."""


class JoinAttempt:
    __slots__ = (
        "_about", "_address", "_contacts", "_extent", "_fruitless", "_next", "_passed", "_posts", "_refused",
        "_settings", "_tries", "_wires", "attempt", "seeds",
    )  # fmt: skip

    def __init__(
        self,
        address: str,
        seeds: tuple[str, ...],
        reserve: Callable[[bool], tuple[str, int]],
        about: About,
        extent: Extents,
        settings: GroupSettings,
        posts: list[Post],
        wires: Wires,
    ) -> None:
        """`reserve` gives a name that no incarnation had before, see `Incarnations.reserve`."""
        self.seeds = seeds
        self.attempt: Attempt | None = None
        self._address = address
        self._next = reserve
        self._about = about
        self._extent = extent
        self._settings = settings
        self._posts = posts
        self._wires = wires
        self._contacts: deque[str] = deque(seeds)
        self._tries = 0
        self._fruitless = 0
        """Attempts in a row that have failed."""
        self._refused = Counter[str]()
        """Contacts whose states the program could not install, and how often."""
        self._passed: set[str] = set()
        """Those of them that are not asked before the others."""

    def meet(self, process: str) -> None:
        """One more contact."""
        if process not in self.seeds:
            self.seeds += (process,)
            self._contacts.append(process)

    def towards(self, process: str, now: int, outside: bool = False, left: Set[str] = frozenset()) -> None:
        """Return, through this process if possible. `outside`: nothing runs meanwhile. `left`: processes of
        the side that it comes from, which are not asked: to return to those would change nothing."""
        others = [other for other in self._contacts if other != process]
        there = [process, *(other for other in others if other not in left)]
        self._contacts = deque([*there, *(other for other in others if other in left)])
        self._tries = len(there)
        self.begin(outside, fresh=False, now=now)

    def begin(self, outside: bool, fresh: bool, now: int) -> None:
        """A new attempt, through the next contact. `outside`: nothing runs meanwhile; `fresh`: nor did
        anything before that has to be carried on."""
        joiner, since = self._next(fresh)
        contact = self._contacts[0]
        self._contacts.rotate(-1)
        self._passed.discard(contact)
        until = now + self._settings.join_timeout_us
        self.attempt = Attempt(joiner, contact, now, until, since, outside)
        self.ask(now)

    def give_up(self, now: int) -> None:
        """An attempt has failed. A member that was told to return does so only while notices say so: the
        side that it was to return to may be dead by now."""
        old, self.attempt = self.attempt, None
        assert old is not None
        self._tries -= 1
        self._fruitless += 1
        if old.outside and self._fruitless >= len(self._contacts):
            # They may be gone for good. Members that know this process dial it, though it does not know them.
            for process in sorted(self._wires.up):
                self.meet(process)
        if old.outside or self._tries > 0:
            self.begin(old.outside, old.since > 0, now)

    def refused(self, error: ApplicationError, now: int) -> None:
        """The program could not install the state that has come. The error, if that is not for the contact to
        answer for: again and again, and of a member that works on, from all of them."""
        assert self.attempt is not None
        contact, refused = self.attempt.contact, self._refused
        refused[contact] += 1
        if refused[contact] >= REFUSALS_MAX and (
            self.attempt.outside or all(refused[other] for other in self._contacts)
        ):
            raise error
        with suppress(ValueError):
            self._contacts.remove(contact)
        self._contacts.append(contact)
        self._passed.add(contact)
        self.give_up(now)

    def arrived(self) -> None:
        """This process is a member."""
        self.attempt = None
        self._fruitless = 0
        self._refused.clear()
        self._passed.clear()

    def ask(self, now: int) -> None:
        attempt = self.attempt
        assert attempt is not None
        attempt.retry_at = now + self._settings.join_retry_us
        request = attempt.request(*self._about(), self._address, self._extent())
        asked = [attempt.contact]
        if attempt.outside and not attempt.bound and self._wires.used:
            # The first answer will do; where there is no link, none comes.
            there = [process for process in self._contacts if process in self._wires.up]
            asked = [process for process in there if process not in self._passed] or asked
        self._posts += [(process, request) for process in asked]

    def up(self, process: str, now: int) -> None:
        """There is a link to this process."""
        attempt = self.attempt
        if attempt is None:
            return
        if process in self._passed:
            return
        if attempt.outside and not attempt.bound and process in self._contacts:
            # The others were asked when theirs came up.
            self._posts.append((process, attempt.request(*self._about(), self._address)))
        elif process == attempt.contact:
            self.ask(now)

    def offered(self, offer: Offer, now: int) -> None:
        attempt, process = self.attempt, process_of(offer.contact)
        if attempt is None or (
            process != attempt.contact
            and (process in self._passed or not (attempt.outside and process in self.seeds))
        ):
            return  # it was not asked
        if attempt.is_kept_waiting(offer):
            attempt.until = now + self._settings.join_timeout_us
        elif attempt.offered(offer):
            attempt.until = now + self._settings.join_timeout_us
            self.ask(now)

    def came(self, piece: Piece, now: int) -> Attempt | None:
        """Part of a state. The attempt, if that makes it whole."""
        attempt, settings = self.attempt, self._settings
        if attempt is None or not attempt.came(piece):
            return None
        attempt.until = now + settings.join_timeout_us
        if attempt.complete:
            return attempt
        if (
            not attempt.waiting
            and len(attempt.buffer) - attempt.asked >= settings.pieces * settings.piece_bytes
        ):
            self.ask(now)
        return None

    @property
    def wake_at(self) -> int | None:
        return min(self.attempt.retry_at, self.attempt.until) if self.attempt is not None else None

    def wake(self, now: int) -> None:
        if self.attempt is not None:
            if now >= self.attempt.until:
                self.give_up(now)
            elif now >= self.attempt.retry_at:
                self.ask(now)
