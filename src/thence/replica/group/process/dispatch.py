"""What other processes say to this one, and what part of it that is for.

Rules 8, 9, 14, 15, 20, 21, 22 and 31 of docs/protocols/membership.md. What an incarnation does with what is
meant for it is in `receiving`; which process may say what is in `speaking`.
"""

from collections.abc import Sequence

from thence.core.groups import (
    ALL,
    Data,
    Farewell,
    Flow,
    Fragment,
    FragmentReceipt,
    GroupPacket,
    JoinRequest,
    Lineage,
    NamedMessage,
    Notice,
    Offer,
    Passed,
    Piece,
    Receipt,
    process_of,
)
from thence.members.sides import Course
from thence.replica.group.ledger.ledger import SWEEP_EVERY
from thence.replica.group.lifecycle.parting import is_alone
from thence.replica.group.lifecycle.returning import Installing
from thence.replica.group.lifecycle.succession import Succession
from thence.replica.group.member.member import Member
from thence.replica.group.process.speaking import check_speaker


class Dispatcher(Succession):
    __slots__ = ()

    def receive(self, peer: str, packet: GroupPacket, now: int) -> None:
        """A packet came over the link to the process `peer`. `PeerError` if no correct peer sends it."""
        if type(packet) is Flow and self._installing is None:  # most are
            if self.member is not None:
                self.member.receiving.flow(peer, packet, now)
            self._afterwards(now)
            return
        check_speaker(peer, packet)
        if self._installing is not None and self._silent:
            self._kept.append((peer, packet))
            return
        member = self.member
        if isinstance(packet, Data):
            if member:
                member.receiving.data(packet, now)
        elif isinstance(packet, Flow):
            if member:
                member.receiving.flow(peer, packet, now)
        elif isinstance(packet, Fragment):
            if member:
                member.receiving.fragment(peer, packet, now)
        elif isinstance(packet, FragmentReceipt):
            if member:
                member.links.fragment_receipt(peer, packet)
        elif isinstance(packet, Receipt):
            if member and (process_of(packet.source) == peer or member.receiving.trusts(peer)):
                member.membership.ghosts(packet.running, now)
                self._receipt(member, peer, packet, now)
        elif isinstance(packet, Passed):
            if member:
                self._passed(member, peer, packet, now)
        elif isinstance(packet, JoinRequest):
            if member:
                member.membership.ghosts(packet.running, now)
                self._asked(member, packet, now)
        elif isinstance(packet, Lineage):
            if known := member or self.former:
                known.lineage(packet, self._lives.highest)
            if old := self.former:
                self._lives.skip(old.lineages.used(packet))  # members let no lower one in
        elif isinstance(packet, Offer):
            self._entry.offered(packet, now)
        elif isinstance(packet, Piece):
            if attempt := self._entry.came(packet, now):
                self._installing = Installing(attempt, self._lives, self.application, self._before, now)
                self._install(now, self._settings.step_max)
        elif member and packet.target == member.me:
            if isinstance(packet, Notice):
                self._notice(member, packet, now)
            elif 0 < member.view.leaving <= packet.final:
                self._exit(now, unclean=False)
        self._afterwards(now)

    def came(self, messages: Sequence[NamedMessage], now: int) -> None:
        """These were there before the log was: they wait for the program."""
        if self.member is not None:
            for named in messages:
                self.member.receiving.accept(self.member.ledger.message(named), now)

    def _passed(self, member: Member, peer: str, packet: Passed, now: int) -> None:
        """A collector passes on the same to all, their own included."""
        trusted, doubts = member.receiving.trusts(peer), len(member.view.suspects)
        for receipt in packet.receipts:
            if self.member is not member or not trusted:
                return
            if process_of(receipt.source) == self.name:
                continue
            if not member.receiving.knows_running(receipt):  # what it runs is looked at when it is news
                member.membership.ghosts(receipt.running, now)
            self._receipt(member, peer, receipt, now)
            if len(member.view.suspects) != doubts:
                trusted, doubts = member.receiving.trusts(peer), len(member.view.suspects)

    def _receipt(self, member: Member, peer: str, packet: Receipt, now: int) -> None:
        view, source = member.view, packet.source
        final = view.gone.get(source)
        if final is not None and not final.evicted:
            if packet.running.member == source:
                self._bid_farewell(member, source, final.last)
            return
        if source in view.past:
            self._late(member, packet)
            return
        member.receiving.receipt(packet, peer, now)
        if self._notices.is_due(member, packet, now):
            self._send_notice(member, source)

    def _late(self, member: Member, packet: Receipt) -> None:
        """An incarnation that is past runs after all: a leaver that has not heard that it may go, or one that
        an operator had promised would not come back (`bury`)."""
        source = packet.source
        if packet.running.member == source:
            self._bid_farewell(member, source, ALL)
            if not member.view.leaving:
                self._send_notice(member, source)

    def _send_notice(self, member: Member, target: str) -> None:
        """Before one is compared with another side it must know whether it was put back."""
        if member.ledger.timelines.starts:
            self._send(target, member.lineages.about(process_of(target), whole=True))
        self._send(target, self._notices.notice(member, target))

    def _bid_farewell(self, member: Member, leaver: str, final: int) -> None:
        """Rule 14; not by a leaver that is alone, and has no member to leave anything to itself."""
        if not (member.view.leaving and is_alone(member)):
            self._send(leaver, Farewell(member.me, leaver, final))

    def _asked(self, member: Member, request: JoinRequest, now: int) -> None:
        """Rules 8, 9 and 22, from the contact's side."""
        if member.view.leaving or process_of(request.joiner) == self.name:
            return
        if not self._leaving.lets_in(member):
            return
        if request.contact not in ("", member.me):
            return
        if self.admits and process_of(request.joiner) not in self.admits:
            return
        if not member.view.knows(request.joiner) and not member.contact.can_name(request.joiner):
            return
        if self._entry.attempt is not None:
            if request.rank <= self._notices.rank(member):
                return
            self._entry.attempt = None  # of two that want to return through each other, the better stays
        if request.contact:
            member.contact.admit(request, now)
        elif member.contact.has_room and not member.view.is_superseded(request.joiner):
            self._send(request.joiner, Offer(member.me, request.joiner))

    def _notice(self, member: Member, notice: Notice, now: int) -> None:
        """Rules 15 and 21: the source goes on without this member."""
        view = member.view
        if view.leaving:
            if notice.final >= view.leaving:
                self._exit(now, unclean=False)
            elif notice.members:  # else it leaves as well
                self._return(member, notice, now)
            return
        todo = self._notices.course(member, notice)
        if todo is Course.RETURN:
            self._return(member, notice, now)
        elif todo is Course.SUSPECT:
            member.membership.suspect([notice.source], now)
        elif todo is Course.ANSWER:
            self._send_notice(member, notice.source)

    def _return(self, member: Member, notice: Notice, now: int) -> None:
        """Rule 22: come back as a new incarnation; the old one works on meanwhile."""
        if self._entry.attempt is None:
            left = self._notices.side(member) - set(notice.members)
            self._entry.towards(process_of(notice.source), now, left=set(map(process_of, left)))

    def _afterwards(self, now: int) -> None:
        """What follows from a step, whatever it was."""
        member = self.member
        if member is None:
            if self.former is not None:
                self._judge_former(self.former, now)
            return
        if member.lineages.rollback is not None:
            self._begin_again(member, member.lineages.rollback, now)
            return
        if member.ledger.unswept >= SWEEP_EVERY:
            member.stability.sweep(now)
        if member.may_carry:
            member.carry(now)
        if self._leaving.wanted:
            self._leave_if_due(now)
        if member.view.leaving and member.left_for_good and not is_alone(member):
            self._exit(now, unclean=False)
