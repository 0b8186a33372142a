"""Carries out a plan of changes on a group of real processes, and keeps it under load while it does.

Like `storm`, with members that come and go. A node that has left, or was killed for good, is *out*: it is not
missed, and a member whose process is out is evicted in the end, as a person would do it. What a person could
not know beforehand is no error: to evict a member that is gone already, or through one that has just died.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from thence.core.errors import ThenceError, UsageError
from thence.core.groups import process_of
from thence.lab.chaos.changes import EVICTING, OF_LINKS, Change, ChangingSetup
from thence.lab.chaos.disks import NodeDisk
from thence.lab.chaos.forgotten import CountedForgotten
from thence.lab.chaos.heard import heard_file
from thence.lab.chaos.quiescence import has_company, is_spare
from thence.lab.chaos.storm import LOOK_S, TICK_S, TRIES, Storm, StormError, changes
from thence.local.cluster import Cluster, NodeProcess
from thence.runtime.incarnations import read_written
from thence.runtime.remote import Control
from thence.runtime.status import Status

LEAVE_S: Final = 70.0
"""A leave waits for all members, those that are down among them, up to a minute."""
ADJUST_S: Final = 0.25
"""How often links are looked at: newcomers must be cut off as well, when they are known."""
TIDY_S: Final = 1.0
COMPANY: Final = 3
"""Members that run, at least, before one may go for good: the others may be killed a moment later."""
RESTORE_S: Final = 20.0
"""So much later than planned a disk may be put back."""
GONE_S: Final = 3.0
"""A leaver may be in a member's view for so long: until the news is there."""


