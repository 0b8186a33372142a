"""Which incarnation of a process runs, and what follows it: rules 10, 15, 22, 23, 30 and 31 of
docs/protocols/membership.md.

Invariants. At most one incarnation runs, and a number is used for one attempt only, across restarts and, as
long as `floor` grows with time, across the loss of the disk. The old incarnation works on until the new one's
state is durable; then it is replaced in one step.
"""

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress

from thence.core.errors import ApplicationError, PeerError, UsageError
from thence.core.group_sizes import payload_max
from thence.core.groups import (
    ALL,
    LEAVE,
    Extent,
    Farewell,
    GroupPacket,
    Post,
    Rank,
    Running,
    number_of,
    process_of,
)
from thence.core.machine import NEVER, Wake
from thence.oplog.log import OpLog
from thence.oplog.policy import DiskSync
from thence.order.tags import TagSpill
from thence.replica.group.channel.links import Wires
from thence.replica.group.channel.vicinity import Vicinity
from thence.replica.group.ledger.backlog import Allowance
from thence.replica.group.ledger.state import MemberState, drained
from thence.replica.group.lifecycle.incarnations import Incarnations, NewIncarnation
from thence.replica.group.lifecycle.joining import JoinAttempt
from thence.replica.group.lifecycle.parting import Leaving, Notices
from thence.replica.group.lifecycle.returning import Before, Installing, OutdatedError, founding, refounding
from thence.replica.group.lifecycle.stages import MEMBER, ProcessStage
from thence.replica.group.member.member import Member
from thence.replica.group.receipts.lineage import Rollback
from thence.replica.group.settings import GroupSettings
from thence.replica.group.surroundings import Application, Diary, Orphan, Shelf


