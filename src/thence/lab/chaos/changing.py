"""A round of a trial with a changing group: everything of `rounds`, and members that come and go.

In the end all that are members must have one view (themselves and no other), have delivered the same, with
nothing unstable, no member suspected and no operation left to be sent again; the tallies of their
applications must be equal, and hold whatever was acknowledged by one who is a member still, or has left in
order (`expected.py`). Operations of a process must take effect in their order, but for what it had forgotten
(`forgotten.py`). Programs without a state must have been told of everything, or of what they missed
(`heard.py`)."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from thence.core.errors import ThenceError
from thence.lab.chaos import guest
from thence.lab.chaos.changes import draw_changes, draw_changing_setup
from thence.lab.chaos.churn import Churn
from thence.lab.chaos.expected import Tally, compare, program, read_acknowledged, read_places, read_tally
from thence.lab.chaos.forgotten import out_of_turn
from thence.lab.chaos.heard import Hearing, read_heard, told_of
from thence.lab.chaos.quiescence import account, await_none, grown, lacking, memories
from thence.lab.chaos.rounds import GROWTH_BYTES, REST_S, Round, tell
from thence.local.layout import names
from thence.local.spawn import spawn
from thence.runtime.incarnations import read_written
from thence.runtime.status import Status
from thence.runtime.trace_files import TraceWriters, has_ended, next_boot, traced
from thence.trace.recorder import CRASH


class ChangingRound(Round):
    def __init__(
        self,
        seed: int,
        nodes: int,
        seconds: float,
        folder: Path,
        netem: bool = False,
        spread: str = "mesh",
    ) -> None:
        drawn = draw_changing_setup(seed, names(nodes), spread)
        flags, run = drawn.flags(), program(drawn.filler, drawn.readers)
        layout = self._make(seed, nodes, seconds, folder, netem, str(drawn), flags, run, changing=True)
        self._drawn: Final = drawn
        self._seed: Final = seed
        self._changes: Final = draw_changes(seed, layout.names, drawn.founders, seconds)

    def _storm(self) -> None:
        churn = self._churn = Churn(self._cluster, self._drawn, self._changes, tell)
        churn.start()
        before = memories(self._cluster)
        with self._guest():
            churn.run(self._seconds)
        churn.calm()
        begun = time.monotonic()
        self._known = await_one_view(churn.statuses, churn.tidy, REST_S, tell)
        after = memories(self._cluster)
        tell(f"done: {', '.join(f'{count} × {what}' for what, count in sorted(churn.done.items()))}")
        tell(
            f"{len(churn.members)} members have one view, all delivered and stable, "
            f"{time.monotonic() - begun:.1f} s after the last trouble; "
            f"up to {max(after.values(), default=0) >> 20} MiB per node"
        )
        if told := grown(before, after, GROWTH_BYTES):
            raise ThenceError(told)

    @contextmanager
    def _guest(self) -> Iterator[None]:
        """While there is trouble, a guest that never joins is linked to all members, and lies."""
        layout = self._cluster.layout
        members = {name: layout.address(name) for name in layout.names}
        visit = guest.command(self._seed, layout.cluster, layout.secret, members)
        stays = spawn(visit, layout.folder / "guest.log")
        try:
            yield
        finally:
            stays.kill()
            stays.wait()

    def _forgives(self, violation: Mapping[str, object]) -> bool:
        return self._churn.forgotten.excuses(violation)

    def _stop(self) -> None:
        super()._stop()
        self._compare()
        self._close_traces()

    def _compare(self) -> None:
        folders, churn = self._cluster.folders, self._churn
        tallies = {}
        for name in churn.members:
            tally = read_tally(folders[name])
            if tally is None:
                raise ThenceError(f"{name} has stopped and left no tally")
            tallies[name] = tally
        loyal = [*churn.members, *churn.left]
        sure = {name: churn.sure(read_acknowledged(folders[name])) for name in loyal}
        if wrong := compare(tallies, sure):
            raise ThenceError(f"operations: {wrong}")
        for name in churn.members:
            places = read_places(folders[name])
            churn.forgotten.learn(places)
            if turned := out_of_turn(places, churn.put_back):
                raise ThenceError(f"at {name} operations of {', '.join(turned)} took effect in another order")
        total = sum(count for count, _ in tallies[churn.members[0]].values())
        tell(f"{total:,} operations took effect, each once, the same ones at every member")
        self._hear(tallies)

    def _hear(self, tallies: Mapping[str, Tally]) -> None:
        """Judge what programs without a state were told; of those that are out, as far as they came."""
        folders, churn, hearings = self._cluster.folders, self._churn, []
        for name in self._drawn.readers:
            for data in [*churn.ended.get(name, ()), folders[name]]:
                hearing = Hearing(churn.put_back.keys(), churn.forgotten.may_follow)
                hearing.hear(read_heard(data))
                if name in tallies and data == folders[name]:
                    hearing.compare(name, read_places(data), tallies[name])
                if hearing.wrong:
                    raise ThenceError(f"{name}'s program: {'; '.join(hearing.wrong[:5])}")
                hearings.append(hearing)
        tell(told_of(hearings))

    def _close_traces(self) -> None:
        """What a process that is out cannot write any more: that it is down. A member that left a side that
        was given up later left no member that knows of it: what it held went with that side."""
        for name in self._cluster.names:
            written = read_written(self._cluster.folders[name])
            if written is None:
                continue  # it never came so far
            now = time.time_ns() // 1000
            diaries = TraceWriters(self._trace, next_boot(self._trace, name, written.boots))
            if name in self._churn.gone:
                diaries.end_others(name, "", now)
            for member in traced(self._trace, name):
                if has_ended(self._trace, member) and member not in self._known:
                    diaries(member).row(CRASH, None, None, now)
            for trace, rows in diaries.take():
                trace.write(rows)
            diaries.close()


def await_one_view(
    look: Callable[[], Mapping[str, Status]],
    tidy: Callable[[], None],
    patience_s: float,
    told: Callable[[str], None],
) -> set[str]:
    """Wait for it. Returns the incarnations that the members know of, gone ones among them."""
    known: set[str] = set()

    def accounts() -> dict[str, str]:
        tidy()
        statuses = look()
        known.clear()
        known.update(*[status.clock for status in statuses.values()])
        return restless(statuses)

    await_none(accounts, patience_s, told)
    return known


def restless(statuses: Mapping[str, Status]) -> dict[str, str]:
    """By process, what keeps it from being at rest."""
    accounts = {name: why for name, status in statuses.items() if (why := account_of_member(status))}
    if accounts:
        return accounts
    incarnations = sorted([status.group.incarnation for status in statuses.values() if status.group])
    for name, status in statuses.items():
        assert status.group
        if status.group.view != incarnations:
            accounts[name] = f"sees {', '.join(status.group.view)}; members are {', '.join(incarnations)}"
    inside = set(incarnations)
    clocks = {n: {m: c for m, c in s.clock.items() if m in inside} for n, s in statuses.items()}
    return accounts or lacking(clocks)


def account_of_member(status: Status) -> str:
    """What keeps a member of a changing group from being at rest; nothing if it is. Links to processes that
    are no members do not count."""
    inside = [member for member in status.members if member.role == "member"]
    told = [words] if (words := account(replace(status, members=inside))) else []
    group = status.group
    if group is None:
        return "it is in no changing group"
    if group.phase != "member":
        told.append(f"it is {group.phase}")
    for members, what in ((group.suspects, "suspects"), (group.departing, "waits for the leave of")):
        if members:
            told.append(f"{what} {', '.join(members)}")
    if group.orphans:
        told.append(f"{group.orphans:,} operations are to be sent again")
    if group.unread:
        told.append(f"its program has missed {group.unread:,} and not read them yet")
    return ", ".join(told)
