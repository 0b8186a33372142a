"""Letting others in: the state on its way to joiners, and joiners that were let in and not heard of.

Rules 9 and 10 of docs/protocols/membership.md, from the contact's side. A state is made once per joiner and
stays as it is until it was handed over: what happened meanwhile reaches the joiner as messages, since the
group keeps them for it. It is named after its contents, so that a request for the rest of one is not
answered with another, not even by a contact that has restarted.

A joiner that dies on the way would hold stability back for ever. Its contact, which alone knows that it never
arrived, suspects it after a while; to be wrong about that costs the joiner another attempt.
"""

from collections.abc import Callable, Mapping
from zlib import crc32

from thence.core.groups import JoinRequest, Piece
from thence.oplog.log import OpLog
from thence.replica.group_settings import GroupSettings
from thence.replica.group_state import read_watched, watched_note

WATCHED = 1
"""Key of the log's note about joiners that were not heard of yet."""


class Gate:
    __slots__ = ("_log", "_settings", "_states", "_watched")

    def __init__(self, log: OpLog, settings: GroupSettings) -> None:
        self._log = log
        self._settings = settings
        self._states: dict[str, tuple[int, bytes]] = {}
        self._watched: dict[str, tuple[int, int]] = {}
        """Joiners that were not heard of: the number of their join, and how long to wait."""

    def opened(self, joiner: str, seq: int, now: int) -> None:
        """This member's message `seq` lets somebody in."""
        self._watched[joiner] = seq, now + self._settings.join_timeout_us

    @property
    def busy(self) -> bool:
        return bool(self._watched)

    def waits_for(self, joiner: str) -> bool:
        return joiner in self._watched

    def arrived(self, joiner: str, own: int) -> None:
        """Somebody was heard; `own`: how many messages this member has sent."""
        if joiner in self._watched:
            self._forget(joiner)
            self._log.note(WATCHED, watched_note(own, list(self._watched)))

    def recall(self, notes: Mapping[int, bytes]) -> None:
        """After a restart: some of those who were let in had been heard of."""
        if WATCHED in notes:
            upto, names = read_watched(notes[WATCHED])
            for joiner, (seq, _) in list(self._watched.items()):
                if seq <= upto and joiner not in names:
                    self._forget(joiner)

    def overdue(self, now: int) -> list[str]:
        """Joiners that were not heard of for too long; nobody waits for them any more."""
        stuck = [joiner for joiner, (_, until) in self._watched.items() if now > until]
        for joiner in stuck:
            self._forget(joiner)
        return stuck

    def pieces(self, contact: str, request: JoinRequest, state: Callable[[], bytes], now: int) -> list[Piece]:
        """The next pieces of the state for a joiner."""
        joiner, size = request.joiner, self._settings.piece_bytes
        self.opened(joiner, self._watched[joiner][0], now)
        if joiner not in self._states:
            made = state()
            self._states[joiner] = crc32(made) << 24 | len(made) & 0xFFFFFF, made
        transfer, data = self._states[joiner]
        offset = request.have if request.transfer == transfer else 0
        return [
            Piece(contact, joiner, transfer, at, len(data), data[at : at + size])
            for at in range(offset, min(len(data), offset + size * self._settings.pieces), size)
        ]

    def _forget(self, joiner: str) -> None:
        del self._watched[joiner]
        self._states.pop(joiner, None)
