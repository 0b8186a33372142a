"""A program that stands in for a node: takes the flags of `thence node`, and lives as its folder says.

`behave` in the data folder: absent, to run until SIGTERM; `deaf`, to pass over SIGTERM; `early`, to be ended
by it as one that has not begun; `exit N`, to say why and exit at once. With the flag `--answering` it has the
routes of a node as well. It writes its pid to `pid` once it is up, and adds a line to `starts` at each start.
"""

import os
import signal
import sys
from pathlib import Path


def main() -> int:
    folder = Path(sys.argv[sys.argv.index("--data") + 1])
    told = folder / "behave"
    behave = told.read_text() if told.exists() else ""
    with (folder / "starts").open("a") as starts:
        starts.write(" ".join(sys.argv[1:]) + "\n")
    if behave.startswith("exit"):
        print("line one\nthe reason why", flush=True)
        return int(behave.split()[1])
    if "--answering" in sys.argv and not behave:
        sys.path.insert(0, str(Path(__file__).parents[1]))
        from support import controlled

        members = sys.argv[sys.argv.index("--members") + 1].split(",")
        controlled.main(str(folder), folder.name, *(member.split("=")[0] for member in members))
        return 0
    signals = {signal.SIGTERM}
    if behave != "early":
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    new = folder / "pid.new"
    new.write_text(str(os.getpid()))
    new.rename(folder / "pid")
    print("up", flush=True)
    if behave == "early":
        signal.pause()
    while True:
        signal.sigwait(signals)
        if behave != "deaf":
            return 0


if __name__ == "__main__":
    sys.exit(main())
