"""Leaving for good: when a member may say that it leaves, and when it may go. Rule 15 of
docs/protocols/membership.md."""

from thence.core.machine import NEVER
from thence.replica.group_member import Member


class Leaving:
    __slots__ = ("_timeout_us", "until", "wanted")

    def __init__(self, timeout_us: int) -> None:
        self._timeout_us = timeout_us
        self.wanted = False
        """It is to leave, and has not said so yet."""
        self.until = NEVER
        """When it goes, whatever becomes of it, since nobody answers."""

    @property
    def begun(self) -> bool:
        return self.until != NEVER

    def goes_on(self, now: int) -> None:
        """After a restart: its leave was out."""
        self.until = now + self._timeout_us

    def begin_anew(self, wanted: bool) -> None:
        """Another incarnation runs, or none."""
        self.wanted = wanted
        self.until = NEVER

    def is_due(self, member: Member, now: int) -> bool:
        """Is it the moment to say LEAVE?"""
        if not self.wanted or member.view.leaving:
            return False
        if member.carrying.busy:
            return False  # what it has would be lost, or looked for
        if is_alone(member):
            # Nobody else has what this one has, and others may come back without it: wait for one of them.
            self.until = min(self.until, now + self._timeout_us)
            return False
        self.wanted = False
        self.until = now + self._timeout_us
        return True

    def lets_in(self, member: Member) -> bool:
        """May others join through it? One that is to leave and cannot say so yet may have told them to."""
        return not self.wanted or member.carrying.busy or is_alone(member)


def is_alone(member: Member) -> bool:
    """Nobody else stays on its side, and somebody may come back who lacks what this side had."""
    return member.view.side <= {member.me} and bool(member.view.missed())
