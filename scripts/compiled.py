"""A copy of the package whose hot path is compiled to C by mypyc: what the interpreter adds to a turn.

    python scripts/compiled.py FOLDER
    PYTHONPATH=FOLDER thence bench cluster --part runs

It needs mypy and setuptools, and a C compiler, and takes minutes. Nothing is installed, and the package
itself stays as it is: the copy is for measuring. Its classes are those of C, so that tests which replace a
method, and planted bugs, do not apply to it.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
ROOMS: Final = ("core", "members", "oplog", "order", "replica")
"""Of these all modules, but for those that are passed by."""
RUNTIME: Final = (
    "alarm", "batching", "driver", "files", "frames", "gathering", "latency", "link", "links", "open_links",
    "outlet", "peer",
)  # fmt: skip
PASSED_BY: Final = (
    "edge", "zone", "tree", "open_tree", "live", "overlay", "codec_overlay", "hops", "codec_hops",
    "hyparview", "probabilistic", "separator", "vector", "matrix", "history", "eco", "replica", "settings",
    "errors", "machine", "surroundings",
)  # fmt: skip
"""Not on the way of a write in a group, or not to be had: exceptions with two bases, settings whose types are
read by others, and modules with structs of msgspec."""
SETUP: Final = """
from setuptools import setup
from mypyc.build import mypycify
setup(name="compiled", packages=[], ext_modules=mypycify(
    ["--config-file=mypy.ini", *open("modules.txt").read().split()], opt_level="1", multi_file=True))
"""
INI: Final = "[mypy]\nfollow_imports = silent\nignore_missing_imports = True\n"


def modules(package: Path) -> Iterator[str]:
    for room in ROOMS:
        for path in sorted((package / room).rglob("*.py")):
            name = path.relative_to(package).as_posix()
            if path.name != "__init__.py" and not path.stem.startswith(PASSED_BY):
                text = path.read_text()
                if "(Struct" not in text:
                    yield f"thence/{name}"
    for one in RUNTIME:
        yield f"thence/runtime/{one}.py"


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("usage: compiled.py FOLDER")
    folder = Path(sys.argv[1]).resolve()
    if folder.exists():
        raise SystemExit(f"{folder} is there already")
    shutil.copytree(ROOT / "src" / "thence", folder / "thence", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "modules.txt").write_text("\n".join(modules(folder / "thence")))
    (folder / "mypy.ini").write_text(INI)
    (folder / "setup.py").write_text(SETUP)
    command = [sys.executable, "setup.py", "build_ext", "--inplace", "-j2"]
    made = subprocess.run(command, cwd=folder, check=False)
    if made.returncode:
        raise SystemExit("not everything could be compiled")
    shutil.rmtree(folder / "build")


if __name__ == "__main__":
    main()
