"""Where a command runs on Spark is told to all in the same words, and wrong words before they begin."""

from pathlib import Path

import pytest

from thence.cli.main import main

COMMANDS = (
    ("verify", "trace"), ("metrics", "trace"), ("soak",), ("chaos",), ("demo",),
    ("experiment", "run", "tcb-1", "--out", "out"),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_setting_without_a_value(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--conf", "spark.ui"]) == 2
    assert "--conf spark.ui: it takes KEY=VALUE" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_two_places(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--master", "local[1]", "--remote", "sc://127.0.0.1:1"]) == 2
    assert "--master and --remote: Spark runs on one of them" in capsys.readouterr().err


def test_a_page_names_the_command_that_made_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, page = tmp_path / "mine.csv", tmp_path / "page.html"
    trace.write_text("node,pos,kind,origin,seq\na,1,send,a,1\n")
    flags = ["--tolerate-torn", "--engine", "local", "--page", str(page)]
    assert main(["verify", str(trace), *flags]) == 0
    capsys.readouterr()
    assert f"thence verify {trace} {' '.join(flags)}" in page.read_text(encoding="utf-8")
