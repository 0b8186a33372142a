"""The tour of docs/TOUR.md, block by block, as a person would type it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOUR = Path(__file__).parents[2] / "docs" / "TOUR.md"


@pytest.mark.spark
def test_every_block_of_the_tour_works(tmp_path: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", TOUR.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    script = "\n".join(["set -eu", *blocks])
    commands = Path(sys.executable).parent
    try:
        ran = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        subprocess.run([commands / "thence", "down"], cwd=tmp_path, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    said = ran.stdout.splitlines()
    assert "hello" in said
    assert "{'apples'}" in said
    assert "2" in said
    assert [line for line in said if line in ("ada", "bob")] in (["ada", "ada"], ["bob", "bob"])
    assert (tmp_path / "figures" / "index.html").stat().st_size > 0
