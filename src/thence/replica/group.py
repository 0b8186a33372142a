"""A process in a changing group: one incarnation at a time, and the way from one to the next.

Implements rules 15, 16 and 20 to 23 of docs/protocols/membership.md; what an incarnation does while it is a
member is in `group_member`, how a process becomes one in `group_entry` and ceases to be one in
`group_leaving`, whom the group goes on without in `group_notices`. A `contract.Machine`, run by `steps`.

A *closed* group is one whose view was agreed on before it began: each member founds it with all names that it
was given, and admits no other process; a member that has forgotten something returns as in any group.

States: *outside* (never joined, or left), *joining* (an attempt and no member), *member*, *returning* (a
member that the group went on without, with an attempt to replace it), *leaving* (its leave is out).

Invariants. At most one incarnation runs, and a number is used for one attempt only, across restarts and, as
long as `floor` grows with time, across the loss of the disk. The old incarnation works on until the new one's
state is durable; then it is replaced in one step.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from thence.core.errors import ApplicationError, PeerError, ThenceError, UsageError
from thence.core.group_codec import decode, encode
from thence.core.group_sizes import payload_max
from thence.core.groups import (
    ALL,
    LEAVE,
    Data,
    Extent,
    Farewell,
    Flow,
    Fragment,
    FragmentReceipt,
    GroupPacket,
    JoinRequest,
    Lineage,
    Named,
    Notice,
    Offer,
    Passed,
    Piece,
    Place,
    Post,
    Rank,
    Receipt,
    Running,
    number_of,
    process_of,
    span_of,
)
from thence.core.machine import NEVER, Wake
from thence.members.sides import Course
from thence.oplog.log import OpLog
from thence.oplog.policy import Sync
from thence.order.tags import Attic
from thence.replica.contract import Output, must_fit
from thence.replica.events import Repeated
from thence.replica.group_backlog import Allowance
from thence.replica.group_births import founding, refounding
from thence.replica.group_checkpoints import Checkpoints
from thence.replica.group_entry import Entry
from thence.replica.group_installing import Before, Installing, OutdatedError
from thence.replica.group_leaving import Leaving, is_alone
from thence.replica.group_lineage import Rollback
from thence.replica.group_links import Wires
from thence.replica.group_lives import Begun, Lives
from thence.replica.group_member import SWEEP_EVERY, Member
from thence.replica.group_notices import Notices
from thence.replica.group_parts import Application, Diary, Shelf
from thence.replica.group_replay import since
from thence.replica.group_sending import why_not
from thence.replica.group_settings import GroupSettings
from thence.replica.group_speaking import check_speaker
from thence.replica.group_state import OPERATIONS, GroupState, concerns_programs, drained
from thence.replica.group_vicinity import Vicinity
from thence.replica.life_tag import LifeTag, Sent
from thence.replica.positions import PART_MAX, place_of

CLOSED: Final = "the group is closed: its members were named at its start, and none joins or leaves"


class GroupNode:
    __slots__ = (
        "_checkpoints", "_contacts", "_entry", "_installing", "_kept", "_leaving", "_linked", "_links",
        "_lives", "_notices", "_payload_max", "_probe_at", "_settings", "_shelf", "_vicinity", "_wires",
        "address", "admits", "application", "former", "member", "name", "posts", "rollback", "unclean",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        shelf: Shelf,
        application: Application,
        diaries: Callable[[str], Diary],
        seeds: tuple[str, ...],
        settings: GroupSettings,
        now: int,
        floor: int = 0,
        address: str = "",
        attics: Callable[[], Attic] | None = None,
        forgetful: bool = False,
        start: int = 0,
        sessions: bool = False,
        admits: frozenset[str] = frozenset(),
        recovers: bool = True,
    ) -> None:
        """`attics`: where tags of unstable messages go when there are many; one for each incarnation.
        `forgetful`: the log on the shelf may lack its end, so that whoever wrote it must not speak again.
        `start`: a number that no other start of this process has; without one, others cannot tell messages
        apart that were sent before and after the data folder was put back to an earlier state. `sessions`:
        all links are, so nothing is sent as datagrams before the first one comes up. `admits`: the processes
        of a closed group, which lets no others in. `recovers`: it is what its disk knows; else it is nothing
        before `recovering` was run."""
        self.name = name
        self.admits = admits
        self.address = address
        """Where others reach this process; opaque here."""
        self.application = application
        self.member: Member | None = None
        self.former: Member | None = None
        """Who ran here before, as far as its log tells, and may have said more than that. It is silent; what
        it had applied goes on in the next incarnation, through `join` or `refound`."""
        self.rollback: Rollback | None = None
        """Why the incarnation that ran last could not go on, if it was put back to an earlier state."""
        self.posts: list[Post] = []
        self.unclean = False
        """The last leave was not in good order: nobody may have got what was sent last."""
        self._shelf = shelf
        self._checkpoints = Checkpoints()
        self._linked: dict[str, str] = {}
        """Addresses by incarnation, when it was last looked which links are wanted."""
        self._links: dict[str, str | None] | None = None
        """Changes of that, for the world."""
        self._contacts: dict[str, str] = {}
        """To whom links are wanted."""
        self._vicinity = Vicinity(name, settings)
        self._wires = Wires()
        self._wires.used = sessions
        self._lives = Lives(
            name, shelf, application, diaries, settings, self.posts, self._wires, floor, attics, start
        )
        others = tuple([seed for seed in seeds if seed != name])
        about = self._about
        self._entry = Entry(
            address, others, self._lives.next, about, self._extent, settings, self.posts, self._wires
        )  # fmt: skip
        self._installing: Installing | None = None
        self._kept: list[tuple[str, GroupPacket]] = []
        """What has come for one that is silent: it may have to go on."""
        self._settings = settings
        self._payload_max = payload_max(settings.record_bytes)
        self._notices = Notices(settings)
        self._leaving = Leaving(settings.leave_timeout_us)
        self._probe_at = now
        if recovers:
            drained(self.recovering(now, forgetful))

    def recovering(self, now: int, forgetful: bool) -> Generator[int, None, None]:
        """Become what the disk knows, before anything else. Yields what each message has cost, in bytes."""
        recovered = yield from self._lives.recover(now, forgetful)
        if recovered is not None and forgetful:
            self.former, state = recovered
            self._leaving.wanted = state.leaves or self.former.view.leaving > 0
            self.posts.clear()
        elif recovered is not None:
            self.member, state = recovered
            self._leaving.wanted = state.leaves and not self.member.view.leaving
            if self.address:
                self.member.view.addresses[self.member.me] = self.address
            if self.member.view.leaving:
                self._leaving.goes_on(now)
            if self.member.ledger.sent or not state.counts:
                self.member.flush(now)
            else:
                self.member.arrived(now)
            self._tell_view(self.member)

    encode = staticmethod(encode)
    decode = staticmethod(decode)

    # Calls

    @property
    def settings(self) -> GroupSettings:
        return self._settings

    @property
    def status(self) -> str:
        if self.member is None:
            return "joining" if self._entry.attempt else "outside"
        if self.member.view.leaving or self._leaving.begun:
            return "leaving"
        return "returning" if self._entry.attempt else "member"

    def found(self, now: int, others: Mapping[str, str] | None = None) -> None:
        """Begin a group: of one, or, if it is closed, of all that were named, each of which begins it for
        itself. `others`: their addresses."""
        self._must_be_outside()
        me, since = self._lives.first() if self.admits else self._lives.next(fresh=True)
        state = founding(me, self.application.state(), self.address, since, others or {})
        begun = drained(self._lives.beginning(me, state, now))
        self.member = self._lives.begin(begun, state, drained(self._lives.writing(begun, state)), now)
        self._tell_view(self.member)

    def _tell_view(self, member: Member) -> None:
        """A closed group as it was named at its start is no news to a program."""
        if member.view.view != self.admits:
            self.application.view_changed(tuple(sorted(member.view.view)), member.me)

    def refound(self, now: int) -> None:
        """Begin the group of the former incarnation anew: alone, with what that one had, and without all who
        were in it then. They come back as others do that the group went on without, and bring what they
        have; should some of them have gone on meanwhile, that is a split like any other."""
        self._must_be_outside()
        old = self.former
        if old is None:
            raise UsageError(f"{self.name} was in no group that could be founded again")
        me, _ = self._lives.next(fresh=False)
        state = refounding(me, old, self.address, self._leaving.wanted, self.application.reads)
        begun = drained(self._lives.beginning(me, state, now))
        self.application.install(state.application)
        self._begin_anew(begun, state, drained(self._lives.writing(begun, state)), old, now)

    @property
    def addresses(self) -> dict[str, str]:
        """Where processes are reached: members, suspects, leavers and the evicted, as far as known."""
        known = self.member or self.former
        return known.view.by_process() if known else {}

    def meet(self, process: str, address: str = "") -> None:
        """There is somebody through whom one may join, whose name was not known before; or a process is
        reached elsewhere than it said when it joined."""
        if process == self.name:
            return
        self._entry.meet(process)
        if self.member and address:
            for name in sorted(self.member.view.addresses):
                if process_of(name) == process:
                    self.member.view.addresses[name] = address

    def link_up(self, peer: str, now: int) -> None:
        """A session link to a process: it keeps the order, and loses nothing until it breaks."""
        self._wires.used = True
        self._wires.up.add(peer)
        self._vicinity.up(peer, now)
        self._look_around(now)
        if self.member is not None:
            self.member.up(peer, now)
            if not self._silent:
                self.member.tick(self._running(), now)
        elif self.former is not None:
            self._warn(self.former, peer)
        self._entry.up(peer, now)

    def link_down(self, peer: str, now: int) -> None:
        """What was under way may be lost."""
        self._wires.up.discard(peer)
        self._vicinity.down(peer)
        self._kept = [(other, packet) for other, packet in self._kept if other != peer]
        if member := self.member or self.former:
            member.down(peer, now)
        self._look_around(now)

    def join(self, now: int) -> None:
        """Become a member through one of the seeds, and keep trying."""
        self._must_be_outside()
        if not self._entry.seeds:
            raise UsageError(f"{self.name} knows nobody through whom it could join")
        self._entry.begin(outside=True, fresh=self.former is None, now=now)

    def _must_be_outside(self) -> None:
        if self.member is not None or self._entry.attempt is not None:
            raise UsageError(f"{self.name} is {self.status} already")

    def must_change(self) -> None:
        """`UsageError`: the group is closed."""
        if self.admits:
            raise UsageError(CLOSED)

    def broadcast(self, payloads: Sequence[bytes], now: int) -> Sequence[Sent]:
        """Send operations to the group, all of them or none; applied here at once. Not while the node is
        `in_debt`."""
        member = self.member
        if member is None and self.rollback is not None:
            raise UsageError(
                f"{self.name} cannot send: its data folder was put back to an earlier state, "
                "and it has not come back as a new incarnation yet"
            )
        if member is None or member.view.leaving:
            raise UsageError(f"{self.name} is {self.status}: it cannot send")
        must_fit(payloads, self._payload_max)
        if (member.operations.orphans or self._installing is not None) and self.in_debt:
            raise UsageError(why_not(self.waits_for))
        return member.operations_of(payloads, self._payload_max, now)

    @property
    def in_debt(self) -> bool:
        """Rule 32: operations from before the return are still to be sent again, and go before new ones."""
        member = self.member
        if self._installing is not None and self._silent:
            return True
        return member is not None and bool(member.operations.orphans) and not member.view.leaving

    @property
    def waits_for(self) -> tuple[str, ...]:
        return self.member.carrying.waits_for if self.member is not None else ()

    @property
    def refuses(self) -> ThenceError | None:
        return None

    @property
    def waiting(self) -> int:
        member = self.member
        if member is None or (self._installing is not None and self._silent):
            return 0
        return len(member.inbox) + member.reading.pending

    def take(self, limit: int, now: int) -> int:
        """What a program without a state had missed comes before messages. Joins, leaves and the like do not
        wait for the program."""
        taken = 0
        while (member := self.member) is not None:
            if member.reading.pending and taken < limit:
                member.read()
                taken += 1
                continue
            inbox = member.inbox
            if not inbox:
                break
            payload = inbox[0].payload
            concerns = payload[0] in OPERATIONS or concerns_programs(payload)
            if concerns and (taken == limit or member.reading.pending):
                break
            taken += concerns + self._take(member, limit - taken - concerns, now)
        return taken

    def _take(self, member: Member, more: int, now: int) -> int:
        """The first message that waits, and up to so many operations that follow it; how many those are."""
        inbox, lineages, taken = member.inbox, member.lineages, 0
        member.take(now)
        while taken < more and lineages.rollback is None and inbox and inbox[0].payload[0] in OPERATIONS:
            taken += inbox[0].span
            member.take(now)
        member.has_taken(now)
        if lineages.rollback is not None:
            self._begin_again(member, lineages.rollback, now)
        return taken

    @property
    def unread(self) -> int:
        """What a program without a state has missed and is to read before it takes anything."""
        return self.member.reading.pending if self.member else 0

    def leave(self, now: int) -> None:
        """Leave for good: the rest goes by itself, `status` says when it is over and `unclean` how."""
        if self.member is None:
            self._entry.attempt = None
        else:
            self.must_change()
        self._leaving.wanted = self.member is not None
        self._leave_if_due(now)

    def evict(self, who: str, now: int) -> str:
        """Go on without a member: a process or an incarnation. Returns the incarnation."""
        self._speak(now)
        member = self.member
        self.must_change()
        if member is None or member.view.leaving:
            raise UsageError(f"{self.name} is {self.status}: it cannot evict anybody")
        found = [name for name in sorted(member.view.side) if who in (name, process_of(name))]
        if not found:
            raise UsageError(f"{who} is not a member, or is being evicted already")
        if member.me in found:
            raise UsageError(f"{who} is this node itself: let it leave instead")
        member.suspect(found, now)
        return found[-1]

    def bury(self, process: str, now: int) -> None:
        """Somebody promises that this process, which was evicted, will never come back with what it had: then
        its name, and operations that it may lack, need not be kept any longer."""
        self._speak(now)
        member = self.member
        self.must_change()
        if member is None or member.view.leaving:
            raise UsageError(f"{self.name} is {self.status}: it cannot bury anybody")
        lost = [*member.view.evicted(), *member.view.strangers]
        missed = [name for name in lost if process_of(name) == process]
        if not missed:
            raise UsageError(f"{process} was not evicted, or has come back since")
        back = [name for name in sorted(member.view.side) if process_of(name) == process]
        if back and member.me not in back:
            raise UsageError(f"{process} has come back as {back[-1]}, and knows what it has lost: ask it")
        if back and member.carrying.busy:
            raise UsageError(f"{process} is bringing what it had: nothing is lost")
        member.bury(tuple([span_of(name) for name in sorted(missed, key=number_of)]), now)

    def checkpoint(self, now: int) -> bool:
        """Between two steps: shorten the way back after a restart. Returns whether it was a good moment."""
        member = self.member
        if member is None or member.view.leaving or member.expects_joiners or self._silent:
            return False
        if member.reading.pending or member.reading.replays:
            return False
        self._lives.checkpoint(member, self._leaving.wanted, now)
        return True

    def untidy(self, now: int) -> bool:  # noqa: ARG002
        self._shelf.catch_up()
        return self.log is not None and self._checkpoints.wanted(self.log)

    def tidy(self, now: int) -> None:
        log = self.log
        if log is not None and self.checkpoint(now):
            self._checkpoints.made(log)

    @property
    def highest(self) -> int:
        """The highest number that this process is known to have used."""
        return self._lives.highest

    @property
    def number(self) -> int:
        """Of the incarnation whose log is written."""
        return number_of(self.member.me) if self.member else 0

    @property
    def log(self) -> OpLog | None:
        """Of the incarnation that runs."""
        return self._lives.log if self.member is not None else None

    def commit(self, now: int) -> Sequence[Sync | Wake]:
        log, member = self._lives.log, self.member
        if member is None and self._vicinity.changed and self.former is not None:
            self._relink(self.former, now)
        if log is None or member is None:
            return ()
        if self._vicinity.changed or member.view.addresses != self._linked:
            self._relink(member, now)
        member.links.gather()
        member.lineages.tell()
        effects = log.commit(now)
        member.committed()
        return effects

    def _look_around(self, now: int) -> None:
        heard = self.member.links.audible() if self.member is not None else ()
        self._vicinity.look(heard, self._is_wide, now)

    @property
    def _is_wide(self) -> bool:
        return self.member is None or self._entry.attempt is not None

    def _relink(self, member: Member, now: int) -> None:
        """Members, suspects, leavers and the evicted are kept in touch with. That others were let in is on
        disk before anything that follows from it leaves: a process that has forgotten everything else still
        knows whom to ask."""
        contacts = {name: at for name, at in self.addresses.items() if name != self.name}
        if member.view.addresses != self._linked:
            self._linked = dict(member.view.addresses)
            self._shelf.keep_contacts(contacts)
        wanted = self._vicinity.wanted(contacts, self._is_wide, now)
        gone = {name: None for name in (*self._entry.seeds, *self._contacts) if name not in wanted}
        self._links = {**(self._links or {}), **wanted, **gone}
        self._contacts = wanted

    def output(self) -> Output:
        posts, links = list(self.posts), self._links
        self.posts.clear()
        self._links = None
        return Output(posts, links, self.application.output())

    def drop(self) -> None:
        self.posts.clear()
        self.application.drop()

    # What a program asks

    @property
    def _running_member(self) -> Member:
        if self.member is None:
            raise UsageError(f"{self.name} is in no group any more")
        return self.member

    @property
    def me(self) -> str:
        return (self.member or self._running_member).me

    @property
    def members(self) -> tuple[str, ...]:
        """By incarnation."""
        return tuple(sorted(self._running_member.view.view))

    @property
    def position(self) -> int:
        return self.member.position if self.member else place_of(self.number, 0)

    def tag(self, place: Place) -> LifeTag:
        return self._running_member.book.tag(place)

    @property
    def sent(self) -> int:
        ledger = (self.member or self._running_member).ledger
        return ledger.counts[ledger.mine]

    def delivered(self) -> dict[str, int]:
        return self._running_member.ledger.vector()

    def has_delivered(self, place: Place) -> bool:
        return self.member is not None and place[1] <= self.member.ledger.count(place[0])

    def has_reached(self, tag: LifeTag, at: int | None) -> bool:
        member = self.member
        if member is None:
            return False  # it comes back, or has left
        ledger = member.ledger
        if ledger.stable(tag.origin) >= tag.seq:
            return True
        if tag.life == member.me:
            return at is not None and (tag.inner is None or ledger.window.reached(tag.inner.dot) >= at)
        if tag.seq > ledger.count(tag.origin):
            raise UsageError(
                f"{tag.origin}:{tag.seq} is an orphan: the group never had it, and it is sent again"
            )
        return False

    def replay(self, after: int, now: int, own: bool = False) -> Iterator[Repeated | None]:
        self._speak(now)
        if not self.application.reads:
            raise UsageError("a program that is a state goes on from its state: it needs no position")
        if 0 < after < place_of(1, 0):
            raise UsageError(
                f"position {after} is of a data folder of version 1: where that is in this log is not known. "
                "Read on without a position, from the last event that was taken, or from 0"
            )
        if after > self.position | PART_MAX:  # its last message may have carried several operations
            raise UsageError(f"position {after} is ahead of this log, which ends at {self.position}")
        member, log = self._running_member, self.log
        assert log is not None
        member.reading.read_all()
        return since(member, log, after, own)

    # Packets

    def receive(self, peer: str, packet: GroupPacket, now: int) -> None:
        """A packet came over the link to the process `peer`. `PeerError` if no correct peer sends it."""
        if type(packet) is Flow and self._installing is None:  # most are
            if self.member is not None:
                self.member.flow(peer, packet, now)
            self._afterwards(now)
            return
        check_speaker(peer, packet)
        if self._installing is not None and self._silent:
            self._kept.append((peer, packet))
            return
        member = self.member
        if isinstance(packet, Data):
            if member:
                member.data(packet, now)
        elif isinstance(packet, Flow):
            if member:
                member.flow(peer, packet, now)
        elif isinstance(packet, Fragment):
            if member:
                member.fragment(peer, packet, now)
        elif isinstance(packet, FragmentReceipt):
            if member:
                member.links.fragment_receipt(peer, packet)
        elif isinstance(packet, Receipt):
            if member and (process_of(packet.source) == peer or member.trusts(peer)):
                member.ghosts(packet.running, now)
                self._receipt(member, peer, packet, now)
        elif isinstance(packet, Passed):
            if member:
                self._passed(member, peer, packet, now)
        elif isinstance(packet, JoinRequest):
            if member:
                member.ghosts(packet.running, now)
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

    def came(self, messages: Sequence[Named], now: int) -> None:
        """These were there before the log was: they wait for the program."""
        if self.member is not None:
            for named in messages:
                self.member.accept(self.member.ledger.message(named), now)

    def _passed(self, member: Member, peer: str, packet: Passed, now: int) -> None:
        """A collector passes on the same to all, their own included."""
        trusted, doubts = member.trusts(peer), len(member.view.suspects)
        for receipt in packet.receipts:
            if self.member is not member or not trusted:
                return
            if process_of(receipt.source) == self.name:
                continue
            if not member.knows_running(receipt):  # what it runs is looked at when it is news
                member.ghosts(receipt.running, now)
            self._receipt(member, peer, receipt, now)
            if len(member.view.suspects) != doubts:
                trusted, doubts = member.trusts(peer), len(member.view.suspects)

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
        member.receipt(packet, peer, now)
        if self._notices.is_due(member, packet, now):
            self._send_notice(member, source)

    def _late(self, member: Member, packet: Receipt) -> None:
        """Somebody who is past runs after all: a leaver that has not heard that it may go, or one of whom
        somebody was told that it would not come back."""
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
        """Rule 14; not by somebody who leaves as well and finds nobody to leave anything to."""
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
        if not member.view.knows(request.joiner) and not member.can_name(request.joiner):
            return
        if self._entry.attempt is not None:
            if request.rank <= self._notices.rank(member):
                return
            self._entry.attempt = None  # of two who want to return through each other, the better stays
        if request.contact:
            member.admit(request, now)
        elif member.has_room and not member.view.knows_later(request.joiner):
            self._send(request.joiner, Offer(member.me, request.joiner))

    def _notice(self, member: Member, notice: Notice, now: int) -> None:
        """Rules 15 and 21: somebody goes on without this member."""
        view = member.view
        if view.leaving:
            if notice.final >= view.leaving:
                self._exit(now, unclean=False)
            elif notice.members:  # else it leaves as well
                self._return(notice.source, now)
            return
        todo = self._notices.course(member, notice)
        if todo is Course.RETURN:
            self._return(notice.source, now)
        elif todo is Course.SUSPECT:
            member.suspect([notice.source], now)
        elif todo is Course.ANSWER:
            self._send_notice(member, notice.source)

    def _return(self, source: str, now: int) -> None:
        """Rule 22: come back as a new incarnation; the old one works on meanwhile."""
        if self._entry.attempt is None:
            self._entry.towards(process_of(source), now)

    def _before(self) -> Before:
        return Before(self.member or self.former, self._leaving.wanted, self.member is None)

    @property
    def _silent(self) -> bool:
        """The next incarnation is about to begin with what this one had."""
        return self._installing is not None and self._installing.silent

    def _install(self, now: int, most: int) -> None:
        """Rules 10, 22 and 23: the state is whole. Go on with it, as far as one step may."""
        installing, entry = self._installing, self._entry
        if installing is None:
            return
        attempt = installing.attempt
        if entry.attempt is not attempt:
            self._installing = None
            self._lives.given_up(attempt.joiner)
            self._hear(now)
            return
        attempt.until = now + self._settings.join_timeout_us
        try:
            ready = installing.go_on(Allowance(most))
        except PeerError as error:
            self._installing = None
            self._lives.given_up(attempt.joiner)
            if isinstance(error, OutdatedError) and (old := self.member or self.former):
                contact = process_of(attempt.bound)
                self.posts.append(Post(contact, old.lineages.about(contact)))
            entry.give_up(now)
            return
        if ready is not None:
            self._installing = None
            if not self._is_installed(ready.state.application, now):
                self._lives.given_up(attempt.joiner)
                self._hear(now)
                return
            self._kept.clear()
            if self.member is not None:
                self.commit(now)  # what it has done so far belongs into its own log
            self._begin_anew(ready.begun, ready.state, ready.written, ready.old, now)
            for orphan in ready.orphans:
                self.application.orphaned(orphan)

    def _hear(self, now: int) -> None:
        """It is silent no more, and goes on: now it gets what came meanwhile."""
        kept, self._kept = self._kept, []
        for peer, packet in kept:
            with suppress(PeerError):  # what no correct peer sends changes nothing
                self.receive(peer, packet, now)

    def _speak(self, now: int) -> None:
        """Somebody asks for what a silent incarnation cannot do: let the next one begin."""
        while self._silent:
            self._install(now, NEVER)

    def _is_installed(self, state: bytes, now: int) -> bool:
        """Rule 30: the program begins from the state of the contact. If it cannot, the contact has lied, or
        the program is wrong: that one is given up. A member that works on does so from where it was."""
        before = self.application.state() if self.member is not None else b""
        try:
            self.application.install(state)
        except ApplicationError as error:
            if self.member is not None:
                self.application.install(before)
            self._entry.refused(error, now)
            return False
        return True

    def _begin_anew(
        self, begun: Begun, state: GroupState, written: bytes, old: Member | None, now: int
    ) -> None:
        """From here on this process is another incarnation, and its program has begun from the state."""
        self._entry.arrived()
        self._notices.begin_anew()
        member = self.member = self._lives.begin(begun, state, written, now)
        self.former = self.rollback = None
        if old is not None:
            self._lives.end(old, now, down=True, replaced=True)
        self._leaving.begin_anew(state.leaves or self._leaving.wanted)
        self._tell_view(member)
        member.arrived(now)
        member.news(now)

    # Put back to an earlier state

    def _begin_again(self, member: Member, found: Rollback, now: int) -> None:
        """Rule 31: others have more messages than this member, or others, of itself or of one that it has
        listened to. It falls silent, and comes back as a new incarnation."""
        assert self._lives.log is not None
        self._lives.log.sync(now)  # what was sent may be all that is left of it
        member.committed()
        self.member, self.former, self.rollback = None, member, found
        self._entry.attempt = None
        self._leaving.begin_anew(self._leaving.wanted or member.view.leaving > 0)
        self._shelf.forget()  # or it would go on as whom it was, after a crash on its way
        self._lives.skip(found.highest, afar=True)
        for name in sorted(member.view.view):
            self.meet(process_of(name))
        for process in sorted(self._wires.up):
            self._warn(member, process)
        if self._founds_again(member):
            self.refound(now)
        else:
            self._entry.towards(process_of(found.source), now, outside=True)

    def _warn(self, former: Member, process: str) -> None:
        """One that is silent may still know that others were put back."""
        former.links.up(process)
        former.lineages.link(process)
        if process in {process_of(name) for name in former.view.view}:
            self.posts.append(Post(process, former.lineages.about(process)))

    def _judge_former(self, former: Member, now: int) -> None:
        attempt, found = self._entry.attempt, former.lineages.rollback
        if found is not None and attempt is not None and not attempt.bound and self._founds_again(former):
            self._entry.attempt = None
            self.refound(now)

    def _founds_again(self, former: Member) -> bool:
        """Those who are there cannot go on either: then one of them founds the group again, and the others
        join it."""
        there = [process_of(name) for name in former.view.side if process_of(name) in self._wires.up]
        return self.name < min(there, default="") and all(map(former.lineages.is_behind, there))

    # Time

    @property
    def wake_at(self) -> int:
        """When `wake` is due."""
        if self._installing is not None:
            return 0
        at = NEVER
        if self.member is not None:
            at = min(self.member.wake_at, self._probe_at, self._leaving.until)
        return at if self._entry.attempt is None else min(at, self._entry.wake_at or NEVER)

    def wake(self, now: int) -> None:
        self._install(now, self._settings.step_max)
        self._entry.wake(now)
        if self._silent:
            return
        member = self.member
        if member is not None:
            member.tick(self._running(), now)
            self._look_around(now)
            if now >= self._probe_at:
                self._probe(member, now)
            if now >= self._leaving.until:
                self._exit(now, unclean=True)
        self._afterwards(now)

    def _probe(self, member: Member, now: int) -> None:
        """Rule 4: look for those who may be there after all."""
        self._probe_at = now + self._settings.probe_every_us
        inside = {process_of(name) for name in member.view.view}
        missed = [*member.view.suspects, *member.view.evicted(), *member.view.strangers]
        outside = {process_of(name) for name in missed}
        for process in sorted((outside | set(self._entry.seeds)) - inside - {self.name}):
            self.posts.append(Post(process, member.about(self._running(), now)))

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
        if member.unswept >= SWEEP_EVERY:
            member.sweep(now)
        if member.may_carry:
            member.carry(now)
        if self._leaving.wanted:
            self._leave_if_due(now)
        if member.view.leaving and member.left_for_good and not is_alone(member):
            self._exit(now, unclean=False)

    def _leave_if_due(self, now: int) -> None:
        if self.member and self._entry.attempt is None and self._leaving.is_due(self.member, now):
            self.member.broadcast(LEAVE, b"", now)

    def _exit(self, now: int, unclean: bool) -> None:
        member = self.member
        assert member is not None
        if not unclean:
            for other in member.leavers:
                # Those who leave at the same time may have nobody else left to tell them.
                if other in member.view.gone or other in member.view.past:
                    self._send(other, Farewell(member.me, other, ALL))
        self.unclean = unclean
        self._lives.end(member, now, down=unclean)
        self.member = self._entry.attempt = None
        self._leaving.begin_anew(wanted=False)

    # What is said of this process

    def _running(self) -> Running:
        attempt = self._entry.attempt.joiner if self._entry.attempt else ""
        return Running(self.name, self.member.me if self.member else "", attempt, self._lives.highest)

    def _about(self) -> tuple[Rank, Running]:
        return self._notices.rank(self.member), self._running()

    def _extent(self) -> Extent | None:
        old = self.member or self.former
        if old is None or not self.application.reads:
            return None
        return old.reading.extent(old.ledger, old.operations)

    def _send(self, member: str, packet: GroupPacket) -> None:
        self.posts.append(Post(process_of(member), packet))
