"""docs/API.md from the docstrings of what `thence` exports: `python scripts/api.py` writes it, with `--check`
it tells whether that is up to date.

Read from the source, not from the running program: attribute docstrings are there only, and annotations as
they were written.
"""

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"
PAGE = ROOT / "docs" / "API.md"

HEAD = """# The programs' interface

Everything that `import thence` gives a program, made from the docstrings by `scripts/api.py`. How to use it
is in the [guide](GUIDE.md); what the settings are, in [SETTINGS.md](SETTINGS.md).
"""

SECTIONS = {
    "Opening a node": ("open",),
    "A node": ("Node", "Events", "Tag"),
    "What events there are": ("Delivered", "Stable", "ViewChanged", "Orphaned", "Gap", "Doubted"),
    "A program that is a state": ("Replicated", "Chunked", "AppliesBatches", "HearsStable", "Mergeable"),
    "Errors": (
        "ThenceError", "UsageError", "StorageError", "ApplicationError", "InvariantError", "PeerError",
    ),
    "A store": ("Store", "LocalStores", "StoreError"),
}  # fmt: skip


SPELLED = {
    "LifeTag": "Tag", "OpenNode": "Node", "OpenStore": "Store", "Place": "tuple[str, int]",
    "OnCommit": "Callable[[str, int, int], object]",
}  # fmt: skip
"""Names that programs do not see, as they would write them."""

NAMES = re.compile(rf"\b({'|'.join(SPELLED)})\b")
QUOTED = re.compile(r"'([^']+)'")
"""An annotation that is not evaluated."""
ASSIGNED = re.compile(r"(?<=[\w\])])=")

INTERNAL = {"reads", "next_event", "at_hand", "look_again"}
"""Methods of a node for its own readers."""


def page() -> str:
    names = exported()
    lines = [HEAD]
    for section, members in SECTIONS.items():
        lines.append(f"\n## {section}\n")
        for name in members:
            lines += described(name, names.pop(name))
    union = names.pop("Event")
    assert isinstance(union, ast.Assign)
    lines.append(f"\n`thence.Event` is `{ast.unparse(union.value)}`.\n")
    assert not names, f"in no section: {', '.join(names)}"
    return "\n".join(lines)


def exported() -> dict[str, ast.stmt]:
    """By public name, its definition."""
    tree = ast.parse((SRC / "thence" / "__init__.py").read_text())
    found: dict[str, ast.stmt] = {}
    tops = [*tree.body, *[one for node in tree.body if isinstance(node, ast.If) for one in node.body]]
    for node in tops:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("thence."):
            path = SRC / f"{str(node.module).replace('.', '/')}.py"
            for alias in node.names:
                found[alias.asname or alias.name] = definition(path, alias.name)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return found | {node.name: node for node in functions}


def definition(path: Path, name: str) -> ast.stmt:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == name
        ):
            return node
    raise LookupError(f"{path} has no {name}")


def described(public: str, node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef):
        yield f"### `thence.{public}`\n\n```python\n{signature(node, False)}\n```\n\n{doc(node)}\n"
        return
    assert isinstance(node, ast.ClassDef)
    bases = [ast.unparse(base) for base in node.bases if ast.unparse(base).endswith("Error")]
    yield f"### `thence.{public}`{' (' + ', '.join(bases) + ')' if bases else ''}\n\n{doc(node)}\n"
    fields = list(attributes(node))
    if fields:
        yield (
            "\n".join(["| | |", "| --- | --- |", *[f"| `{what}` | {told} |" for what, told in fields]]) + "\n"
        )
    for method in node.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and is_public(method):
            yield f"```python\n{signature(method, True)}\n```\n\n{doc(method)}\n"


def is_public(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Part of what a program may call, which says so: without a docstring it is for others."""
    named = not method.name.startswith("_") and method.name not in INTERNAL
    return named and ast.get_docstring(method) is not None


def attributes(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Annotated fields, and what the text after each says."""
    for one, after in zip(node.body, [*node.body[1:], ast.Pass()], strict=True):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            if one.target.id.startswith("_"):
                continue
            text = ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                text = " ".join(str(after.value.value).split())
            value = f" = {ast.unparse(one.value)}" if one.value is not None else ""
            yield spelled(f"{one.target.id}: {ast.unparse(one.annotation)}{value}").replace("|", "\\|"), text


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef, method: bool) -> str:
    """As it is called: without `self`, and on one line for each argument if it is long."""
    listed = ASSIGNED.sub(" = ", ast.unparse(node.args))
    if method:
        listed = listed.removeprefix("self").removeprefix(", ")
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    listed, result = spelled(listed), spelled(result)
    if any(ast.unparse(one) == "property" for one in node.decorator_list):
        return f"{node.name}{result.replace(' ->', ':')}  # property"
    begins = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    line = f"{begins}{node.name}({listed}){result}"
    if len(line) <= 110:
        return line
    return f"{begins}{node.name}(\n    " + ",\n    ".join(split(listed)) + f",\n){result}"


def spelled(text: str) -> str:
    return NAMES.sub(lambda name: SPELLED[name[0]], QUOTED.sub(r"\1", text))


def split(listed: str) -> list[str]:
    """Arguments, at the commas that are in no brackets."""
    found, depth = [""], 0
    for letter in listed:
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip() for one in found]


def doc(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    text = spelled(ast.get_docstring(node) or "")
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    return "\n\n".join([textwrap.fill(paragraph, 118, break_on_hyphens=False) for paragraph in paragraphs])


if __name__ == "__main__":
    made = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(made)
    elif not PAGE.exists() or PAGE.read_text() != made:
        sys.exit("docs/API.md is not what the docstrings say: run python scripts/api.py")
