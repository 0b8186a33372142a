"""The sub-packages of `replica/group`: each imports only those below it, so that none needs itself."""

import ast
from pathlib import Path

import pytest

GROUP = Path(__file__).parents[2] / "src" / "thence" / "replica" / "group"
PACKAGE = "thence.replica.group"

UPWARDS = ("ledger", "channel", "transfer", "receipts", "member", "lifecycle", "process")
"""From the lowest to the highest, as their docstrings and the package's say."""

SHARED = ("settings", "surroundings")
"""Modules that each of them may import, and that import none of them."""


def complaints(path: Path, source: str) -> list[str]:
    """Imports of a sibling that is not below, for whatever reason: types count, too."""
    here = path.relative_to(GROUP).parts[0].removesuffix(".py")
    allowed = set(SHARED) | set(UPWARDS[: UPWARDS.index(here) + 1] if here in UPWARDS else ())
    names = [
        name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module
        for name in (f"{node.module}.{alias.name}" for alias in node.names)
        if name.startswith(PACKAGE + ".")
    ]
    return [name for name in names if name.removeprefix(PACKAGE + ".").split(".")[0] not in allowed]


def test_all_of_it_is_in_the_table() -> None:
    folders = {path.parent.name for path in GROUP.glob("*/__init__.py")}
    assert folders == set(UPWARDS)
    assert {path.stem for path in GROUP.glob("*.py")} == {"__init__", *SHARED}


@pytest.mark.parametrize(
    "path", sorted(GROUP.rglob("*.py")), ids=lambda path: path.relative_to(GROUP).as_posix()
)
def test_a_module_imports_only_sub_packages_below_its_own(path: Path) -> None:
    assert complaints(path, path.read_text()) == []


@pytest.mark.parametrize("place", range(len(UPWARDS)))
def test_a_sub_package_says_what_it_imports(place: int) -> None:
    said = ast.get_docstring(ast.parse((GROUP / UPWARDS[place] / "__init__.py").read_text()))
    assert said is not None
    last = said.split("\n\n")[-1]
    missing = [name for name in UPWARDS[:place] if f"`{name}`" not in last]
    assert not missing or "may import all others" in last


@pytest.mark.parametrize(
    "imports",
    [
        "from thence.replica.group.member.member import Member",
        "from thence.replica.group import process",
        "if TYPE_CHECKING:\n    from thence.replica.group.lifecycle import stages",
    ],
)
def test_an_import_from_above_is_noticed(imports: str) -> None:
    assert complaints(GROUP / "receipts" / "peers.py", imports) != []
