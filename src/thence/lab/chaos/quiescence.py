"""After the storm: has everything reached every member, and is nothing left behind?

A group has come to rest when all its nodes say: all links are up (over a tree: those that are wanted), the
application has taken everything, nothing waits for its causes, every peer has acknowledged every message, and
everything is stable; and all logs hold the same messages. So all have delivered the same.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from thence.core.errors import ThenceError
from thence.local.cluster import Cluster
from thence.runtime.status import Status
from thence.sim.groups import GUEST

LOOK_EVERY_S: Final = 0.2
TELL_EVERY_S: Final = 5.0
CUT_OFF: Final = '"peer cut off"'


class RestlessError(ThenceError):
    """A group that did not come to rest: what each node lacks."""


def await_rest(cluster: Cluster, patience_s: float, tell: Callable[[str], None]) -> float:
    """Wait for it; how long it took."""
    return await_none(lambda: restless(cluster), patience_s, tell)


def await_none(
    look: Callable[[], Mapping[str, str]], patience_s: float, tell: Callable[[str], None]
) -> float:
    """Until no node has anything that keeps it from being at rest; how long it took. What it waits for is
    told now and then."""
    begun = time.monotonic()
    tell_at = begun + TELL_EVERY_S
    while accounts := look():
        now = time.monotonic()
        told = "; ".join([f"{name}: {what}" for name, what in accounts.items()])
        if now - begun > patience_s:
            raise RestlessError(f"not at rest after {patience_s:.0f} s: {told}")
        if now > tell_at:
            tell(f"waiting: {told}")
            tell_at = now + TELL_EVERY_S
        time.sleep(LOOK_EVERY_S)
    return time.monotonic() - begun


def restless(cluster: Cluster) -> dict[str, str]:
    """By node, what keeps it from being at rest."""
    accounts: dict[str, str] = {}
    clocks: dict[str, dict[str, int]] = {}
    for name in cluster.names:
        try:
            status = cluster.control(name).status()
        except ThenceError as error:
            accounts[name] = str(error)
            continue
        clocks[name] = status.clock
        if told := account(status):
            accounts[name] = told
    return accounts or lacking(clocks)


def lacking(clocks: Mapping[str, Mapping[str, int]]) -> dict[str, str]:
    """By node, how many messages of others it has not got."""
    newest: dict[str, int] = {}
    for clock in clocks.values():
        for origin, count in clock.items():
            newest[origin] = max(count, newest.get(origin, 0))
    lacks = {name: sum(newest[o] - clock.get(o, 0) for o in newest) for name, clock in clocks.items()}
    return {name: f"lacks {count:,} messages" for name, count in lacks.items() if count}


def account(status: Status) -> str:
    """What keeps a node from being at rest; nothing if it is."""
    told = []
    if status.state != "running":
        told.append(f"it is {status.state}")
    if status.load is not None and status.load.running:
        told.append("its load still runs")
    for member in status.members:
        if member.link not in ("me", "up", "idle"):
            told.append(f"link to {member.name} {member.link} for {member.since_s:.1f} s")
        if member.lag:
            told.append(f"{member.name} has not acknowledged {member.lag:,} of its messages")
    for count, what in (
        (status.inbox, "released and not taken"),
        (status.held, "held for their causes"),
        (status.unstable, f"not stable, for want of {', '.join(status.holding_stability_back) or 'none'}"),
    ):
        if count:
            told.append(f"{count:,} {what}")
    if status.log.trouble:
        told.append(f"log: {status.log.trouble}")
    return ", ".join(told)


def memory_bytes(pid: int | None) -> int:
    """What a process keeps in memory; 0 where that cannot be told."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def memories(cluster: Cluster) -> dict[int, int]:
    """By process, so that one that was started again is not compared with the one before."""
    return {node.pid: memory_bytes(node.pid) for node in cluster.nodes.values() if node.pid is not None}


def grown(before: Mapping[int, int], after: Mapping[int, int], most_bytes: int) -> str:
    """Which process has grown by too much."""
    told = [
        f"process {pid} grew from {before[pid] >> 20} to {size >> 20} MiB"
        for pid, size in after.items()
        if pid in before and size - before[pid] > most_bytes
    ]
    return ", ".join(told)


def left_over(folder: Path) -> list[int]:
    """Processes of the trial that still run from this folder; `tail -f` on a log of it is none."""
    needle, python, found = os.fsencode(folder), os.fsencode(sys.executable), []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if words[0] == python and any(word.startswith(needle) for word in words):
                    found.append(int(entry.name))
        except OSError:
            continue  # it ended while we looked
    return found


def _is_planned(line: str) -> bool:
    """It says that a disk was put back, as one was, that a guest lies, as it does, or that a gateway was
    taken for dead, as it ends for (where it should not have been, its end is told of)."""
    planned = "put back to an" in line or "it was taken for dead" in line
    return planned or (CUT_OFF in line and f"peer={GUEST}" in line)


def complaints(cluster: Cluster) -> list[str]:
    """What nodes wrote that none should write when all of them are correct and no disk fails: errors, peers
    that were cut off for what they sent, and tracebacks (of which the last line tells most)."""
    found = []
    for node in cluster.nodes.values():
        lines = node.log.read_text(errors="replace").splitlines() if node.log.exists() else []
        for number, line in enumerate(lines):
            if line.startswith("Traceback"):
                ends = [later for later in lines[number + 1 :] if later and not later.startswith(" ")]
                found.append(f"{node.name}: {ends[0] if ends else line}")
            elif (line.split()[1:2] == ["error"] or CUT_OFF in line) and not _is_planned(line):
                found.append(f"{node.name}: {line}")
    return found


def has_company(status: Status | None) -> bool:
    """Does a member know of others that it has not evicted?"""
    group = status.group if status is not None else None
    return group is not None and len(set(group.view) - set(group.suspects)) > 1


def is_spare(name: str, statuses: Mapping[str, Status]) -> bool:
    """Of these members, all others have what one has, and it has nothing to send again."""
    group = statuses[name].group
    if group is None or group.phase != "member" or group.orphans:
        return False
    others = [status.clock for member, status in statuses.items() if member != name]
    had = statuses[name].clock
    return bool(others) and all(clock.get(of, 0) >= had[of] for clock in others for of in had)
