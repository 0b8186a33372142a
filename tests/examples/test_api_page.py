"""docs/API.md says what the docstrings say, of everything that `thence` exports."""

import importlib.util
from pathlib import Path

import thence

ROOT = Path(__file__).parents[2]


def page() -> str:
    spec = importlib.util.spec_from_file_location("api", ROOT / "scripts" / "api.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: str = module.page()
    return made


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "API.md").read_text() == page(), "run python scripts/api.py"


def test_every_name_that_is_exported_is_in_it_and_can_be_had() -> None:
    text = page()
    for name in thence.__all__:
        assert getattr(thence, name) is not None
        assert f"`thence.{name}`" in text


def test_no_name_that_programs_do_not_see_is_in_it() -> None:
    text = page()
    for name in ("LifeTag", "OpenNode", "OpenStore", "Place", "OnCommit"):
        assert name not in text
