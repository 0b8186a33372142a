"""What `make` does with the `.venv` that it finds, by a Python that says its version and makes folders."""

import shutil
import subprocess
from pathlib import Path

import pytest

PYTHON = """#!/bin/sh
case "$1 $2" in
    "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
    "-m pip") echo installed ;;
    "-c "*print*) echo "{version} $(cd "$(dirname "$0")/.." && pwd)" ;;
esac
"""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        shutil.copy(Path(__file__).parents[2] / "Makefile", folder)
        for name in ("pyproject.toml", "constraints.txt"):
            (folder / name).touch()

    def make(self, *words: str) -> tuple[bool, bool]:
        """Was something installed, and was `.venv` made anew? What is put into it tells."""
        command = ["make", "--no-print-directory", "install", *words]
        told = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=True).stdout
        kept = (self.folder / ".venv" / "mine").exists()
        (self.folder / ".venv" / "mine").touch()
        return "installed" in told.splitlines(), not kept


@pytest.fixture(autouse=True)
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two Pythons, the older of which is the one of the PATH; and not the `make` that runs these tests."""
    for name, version in (("python3", "3 11 7"), ("python3.13", "3 13 0")):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(PYTHON.format(version=version))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    for variable in ("PYTHON", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL"):
        monkeypatch.delenv(variable, raising=False)


def test_it_is_made_once(tmp_path: Path) -> None:
    project = Project(tmp_path / "here")
    assert project.make() == (True, True)
    assert project.make() == (False, False)
    assert project.make("PYTHON=python3") == (False, False)


def test_one_that_was_moved_is_made_anew(tmp_path: Path) -> None:
    project = Project(tmp_path / "here")
    project.make()
    project.folder = project.folder.rename(tmp_path / "there")
    assert project.make() == (True, True)
    assert project.make() == (False, False)


def test_one_whose_python_is_another_by_now_is_made_anew(tmp_path: Path) -> None:
    project = Project(tmp_path / "here")
    project.make()
    python = project.folder / ".venv" / "bin" / "python"
    python.write_text(PYTHON.format(version="3 12 1"))
    assert project.make() == (True, True)
    python.unlink()
    assert project.make() == (True, True)


def test_another_python_that_is_asked_for_is_used_and_stays(tmp_path: Path) -> None:
    project = Project(tmp_path / "here")
    project.make()
    assert project.make("PYTHON=python3.13") == (True, True)
    assert project.make() == (False, False)
    assert (project.folder / ".venv" / ".installed").read_text().startswith("3 13 0 ")


def test_one_that_is_not_ours_is_installed_into(tmp_path: Path) -> None:
    """Made by hand, or an installation that was interrupted."""
    project = Project(tmp_path / "here")
    subprocess.run(["python3", "-m", "venv", project.folder / ".venv"], check=True)
    (project.folder / ".venv" / "mine").touch()
    assert project.make() == (True, False)
    assert project.make() == (False, False)
