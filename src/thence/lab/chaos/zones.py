"""A round of a trial with a topology: processes are killed and cut off, and some gateways die for good.

Everything of `rounds`, between neighbours; and gateways die that others of their separator can stand in for.
In every other round a person evicts each of them, else their separator finds out by itself. They die one at a
time, while nothing else is wrong and of those before them everything is known: more than that the protocol
does not promise (docs/protocols/separators.md, Limits of live zones).

In the end nothing may be kept for a neighbour, held back or left to be forwarded, and each neighbour of a
dead gateway goes on without it. One that is started again must end, and be refused from then on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from thence.core.errors import ThenceError
from thence.lab.chaos.crash_points import PROGRAM
from thence.lab.chaos.plan import Act, Link, Setup, draw_plan, draw_setup
from thence.lab.chaos.quiescence import account
from thence.lab.chaos.rounds import Round, tell
from thence.lab.chaos.storm import START_S, Storm, StormError
from thence.local.cluster import REFUSED, Cluster
from thence.local.layout import Layout
from thence.local.zones_file import open_zones_layout
from thence.order.topology import Topology
from thence.runtime.load import Load
from thence.runtime.remote import Control
from thence.runtime.status import Status
from thence.runtime.zones import read_zones

SUSPECT_S: Final = 20
"""Longer than any trouble lasts that a gateway comes back from, with room for its start."""
LULL_S: Final = 5.0
"""Before a death everything else is over, and nodes that were killed are back."""
DEATHS_AT: Final = (0.4, 0.8)
"""Parts of the round."""
ENDED: Final = 1
"""How a node exits that its neighbours go on without, the first time."""


def near_links(topology: Topology) -> set[Link]:
    names = topology.names
    return {
        (min(one, other), max(one, other))
        for process, one in enumerate(names)
        for other in (names[peer] for peer in topology.neighbours(process))
    }


def mortal(random: Random, topology: Topology) -> list[str]:
    """Gateways in the order in which they may die: each separator keeps one."""
    found = []
    for separator in topology.separators:
        found += random.sample(separator.members, len(separator.members) - 1)
    random.shuffle(found)
    return [topology.names[process] for process in found]


def draw_zones_plan(seed: int, topology: Topology, seconds: float) -> list[Act]:
    """As drawn for any group, with links that there are; and deaths."""
    random = Random(f"{seed}/zones")
    near = near_links(topology)
    deaths = [
        Act(seconds * share, seconds * share, "kill for good", nodes=(name,))
        for share, name in zip(DEATHS_AT, mortal(random, topology), strict=False)
    ]
    acts = list(deaths)
    for act in draw_plan(seed, topology.names, seconds):
        if any(act.at_s < death.at_s + 1 and act.until_s > death.at_s - LULL_S for death in deaths):
            continue
        if act.kind == "cut":
            acts.append(replace(act, links=(random.choice(sorted(near)),)))
        elif not act.links:
            acts.append(act)
        elif links := tuple([(a, b) for a, b in act.links if (min(a, b), max(a, b)) in near]):
            acts.append(replace(act, links=links))
    return sorted(acts, key=lambda act: act.at_s)


class LiveZonesStorm(Storm):
    def __init__(
        self,
        cluster: Cluster,
        setup: Setup,
        acts: Sequence[Act],
        tell: Callable[[str], None],
        topology: Topology,
        evicts: bool,
    ) -> None:
        super().__init__(cluster, setup, acts, tell)
        self._topology: Final = topology
        self._evicts: Final = evicts
        self.dead: Final[list[str]] = []

    def _load(self, name: str) -> Load:
        """One in three writes to all, the others to some by chance."""
        most = self._cluster.names.index(name) % 3
        return msgspec.structs.replace(super()._load(name), group=f"~{most + 1}" if most else "")

    def _begin(self, act: Act, seconds: float) -> None:
        """What it can happen to: those that are dead are out of it."""
        nodes = tuple([name for name in act.nodes if name not in self.dead])
        links = tuple([link for link in act.links if not {*link} & {*self.dead}])
        if nodes or links:
            super()._begin(replace(act, nodes=nodes, links=links), seconds)

    def _must_wait(self, act: Act) -> bool:
        return super()._must_wait(act) or (act.kind == "kill for good" and not self._is_whole())

    def _is_whole(self) -> bool:
        """Is everything up, and known of those that died before?"""
        return self._undisturbed and not self.accounts(account_of_zones)

    def accounts(self, of: Callable[[Status, set[str]], str]) -> dict[str, str]:
        """By node that lives, what is wrong with it, if anything; `of` is given its dead neighbours."""
        found = {}
        for name in self._cluster.names:
            if name in self.dead:
                continue
            try:
                status = self._cluster.control(name).status()
            except ThenceError as error:
                found[name] = str(error)
                continue
            if told := of(status, self._near_dead(name)):
                found[name] = told
        return found

    def _near_dead(self, name: str) -> set[str]:
        names = self._topology.names
        near = {names[peer] for peer in self._topology.neighbours(names.index(name))}
        return near & {*self.dead}

    def _hit(self, act: Act) -> None:
        if act.kind != "kill for good":
            super()._hit(act)
            return
        [name] = act.nodes
        self._kill(name)
        self._phases[name] = "out"
        self.dead.append(name)
        if self._evicts:
            process = self._topology.names.index(name)
            first = next(
                other
                for peer in self._topology.neighbours(process)
                if (other := self._topology.names[peer]) not in self.dead
            )
            self._ask(first, Control.evict, name, True)

    def _end(self, act: Act) -> None:
        if act.kind == "kill for good":
            self._troubled.difference_update(act.nodes)
        else:
            super()._end(act)

    def come_back(self) -> None:
        """Those that are dead are started: each is told that it is, ends, and is refused from then on."""
        for name in self.dead:
            for wanted in (ENDED, REFUSED):
                self._cluster.start(name)
                code = self._exit_code(name, START_S)
                if code != wanted:
                    raise StormError(f"{name} is dead, and was started: exit code {code}; {self._said(name)}")


class ZonesRound(Round):
    rested = "all have what is addressed to them, and nothing is kept or held back"

    def __init__(
        self, seed: int, nodes: int, seconds: float, folder: Path, netem: bool = False, spread: str = "",
        *, file: Path,
    ) -> None:  # fmt: skip
        """`nodes` and `spread` follow from the topology."""
        del nodes, spread
        self._file = file
        self._topology = topology = read_zones(file)
        random = Random(f"{seed}/zones setup")
        self._evicts = seed % 2 == 0
        drawn = draw_setup(seed, len(topology))
        rates = tuple([random.choice((5.0, 20.0, 100.0)) for _ in topology.names])
        self._setup = setup = replace(drawn, order="separator", rates=rates)
        flags: dict[str, object] = {
            "log.sync": setup.sync, "log.segment_bytes": setup.segment_bytes, "zones.window": setup.window,
            "application.inbox_max": setup.inbox_max,
            "zones.suspect_us": 0 if self._evicts else SUSPECT_S * 1_000_000,
            "zones.word_us": random.choice((50_000, 200_000, 1_000_000)),
        }  # fmt: skip
        dead = "evicted" if self._evicts else f"closed after {SUSPECT_S} s"
        words = f"{setup}; dead gateways are {dead}"
        self._make(seed, len(topology), seconds, folder, netem, words, flags, PROGRAM)
        self._plan = draw_zones_plan(seed, topology, seconds)

    def _laid_out(self, folder: Path, nodes: int, changing: bool) -> Layout:
        del nodes, changing
        return open_zones_layout(folder / "data", self._file)

    def _new_storm(self) -> Storm:
        self._live_storm = LiveZonesStorm(
            self._cluster, self._setup, self._plan, tell, self._topology, self._evicts
        )
        return self._live_storm

    def _restless(self) -> Mapping[str, str]:
        return self._live_storm.accounts(account_at_rest)

    def _storm(self) -> None:
        super()._storm()
        self._live_storm.come_back()
        if dead := self._live_storm.dead:
            tell(f"{', '.join(dead)} died for good, and may not come back")


def account_of_zones(status: Status, dead: set[str]) -> str:
    """What is wrong with its zones. `dead`: its neighbours that are."""
    zones, told = status.zones, []
    if zones is None:
        return "it has no zones"
    if set(zones.gone) != dead:
        told.append(f"goes on without {', '.join(zones.gone) or 'none'}, not without {', '.join(dead)}")
    if zones.flushing:
        told.append(f"others may have more of {', '.join(zones.flushing)}")
    if zones.silent:
        told.append(f"{', '.join(zones.silent)} did not greet it")
    if zones.exposed:
        told.append("has sent messages that no other process has, and more since")
    if status.load is not None and status.load.failed:
        told.append(f"its load failed: {status.load.failed}")
    return ", ".join(told)


def account_at_rest(status: Status, dead: set[str]) -> str:
    told = [account(status), account_of_zones(status, dead)]
    if status.zones is not None and status.zones.forwards:
        told.append(f"{status.zones.forwards:,} to be forwarded")
    return ", ".join([words for words in told if words])
