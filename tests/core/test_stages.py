"""Tables of stages: what they allow, and that the pages in docs/ say the same as the code."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from thence.core.errors import InvariantError
from thence.core.stages import Stage, Transitions

ROOT = Path(__file__).parents[2]


class DoorStage(Stage):
    OPEN = "open"
    """One may walk through it."""
    SHUT = "shut"
    """One may
    open it."""
    BRICKED_UP = "bricked up"
    """It was a door."""


DOOR = Transitions(
    "a door",
    DoorStage.OPEN,
    [
        (DoorStage.OPEN, "is pulled", DoorStage.SHUT),
        (DoorStage.SHUT, "is pushed", DoorStage.OPEN),
        ((DoorStage.OPEN, DoorStage.SHUT), "a mason comes", DoorStage.BRICKED_UP),
    ],
)

DRAWN = """\
```mermaid
stateDiagram-v2
    state "bricked up" as bricked_up
    [*] --> open
    open --> shut: is pulled
    shut --> open: is pushed
    open --> bricked_up: a mason comes
    shut --> bricked_up: a mason comes
    bricked_up --> [*]
```

| stage | is | goes on to |
| --- | --- | --- |
| *open* | One may walk through it | *shut*: is pulled; *bricked up*: a mason comes |
| *shut* | One may open it | *open*: is pushed; *bricked up*: a mason comes |
| *bricked up* | It was a door | – |
"""


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("stages", ROOT / "scripts" / "stages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_stage_goes_on_to_those_that_the_table_names() -> None:
    assert DOOR.move(DoorStage.OPEN, DoorStage.SHUT) is DoorStage.SHUT
    assert DOOR.after(DoorStage.SHUT, "is pushed") is DoorStage.OPEN
    assert DOOR.may_follow(DoorStage.SHUT, DoorStage.BRICKED_UP)


def test_what_the_table_lacks_stops_the_node() -> None:
    with pytest.raises(InvariantError, match="a door: open does not follow bricked up"):
        DOOR.move(DoorStage.BRICKED_UP, DoorStage.OPEN)
    with pytest.raises(InvariantError, match="open does not follow open"):
        DOOR.move(DoorStage.OPEN, DoorStage.OPEN)
    with pytest.raises(InvariantError, match="'is pushed' means nothing to one that is open"):
        DOOR.after(DoorStage.OPEN, "is pushed")


def test_one_cause_leads_to_one_stage() -> None:
    with pytest.raises(InvariantError, match="one cause leads from one stage to two"):
        Transitions(
            "a door",
            DoorStage.OPEN,
            [
                (DoorStage.OPEN, "wind", DoorStage.SHUT),
                (DoorStage.OPEN, "wind", DoorStage.BRICKED_UP),
            ],
        )


def test_stages_that_no_way_leads_to_are_found() -> None:
    assert DOOR.unreached() == []
    part = Transitions("a door", DoorStage.SHUT, [(DoorStage.BRICKED_UP, "is broken open", DoorStage.OPEN)])
    assert part.unreached() == [DoorStage.OPEN, DoorStage.BRICKED_UP]


def test_a_table_is_drawn() -> None:
    assert script().diagram(DOOR) == DRAWN


def test_what_stands_in_a_marked_place_is_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    made = script()
    monkeypatch.setattr(made, "table", lambda module, name: {("doors", "DOOR"): DOOR}[module, name])
    before, after = "Doors.\n\n<!-- stages: doors DOOR -->\n", "<!-- end of stages -->\n\nMore.\n"
    assert made.written(before + "old\n" + after) == before + DRAWN + after
    assert made.written(before + DRAWN + after) == before + DRAWN + after


def test_the_pages_say_what_the_tables_say() -> None:
    made = script()
    for path in made.pages():
        text = path.read_text()
        assert text == made.written(text), f"{path.name}: run python scripts/stages.py"


def test_each_table_is_on_a_page_and_reaches_all_its_stages() -> None:
    made = script()
    tables = set(made.tables())
    assert tables == made.places()
    for module, name in sorted(tables):
        assert made.table(module, name).unreached() == [], f"{module} {name}"