class Succession:
    __slots__ = (
        "_entry", "_installing", "_kept", "_leaving", "_lives", "_notices", "_payload_max", "_probe_at",
        "_settings", "_shelf", "_untold", "_vicinity", "_wires", "address", "admits", "application",
        "former", "member", "name", "posts", "rollback", "unclean",
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
        attics: Callable[[], TagSpill] | None = None,
        forgetful: bool = False,
        start: int = 0,
        sessions: bool = False,
        admits: frozenset[str] = frozenset(),
        recovers: bool = True,
    ) -> None:
        """`attics`: where tags of unstable messages go when there are many; one for each incarnation.
        `forgetful`: the log on the shelf may lack its end, so the incarnation that wrote it must not send
        again. `start`: a number that no other start of this process has; without one, others cannot tell
        messages apart that were sent before and after the data folder was put back to an earlier state.
        `sessions`: all links are, so nothing is sent as datagrams before the first one comes up. `admits`:
        the processes of a closed group, which lets no others in. `recovers`: it is what its disk knows; else
        it is nothing before `recovering` was run."""
        self.name = name
        self.admits = admits
        self.address = address
        """Where others reach this process; opaque here."""
        self.application = application
        self.member: Member | None = None
        self.former: Member | None = None
        """The incarnation that ran here before, as its log has it; it may have sent more. It is silent; what
        it had applied goes on in the next incarnation, through `join` or `refound`."""
        self.rollback: Rollback | None = None
        """Why the incarnation that ran last could not go on, if it was put back to an earlier state."""
        self.posts: list[Post] = []
        self.unclean = False
        """The last leave was not in good order: perhaps no member got what was sent last."""
        self._shelf = shelf
        self._vicinity = Vicinity(name, settings, shelf)
        self._wires = Wires()
        self._wires.used = sessions
        self._lives = Incarnations(
            name, shelf, application, diaries, settings, self.posts, self._wires, floor, attics, start
        )
        others = tuple([seed for seed in seeds if seed != name])
        about = self._about
        self._entry = JoinAttempt(
            address, others, self._lives.reserve, about, self._extent, settings, self.posts, self._wires
        )  # fmt: skip
        self._installing: Installing | None = None
        self._kept: list[tuple[str, GroupPacket]] = []
        """What has come for one that is silent: it may have to go on."""
        self._settings = settings
        self._payload_max = payload_max(settings.record_bytes)
        self._untold: deque[Orphan] = deque()
        """Orphans of the last return that the program has not been told of: nothing is taken before."""
        self._notices = Notices(settings)
        self._leaving = Leaving(settings.leave_timeout_us)
        self._probe_at = now
        """When to look for missed members."""
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
                self.member.membership.flush(now)
            else:
                self.member.membership.arrived(now)
            self._tell_view(self.member)

    def receive(self, peer: str, packet: GroupPacket, now: int) -> None:
        """What was kept for a silent incarnation that goes on: `dispatch`."""
        raise NotImplementedError

    # What runs

    @property
    def log(self) -> OpLog | None:
        """Of the incarnation that runs."""
        return self._lives.log if self.member is not None else None

    @property
    def number(self) -> int:
        """Of the incarnation whose log is written."""
        return number_of(self.member.me) if self.member else 0

    @property
    def highest(self) -> int:
        """The highest number that this process is known to have used."""
        return self._lives.highest

    @property
    def stage(self) -> ProcessStage:
        tries = self._entry.attempt is not None
        if self.member is None:
            return ProcessStage.JOINING if tries else ProcessStage.OUTSIDE
        if self.member.view.leaving or self._leaving.until != NEVER:
            return ProcessStage.LEAVING
        return ProcessStage.RETURNING if tries else MEMBER

    # Beginnings

    def found(self, now: int, others: Mapping[str, str] | None = None) -> None:
        """Begin a group: of one, or, if it is closed, of all that were named, each of which begins it for
        itself. `others`: their addresses."""
        self._must_be_outside()
        me, since = self._lives.first() if self.admits else self._lives.reserve(fresh=True)
        state = founding(me, self.application.state(), self.address, since, others or {})
        begun = drained(self._lives.beginning(me, state, now))
        self.member = self._lives.begin(begun, state, drained(self._lives.writing(begun, state)), now)
        self._tell_view(self.member)

    def _tell_view(self, member: Member) -> None:
        """A closed group as it was named at its start is no news to a program."""
        if member.view.view != self.admits:
            self.application.view_changed(tuple(sorted(member.view.view)), member.me)

    def refound(self, now: int) -> None:
        """Begin the group of the former incarnation anew: alone, with what that one had, and without all that
        were in it then. They come back as others do that the group went on without, and bring what they
        have; should some of them have gone on meanwhile, that is a split like any other."""
        self._must_be_outside()
        old = self.former
        if old is None:
            raise UsageError(f"{self.name} was in no group that could be founded again")
        me, _ = self._lives.reserve(fresh=False)
        state = refounding(me, old, self.address, self._leaving.wanted, self.application.reads)
        begun = drained(self._lives.beginning(me, state, now))
        self.application.install(state.application)
        self._begin_anew(begun, state, drained(self._lives.writing(begun, state)), old, now)

    def join(self, now: int) -> None:
        """Become a member through one of the seeds, and keep trying."""
        self._must_be_outside()
        if not self._entry.seeds:
            raise UsageError(f"{self.name} knows no contact to join through")
        self._entry.begin(outside=True, fresh=self.former is None, now=now)

    def _must_be_outside(self) -> None:
        if self.member is not None or self._entry.attempt is not None:
            raise UsageError(f"{self.name} is {self.stage.value} already")

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
                self.posts.append((contact, old.lineages.about(contact)))
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
            self._lives.synced(attempt, now)
            self._untold.extend(ready.orphans)
            self._tell_orphans(self._settings.step_max)

    def _tell_orphans(self, most: int) -> None:
        """Rule 23: its program had applied these, and the state that it goes on from lacks them."""
        for _ in range(min(most, len(self._untold))):
            self.application.orphaned(self._untold.popleft())

    def _hear(self, now: int) -> None:
        """It is silent no more, and goes on: now it gets what came meanwhile."""
        kept, self._kept = self._kept, []
        for peer, packet in kept:
            with suppress(PeerError):  # what no correct peer sends changes nothing
                self.receive(peer, packet, now)

    def _speak(self, now: int) -> None:
        """A call needs what a silent incarnation cannot do: let the next one begin."""
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
        self, begun: NewIncarnation, state: MemberState, written: bytes, old: Member | None, now: int
    ) -> None:
        """From here on this process is another incarnation, and its program has begun from the state."""
        self._entry.arrived()
        self._notices.begin_anew()
        member = self.member = self._lives.begin(begun, state, written, now)
        self.former = self.rollback = None
        if old is not None:
            self._lives.retire(old, now, down=True, replaced=True)
        self._leaving.begin_anew(state.leaves or self._leaving.wanted)
        self._tell_view(member)
        member.membership.arrived(now)
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
        self._shelf.forget()  # or after a crash on its way it would go on as this one
        self._lives.skip(found.highest, afar=True)
        for name in sorted(member.view.view):
            if process_of(name) != self.name:
                self._entry.meet(process_of(name))
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
            self.posts.append((process, former.lineages.about(process)))

    def _judge_former(self, former: Member, now: int) -> None:
        attempt, found = self._entry.attempt, former.lineages.rollback
        if found is not None and attempt is not None and not attempt.bound and self._founds_again(former):
            self._entry.attempt = None
            self.refound(now)

    def _founds_again(self, former: Member) -> bool:
        """The members that are there cannot go on either: then one of them founds the group again, and the
        others join it."""
        there = [process_of(name) for name in former.view.side if process_of(name) in self._wires.up]
        return self.name < min(there, default="") and all(map(former.lineages.is_behind, there))

    # The end

    def _leave_if_due(self, now: int) -> None:
        if self.member and self._entry.attempt is None and self._leaving.is_due(self.member, now):
            self.member.broadcast(LEAVE, b"", now)

    def _exit(self, now: int, unclean: bool) -> None:
        member = self.member
        assert member is not None
        if not unclean:
            for other in member.membership.leavers:
                # Members that leave at the same time may have no other member left to tell them.
                if other in member.view.gone or other in member.view.past:
                    self._send(other, Farewell(member.me, other, ALL))
        self.unclean = unclean
        self._tell_orphans(len(self._untold))
        self._lives.retire(member, now, down=unclean)
        self.member = self._entry.attempt = None
        self._leaving.begin_anew(wanted=False)

    # What is written

    def commit(self, now: int) -> Sequence[DiskSync | Wake]:
        log, member = self._lives.log, self.member
        if member is None and self._vicinity.changed and self.former is not None:
            self._vicinity.relink(self.former.view, self._entry.seeds, self._is_wide, now)
        if log is None or member is None:
            return ()
        if self._vicinity.changed or member.view.addresses != self._vicinity.linked:
            self._vicinity.relink(member.view, self._entry.seeds, self._is_wide, now)
        member.links.gather()
        member.lineages.tell()
        effects = log.commit(now)
        member.committed()
        checkpoints = self._lives.checkpoints
        return effects if checkpoints.sync is None else checkpoints.with_sync(effects)

    @property
    def _is_wide(self) -> bool:
        return self.member is None or self._entry.attempt is not None

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
        self.posts.append((process_of(member), packet))
