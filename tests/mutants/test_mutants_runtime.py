"""The tests of live nodes tested: every bug planted into a changing group's node is found by the test that is
named beside it."""

import asyncio
import gc
import inspect
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support import controlled, live_links, open_nodes
from support.changing import Changing, EitherPair
from support.mutants import module_of
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


KINDS = ("group", "changing", "neighbours", "way_in", "shelf", "diaries")
"""Parts of nodes whose groups change have one of these in their names."""


def kinds(mutant: LiveMutant) -> list[bool]:
    """Of the groups, if the test is for either, in which it is found: does it change?"""
    edited = {module_of(place) for place, _, _ in mutant.edits}
    if "either" not in inspect.signature(getattr(load(mutant.file), mutant.test)).parameters:
        return [True]
    if edited & {"thence.runtime.links"}:  # `OpenLinks` keeps the real base
        return [False]
    own = [any(kind in module for kind in KINDS) for module in edited]
    return [True] if any(own) else [False, True]


def run(mutant: LiveMutant, folder: Path, changes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
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
            fixtures[name] = EitherPair(folder, changes)
        elif name not in fixtures:
            fixtures[name] = inspect.unwrap(getattr(module, name))(monkeypatch)
    if mutant.file == "test_draining.py":
        inspect.unwrap(module.quick)(monkeypatch)
    test(**{name: fixtures[name] for name in inspect.signature(test).parameters})


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (open_nodes, live_links):
        monkeypatch.setattr(module, "PATIENCE_S", PATIENCE_S)
    timeout = asyncio.timeout
    monkeypatch.setattr(asyncio, "timeout", lambda delay: timeout(delay and min(delay, PATIENCE_S)))


def verdict(mutant: LiveMutant, folder: Path, changes: bool, monkeypatch: pytest.MonkeyPatch) -> str:
    folder.mkdir()
    try:
        with monkeypatch.context() as patched:
            run(mutant, folder, changes, patched)
    except (Exception, pytest.fail.Exception) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


@pytest.fixture
def swept() -> Iterator[None]:
    """What a bug kept from being closed is collected within its own test, which ignores warnings; else the
    warning of an open socket fails whichever test comes next."""
    yield
    gc.collect()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("swept")
def test_planted_bug_is_found(mutant: LiveMutant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if mutant.finds == "TimeoutError":
        hurry(monkeypatch)
    for changes in kinds(mutant):
        with planted(mutant.edits):
            found = verdict(mutant, tmp_path / str(changes), changes, monkeypatch)
        assert found.split(":")[0] == mutant.finds, found


def test_no_two_bugs_are_the_same() -> None:
    assert (
        len({mutant.edits for mutant in MUTANTS}) == len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    )
