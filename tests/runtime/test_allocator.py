"""Memory that goes back to the system."""

import platform
import subprocess
import sys

import pytest

from thence.runtime.allocator import QUIET_LOOKS, SURPLUS_BYTES, Surplus

GLIBC = platform.libc_ver()[0] == "glibc"

PROGRAM = """
import sys
from thence.runtime.allocator import give_back_large_blocks, give_back_what_is_free
from thence.runtime.instruments import resident_bytes

if "large" in sys.argv:
    give_back_large_blocks()
first = bytearray(24 << 20)
del first  # from here on glibc by itself takes blocks of this size from its heap
size = (1 << 20) + 64 if "large" in sys.argv or "heap" in sys.argv else 100_000
blocks, stay = [], []
for _ in range((64 << 20) // size):
    blocks.append(b"x" * size)
    stay.append(b"y" * 9000)
before = resident_bytes()
blocks.clear()
if "trim" in sys.argv:
    give_back_what_is_free()
print(before - resident_bytes())
"""


def gives_back(*words: str) -> int:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(not GLIBC, reason="other libraries have no such settings")
def test_blocks_go_back_that_stay_in_the_heap_otherwise() -> None:
    assert gives_back("heap") < 32 << 20 < gives_back("large")
    assert gives_back("small") < 32 << 20 < gives_back("small", "trim")


def test_what_is_free_goes_back_once_a_burst_is_over() -> None:
    resident = 100 << 20
    given: list[int] = []

    def give_back() -> None:
        given.append(at)

    surplus = Surplus(lambda: resident - (30 << 20))
    surplus.give_back = give_back
    for at in range(100):
        surplus.look(resident, in_flight=at < 20 or at == 25)
    assert given == [25 + QUIET_LOOKS]
    for grown, expected in (0, 0), (1, 1):
        given.clear()
        for looks in range(100):
            surplus.look((70 << 20) + SURPLUS_BYTES + grown, in_flight=looks == 0)
        assert len(given) == expected
