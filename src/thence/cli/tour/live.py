"""The live part of the tour: a cluster of real processes under load, cut, killed, and brought to rest.

Every wait is for something that the nodes say of themselves, with an end to the patience; what did not happen
by then is a claim that did not hold. A node that dies without being told to ends the tour.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from thence.cli.chaos.rest import account
from thence.cli.cluster import Cluster
from thence.cli.status_table import nodes_table
from thence.cli.tour.claims import Claims
from thence.cli.tour.pace import Pace
from thence.cli.tour.resumed import resumed, seen_elsewhere
from thence.cli.tour.samples import Sample, Sampler, acknowledged, lag_of, now_us, sparkline
from thence.cli.up import table_below
from thence.core.errors import ThenceError
from thence.runtime.load import MOST_SECONDS, Load
from thence.runtime.status import Status

TICK_S: Final = 0.02
FLAGS: Final = ("--profile", "local", "--allow-faults")


@dataclass(slots=True)
class Story:
    """What is kept of the live part for the figures."""

    lonely: str
    """Who is cut off from the others."""
    victim: str
    """Who is killed."""
    begun_us: int = 0
    """When the load began: zero of all figures."""
    cut_us: int = 0
    mended_us: int = 0
    killed_us: int = 0
    back_us: int = 0
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
        self._story: Final = Story(lonely=names[2], victim=names[1])

    def run(self) -> Story:
        try:
            with running(self._cluster), table_below() as self._show:
                self._start()
                self._calm()
                self._cut()
                self._kill()
                self._rest()
        finally:
            self._sampler.leave()
        self._story.samples = self._sampler.samples
        return self._story

    # Acts

    def _start(self) -> None:
        names = self._cluster.names
        self._claims.step(f"A cluster of {len(names)} real processes on this machine", "start, load")
        self._cluster.start()
        self._cluster.ready(patience_s=self._pace.patience_s)
        self._sampler.start()
        linked = self._until("links go up", lambda statuses: all(_linked(each) for each in statuses.values()))
        pids = ", ".join(f"{node.name} {node.pid}" for node in self._cluster.nodes.values())
        self._claims.claim(f"all nodes run and are linked with each other (processes {pids})", linked)

    def _calm(self) -> None:
        for name in self._cluster.names:
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

    def _cut(self) -> None:
        lonely, pace = self._story.lonely, self._pace
        others = [name for name in self._cluster.names if name != lonely]
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
        others = [name for name in self._cluster.names if name != victim]
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
            f"{had.others:,} of others; anybody has seen at most number {elsewhere:,} of it",
            boot == 2 and 0 < elsewhere <= had.own,
        )
        if had.completed:
            self._claims.tell(f"{had.completed:,} rows that its trace lacked were written from the log")
        self._load(victim)
        self._catch_up(victim, {**after, victim: self._fresh()[victim]}, self._story.killed_us)
        self._let_pass(pace.after_s, f"{victim} is back")

    def _rest(self) -> None:
        names = self._cluster.names
        self._claims.step("The load ends, and everything must reach everyone", "rest, stop")
        for name in names:
            self._cluster.control(name).load(Load(count=0))
        begun = time.monotonic()
        rested = self._until(
            "the load has ended", lambda statuses: not any(account(status) for status in statuses.values())
        )
        if rested:
            took_s = time.monotonic() - begun
            told = f"everybody has everything, and everything is causally stable, after {took_s:.1f} s"
        else:
            accounts = {name: account(status) for name, status in self._fresh().items()}
            told = "not at rest: " + "; ".join(f"{name}: {what}" for name, what in accounts.items() if what)
        self._claims.claim(told, rested)
        self._sampler.leave()  # nodes that stop would be seen as crashed
        codes = self._cluster.stop()
        self._claims.claim(f"all {len(names)} processes stopped in order", not any(codes.values()))

    # Parts of acts

    def _load(self, name: str) -> None:
        self._cluster.control(name).load(Load(rate=self._pace.rate, seconds=MOST_SECONDS))

    def _part(self, others: list[str]) -> None:
        """All links at one moment, as when a cable is pulled: nothing leaves the node while they are cut, so
        that what it said last has reached either everybody or nobody."""
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

    def _let_pass(self, seconds: float, doing: str) -> dict[str, Status]:
        """What the nodes say at the end of it."""
        self._doing = doing
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._tick()
            time.sleep(TICK_S)
        return self._fresh()

    def _fresh(self) -> dict[str, Status]:
        """A look that began after the call, at those that run."""
        asked_us = now_us()
        until = time.monotonic() + self._pace.patience_s
        running = {node.name for node in self._cluster.nodes.values() if node.process is not None}
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

    def _until(self, doing: str, is_so: Callable[[dict[str, Status]], bool]) -> bool:
        self._doing = doing
        until = time.monotonic() + self._pace.patience_s
        while not is_so(self._fresh()):
            if time.monotonic() > until:
                return False
        return True

    def _tick(self) -> None:
        for event in self._cluster.watch():
            said = " | ".join(self._cluster.nodes[event.name].last_lines(3))
            raise ThenceError(f"node {event.name} {event.text}, and nobody told it to; it said: {said}")
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


def _linked(status: Status) -> bool:
    return all(member.link in ("me", "up") for member in status.members)
