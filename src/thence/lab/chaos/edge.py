"""A round of a trial with an edge tree: chains of ancestors are killed, groups joined and left, disks lost.

The tree, its groups and δ are drawn from the seed. Everything of `rounds` happens, and what only a tree has:
δ consecutive ancestors of a node die at once; nodes lose their disks, or find them put back, and go on as
other identities; they leave the tree and come again; they join groups and leave them. Nodes move by
themselves: past ancestors that are gone, and back. The root, as the protocol asks, keeps its disk.

In the end each node must be attached, with a whole chain, and have what the root has of its groups.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from thence.core.errors import ThenceError
from thence.lab.chaos.crash_points import PROGRAM
from thence.lab.chaos.open_trees import OpenStorm
from thence.lab.chaos.plan import EDGE_KINDS, Act, Setup, draw_plan, draw_setup
from thence.lab.chaos.quiescence import account
from thence.lab.chaos.rounds import Round, tell
from thence.lab.chaos.storm import LOOK_S, Storm
from thence.local.cluster import Cluster, NodeProcess
from thence.local.edge_file import EdgePlan, open_edge_layout
from thence.local.layout import Layout
from thence.runtime.load import Load
from thence.runtime.remote import Control
from thence.runtime.status import EdgeStatusReport, Status

MOST_CHILDREN: Final = 3
PATIENCE_S: Final = 20.0
"""So much later than planned a disk may be put back."""
FORGETS: Final = ("lose disk", "restore", "leave")
"""Trouble after which a process is another identity: for good, where others may rely on it. Only while all
chains are whole: beyond that the protocol promises nothing."""


def draw_tree(seed: int, nodes: int) -> EdgePlan:
    random = Random(f"{seed}/tree")
    names = ["root", *[f"n{number}" for number in range(1, nodes)]]
    parents = {"root": ""}
    for name in names[1:]:
        # Rather deep than wide: chains are what is killed.
        open_ones = [one for one in parents if list(parents.values()).count(one) < MOST_CHILDREN]
        parents[name] = random.choice(open_ones[-5:])
    groups = [f"g{number}" for number in range(random.randint(2, 5))]
    members = {
        name: tuple(sorted(random.sample(groups, random.randint(0, len(groups))))) for name in names[1:]
    }
    return EdgePlan(parents, {"root": (), **members}, random.randint(1, 3))


def draw_edge_plan(seed: int, plan: EdgePlan, seconds: float) -> list[Act]:
    """As drawn for any group, with nodes that it can happen to."""
    random = Random(f"{seed}/edge")
    below = list(plan.names[1:])
    leaves = [name for name in below if name not in plan.parents.values()]
    deep = [name for name in below if plan.depth(name) > 1]
    groups = sorted({group for groups in plan.groups.values() for group in groups}) or ["g0"]
    acts = []
    for act in draw_plan(seed, plan.names, seconds, EDGE_KINDS):
        chosen, point = act.nodes, act.point
        if act.kind == "kill chain":
            if not deep:
                continue
            chosen = ancestors(plan, random.choice(deep))[: plan.delta]
        elif act.kind == "leave":
            chosen = (random.choice(leaves),)
        elif act.kind in EDGE_KINDS:
            chosen = (random.choice(below),)
        if act.kind.endswith(" group"):
            point = random.choice(groups)
        acts.append(replace(act, nodes=tuple(sorted(chosen)), point=point))
    return acts


def ancestors(plan: EdgePlan, name: str) -> tuple[str, ...]:
    """Nearest first, without the root."""
    way = []
    while plan.parents[name := plan.parents[name]]:
        way.append(name)
    return tuple(way)


class LiveEdgeStorm(OpenStorm):
    def __init__(
        self, cluster: Cluster, setup: Setup, acts: Sequence[Act], tell: Callable[[str], None]
    ) -> None:
        super().__init__(cluster, setup, acts, tell)
        self.plan = EdgePlan({}, {})
        self.groups: dict[str, set[str]] = {}
        self._copies: dict[str, Path] = {}

    def _load(self, name: str) -> Load:
        """Some publish to groups that they are no members of."""
        load, groups = super()._load(name), sorted(self.groups[name])
        others = sorted({group for groups in self.plan.groups.values() for group in groups})
        number = self._cluster.names.index(name)
        if groups and number % 3:
            return load
        return msgspec.structs.replace(load, group=others[number % len(others)])

    def _must_wait(self, act: Act) -> bool:
        return super()._must_wait(act) or (act.kind in FORGETS and not self._is_whole())

    def _is_whole(self) -> bool:
        if not self._undisturbed:
            return False
        reports = [status.edge for name in self._cluster.names if (status := status_of(self._cluster, name))]
        return len(reports) == len(self._cluster.names) and not any(
            report is None or unwhole(report, self.plan.delta or 1) for report in reports
        )

    def _hit(self, act: Act) -> None:
        if act.kind.endswith(" group"):
            self._regroup(act.nodes[0], act.point, act.kind == "join group")
        elif act.kind == "restore":
            name = act.nodes[0]
            self._kill(name)
            folder = self._cluster.folders[name]
            self._copies[name] = folder.with_name(f"{name}.copy")
            shutil.copytree(folder, self._copies[name])
            self._start(name)
        else:
            super()._hit(act)

    def _end(self, act: Act) -> None:
        if act.kind.endswith(" group"):
            self._troubled.difference_update(act.nodes)
        elif act.kind == "restore":
            self._put_back(act, self.elapsed_s + PATIENCE_S)
        else:
            super()._end(act)

    def _regroup(self, name: str, group: str, joins: bool) -> None:
        (self.groups[name].add if joins else self.groups[name].discard)(group)
        self._ask(name, Control.regroup, group, joins)
        # The next start names what is wanted then.
        node = self._cluster.nodes[name]
        words = list(node.command)
        if "--groups" in words:
            at = words.index("--groups")
            del words[at : at + 2]
        if self.groups[name]:
            words += ["--groups", ",".join(sorted(self.groups[name]))]
        fresh = NodeProcess(name, words, node.folder, node.log)
        fresh.process, fresh.state, fresh.starts = node.process, node.state, node.starts
        fresh.started_at, fresh.log_start = node.started_at, node.log_start
        self._cluster.nodes[name] = fresh

    def _put_back(self, act: Act, until_s: float) -> None:
        """Its folder is what it was. Where that would be beyond what the protocol promises, it stays."""
        name = act.nodes[0]
        self._troubled.discard(name)
        whole = self._is_whole()
        if not whole and self.elapsed_s < until_s:
            self._at(self.elapsed_s + LOOK_S, lambda: self._put_back(act, until_s))
            return
        copy = self._copies.pop(name)
        if whole:
            self._kill(name)
            self._lose_disk(name)
            for path in copy.iterdir():
                if path.is_dir():
                    shutil.copytree(path, self._cluster.folders[name] / path.name)
                elif path.name != self._cluster.nodes[name].log.name:
                    shutil.copy2(path, self._cluster.folders[name] / path.name)
            self._start(name)
        shutil.rmtree(copy)


class EdgeRound(Round):
    rested = "all have what the root has of their groups"

    def __init__(
        self, seed: int, nodes: int, seconds: float, folder: Path, netem: bool = False, spread: str = "edge"
    ) -> None:
        self._tree = draw_tree(seed, nodes)
        window = Random(f"{seed}/window").choice(
            [64, 1024, 8192]
        )  # a window waits for syncs at both its ends
        setup = replace(draw_setup(seed, nodes), spread=spread, window=window)
        keep_us = Random(f"{seed}/keep").choice([0, 1_000_000, 10_000_000])
        flags: dict[str, object] = {
            "log.sync": setup.sync, "log.segment_bytes": setup.segment_bytes, "edge.window": setup.window,
            "edge.keep_us": keep_us, "edge.linger_us": 3_000_000, "edge.alone_us": 2_000_000,
        }  # fmt: skip
        told = ", ".join([f"{name} below {parent}" for name, parent in self._tree.parents.items() if parent])
        words = f"{setup}; delta {self._tree.delta}, logs kept for {keep_us / 1e6:g} s; {told}"
        self._make(seed, nodes, seconds, folder, netem, words, flags, PROGRAM)
        self._setup = setup
        self._plan = draw_edge_plan(seed, self._tree, seconds)

    def _laid_out(self, folder: Path, nodes: int, changing: bool) -> Layout:
        del nodes, changing
        file = folder / "tree.toml"
        lines = [f"delta = {self._tree.delta}"]
        for name, parent in self._tree.parents.items():
            groups = ", ".join([f'"{group}"' for group in self._tree.groups[name]])
            lines += [
                f"[nodes.{name}]",
                f"groups = [{groups}]",
                *([f'parent = "{parent}"'] if parent else []),
            ]
        file.write_text("\n".join(lines) + "\n")
        return open_edge_layout(folder / "data", file)

    def _new_storm(self) -> Storm:
        storm = LiveEdgeStorm(self._cluster, self._setup, self._plan, tell)
        storm.plan = self._tree
        storm.groups = self._groups = {name: set(groups) for name, groups in self._tree.groups.items()}
        return storm

    def _restless(self) -> Mapping[str, str]:
        return restless(self._cluster, self._groups, self._tree.delta or 1)


def status_of(cluster: Cluster, name: str) -> Status | None:
    try:
        return cluster.control(name).status()
    except ThenceError:
        return None


def unwhole(report: EdgeStatusReport, delta: int) -> str:
    """Why a node relies on less than it could."""
    if report.identity == report.root:
        return ""
    if not report.parent:
        return "it has no parent"
    full = len(report.chain) > min(delta, report.rank - 1) or report.chain[-1:] == [report.root]
    return "" if full else f"its chain is {', '.join(report.chain)}"


def restless(cluster: Cluster, groups: Mapping[str, set[str]], delta: int) -> dict[str, str]:
    """By node, what keeps it from being at rest."""
    statuses = {name: status_of(cluster, name) for name in cluster.names}
    root = next((s.edge for s in statuses.values() if s and s.edge and s.edge.identity == s.edge.root), None)
    if root is None:
        return {"the tree": "no root answers"}
    accounts = {name: _account(status, groups[name], root, delta) for name, status in statuses.items()}
    return {name: told for name, told in accounts.items() if told}


def _account(status: Status | None, groups: set[str], root: EdgeStatusReport, delta: int) -> str:
    if status is None or status.edge is None:
        return "it does not answer"
    report, told = status.edge, [words] if (words := account(status)) else []
    if words := unwhole(report, delta):
        told.append(words)
    if report.not_at_root:
        told.append(f"the root may lack {report.not_at_root}")
    if report.identity != root.identity:
        if set(report.groups) != groups:
            told.append(f"is a member of {report.groups}, not of {sorted(groups)}")
        lacking = [group for group in report.groups if report.have.get(group) != root.have.get(group)]
        if lacking:
            told.append(f"lacks messages of {', '.join(lacking)}")
    return ", ".join(told)
