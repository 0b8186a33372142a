"""The documents' programs, checked as a user's code would be: by mypy --strict."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "GUIDE.md")
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
MISTAKES = """
import thence

async def main(node: thence.Node, tag: thence.Tag) -> None:
    thence.Delivred
    await node.broadcast("text")
    node.events().next()
    tag.before(None)
"""


def whole(text: str) -> str:
    """A program; a document may show its middle."""
    if not re.search("^async with", text, re.MULTILINE):
        return text
    return "import thence\n\nasync def main() -> None:\n" + textwrap.indent(text, "    ")


def checked(folder: Path, programs: dict[str, str]) -> list[str]:
    """What mypy says of these."""
    for name, text in programs.items():
        (folder / name).write_text(text)
    (folder / "mypy.ini").write_text("[mypy]\nstrict = True\n")
    where = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--scripts-are-modules", *programs]
    told = subprocess.run(command, cwd=folder, env=where, capture_output=True, text=True, check=False)
    assert told.returncode in (0, 1), told.stderr + told.stdout
    return [line for line in told.stdout.splitlines() if ": error:" in line]


def test_the_documents_programs_are_typed_and_mistakes_are_noticed(tmp_path: Path) -> None:
    programs = {
        f"{document.stem.lower()}_{number}.py": whole(text)
        for document in DOCUMENTS
        for number, text in enumerate(PYTHON.findall(document.read_text()))
    }
    programs |= {path.name: path.read_text() for path in sorted((ROOT / "examples").glob("*.py"))}
    assert len(programs) >= 6
    told = checked(tmp_path, {**programs, "mistakes.py": MISTAKES})
    assert [line for line in told if not line.startswith("mistakes.py")] == [], "\n".join(told)
    assert len(told) == MISTAKES.count("\n    "), told