class Churn(Storm):
    def __init__(
        self, cluster: Cluster, setup: ChangingSetup, acts: Sequence[Change], tell: Callable[[str], None]
    ) -> None:
        super().__init__(cluster, setup.base, (), tell)
        self._changes: Final = acts
        self._founders: Final = cluster.names[: setup.founders]
        self._cut: list[Change] = []
        self._adjust_at = self._tidy_at = 0.0
        self._out_at: dict[str, float] = {}
        self._leave_by: dict[str, float] = {}
        for name in cluster.names[setup.founders :]:
            self._is_out(name)
        self.done: Final = Counter[str]()
        """What was done, and how often."""
        self.put_back: Final[dict[str, int]] = {}
        """Of incarnations whose disk was put back: what they had acknowledged when it was copied. What they
        sent later may be known under other names, or be lost."""
        self.forgotten: Final = CountedForgotten()
        self._copied: Final[dict[str, dict[str, int]]] = {}
        """By process, the same of the copy that there is of its disk."""
        self.left: Final[set[str]] = set()
        """Processes that have left in order, the last time that they were members."""
        self.ended: Final[dict[str, list[Path]]] = {}
        """What their programs had heard by then: as of data folders with these names."""

    @property
    def members(self) -> list[str]:
        """Processes that are to be members, and run."""
        return [name for name, phase in self._phases.items() if phase == "up"]

    @property
    def gone(self) -> list[str]:
        return [name for name, phase in self._phases.items() if phase == "out"]

    def sure(self, acknowledged: Mapping[str, int]) -> dict[str, int]:
        """Of what a process acknowledged, what must be everywhere: not what a disk lost that was put back."""
        kept = self.put_back
        return {member: min(count, kept.get(member, count)) for member, count in acknowledged.items()}

    def start(self) -> None:
        for name in self._founders:
            self._join(name, self._founders)
        self._wait_until_up()

    def run(self, seconds: float, at_least_s: float | None = None) -> None:
        """The whole plan; afterwards all that are to be members run, and all links are whole."""
        self._begun = time.monotonic()
        for act in self._changes:
            self._at(act.at_s, lambda act=act: self._change(act, seconds))  # type: ignore[misc]
        self._carry_out(seconds if at_least_s is None else at_least_s)
        self._wait_until_up()
        self._adjust_all()

    def calm(self) -> None:
        super().calm()
        self.tidy()

    # Plan

    def _change(self, act: Change, seconds: float) -> None:
        """Waits until those that it happens to are as planned; what would come after the end does not."""
        now = self.elapsed_s
        if now > seconds:
            return
        if not self._can(act):
            self._at(now + LOOK_S, lambda: self._change(act, seconds))
            return
        self._tell(f"{now:6.1f} s  {act}")
        self.done[act.kind] += 1
        late = now - act.at_s
        if act.kind not in OF_LINKS:
            self._troubled.update(act.nodes)
        if act.kind in EVICTING:
            self._at(late + act.evict_s, lambda: self._evict_as_planned(act))
        self._at(late + act.until_s, lambda: self._over(act))
        self._do(act)

    def _can(self, act: Change) -> bool:
        if act.kind in OF_LINKS:
            return True
        if act.kind == "join" and not self.members:
            return False  # a node that has no contact to ask founds a group of its own
        if act.kind in ("leave", "kill for good", "lose disk", "restore") and len(self.members) < COMPANY:
            return False  # the last one to go takes everything along
        wanted = "out" if act.kind == "join" else "up"
        if any(self._phases[name] != wanted or name in self._troubled for name in act.nodes):
            return False
        if act.kind in ("kill for good", "lose disk") and not self._is_spare(act.nodes[0]):
            return False
        if act.kind == "leave" and not has_company(self._status(act.nodes[0])):
            return False  # it is alone on its side, and says so
        return act.kind != "lose disk" or self._is_known(act.nodes[0])

    def _is_spare(self, name: str) -> bool:
        """All others have what it has: one that has left may have left everything to this one, which may have
        to carry it, or has carried it in a message of its own."""
        # What the others get while they are asked counts: it is asked first.
        asked = sorted(self.members, key=lambda member: member != name)
        statuses = {member: self._status(member) for member in asked}
        if any(status is None or status.group is None for status in statuses.values()):
            return False
        return is_spare(name, {member: status for member, status in statuses.items() if status is not None})

    def _is_known(self, name: str) -> bool:
        """By all that may let it in again: they tell it which number it had. Where none could tell, it would
        begin with one that it has used."""
        if any(phase not in ("up", "out") for phase in self._phases.values()):
            return False
        statuses = [self._status(member) for member in self.members]
        me = [
            status.group.incarnation for status in statuses if status and status.group and status.name == name
        ]
        return all(status and status.group and set(me) <= set(status.group.view) for status in statuses)

    def _do(self, act: Change) -> None:
        if act.links:
            self._cut.append(act)
            self._adjust_all()
        elif act.kind == "join":
            for name in act.nodes:
                self._join(name, self._contacts(act.by[0]))
        elif act.kind == "leave":
            self._leave(act.nodes[0])
        elif act.kind == "stop":
            self._stop(act.nodes[0])
        elif act.kind.startswith("pause"):
            self._pause(act.nodes[0])
        elif act.kind == "kill in step":
            self._doom(act.nodes[0], act.point)
        elif act.kind.startswith("kill") or act.kind == "away":
            for name in act.nodes:
                self._kill(name)
            if act.kind == "kill for good":
                self._is_out(act.nodes[0])
        elif act.kind == "lose disk":
            self._kill(act.nodes[0])
            self._lose_disk(act.nodes[0])
        elif act.kind == "restore":
            self._kill(act.nodes[0])
            self._copied[act.nodes[0]] = self._disk(act.nodes[0]).copy()
            self._start(act.nodes[0])

    def _over(self, act: Change) -> None:
        if act.kind not in OF_LINKS:
            self._troubled.difference_update(act.nodes)
        if act.links:
            self._cut.remove(act)
            self._adjust_all()
        elif act.kind.startswith("pause"):
            self._resume(act.nodes[0])
        elif act.kind == "restore":
            self._restore(act)
        elif act.kind in ("kill", "away", "kill most", "kill in step", "kill and evict", "lose disk", "stop"):
            if act.kind == "kill in step":
                self._bury(act.nodes[0])
            for name in act.nodes:
                self._start(name)

    # Members

    def _contacts(self, first: str) -> list[str]:
        """Nodes that run, beginning with the planned one if it does."""
        running = self.members
        place = running.index(first) if first in running else 0
        return running[place:] + running[:place]

    def _join(self, name: str, contacts: Sequence[str]) -> None:
        """Start it with these to ask, in this order. One that has data goes on from there."""
        node = self._cluster.nodes[name]
        words = iter(node.command)
        command = [word for word in words if word != "--join" or not next(words)]
        for contact in contacts:
            command += ["--join", str(self._cluster.layout.address(contact))]
        self._cluster.nodes[name] = NodeProcess(name, command, node.folder, node.log)
        self.left.discard(name)
        self._out_at.pop(name, None)
        super()._start(name)

    def _start(self, name: str) -> None:
        self._join(name, self._contacts(name) or self._cluster.names)

    def _restore(self, act: Change) -> None:
        """As soon as others have what it has, and know its incarnation: it may use a number twice that no
        member tells it of, and traces do not tell the two apart. Not at all if they never do."""
        name, late = act.nodes[0], self.elapsed_s > act.until_s + RESTORE_S
        ready = self._phases[name] == "up" and self._is_known(name) and self._is_spare(name)
        if not late and not ready:
            self._troubled.add(name)
            self._at(self.elapsed_s + LOOK_S, lambda: self._over(act))
        elif not late:
            self._kill(name)
            self._put_back(name)
            self._start(name)
        else:
            self._disk(name).drop_copy()

    def _disk(self, name: str) -> NodeDisk:
        return NodeDisk(name, self._cluster.folders[name], self._cluster.nodes[name].log)

    def _lose_disk(self, name: str) -> None:
        self.forgotten.lose(name, self._disk(name).newest())
        self._disk(name).lose()

    def _put_back(self, name: str) -> None:
        had = self._copied.pop(name)
        self.forgotten.lose(name, self._disk(name).newest(), had)
        self.put_back.update(had)
        self._disk(name).put_back()

    def _leave(self, name: str) -> None:
        self._ask(name, Control.leave)
        if self._phases[name] == "up":
            self._phases[name] = "leaving"
            self._leave_by[name] = time.monotonic() + LEAVE_S

    def _expects(self, name: str) -> bool:
        node = self._cluster.nodes[name]
        if self._phases[name] != "leaving" or node.code != 0:
            return super()._expects(name)
        self._has_left(name)
        return True

    def _has_left(self, name: str) -> None:
        self._is_out(name)
        written = read_written(self._cluster.folders[name])
        how = written.left if written is not None else ""
        if how != "in order":  # no trouble lasts as long as a leaver waits for an answer
            raise StormError(f"{name} ended and has left {how or 'not at all'}; {self._said(name)}")
        self.left.add(name)
        self.forgotten.lose(name, self._disk(name).newest())
        self._ends(name)
        self._tell(f"{self.elapsed_s:6.1f} s  {name} has left")

    def _ends(self, name: str) -> None:
        """What it joins next is none of what its program has heard."""
        folder, ended = self._cluster.folders[name], self.ended.setdefault(name, [])
        if heard_file(folder).exists():
            ended.append(folder.with_name(f"{name}.{len(ended) + 1}"))
            heard_file(folder).replace(heard_file(ended[-1]))

    def _is_out(self, name: str) -> None:
        self._phases[name] = "out"
        self._out_at[name] = time.monotonic()

    def _look(self) -> None:
        for name in [name for name, phase in self._phases.items() if phase == "leaving"]:
            if time.monotonic() > self._leave_by[name]:
                raise StormError(f"{name} is still leaving; {self._said(name)}")
        super()._look()
        if time.monotonic() >= self._adjust_at:
            self._adjust_at = time.monotonic() + ADJUST_S
            self._adjust_all()

    def _evict_as_planned(self, act: Change) -> None:
        if act.links:
            inside = set(act.nodes)
            for caller in act.by:
                others = [n for n in self._cluster.names if (n in inside) != (caller in inside)]
                for other in others:
                    self._evict(caller, other)
        elif act.kind == "evict each other":
            one, other = act.nodes
            self._evict(one, other)
            self._evict(other, one)
        else:
            self._evict(self._contacts(act.by[0])[0] if self.members else "", act.nodes[0])

    def _evict(self, by: str, who: str) -> None:
        """If it can: the one may be down, the other gone or never known there."""
        if by == who or self._phases.get(by) != "up":
            return
        alive = self._phases[who] in ("up", "leaving", "paused")
        try:
            evicted = self._cluster.control(by).evict(who, force=True)
        except UsageError:
            return
        except ThenceError as error:
            self._look()  # it may have died as it was told to
            if self._phases[by] == "up":
                raise StormError(f"{by} does not evict {who}: {error}") from error
            return
        self.done["evictions of the living" if alive else "evictions of the dead"] += 1
        self._tell(f"{self.elapsed_s:6.1f} s  {by} goes on without {evicted}")

    def tidy(self) -> None:
        """Evict those that are out and still in a member's view, as a person would."""
        now = time.monotonic()
        if now < self._tidy_at:
            return
        self._tidy_at = now + TIDY_S
        out = {name for name in self.gone if now - self._out_at[name] > GONE_S}
        for name in self.members:
            status = self._status(name)
            if status is None or status.group is None:
                continue
            left = set(status.group.view) - set(status.group.suspects) - set(status.group.departing)
            for process in sorted({process_of(member) for member in left} & out):
                self._evict(name, process)

    def statuses(self) -> dict[str, Status]:
        """Of all that are to be members."""
        self._look()
        told = {}
        for name in self.members:
            for left in reversed(range(TRIES)):
                status = self._status(name)
                if status is not None:
                    told[name] = status
                    break
                self._look()
                if not left:
                    raise StormError(f"{name} does not say how it is; {self._said(name)}")
        return told

    def _status(self, name: str) -> Status | None:
        try:
            return self._cluster.control(name).status()
        except ThenceError:
            return None

    def _wait_until_up(self) -> None:
        while any(phase not in ("up", "out") for phase in self._phases.values()):
            self._look()
            if self.members:
                self.tidy()
            time.sleep(TICK_S)

    # Links

    def _adjust(self, name: str) -> None:
        """Make the faults of its links what they should be, as far as it knows the others."""
        status = self._status(name) if self._phases[name] in ("up", "leaving") else None
        if status is None:
            return
        for member in status.members:
            if member.link == "me" or member.name not in self._phases:
                continue
            has = member.name in status.faults.cut, status.faults.slow_ms.get(member.name, 0.0)
            for what, delay_ms in changes(has, self._wanted(name, member.name)):
                try:
                    self._cluster.control(name).fault(what, member.name, delay_ms)
                except UsageError:
                    continue  # it has forgotten that one meanwhile, or is down: the next look tells

    def _wanted(self, name: str, peer: str) -> tuple[bool, float]:
        on = [act for act in self._cut if (name, peer) in act.links or (peer, name) in act.links]
        return any(act.kind != "slow" for act in on), max([act.delay_ms for act in on], default=0.0)
