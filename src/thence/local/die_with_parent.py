"""A script: become another program, which dies when the process that started this one dies.

Invariant: the kernel ends the program with its parent, even if the parent is killed with -9 and even if the
program is stopped or hangs. A pipe that the program watches would do neither. The request
(`PR_SET_PDEATHSIG`) is kept by the exec that follows; it is made by a process of its own and not between fork
and exec of the parent, where nothing but system calls is safe once there are threads.

Elsewhere than on Linux there is no such request: a program then outlives a parent that is killed with -9.

Imports nothing of thence, so that it starts within milliseconds.
"""

import os
import sys

PR_SET_PDEATHSIG = 1
SIGKILL = 9


def hold(parent: int) -> None:
    """Let this process die with its parent."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
        if os.getppid() != parent:
            sys.exit(1)  # it died before we could ask


def become(parent: int, command: list[str]) -> None:
    hold(parent)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}")


if __name__ == "__main__":
    become(int(sys.argv[1]), sys.argv[2:])
