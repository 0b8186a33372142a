"""The tree of the tour: more processes than one would link with each other, one of them killed for good."""

import time
from typing import Final

from thence.lab.tour.claims import Claims
from thence.lab.tour.live import running
from thence.lab.tour.pace import Pace
from thence.local.cluster import Cluster
from thence.runtime.load import MOST_SECONDS, Load
from thence.runtime.status import Status

NODES: Final = 8
LINKS: Final = 2
"""That each of them wants: one ring, so that every message is passed on. Usually there are six."""
RATE: Final = 20.0


class Grove:
    def __init__(self, cluster: Cluster, pace: Pace, claims: Claims) -> None:
        self._cluster: Final = cluster
        self._pace: Final = pace
        self._claims: Final = claims

    def run(self) -> None:
        self._claims.step(f"{NODES} processes over a tree, {LINKS} links each; one dies for good", "tree")
        cluster, names = self._cluster, list(self._cluster.names)
        with running(cluster):
            cluster.start(*names)
            cluster.ready(*names, patience_s=self._pace.patience_s)
            held = self._pace.until(lambda: all(len(_up(each)) <= LINKS for each in self._look(names)))
            for name in names:
                cluster.control(name).load(Load(rate=RATE, seconds=MOST_SECONDS))
            time.sleep(self._pace.after_s)
            statuses = self._look(names)
            self._claims.claim(
                f"each has {LINKS} links, and delivers what all others send: "
                f"{sum(status.delivered for status in statuses):,} deliveries so far",
                held and all(status.delivered for status in statuses),
            )
            victim = names.pop(1)
            cluster.kill(victim)
            cluster.control(names[0]).evict(victim, force=True)
            gone = self._pace.until(lambda: not any(_knows(each, victim) for each in self._look(names)))
            for name in names:
                cluster.control(name).load(Load(count=0))
            rested = self._pace.until(lambda: _at_rest(self._look(names)))
            self._claims.claim(
                f"{victim} is killed and evicted: others took its place, and all have everything, stable",
                gone and rested,
            )
            cluster.stop()

    def _look(self, names: list[str]) -> list[Status]:
        return [self._cluster.control(name).status() for name in names]


def _up(status: Status) -> list[str]:
    return [member.name for member in status.members if member.link == "up"]


def _at_rest(statuses: list[Status]) -> bool:
    alike = all(status.clock == statuses[0].clock for status in statuses)
    return alike and not any(status.unstable or status.inbox or status.held for status in statuses)


def _knows(status: Status, name: str) -> bool:
    return status.group is not None and name in status.group.view
