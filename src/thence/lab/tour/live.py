"""The live part of the tour: real processes under load, joined, cut, killed, evicted, and brought to rest.

Every wait is for something that the nodes say of themselves, with an end to the patience; what did not happen
by then is a claim that did not hold. A node that dies without being told to ends the tour.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from thence.core.errors import ThenceError
from thence.lab.chaos.quiescence import account
from thence.lab.tour.claims import Claims
from thence.lab.tour.pace import Pace
from thence.lab.tour.resumed import resumed, seen_elsewhere
from thence.lab.tour.samples import Sample, Sampler, acknowledged, lag_of, now_us, sparkline
from thence.local.cluster import Cluster, ClusterEvent
from thence.local.console import table_below
from thence.local.status_table import nodes_table
from thence.runtime.load import MOST_SECONDS, Load
from thence.runtime.status import Status

TICK_S: Final = 0.02
FLAGS: Final = ("--profile", "local", "--allow-faults", "--set", "trace_every_us=250000")


@dataclass(slots=True)
class Story:
    """What is kept of the live part for the figures."""

    lonely: str
    """The node that is cut off from the others."""
    victim: str
    """The node that is killed."""
    sleeper: str
    """The member that the others go on without, and that returns."""
    newcomer: str
    """The node that joins under load, and leaves."""
    begun_us: int = 0
    """When the load began: zero of all figures."""
    joins_us: int = 0
    joined_us: int = 0
    cut_us: int = 0
    mended_us: int = 0
    killed_us: int = 0
    back_us: int = 0
    asleep_us: int = 0
    returned_us: int = 0
    leaves_us: int = 0
    left_us: int = 0
    samples: list[Sample] = field(default_factory=list)


class Live:
    def __init__(self, cluster: Cluster, trace: Path, pace: Pace, claims: Claims) -> None:
        self._cluster: Final = cluster
        self._trace: Final = trace
        self._pace: Final = pace
        self._claims: Final = claims
        self._sampler: Final = Sampler(list(cluster.folders.values()), pace.look_every_s)
        self._show: Callable[[RenderableType], None] = lambda _: None
        self._shown = 0
        self._doing = ""
        names = cluster.names
        self._story: Final = Story(victim=names[1], lonely=names[2], sleeper=names[-2], newcomer=names[-1])
        self._members: Final = list(names[:-1])
        """Nodes that have been let in, and have not left."""
        self._ended: list[ClusterEvent] = []
        """Of those that have left."""

    def run(self) -> Story:
        try:
            with running(self._cluster), table_below() as self._show:
                self._start()
                self._calm()
                self._join()
                self._cut()
                self._kill()
                self._evict()
                self._leave()
                self._rest()
        finally:
            self._sampler.leave()
        self._story.samples = self._sampler.samples
        return self._story

    # Acts

    def _start(self) -> None:
        names = self._members
        self._claims.step(f"A group of {len(names)} real processes on this machine", "start, load")
        self._cluster.start(*names)
        self._cluster.ready(*names, patience_s=self._pace.patience_s)
        self._sampler.start()
        linked = self._until("they find each other", self._agreed)
        pids = ", ".join(f"{name} {self._cluster.nodes[name].pid}" for name in names)
        self._claims.claim(f"one founded the group, the others joined it (processes {pids})", linked)

    def _calm(self) -> None:
        for name in self._members:
            self._load(name)
        self._story.begun_us = now_us()
        rate = self._pace.rate
        statuses = self._let_pass(self._pace.calm_s, f"every node broadcasts {rate:g} messages a second")
        delivered = sum(status.delivered for status in statuses.values())
        self._claims.claim(
            f"each broadcasts {rate:g} messages a second and delivers those of the others: "
            f"{delivered:,} deliveries so far",
            all(status.sent and status.delivered for status in statuses.values()),
        )

    def _join(self) -> None:
        newcomer, pace = self._story.newcomer, self._pace
        self._claims.step(f"{newcomer} joins the group under load", "join")
        begun = time.monotonic()
        self._story.joins_us = now_us()
        self._members.append(newcomer)
        self._cluster.start(newcomer)
        self._cluster.ready(newcomer, patience_s=pace.patience_s)
        held = self._until(f"{newcomer} joins", self._agreed)
        self._story.joined_us = now_us()
        took_s = time.monotonic() - begun
        self._claims.claim(f"all {len(self._members)} know each other as members after {took_s:.1f} s", held)
        self._load(newcomer)
        after = self._let_pass(pace.after_s, f"{newcomer} is a member")[newcomer]
        self._claims.claim(
            f"{newcomer} has delivered {after.delivered:,} messages of the others and sent {after.sent:,}",
            after.delivered > 0 and after.sent > 0,
        )

    def _cut(self) -> None:
        lonely, pace = self._story.lonely, self._pace
        others = [name for name in self._members if name != lonely]
        self._claims.step(f"{lonely} is cut off from all others, under load, and the cut heals", "cut, heal")
        before = self._fresh()
        self._part(others)
        self._story.cut_us = now_us()
        after = self._let_pass(pace.cut_s, f"{lonely} is cut off")
        self._went_on(before, after, others, f"a message of {lonely}")
        lag = lag_of(lonely, after)
        self._claims.claim(
            f"{lonely} went on alone: {after[lonely].sent - before[lonely].sent:,} messages of its own, "
            f"and each of the others has up to {lag:,} for it",
            after[lonely].sent > before[lonely].sent and lag > 0,
        )
        for name in others:
            self._cluster.control(name).fault("mend", lonely)
            self._cluster.control(lonely).fault("mend", name)
        self._story.mended_us = now_us()
        self._catch_up(lonely, after, self._story.cut_us)
        self._let_pass(pace.after_s, "the cut has healed")

    def _kill(self) -> None:
        victim, pace = self._story.victim, self._pace
        others = [name for name in self._members if name != victim]
        self._claims.step(f"{victim} is killed (kill -9) under load and started again", "kill, restart")
        before = self._fresh()
        self._cluster.kill(victim)
        self._story.killed_us = now_us()
        after = self._let_pass(pace.down_s, f"{victim} is down")
        self._went_on(before, after, others, f"a message of {victim}")
        self._cluster.start(victim)
        self._cluster.ready(victim, patience_s=pace.patience_s)
        self._story.back_us = now_us()
        boot = self._fresh()[victim].boot
        had, elsewhere = resumed(self._trace, victim, boot), seen_elsewhere(self._trace, victim)
        self._claims.claim(
            f"{victim} came back from its log, boot {boot}: {had.own:,} messages of its own, "
            f"{had.others:,} of others; the others have seen at most number {elsewhere:,} of it",
            boot == 2 and 0 < elsewhere <= had.own,
        )
        if had.completed:
            self._claims.tell(f"{had.completed:,} rows that its trace lacked were written from the log")
        self._load(victim)
        self._catch_up(victim, {**after, victim: self._fresh()[victim]}, self._story.killed_us)
        self._let_pass(pace.after_s, f"{victim} is back")

    def _evict(self) -> None:
        sleeper, pace = self._story.sleeper, self._pace
        others = [name for name in self._members if name != sleeper]
        self._claims.step(
            f"{sleeper} falls silent: the others go on without it, and it returns", "evict, return"
        )
        before = self._fresh()
        was = _as_whom(before[sleeper])
        self._cluster.pause(sleeper)
        self._story.asleep_us = now_us()
        self._cluster.control(others[0]).evict(sleeper, force=True)
        settled = self._until(
            f"{was} is evicted",
            lambda statuses: not any(was in _view(statuses[name]) for name in others),
            others,
        )
        self._claims.claim(f"the others have agreed on the last message of {was}, and went on", settled)
        self._let_pass(pace.down_s, f"{sleeper} is asleep", others)
        self._cluster.resume(sleeper)
        back = self._until(f"{sleeper} returns", self._agreed)
        self._story.returned_us = now_us()
        now = _as_whom(self._fresh()[sleeper])
        self._claims.claim(
            f"{sleeper} woke up, was told, and is a member again, as {now}", back and now != was
        )
        self._let_pass(pace.after_s, f"{sleeper} is back")

    def _leave(self) -> None:
        newcomer = self._story.newcomer
        self._claims.step(f"{newcomer} leaves the group", "leave")
        self._members.remove(newcomer)
        self._story.leaves_us = now_us()
        self._cluster.control(newcomer).leave()
        held = self._until(
            f"{newcomer} leaves",
            lambda statuses: bool(self._ended) and self._agreed(statuses),
            self._members,
        )
        self._story.left_us = now_us()
        how = self._ended[-1].text if self._ended else "has not ended"
        self._claims.claim(
            f"the others have got everything that {newcomer} sent, and its process {how}",
            held and self._ended[-1].what == "ended",
        )

    def _rest(self) -> None:
        names = self._members
        self._claims.step("The load ends, and everything must reach every member", "rest, stop")
        for name in names:
            self._cluster.control(name).load(Load(count=0))
        begun = time.monotonic()
        rested = self._until(
            "the load has ended", lambda statuses: not any(account(status) for status in statuses.values())
        )
        if rested:
            took_s = time.monotonic() - begun
            told = f"all nodes have everything, and everything is causally stable, after {took_s:.1f} s"
        else:
            accounts = {name: account(status) for name, status in self._fresh().items()}
            told = "not at rest: " + "; ".join(f"{name}: {what}" for name, what in accounts.items() if what)
        self._claims.claim(told, rested)
        self._sampler.leave()  # nodes that stop would be seen as crashed
        codes = self._cluster.stop()
        self._claims.claim(f"all {len(names)} processes stopped in order", not any(codes.values()))

    # Parts of acts

    def _agreed(self, statuses: dict[str, Status]) -> bool:
        """All members have the same view, which is all of them, and are linked."""
        expected = sorted(_as_whom(statuses[name]) for name in self._members)
        return all(
            sorted(_view(statuses[name])) == expected
            and all(
                peer.link in ("me", "up") for peer in statuses[name].members if peer.name in self._members
            )
            for name in self._members
        )

    def _load(self, name: str) -> None:
        self._cluster.control(name).load(Load(rate=self._pace.rate, seconds=MOST_SECONDS))

    def _part(self, others: list[str]) -> None:
        """All links at one moment, as when a cable is pulled: nothing leaves the node while they are cut, so
        that what it said last has reached either all others or none."""
        lonely = self._story.lonely
        self._cluster.pause(lonely)
        try:
            for name in others:
                self._cluster.control(name).fault("cut", lonely)
        finally:
            self._cluster.resume(lonely)
        for name in others:
            self._cluster.control(lonely).fault("cut", name)

    def _went_on(
        self, before: dict[str, Status], after: dict[str, Status], others: list[str], missing: str
    ) -> None:
        sent = [after[name].sent - before[name].sent for name in others]
        delivered = sum(after[name].delivered - before[name].delivered for name in others)
        self._claims.claim(
            f"the others went on meanwhile: {sum(sent):,} messages, {delivered:,} deliveries",
            min(sent) > 0 and delivered > 0,
        )
        held = sum(after[name].held for name in others)
        if held:
            self._claims.tell(f"{held:,} deliveries wait for {missing} that only some of them have got")

    def _catch_up(self, member: str, then: dict[str, Status], since_us: int) -> None:
        """Until the member has what the others had sent by then, and they have what it had."""
        begun = time.monotonic()
        others = [name for name in then if name != member]

        def caught_up(statuses: dict[str, Status]) -> bool:
            there = all(acknowledged(statuses[name], member) >= then[name].sent for name in others)
            return there and all(acknowledged(statuses[member], name) >= then[member].sent for name in others)

        held = self._until(f"{member} catches up", caught_up)
        took_s = time.monotonic() - begun
        lags = [lag_of(member, each.statuses) for each in self._sampler.samples if each.at_us >= since_us]
        self._claims.claim(
            f"{member} caught up, both ways, within {took_s:.1f} s; its lag: {sparkline(lags)} "
            f"(at most {max(lags):,})",
            held,
        )

    # Waiting, with eyes open

    def _let_pass(self, seconds: float, doing: str, who: Sequence[str] | None = None) -> dict[str, Status]:
        """What the nodes say at the end of it."""
        self._doing = doing
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._tick()
            time.sleep(TICK_S)
        return self._fresh(who)

    def _fresh(self, who: Sequence[str] | None = None) -> dict[str, Status]:
        """A look that began after the call, at those that run, or at these."""
        asked_us = now_us()
        until = time.monotonic() + self._pace.patience_s
        running = {node.name for node in self._cluster.nodes.values() if node.process is not None}
        running = running if who is None else set(who)
        while (
            not (samples := self._sampler.samples)
            or samples[-1].at_us < asked_us
            or not (running <= samples[-1].statuses.keys())
        ):
            self._tick()
            if time.monotonic() > until:
                silent = running - samples[-1].statuses.keys() if samples else running
                raise ThenceError(f"no answer for {self._pace.patience_s:g} s of {', '.join(sorted(silent))}")
            time.sleep(TICK_S)
        return samples[-1].statuses

    def _until(
        self, doing: str, is_so: Callable[[dict[str, Status]], bool], who: Sequence[str] | None = None
    ) -> bool:
        self._doing = doing
        until = time.monotonic() + self._pace.patience_s
        while not is_so(self._fresh(who)):
            if time.monotonic() > until:
                return False
        return True

    def _tick(self) -> None:
        for event in self._cluster.watch():
            if event.name == self._story.newcomer and event.name not in self._members:
                self._ended.append(event)
                continue
            said = " | ".join(self._cluster.nodes[event.name].last_lines(3))
            raise ThenceError(f"node {event.name} {event.text}, without being told to; it said: {said}")
        samples = self._sampler.samples
        if len(samples) > max(self._shown, 1):
            self._shown = len(samples)
            before, last = samples[-2], samples[-1]
            table = nodes_table(last.seen, before.seen, (last.at_us - before.at_us) / 1e6)
            self._show(Group(Text(f"\n{self._doing}\n", "bold cyan"), table))


@contextmanager
def running(cluster: Cluster) -> Iterator[None]:
    """Whatever goes wrong in here, and Ctrl-C too, leaves no process behind, and does not take long."""
    try:
        yield
    finally:
        cluster.stop(hurry=lambda: True)


def _view(status: Status) -> list[str]:
    return status.group.view if status.group is not None else []


def _as_whom(status: Status) -> str:
    """The incarnation that this process is a member as."""
    return status.group.incarnation if status.group is not None else ""
