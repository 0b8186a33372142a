"""Where bugs are planted: each names its places and snippets exactly, and what is gone is told."""

import ast
import gc
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support import mutants
from support.mutants import Edit, edited, mutate

TABLES = sorted(path.stem for path in Path(mutants.__file__).parent.glob("mutants*.py"))

PROJECT = {
    "shop.till": """
LIMIT = 3


class Till:
    __slots__ = ("coins",)

    @property
    def coins_in(self):
        return self.coins

    @coins_in.setter
    def coins_in(self, coins):
        self.coins = coins

    def take(self, coin):
        if self.coins < LIMIT:
            self.coins += coin
        return self.coins


def count(till):
    return till.coins
""",
    "shop.door": """
class Door:
    def open(self):
        return True

    def close(self):
        return self.open()
""",
}
"""A project in which nothing ever moves."""


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "sources", lambda: PROJECT)


def gone(*edits: Edit) -> str:
    """What there is to say of edits that cannot be made."""
    try:
        edited(edits)
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("table", TABLES)
def test_all_places_and_snippets_are_there(table: str) -> None:
    lists: list[Any] = [
        each for each in vars(import_module(f"support.{table}")).values() if type(each) is list
    ]
    found = {mutant.name: gone(*mutant.edits) for each in lists for mutant in each}
    assert found
    told = [f"{name}: {trouble}" for name, trouble in found.items() if trouble]
    assert not told, "\n".join(["move these bugs along with their code:", *told])


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("place", "trouble"),
    [
        ("shop.tills:Till.take", "there is no module shop.tills for 'coins += coin'"),
        ("shop.till:Tell.take", "shop.till has no Tell.take for 'coins += coin'"),
        ("shop.till:Till.took", "shop.till has no Till.took for 'coins += coin'"),
        ("shop.till:Till.coins_in", "shop.till:Till.coins_in has no 'coins += coin'"),
        ("shop.door", "shop.door has no 'coins += coin'"),
    ],
)
def test_what_moved_is_told_with_its_new_place(place: str, trouble: str) -> None:
    assert gone((place, "coins += coin", "")) == f"{trouble}; shop.till:Till.take has it"


@pytest.mark.usefixtures("shop")
def test_a_place_that_moved_is_told_even_if_its_snippet_is_gone() -> None:
    assert gone(("shop.till:Door.open", "return False", "")) == (
        "shop.till has no Door.open for 'return False'; there is a Door.open in shop.door"
    )


@pytest.mark.usefixtures("shop")
def test_what_is_nowhere_or_in_many_places_is_told_without_a_guess() -> None:
    assert gone(("shop.till:Till.take", "return None", "")) == "shop.till:Till.take has no 'return None'"
    assert gone(("shop.till:Till.give", "return ", "")) == "shop.till has no Till.give for 'return '"


@pytest.mark.usefixtures("shop")
def test_a_snippet_must_be_in_its_place_once() -> None:
    assert gone(("shop.till:Till.take", "self.coins", "")) == "shop.till:Till.take has 'self.coins' 3 times"
    assert gone(("shop.till:Till", "return ", "")) == "shop.till:Till has 'return ' 2 times"
    assert gone(("shop.till:count", "return ", "")) == ""


@pytest.mark.usefixtures("shop")
def test_a_place_has_its_decorators_and_a_property_its_setter() -> None:
    whole = "    @coins_in.setter\n    def coins_in(self, coins):\n        self.coins = coins\n"
    assert gone(("shop.till:Till.coins_in", whole, "")) == ""
    assert gone(("shop.till:Till.coins_in", "    @property\n", "")) == ""


@pytest.mark.usefixtures("shop")
def test_edits_of_one_mutant_refer_to_the_source_as_it_stands_and_do_not_overlap() -> None:
    made = edited([("shop.till:Till.take", "coin)", "note)"), ("shop.till", "LIMIT = 3", "coin = 3")])
    source = PROJECT["shop.till"]
    assert made == {"shop.till": source.replace("coin)", "note)").replace("LIMIT = 3", "coin = 3")}
    told = gone(("shop.till:Till.take", "+= coin", ""), ("shop.till:Till", "coins += coin\n", ""))
    assert told == "two edits of shop.till overlap at 'coins += coin\\n'"


def test_garbage_that_parses_something_when_it_is_collected_does_no_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Garbage:
        def __init__(self) -> None:
            self.kept = self

        def __del__(self) -> None:
            ast.parse("x = 1")

    monkeypatch.setattr(mutants, "sources", lambda: {"shop.cellar": "def f():\n    return 1\n" * 1000})
    before = gc.get_threshold()
    gc.set_threshold(100)
    try:
        for _ in range(50):
            Garbage()
        assert len(mutants.places("shop.cellar")["f"]) == 1000
    finally:
        gc.set_threshold(*before)
    assert gc.isenabled()


def test_a_module_is_tried_over_an_edited_one_and_the_real_ones_stay() -> None:
    window, tags = "thence.order.window", "thence.order.tags"
    real = mutate(window, ()).Tags
    other = (tags, "class Tags", "from builtins import dict as Tags\n\n\nclass Unused")
    assert mutate(window, [other]).Tags is dict
    assert mutate(window, ()).Tags is real
