"""The tests of live nodes tested: every bug planted into a changing group's node is found by the test that is
named beside it."""

import asyncio
import inspect
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support import controlled, driven, driven_group, live_links, open_nodes
from support.changing import Changing, EitherPair
from support.mutants_groups import planted
from support.mutants_runtime import MUTANTS, LiveMutant

from thence.core.errors import UsageError

TESTS = Path(__file__).parents[1] / "runtime"

assert controlled, "loaded before any bug is planted, or it would keep the first one"

PATIENCE_S = 2.0
"""Where a bug makes a node wait for ever. All others may take as long as a test may."""


def load(file: str) -> ModuleType:
    """A copy of a file of tests, which takes everything that it imports from the project as it is now."""
    spec = spec_from_file_location(f"{Path(file).stem}_of_mutants", TESTS / file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(mutant: LiveMutant, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(mutant.file)
    test = getattr(module, mutant.test)
    fixtures: dict[str, Any] = {
        "tmp_path": folder, "monkeypatch": monkeypatch, "sync": "no", "where": "packet",
        "entry": "down",
        "error": UsageError("a mistake"),
    }  # fmt: skip
    for name in inspect.signature(test).parameters:
        if name == "group":
            fixtures[name] = Changing(folder, "abc")
        elif name == "either":
            fixtures[name] = EitherPair(folder, any("group" in module for module, _, _ in mutant.edits))
        elif name not in fixtures:
            fixtures[name] = inspect.unwrap(getattr(module, name))(monkeypatch)
    if mutant.file == "test_draining.py":
        inspect.unwrap(module.quick)(monkeypatch)
    test(**{name: fixtures[name] for name in inspect.signature(test).parameters})


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (driven, driven_group, open_nodes, live_links):
        monkeypatch.setattr(module, "PATIENCE_S", PATIENCE_S)
    timeout = asyncio.timeout
    monkeypatch.setattr(asyncio, "timeout", lambda delay: timeout(delay and min(delay, PATIENCE_S)))


def verdict(mutant: LiveMutant, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    try:
        run(mutant, folder, monkeypatch)
    except (Exception, pytest.fail.Exception) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
@pytest.mark.filterwarnings("ignore")
def test_planted_bug_is_found(mutant: LiveMutant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if mutant.finds == "TimeoutError":
        hurry(monkeypatch)
    with planted(mutant.edits):
        found = verdict(mutant, tmp_path, monkeypatch)
    assert found.split(":")[0] == mutant.finds, found


def test_no_two_bugs_are_the_same() -> None:
    assert (
        len({mutant.edits for mutant in MUTANTS}) == len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    )
