"""What the C library does with memory that is not needed any more."""

import sys
from collections.abc import Callable
from typing import Any, Final

LARGE_BYTES: Final = 1 << 20
"""Blocks from this size on are taken from the system and given back one by one."""
TOP_BYTES: Final = 8 << 20
"""So much stays free at the end of the heap: it does not shrink and grow with each read of a socket."""
SURPLUS_BYTES: Final = 16 << 20
"""Growth since the last time, after which it is worth some milliseconds to look for what is free."""
QUIET_LOOKS: Final = 10
"""In a row, in which nothing was in flight."""

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3


def give_back_large_blocks() -> None:
    """With glibc, for the rest of the process. By itself it takes blocks of up to 32 MB from its heap once
    one of that size went back, as where a dictionary grows. In the heap they stay between others."""
    if (tune := _of_library("mallopt")) is not None:
        tune(_TRIM_THRESHOLD, TOP_BYTES)
        tune(_MMAP_THRESHOLD, LARGE_BYTES)


def give_back_what_is_free() -> None:
    """With glibc, now."""
    if (trim := _of_library("malloc_trim")) is not None:
        trim(0)


def _of_library(name: str) -> Any:
    if sys.platform != "linux":
        return None
    import ctypes

    return getattr(ctypes.CDLL(None), name, None)  # other libraries have none


class Surplus:
    """What a burst has needed goes back when nothing is in flight any more."""

    __slots__ = ("_least", "_quiet", "_resident", "give_back")

    def __init__(self, resident: Callable[[], int]) -> None:
        """`resident`: bytes of the process."""
        self.give_back: Callable[[], None] = lambda: None
        self._resident: Final = resident
        self._least = 0
        """After the last time."""
        self._quiet = 0

    def look(self, resident: int, in_flight: bool) -> None:
        """From time to time."""
        self._quiet = 0 if in_flight else self._quiet + 1
        if self._quiet == QUIET_LOOKS and resident > self._least + SURPLUS_BYTES:
            self.give_back()
            self._least = self._resident()
