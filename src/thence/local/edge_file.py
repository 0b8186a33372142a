"""The file of an edge tree, `tree.toml`, and the folder of a local one.

    delta = 1                       # failures in a row that are passed by; optional

    [nodes.dc]                      # the root: it has no parent
    [nodes.north]
    parent = "dc"
    groups = ["orders"]

Nodes are started in the order of the file, and listen on ports in that order; so names that are there stay
where they are when the file changes, and further ones come after them. docs/protocols/edge.md#live.
"""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from thence.core.errors import UsageError
from thence.local.layout import FILE, Layout, open_layout, resized
from thence.runtime.settings import check_group, check_name

TREE: Final = "tree.toml"
"""The copy in the folder."""
KEYS: Final = ("nodes", "delta")
NODE_KEYS: Final = ("parent", "groups")


@dataclass(frozen=True, slots=True)
class EdgePlan:
    parents: dict[str, str]
    """By name, in the order of the file; that of the root is empty."""
    groups: dict[str, tuple[str, ...]]
    delta: int | None = None

    @property
    def root(self) -> str:
        return next(name for name, parent in self.parents.items() if not parent)

    def depth(self, name: str) -> int:
        return 1 + self.depth(self.parents[name]) if self.parents[name] else 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.parents)


def read_plan(path: Path) -> EdgePlan:
    """`UsageError`: it is no tree."""
    try:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:  # TOML or UTF-8 that is none
        raise UsageError(f"{path} is no TOML: {error}") from error
    try:
        return _plan(read)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _plan(read: dict[str, object]) -> EdgePlan:
    if unknown := [key for key in read if key not in KEYS]:
        raise UsageError(f"there is no {unknown[0]!r}: a tree has {' and '.join(KEYS)}")
    nodes, delta = read.get("nodes"), read.get("delta")
    if not isinstance(nodes, dict) or not nodes:
        raise UsageError("it names no nodes: [nodes.NAME], with parent and groups")
    if delta is not None and not (isinstance(delta, int) and 1 <= delta <= 8):
        raise UsageError(f"delta is a number from 1 to 8, not {delta!r}")
    parents, groups = dict[str, str](), dict[str, tuple[str, ...]]()
    for name, told in nodes.items():
        check_name(name)
        if not isinstance(told, dict):
            raise UsageError(f"{name} must be a table, [nodes.{name}]")
        if unknown := [key for key in told if key not in NODE_KEYS]:
            raise UsageError(f"{name} has {unknown[0]!r}: a node has {' and '.join(NODE_KEYS)}")
        parents[name] = _parent(name, told.get("parent", ""))
        groups[name] = _groups(name, told.get("groups", []))
    _must_be_a_tree(parents)
    return EdgePlan(parents, groups, delta)


def _parent(name: str, parent: object) -> str:
    if isinstance(parent, str):
        return parent
    raise UsageError(f"the parent of {name} is a name, not {parent!r}")


def _groups(name: str, groups: object) -> tuple[str, ...]:
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        raise UsageError(f"the groups of {name} are a list of names")
    for group in groups:
        check_group(group)
    return tuple(dict.fromkeys(groups))


def _must_be_a_tree(parents: dict[str, str]) -> None:
    roots = [name for name, parent in parents.items() if not parent]
    for name, parent in parents.items():
        if parent and parent not in parents:
            raise UsageError(f"{name} is below {parent}, which is no node of the tree")
    if len(roots) > 1:
        raise UsageError(f"a tree has one root, and {', '.join(roots)} have no parent")
    for name in parents:
        way = [name]
        while parent := parents[way[-1]]:
            if parent in way:
                cycle = [*way[way.index(parent) :], parent]
                raise UsageError(f"{' is below '.join(cycle)}: that is a cycle, not a tree")
            way.append(parent)


@dataclass(frozen=True, slots=True)
class EdgeLayout(Layout):
    plan: EdgePlan = field(default_factory=lambda: EdgePlan({}, {}))

    def group_flags(self, name: str, contacts: object) -> list[str]:
        del contacts
        parent, groups = self.plan.parents[name], self.plan.groups[name]
        above = ["--parent", str(self.address(parent))] if parent else ["--root"]
        delta = ["--set", f"edge.delta={self.plan.delta}"] if self.plan.delta else []
        named = ["--groups", ",".join(groups)] if groups else []
        return ["--spread", "edge", "--listen", str(self.address(name)), *above, *named, *delta]


def open_edge_layout(
    folder: Path, tree: Path | None, base_port: int | None = None, http_base: int | None = None
) -> EdgeLayout:
    """The tree in `folder`, made if there is none. A file with further nodes makes it larger."""
    there = folder / TREE
    if tree is None and not there.exists():
        raise UsageError(f"which tree? There is none in {folder}: --tree FILE names its nodes")
    plan = read_plan(tree or there)
    if (folder / FILE).exists() and not there.exists():
        raise UsageError(f"the cluster in {folder} is no edge tree: give --data a folder of its own")
    if there.exists():
        before = read_plan(there).names
        if plan.names[: len(before)] != before:
            raise UsageError(
                f"the tree in {folder} has {', '.join(before)}: a file for it begins with them, in this order"
            )
        if len(plan.names) > len(before):
            resized(folder, len(plan.names))
    layout = open_layout(folder, len(plan.names), base_port, http_base, changing=True)
    if tree is not None and tree.resolve() != there.resolve():
        there.write_bytes(tree.read_bytes())
    return EdgeLayout(
        layout.folder, layout.cluster, layout.base_port, layout.http_base, plan.names, True, plan
    )  # fmt: skip
