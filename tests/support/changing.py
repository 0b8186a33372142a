"""Nodes of a changing group in one process, over loopback, quick enough for tests."""

import asyncio
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

import thence
from support.live_links import free_addresses
from support.open_nodes import QUICK, Group
from thence.check.oracle import RunVerdict, judge
from thence.replica.events import Delivered
from thence.replica.events import Event as Happened
from thence.runtime import folder as folders
from thence.runtime.application import OpenNode
from thence.runtime.reader import Events
from thence.trace.schema import Event

SWIFT: dict[str, object] = {
    **QUICK,
    "group.receipt_every_us": 2_000,
    "group.receipt_busy_us": 20_000,
    "group.receipt_idle_us": 100_000,
    "group.join_timeout_us": 2_000_000,
    "drain_us": 500_000,
}


class Changing:
    """Addresses and folders of processes that may come and go."""

    def __init__(self, folder: Path, names: str, data: Mapping[str, Path] | None = None) -> None:
        self.trace: Path | None = None
        self.data = {name: folder / name for name in names} | dict(data or {})
        where = free_addresses(len(names))
        self.at = {name: str(address) for name, address in zip(names, where, strict=True)}

    def open(self, name: str, join: str = "", **options: Any) -> OpenNode:
        settings = {**SWIFT, **options.pop("settings", {})}
        return thence.open(
            name,
            listen=options.pop("listen", self.at[name]),
            join=[self.at[other] for other in join],
            data=options.pop("data", self.data[name]),
            settings=settings,
            trace=self.trace,
            **options,
        )


class EitherPair:
    """a and b, of a fixed group or of one that changes."""

    def __init__(self, folder: Path, changing: bool) -> None:
        self.changing = changing
        self._changing = Changing(folder, "ab") if changing else None
        self._fixed = Group(folder, ["a", "b"])

    def open(self, name: str, **options: Any) -> OpenNode:
        if self._changing is not None:
            return self._changing.open(name, join="a" if name == "b" else "", **options)
        return self._fixed.open(name, **options)


class Cut:
    """Machines that lose their power: their folders go back to what they were at some moment before."""

    def __init__(self, group: Changing, monkeypatch: pytest.MonkeyPatch) -> None:
        self._group = group
        self._monkeypatch = monkeypatch

    def remember(self, name: str) -> None:
        """What a power cut will leave of this node's disk. It runs, so it was not closed in order."""
        where = self._group.data[name]
        shutil.copytree(where, where.with_name(f"{name}.left"), ignore=shutil.ignore_patterns("lock"))

    def strike(self, *names: str) -> None:
        """Those nodes do not run any more."""
        self._monkeypatch.setattr(folders, "machine_id", lambda: b"switched on again")
        for name in names:
            where = self._group.data[name]
            shutil.rmtree(where)
            where.with_name(f"{name}.left").rename(where)


class Journal:
    """A program that is a state: everything that was ever applied, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def apply(self, event: Delivered) -> None:
        self.lines.append(event.payload.decode())

    def state(self) -> bytes:
        return "\n".join(self.lines).encode()

    def install(self, state: bytes) -> None:
        self.lines = state.decode().split("\n") if state else []


async def happens(events: Events, which: Callable[[Happened], object]) -> Happened:
    """The first event from here on of which that is true."""
    async for event in events:
        if which(event):
            return event
    raise AssertionError("the events ended")


async def agree(*nodes: OpenNode) -> None:
    """Until all see the same members, and nothing is on its way."""
    while len({node.members for node in nodes}) > 1 or any(node.status().unstable for node in nodes):
        await asyncio.sleep(0.002)


def events_of(trace: Path) -> list[Event]:
    """What nodes wrote into this folder."""
    found: list[Event] = []
    for file in sorted(trace.iterdir()):
        whole = file.read_bytes().split(b"\n")[:-1]
        found += [msgspec.json.decode(line, type=Event) for line in whole]
    return found


def judged(trace: Path) -> RunVerdict:
    [verdict] = judge(events_of(trace))
    return verdict


async def one_waits(group: Changing, trace: Path) -> tuple[str, int]:
    """a sends something that b answers; c has the answer first. Returns which message waited there."""
    group.trace = trace
    async with (
        group.open("a", application=Journal()) as a,
        group.open("b", join="a", application=Journal()) as b,
        group.open("c", join="ab", application=Journal()) as c,
    ):
        await agree(a, b, c)
        a._host.fault("cut", "c", 0)
        c._host.fault("cut", "a", 0)
        cause = await a.broadcast(b"cause")
        while not [row for row in events_of(trace) if row.kind == "deliver" and row.seq == cause.seq]:
            await asyncio.sleep(0.002)
        answer = await b.broadcast(b"answer")
        while not [row for row in events_of(trace) if row.kind == "hold"]:
            await asyncio.sleep(0.002)
        a._host.fault("mend", None, 0)
        c._host.fault("mend", None, 0)
        await agree(a, b, c)
    return "b", answer.seq
