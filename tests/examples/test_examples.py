"""Integration: what the guide shows is what happens."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

EXPECTED = {
    "counter.py": """\
garden begins with entrance=3
entrance has entrance=3 garden=1
garden, open again, has entrance=5 garden=1
members: entrance, garden, roof
roof leaves in order: True
members: entrance, garden
entrance and garden have the same: True entrance=5 garden=2 roof=1
""",
    "stock_trading.py": """\
option price 25.5
    theoretical price 25.75
option price 26.0
option price 26.5
    theoretical price 26.25 is obsolete: it is concurrent with the option price shown
""",
    "add_wins_set.py": """\
P: add a
Q: remove a
    P has nothing
    Q has nothing
    R has nothing
P: add a
R: remove a
    P has ['a']
    Q has ['a']
    R has ['a']
stable everywhere: [4, 4, 4] of 4 operations
""",
    "ledger.py": """\
bob saw: alice pays 30, carol tips 5
  both before his answer: True
  concurrent with each other: True
carol wrote down: ['alice pays 30']
carol saw, and died before she wrote it down: bob returns 10
carol, back again: ['alice pays 30', 'bob returns 10', 'alice pays 7', 'bob pays 8']
alice reads: ['bob returns 10', 'bob pays 8']
all members have message 2 of alice
""",
}


@pytest.mark.parametrize("name", EXPECTED)
def test_example(name: str) -> None:
    result = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, check=True)
    assert result.stderr == ""
    assert result.stdout == EXPECTED[name]


def test_every_example_is_tested() -> None:
    served = {path.stem.removeprefix("test_") + ".py" for path in Path(__file__).parent.glob("test_*.py")}
    assert {path.name for path in EXAMPLES.glob("*.py")} <= EXPECTED.keys() | served
