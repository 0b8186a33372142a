"""The diagrams of docs/ from the tables in the code: `python scripts/stages.py` writes them, with `--check`
it tells whether they are up to date.

A page has a marked place for each table, by module and name, and what stands in it is written by this script:

    <!-- stages: thence.replica.steps STEP -->
    <!-- end of stages -->
"""

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from thence.core.stages import Stage, Transition, Transitions

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"
DOCS = ROOT / "docs"

PLACE = re.compile(
    r"(<!-- stages: (?P<module>[\w.]+) (?P<name>\w+) -->\n).*?(?P<end><!-- end of stages -->)", re.DOTALL
)

Table = Transitions[Any]


def pages() -> list[Path]:
    """Those with a marked place."""
    return [path for path in sorted(DOCS.rglob("*.md")) if PLACE.search(path.read_text())]


def written(text: str) -> str:
    """A page with everything that its places should have."""
    return PLACE.sub(lambda at: at[1] + diagram(table(at["module"], at["name"])) + at["end"], text)


def table(module: str, name: str) -> Table:
    found = getattr(importlib.import_module(module), name)
    assert isinstance(found, Transitions), f"{module}.{name} is no table of stages"
    return found


def places() -> set[tuple[str, str]]:
    """Module and name of each table that a page has a place for."""
    found = [PLACE.findall(path.read_text()) for path in pages()]
    return {(module, name) for page in found for _, module, name, *_ in page}


def tables() -> Iterator[tuple[str, str]]:
    """Module and name of each table in the code."""
    for path in sorted(SRC.rglob("*.py")):
        text = path.read_text()
        for node in ast.parse(text).body if "Transitions" in text else ():
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if isinstance(value, ast.Call) and ast.unparse(value.func) == "Transitions":
                named = node.targets[0] if isinstance(node, ast.Assign) else node.target
                yield ".".join(path.relative_to(SRC).with_suffix("").parts), ast.unparse(named)


def diagram(made: Table) -> str:
    """For GitHub, which draws it, and below it the same as a table, with what each stage means."""
    lines = ["```mermaid", "stateDiagram-v2"]
    spelled = {stage: re.sub(r"\W", "_", stage.value) for stage in made.stages}
    lines += [
        f'    state "{stage.value}" as {name}' for stage, name in spelled.items() if name != stage.value
    ]
    lines += [f"    [*] --> {spelled[stage]}" for stage in made.first]
    ways: dict[tuple[Stage, Stage], list[str]] = {}
    for row in made.rows:
        ways.setdefault((row.before, row.after), []).append(row.cause)
    for (before, after), causes in ways.items():
        lines.append(f"    {spelled[before]} --> {spelled[after]}: {', '.join(causes)}")
    lines += [f"    {spelled[stage]} --> [*]" for stage in made.stages if not _ways(made, stage)]
    lines += ["```", "", "| stage | is | goes on to |", "| --- | --- | --- |"]
    said = meanings(type(made.first[0]))
    for stage in made.stages:
        ways_on = "; ".join([f"*{row.after.value}*: {row.cause}" for row in _ways(made, stage)])
        lines.append(f"| *{stage.value}* | {said[stage.name]} | {ways_on or '–'} |")
    return "\n".join(lines) + "\n"


def _ways(made: Table, stage: Stage) -> list[Transition[Any]]:
    return [row for row in made.rows if row.before is stage]


def meanings(stages: type[Enum]) -> dict[str, str]:
    """What stands below each member in the source."""
    source = sys.modules[stages.__module__].__file__
    assert source is not None
    found = {}
    for node in ast.parse(Path(source).read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name == stages.__name__:
            for member, after in zip(node.body, node.body[1:], strict=False):
                if isinstance(member, ast.Assign) and isinstance(after, ast.Expr):
                    text = ast.literal_eval(after.value)
                    found[ast.unparse(member.targets[0])] = " ".join(str(text).split()).removesuffix(".")
    silent = [stage.name for stage in stages if stage.name not in found]
    assert not silent, f"{stages.__name__}: no docstring below {', '.join(silent)}"
    return found


if __name__ == "__main__":
    old = [path for path in pages() if path.read_text() != written(path.read_text())]
    if "--check" not in sys.argv[1:]:
        for path in old:
            path.write_text(written(path.read_text()))
    elif old:
        names = ", ".join(str(path.relative_to(ROOT)) for path in old)
        sys.exit(f"{names}: not what the tables in the code say: run python scripts/stages.py")
