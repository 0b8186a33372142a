"""A process in a changing group, as its program, its operator and its driver see it: a `contract.Machine`,
run by `steps`.

Which incarnation runs is in `succession`, what other processes say in `dispatch`, what a member does in
`member`. Implements rules 4, 15, 16, 20 to 23 and 32 of docs/protocols/membership.md.

A *closed* group is one whose view was agreed on before it began: each member founds it with all names that it
was given, and admits no other process; a member that has forgotten something returns as in any group.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from thence.core.errors import UsageError
from thence.core.group_codec import decode, encode
from thence.core.groups import (
    Place,
    number_of,
    process_of,
    span_of,
)
from thence.core.machine import NEVER
from thence.replica.contract import Output, must_fit
from thence.replica.events import Repeated
from thence.replica.group.ledger.payloads import OPERATIONS, concerns_programs
from thence.replica.group.member.member import Member
from thence.replica.group.process.dispatch import Dispatcher
from thence.replica.group.process.replay import since
from thence.replica.group.settings import GroupSettings
from thence.replica.life_tag import LifeTag, Sent
from thence.replica.positions import PART_MAX, place_of
from thence.replica.send_queue import why_not

CLOSED: Final = "the group is closed: its members were named at its start, and none joins or leaves"


class GroupNode(Dispatcher):
    refuses: Final = None
    __slots__ = ()

    encode = staticmethod(encode)
    decode = staticmethod(decode)

    @property
    def settings(self) -> GroupSettings:
        return self._settings

    @property
    def status(self) -> str:
        return self.stage.value

    @property
    def addresses(self) -> dict[str, str]:
        """Where processes are reached: members, suspects, leavers and the evicted, as far as known."""
        known = self.member or self.former
        return known.view.by_process() if known else {}

    def meet(self, process: str, address: str = "") -> None:
        """A contact that was not known before; or a process is reached elsewhere than it said when it
        joined."""
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
        if sum(map(len, payloads)) > self._payload_max:
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
        if self._untold:
            return True
        return member is not None and bool(member.operations.orphans) and not member.view.leaving

    @property
    def waits_for(self) -> tuple[str, ...]:
        return self.member.carrying.waits_for if self.member is not None else ()

    @property
    def waiting(self) -> int:
        member = self.member
        if member is None or (self._installing is not None and self._silent):
            return 0
        return 0 if self._untold else len(member.inbox) + member.reading.pending

    def take(self, limit: int, now: int) -> int:
        """What a program without a state had missed comes before messages. Joins, leaves and the like do not
        wait for the program."""
        taken = 0
        while (member := self.member) is not None and not self._untold:
            if member.reading.pending and taken < limit:
                member.delivery.read()
                taken += 1
                continue
            inbox = member.inbox
            if not inbox:
                break
            payload, span = inbox[0].payload, inbox[0].span
            concerns = span if payload[0] in OPERATIONS or concerns_programs(payload) else 0
            if concerns and (taken >= limit or member.reading.pending):
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
            raise UsageError(f"{self.name} is {self.status}: it cannot evict a member")
        found = [name for name in sorted(member.view.side) if who in (name, process_of(name))]
        if not found:
            raise UsageError(f"{who} is not a member, or is being evicted already")
        if member.me in found:
            raise UsageError(f"{who} is this node itself: let it leave instead")
        member.membership.suspect(found, now)
        return found[-1]

    def bury(self, process: str, now: int) -> None:
        """An operator promises that this evicted process will never come back with what it had: its name, and
        operations that it may lack, need not be kept any longer."""
        self._speak(now)
        member = self.member
        self.must_change()
        if member is None or member.view.leaving:
            raise UsageError(f"{self.name} is {self.status}: it cannot bury an incarnation")
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
        return self.writes_down(now) and self.has_written_down(now, at_once=True)

    def writes_down(self, now: int) -> bool:  # noqa: ARG002
        """The same, begun here; `wake` goes on with it, and `tidy` ends it. Whether it was a good moment."""
        member, log = self._writer, self.log
        if member is None or log is None:
            return False
        self._lives.checkpoints.begin(log, self._lives.writing_down(member, self._leaving.wanted))
        return True

    def has_written_down(self, now: int, at_once: bool = False) -> bool:
        """It counts now, or is finished `at_once`: if this is a good moment, the log is shortened."""
        member, log, checkpoints = self._writer, self.log, self._lives.checkpoints
        if at_once:
            checkpoints.finish(now)
        if member is None or log is None or checkpoints.log is not log:
            return False
        if log.drafted:
            log.settle_draft()
        checkpoints.drop()
        self._lives.written_down(member, now)
        return True

    @property
    def _writer(self) -> Member | None:
        """What runs here, if it may be written down, and its log be shortened."""
        member = self.member
        if member is None or member.view.leaving or member.expects_joiners or self._silent:
            return None
        return None if member.reading.pending or member.reading.replays else member

    def untidy(self, now: int) -> bool:  # noqa: ARG002
        self._shelf.catch_up()
        log = self.log
        return log is not None and (log.drafted or self._lives.checkpoints.wanted(log))

    def tidy(self, now: int) -> None:
        if self.log is not None and self.log.drafted:
            self.has_written_down(now)
        else:
            self.writes_down(now)

    def _look_around(self, now: int) -> None:
        heard = self.member.links.audible() if self.member is not None else ()
        self._vicinity.look(heard, self._is_wide, now)

    def output(self) -> Output:
        posts, links = tuple(self.posts), self._vicinity.links
        if posts:
            self.posts.clear()
        if links is not None:
            self._vicinity.links = None
        return posts, links, self.application.output()

    def drop(self) -> None:
        self.posts.clear()
        self.application.drop()

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
        return self.member.delivery.position if self.member else place_of(self.number, 0)

    def tag(self, place: Place) -> LifeTag:
        return self._running_member.book.tag(place)

    @property
    def sent(self) -> int:
        ledger = (self.member or self._running_member).ledger
        return ledger.counts[ledger.own_index]

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

    @property
    def wake_at(self) -> int:
        """When `wake` is due."""
        checkpoints = self._lives.checkpoints
        if self._installing is not None or self._untold:
            return 0
        if checkpoints.log is not None and checkpoints.unfinished:
            return 0
        at = NEVER
        if self.member is not None:
            at = self.member.wake_at
            if self._probe_at < at:
                at = self._probe_at
            if self._leaving.until < at and self._entry.attempt is None:
                at = self._leaving.until
        return at if self._entry.attempt is None else min(at, self._entry.wake_at or NEVER)

    def wake(self, now: int) -> None:
        self._lives.checkpoints.go_on(self.log, self._settings.step_max)
        self._tell_orphans(self._settings.step_max)
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
            if now >= self._leaving.until and self._entry.attempt is None:
                self._exit(now, unclean=True)
        self._afterwards(now)

    def _probe(self, member: Member, now: int) -> None:
        """Rule 4: look for missed members that may be there after all."""
        self._probe_at = now + self._settings.probe_every_us
        inside = {process_of(name) for name in member.view.view}
        missed = [*member.view.suspects, *member.view.evicted(), *member.view.strangers]
        outside = {process_of(name) for name in missed}
        for process in sorted((outside | set(self._entry.seeds)) - inside - {self.name}):
            self.posts.append((process, member.about(self._running(), now)))
