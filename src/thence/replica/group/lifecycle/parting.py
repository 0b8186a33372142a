"""A member that goes: of its own accord, or since the group goes on without it.

Rule 15 of docs/protocols/membership.md says when a leaver may say so, and when it may go (`Leaving`). Rules
20, 21 and 26 say which members must hear that the group goes on without them, and what they do then
(`Notices`). Two sides may each think that the other is gone. Each hears of it by a notice, which names the
members of the other; the members of the worse side return.
"""

from collections.abc import Set

from thence.core.groups import ALL, NOBODY_YET, Notice, Rank, Receipt, process_of
from thence.core.machine import NEVER
from thence.members.sides import Course, course
from thence.members.spans import Spans
from thence.replica.group.member.member import Member
from thence.replica.group.settings import GroupSettings


class Notices:
    __slots__ = ("_against", "_settings", "_unknown")

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._against: set[str] = set()
        """Members of the own side that go on without this one, as they have told it."""
        self._unknown: dict[str, int] = {}
        """Unknown sources of receipts that may be astray, and since when."""

    def begin_anew(self) -> None:
        """Another incarnation runs."""
        self._against.clear()
        self._unknown.clear()

    def side(self, member: Member) -> Set[str]:
        """The members on this one's side. Those that evicted it do not count, or two sides that overlap would
        both take themselves for the larger one, and members go to and fro for ever."""
        return (member.view.side - self._against) | {member.me}

    def rank(self, member: Member | None) -> Rank:
        """Of two processes that want to return through each other, the one with the lesser rank stays."""
        if member is None:
            return NOBODY_YET
        side = self.side(member)
        return (int(member.view.leaving > 0), -len(side), min(side), member.me)

    def is_due(self, member: Member, receipt: Receipt, now: int) -> bool:
        """Rule 20: must the source of a receipt hear that the group goes on without it? A leaver sends a
        notice only if no other member could."""
        view, source = member.view, receipt.source
        # What is past to the source does not count.
        diverged = any(gone.last < receipt.counts.get(name, 0) < ALL for name, gone in view.gone.items())
        diverged = diverged or (not view.knows(source) and _has_more(member, receipt))
        strange = source in view.suspects or source in view.strangers or self._is_astray(member, receipt, now)
        if view.leaving:
            return (
                strange or diverged or self._has_come_back(member, source)
            ) and member.membership.deserted(now)
        return strange or diverged

    def _has_come_back(self, member: Member, source: str) -> bool:
        """Of a leaver: this one was on its side, has been evicted, and waits for it as another incarnation,
        of which the leaver does not hear any more."""
        process = process_of(source)
        gone = any(process_of(name) == process for name in member.membership.abandoned_by)
        return gone and not member.view.knows(source)

    def _is_astray(self, member: Member, receipt: Receipt, now: int) -> bool:
        """Rule 26: is the source unknown, and has been for so long that no JOIN of it can be on its way any
        more? (1) It has messages of a stranger, and was let in on that side. (2) It has more of a suspect
        than came here, or says that it is past, and was let in by that one or its joiners. (3) This side
        evicted its process; its group has nothing of this member, and may have been founded again, or it
        lacks what each contact here has. (4) It suspects this member, and those that let it in have left."""
        view, source = member.view, receipt.source
        followed = any(member.ledger.count(name) < receipt.counts.get(name, 0) < ALL for name in view.open)
        if view.suspects and not view.knows(source):
            past = Spans(receipt.past)
            followed = followed or any(name in past for name in view.suspects)
        seen = receipt.counts.get(member.me, 0)
        returned = process_of(source) in {process_of(name) for name in view.evicted()}
        followed = followed or (returned and seen < member.ledger.stable(member.me))
        elsewhere = any(receipt.counts.get(name, 0) for name in view.strangers) or (
            returned and member.ledger.sent > seen == 0
        )
        elsewhere = elsewhere or member.me in receipt.suspects
        if view.knows(source) or not (followed or elsewhere):
            self._unknown.pop(source, None)
            return False
        late = now - self._unknown.setdefault(source, now) >= 2 * self._settings.unheard_us
        return late and (elsewhere or not member.inbox)  # its JOIN may wait for the program

    def notice(self, member: Member, target: str) -> Notice:
        """What it is told. A leaver names no members: there is no side to return to."""
        final = ALL if target in member.view.past else 0
        if gone := member.view.gone.get(target):
            final = gone.last
        members = () if member.view.leaving else tuple(sorted(self.side(member)))
        return Notice(member.me, target, members, final)

    def course(self, member: Member, notice: Notice) -> Course:
        """Rule 21: what a member does with a notice. It returns to members to which it is past, for they keep
        nothing for it any more; they never return to it."""
        if notice.final == ALL:
            return Course.RETURN
        if notice.source in member.view.past:
            return Course.ANSWER
        side, theirs = member.view.side, set(notice.members)
        if theirs and notice.source not in side:
            before = member.lineages.goes_before(notice.source)
            if before is not None:
                return Course.ANSWER if before else Course.RETURN
        todo = course(notice.source, theirs, side, self.side(member))
        if todo is Course.RETURN and notice.source in side:
            self._against |= theirs
        return todo


def _has_more(member: Member, receipt: Receipt) -> bool:
    """Has the sender more of a past incarnation than there was? A process that was put back to an earlier
    state let it in, and does not remember which incarnations to look for."""
    ends, past = member.ledger.timelines.branches, member.view.past
    return any(ends.get(name, ALL) < has < ALL and name in past for name, has in receipt.counts.items())


class Leaving:
    __slots__ = ("_timeout_us", "until", "wanted")

    def __init__(self, timeout_us: int) -> None:
        self._timeout_us = timeout_us
        self.wanted = False
        """It is to leave, and has not said so yet."""
        self.until = NEVER
        """When it goes although no member has answered; not while it returns to one that has."""

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
            # No other member has what this one has, and missed ones may come back without it: wait for one.
            self.until = min(self.until, now + self._timeout_us)
            return False
        self.wanted = False
        self.until = now + self._timeout_us
        return True

    def lets_in(self, member: Member) -> bool:
        """May others join through it? One that is to leave and cannot say so yet may have told them to."""
        return not self.wanted or member.carrying.busy or is_alone(member)


def is_alone(member: Member) -> bool:
    """No other member stays on its side, and a missed one may come back that lacks what this side had."""
    return member.view.side <= {member.me} and bool(member.view.missed())
