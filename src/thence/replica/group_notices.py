"""Those whom the group goes on without: who has to be told so, and what it means to be told.

Rules 20, 21 and 26 of docs/protocols/membership.md. Two sides may each think that the other is gone. Each
hears of it by a notice, which names the members of the other; whoever is on the worse side returns.
"""

from thence.core.groups import ALL, NOBODY_YET, Notice, Rank, Receipt, process_of
from thence.members.sides import Course, course
from thence.replica.group_member import Member
from thence.replica.group_settings import GroupSettings


class Notices:
    __slots__ = ("_against", "_settings", "_unknown")

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._against: set[str] = set()
        """Members of the own side that go on without this one, as they have told it."""
        self._unknown: dict[str, int] = {}
        """Who speaks here of strangers, is unknown itself, and since when."""

    def begin_anew(self) -> None:
        """Another incarnation runs."""
        self._against.clear()
        self._unknown.clear()

    def side(self, member: Member) -> set[str]:
        """Who is with this member, as far as it knows. Those who have evicted it do not count, or two sides
        that overlap would both take themselves for the larger one, and members go to and fro for ever."""
        return (member.view.side - self._against) | {member.me}

    def rank(self, member: Member | None) -> Rank:
        """Of two who want to return through each other, the one with the lesser stays."""
        if member is None:
            return NOBODY_YET
        side = self.side(member)
        return (int(member.view.leaving > 0), -len(side), min(side), member.me)

    def is_due(self, member: Member, receipt: Receipt, now: int) -> bool:
        """Rule 20: must the source of a receipt hear that the group goes on without it? A leaver tells
        nobody, unless there is nobody else who could."""
        view, source = member.view, receipt.source
        # Of one who is past to the source nothing is told.
        diverged = any(gone.last < receipt.counts.get(name, 0) < ALL for name, gone in view.gone.items())
        diverged = diverged or (not view.knows(source) and _has_more(member, receipt))
        strange = source in view.suspects or source in view.strangers or self._is_astray(member, receipt, now)
        if view.leaving:
            return (strange or diverged or self._has_come_back(member, source)) and member.deserted(now)
        return strange or diverged

    def _has_come_back(self, member: Member, source: str) -> bool:
        """Of a leaver: this one was on its side, has been evicted, and waits for it as another incarnation,
        of which the leaver does not hear any more."""
        process = process_of(source)
        gone = any(process_of(name) == process for name in member.abandoned_by)
        return gone and not member.view.knows(source)

    def _is_astray(self, member: Member, receipt: Receipt, now: int) -> bool:
        """Rule 26: one who has been unknown for so long that no JOIN of it can be on its way any more. It has
        heard a stranger, and was let in on the side of that one; or it has more of a suspect than came here,
        and was let in by that one, or by others whom that one let in; or this side went on without its
        process, and it is in a group in which this member has never said anything, perhaps one founded
        again, or it lacks what all have who could have let it in; or its side goes on without this member,
        and those who let it in have left."""
        view, source = member.view, receipt.source
        followed = any(member.ledger.count(name) < receipt.counts.get(name, 0) < ALL for name in view.open)
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
        """What it is told. One who leaves names nobody: there is nobody to return to."""
        final = ALL if target in member.view.past else 0
        if gone := member.view.gone.get(target):
            final = gone.last
        members = () if member.view.leaving else tuple(sorted(self.side(member)))
        return Notice(member.me, target, members, final)

    def course(self, member: Member, notice: Notice) -> Course:
        """Rule 21: what a member does that is told so. It returns to those to whom it is past, for they keep
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
    """Has the sender more of one that is past than there was? It was let in by a process that was put back to
    an earlier state, and does not remember whom to look for."""
    ends, past = member.ledger.timelines.branches, member.view.past
    return any(ends.get(name, ALL) < has < ALL and name in past for name, has in receipt.counts.items())
