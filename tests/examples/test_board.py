"""The board of the examples, as its reader would try it: a process that comes late, kill -9 of all."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from support.live_links import free_addresses

BOARD = Path(__file__).parents[2] / "examples" / "board.py"
PATIENCE_S = 120.0


class Boards:
    def __init__(self, folder: Path, names: str) -> None:
        self._folder = folder
        self._at = dict(zip(names, map(str, free_addresses(len(names))), strict=True))
        self._running: dict[str, tuple[subprocess.Popen[str], str]] = {}

    def start(self, name: str, join: str = "") -> None:
        words = ["--listen", self._at[name], "--data", str(self._folder / name)]
        for other in join:
            words += ["--join", self._at[other]]
        process = subprocess.Popen(
            [sys.executable, str(BOARD), name, *words], stdout=subprocess.PIPE, text=True, cwd=self._folder
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("board of "), line
        self._running[name] = process, line.split(": ", 1)[1].strip().removesuffix("/board")

    def kill(self) -> None:
        for process, _ in self._running.values():
            process.kill()
            process.communicate()
        self._running.clear()

    def ask(self, name: str, path: str, body: object = None, method: str | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(self._running[name][1] + path, data=data, method=method)
        with urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def shown(self, name: str) -> Any:
        found = self.ask(name, "/board")
        return found["columns"], found["tombstones"]

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end, {name: self.shown(name) for name in self._running}
            time.sleep(0.05)


def test_a_board_outlives_its_processes_and_keeps_no_tombstones(tmp_path: Path) -> None:
    boards = Boards(tmp_path, "abc")
    try:
        boards.start("a")
        boards.start("b", join="a")
        first = boards.ask("a", "/cards", {"title": "guide", "column": "todo"})["card"]
        other = boards.ask("b", "/cards", {"title": "bugs"})["card"]
        boards.until(lambda: boards.shown("a") == boards.shown("b"))
        boards.ask("b", f"/cards/{first}/move", {"column": "doing"})
        boards.ask("a", f"/cards/{other}", method="DELETE")
        boards.start("c", join="a")  # its state has what is not stable yet
        expected = {"todo": {}, "doing": {first: "guide"}, "done": {}}
        boards.until(lambda: all(boards.shown(name) == (expected, 0) for name in "abc"))
        boards.kill()
        for name in "abc":
            boards.start(name)
        boards.ask("c", f"/cards/{first}/move", {"column": "done"})
        expected = {"todo": {}, "doing": {}, "done": {first: "guide"}}
        boards.until(lambda: all(boards.shown(name) == (expected, 0) for name in "abc"))
        boards.ask("a", f"/cards/{first}", method="DELETE")
        nothing: dict[str, dict[str, str]] = {"todo": {}, "doing": {}, "done": {}}
        boards.until(lambda: all(boards.shown(name) == (nothing, 0) for name in "abc"))
        with pytest.raises(HTTPError, match="400") as refused:
            boards.ask("a", "/cards/none/move", {"column": "done"})
        assert "no such thing" in json.load(refused.value)["error"]
    finally:
        boards.kill()
