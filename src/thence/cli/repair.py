"""`thence repair`: a data folder whose log is damaged, or too old, made fit to be started."""

import time
from pathlib import Path

from thence.local.console import out
from thence.oplog.settings import LogSettings
from thence.runtime.incarnations import is_shelf, repair_shelf
from thence.runtime.repair import repair


def run(folder: Path, forgetful: bool) -> int:
    changing = is_shelf(folder)
    now = time.time_ns() // 1000
    done = (
        repair_shelf(folder, LogSettings(), now, forgetful)
        if changing
        else repair(folder, LogSettings(), now, forgetful)
    )
    for damage in done.damages:
        out.print(f"damaged: {damage}", markup=False)
    if not done.damages and not forgetful:
        out.print("nothing is damaged")
        return 0
    if done.aside is not None:
        out.print(f"the log as it was found is in {done.aside}", markup=False)
    out.print(f"the log is whole up to position {done.tail}")
    if changing:
        out.print("start the node: it comes back as a new incarnation, and brings what the others lack")
        return 0
    out.print("start the node: it gets what it lacks from the other members, and sends again once all of")
    out.print("them have told it what they have of its messages")
    return 0
