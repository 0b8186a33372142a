"""numba's compiler with a type that mypy understands, and one setting for all kernels.

Kernels are compiled once and cached on disk: every worker process loads them, and a small trace must not
wait for a compiler.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    return cast(Function, numba.njit(cache=True, nogil=True, boundscheck=False)(function))


def inlined(function: Function) -> Function:
    """For helpers of kernels: small enough that a call would cost more than their body."""
    return cast(Function, numba.njit(cache=True, nogil=True, forceinline=True)(function))
