"""Arrays of numbers from 0 on, in the narrowest type that holds them; and as kernels want them."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from thence.pipeline.rows import I64

Ints = npt.NDArray[Any]

WIDTHS: Final = (("u1", 8), ("u2", 16), ("u4", 32), ("i8", 63), ("u8", 64))


def narrow(values: Ints) -> tuple[str, memoryview]:
    """An array of numbers from 0 on in the narrowest type that holds them."""
    top = int(values.max()) if len(values) else 0
    kind = next(code for code, bits in WIDTHS if top < 1 << bits)
    return kind, memoryview(np.ascontiguousarray(values, kind).view("u1").data)


def view(packed: tuple[str, memoryview]) -> Ints:
    return np.frombuffer(packed[1], packed[0])


def frozen(values: Ints) -> Ints:
    """For kernels that only read it: columns that Arrow gave cannot be written, and a kernel is compiled once
    more for what can."""
    values = values.view()
    values.flags.writeable = False
    return values


def widen(values: Ints) -> I64:
    """As int64 and a copy: views into a binary are neither aligned nor writable, and each such difference
    would have every kernel compiled once more."""
    return np.array(values, np.int64)
