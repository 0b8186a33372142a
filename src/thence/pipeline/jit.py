"""numba's compiler with a type that mypy understands, and one setting for all kernels.

Kernels are compiled once and cached on disk: every worker process loads them, and a small trace must not
wait for a compiler. What is cached holds code of other kernels, constants, and types by the names of their
classes, all of which may stand in other files than the kernel. numba looks at the kernel's file alone, and
only after it has looked up those classes. So a cache is marked with all of these sources: one of others is
passed over unread, and written anew.
"""

from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from inspect import getsourcefile
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

SHARED: Final = Path(__file__).parent
"""Where classes, constants and helpers of kernels stand."""


def kernel(function: Function) -> Function:
    return _marked(numba.njit(cache=True, nogil=True, boundscheck=False)(function), function)


def inlined(function: Function) -> Function:
    """For helpers of kernels: small enough that a call would cost more than their body."""
    return _marked(numba.njit(cache=True, nogil=True, forceinline=True)(function), function)


def _marked(compiled: Any, function: Function) -> Function:
    """numba reads a cache's version before anything else of it."""
    file = compiled._cache._cache_file
    file._version = f"{file._version}/{_sources(getsourcefile(function) or '')}"
    return cast(Function, compiled)


@cache
def _sources(own: str) -> str:
    """What names the text of the shared files and of a kernel's own."""
    digest = blake2b(digest_size=16)
    for path in sorted({*SHARED.rglob("*.py"), Path(own)}):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()
