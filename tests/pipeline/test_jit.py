"""Compiled kernels are cached for the sources that they were made of, and for no others."""

import subprocess
import sys
from pathlib import Path

KERNEL = """
from typing import NamedTuple

from thence.pipeline.jit import kernel
from {shapes} import SIDES, {name}


@kernel
def counted(shape):
    return shape.{field} * SIDES
"""

SHAPES = """
from typing import NamedTuple

SIDES = {sides}


class {name}(NamedTuple):
    {field}: int
"""

RUN = """
import sys
from pathlib import Path

import thence.pipeline.jit as jit

jit.SHARED = Path(sys.argv[1])
sys.path[:0] = sys.argv[1:]
import kernels

print(kernels.counted(kernels.{name}(7)), sum(kernels.counted.stats.cache_hits.values()))
"""


def ran(folder: Path, name: str, field: str, sides: int) -> list[int]:
    """What the kernel returns, and how often it came from the cache, in a process of its own."""
    shared, own = folder / "shared", folder / "own"
    for path, text in (
        (shared / "shapes.py", SHAPES),
        (own / "kernels.py", KERNEL),
    ):
        path.parent.mkdir(exist_ok=True)
        told = text.format(shapes="shapes", name=name, field=field, sides=sides)
        if not path.exists() or path.read_text() != told:
            path.write_text(told)
    command = [sys.executable, "-c", RUN.format(name=name), str(shared), str(own)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert not done.returncode, done.stderr
    return [int(word) for word in done.stdout.split()]


def test_a_cache_of_other_sources_is_passed_over(tmp_path: Path) -> None:
    assert ran(tmp_path, "Square", "side", 4) == [28, 0]
    assert ran(tmp_path, "Square", "side", 4) == [28, 1]
    assert ran(tmp_path, "Square", "side", 3) == [21, 0], "a constant of another file"
    assert ran(tmp_path, "Triangle", "side", 3) == [21, 0], "a class that has another name"
    assert ran(tmp_path, "Triangle", "edge", 3) == [21, 0]
    assert ran(tmp_path, "Triangle", "edge", 3) == [21, 1]
