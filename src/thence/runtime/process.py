"""Which process a number means: numbers are used again, so one that is written down needs a witness.

A process is known by its number and the moment of its start. A caller that signals the process of a file
that may be old compares both first.
"""

import os
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple


class Seen(NamedTuple):
    start: str
    """Tells this process from any other that had or will have its number on this machine."""
    stopped: bool
    """By a signal, until another one lets it go on."""


def look(pid: int) -> Seen | None:
    """The process of this number, or None if there is none (any more)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _ask_ps(pid)
    except OSError:  # it ended while we looked
        return None
    # The second field is the program's name in brackets, and may hold anything, brackets among it.
    fields = stat.rpartition(")")[2].split()
    if fields[0] in "ZX":
        return None
    return Seen(fields[19], fields[0] in "Tt")


def tell(pid: int, start: str, what: signal.Signals) -> bool:
    """Send a signal to the process that had this number at its start; False if that one is gone."""
    if not hasattr(os, "pidfd_open"):  # macOS: the process can end between the look and the signal
        known = _is(pid, start)
        if known:
            os.kill(pid, what)
        return known
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        # Looked at while the descriptor is held: it does not mean the process that gets the number next.
        if not _is(pid, start):
            return False
        signal.pidfd_send_signal(descriptor, what)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def _is(pid: int, start: str) -> bool:
    seen = look(pid)
    return seen is not None and seen.start == start


def _ask_ps(pid: int) -> Seen | None:
    shown = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, start = shown.stdout.strip().partition(" ")
    if shown.returncode != 0 or not state or state.startswith("Z"):
        return None
    return Seen(" ".join(start.split()), state.startswith("T"))
