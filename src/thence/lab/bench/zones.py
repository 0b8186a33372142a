"""`bench zones`: live processes of zones behind gateways, beside a mesh of as many applications.

The zones are those of `examples/zones.toml`: five applications, and four gateways in two separators. Figures:

* `zones.hop`: CPU time of all processes, gateways among them, per hop that one of them takes in, while each
  application sends to all at `RATE`. Baseline: the mesh's, per message that a node takes in.
* `zones.delivery`: the same CPU time per delivery at an application; own messages count as delivered at their
  sender. Baseline: the mesh's. A mesh also makes tags and finds out what is stable; zones do neither.
* `zones.hops`: hops taken in per delivery of a message of another process. Baseline: the mesh's, 1.
* `zones.some.delivery`: CPU time per delivery where each message is for up to three applications by chance.
  Baseline: that for messages to all, in the same turns.
* `zones.burst.delivery`: as `zones.delivery`, as fast as it goes. Baseline: the mesh's likewise.
* `zones.takeover`: from the kill of the gateway that forwards, under a steady load, until its witness does.
  Baseline: the time after which a gateway without links is suspected (`zones.suspect_us` of profile local).
* `zones.pause`: meanwhile, the longest time in which an application beyond that gateway delivered nothing.
  Baseline: the same.
"""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from thence.core.errors import ThenceError
from thence.lab.bench.cluster_nodes import (
    FLAGS,
    LOOK_EVERY_S,
    PATIENCE_S,
    PAYLOAD_BYTES,
    look,
    running,
)
from thence.lab.bench.record import Record
from thence.local.layout import open_layout
from thence.local.zones_file import ZonesLayout, open_zones_layout
from thence.runtime.load import Load
from thence.runtime.profiles import PROFILES
from thence.runtime.remote import Control
from thence.runtime.status import Status, ZonesStatus

ZONES: Final = """\
[zones]
office = ["ada", "bob"]
backbone = []
plant = ["cem", "dee", "eva"]
[routers]
r1 = ["office", "backbone"]
r2 = ["office", "backbone"]
s1 = ["backbone", "plant"]
s2 = ["backbone", "plant"]
"""
"""As in `examples/zones.toml`, which a test compares: an installed package has no examples."""

FEW_ZONES: Final = '[zones]\noffice = ["a"]\nplant = ["b"]\n[routers]\n' + "".join(
    [f'{name} = ["office", "plant"]\n' for name in ("r1", "r2")]
)
"""For a look."""

ALL: Final = ""
SOME: Final = "~3"
PATIENT: Final = (*FLAGS, "--set", "zones.suspect_us=0")
"""Where none is meant to die: a busy machine looks like a dead gateway."""
RATE: Final = 200.0
"""Messages a second from each application, and while a gateway dies: each is a step of its own."""
AFTER_S: Final = 0.5
"""How long a far application is looked at once a witness forwards."""
POLL_S: Final = 0.2
"""An answer costs a process as much CPU time as some messages do."""


class Moved(NamedTuple):
    """What processes did from rest to rest, all together."""

    cpu_s: float
    sent: float
    delivered: float
    hops: float

    @property
    def copy_us(self) -> float:
        """CPU time per message, or hop, that a process takes in."""
        return 1e6 * self.cpu_s / (self.hops or self.delivered)

    @property
    def delivery_us(self) -> float:
        return 1e6 * self.cpu_s / (self.sent + self.delivered)


class Loaded:
    """A cluster, of which some processes send."""

    def __init__(self, controls: list[Control], senders: list[Control]) -> None:
        self.controls: Final = controls
        self.named: Final = {control.name: control for control in controls}
        self._senders: Final = senders

    def under_load(self, group: str, rate: float, count: int) -> Moved:
        """Each sends so many; measured from rest to rest, since nothing holds a sender back."""
        until(self._is_at_rest, "nothing is at rest", POLL_S)
        before = self._look()
        load = Load(rate=rate, count=count, bytes=PAYLOAD_BYTES, group=group)
        for control in self._senders:
            control.load(load)
        due = before.sent + count * len(self._senders)
        until(lambda: self._look().sent >= due and self._is_at_rest(), "not all is delivered", POLL_S)
        return Moved(*(now - then for then, now in zip(before, self._look(), strict=True)))

    def _look(self) -> Moved:
        told = [look(control) for control in self.controls]
        hops = sum(zones.hops for control in self.controls if (zones := control.status().zones))
        return Moved(
            sum(one.cpu_s for one in told),
            sum(one.sent for one in told),
            sum(one.delivered for one in told),
            hops,
        )

    def _is_at_rest(self) -> bool:
        return all(_is_at_rest(control.status()) for control in self.controls)


def _is_at_rest(told: Status) -> bool:
    zones = told.zones
    if zones is not None and (zones.forwards or zones.silent):
        return False
    return not told.held and not told.unstable and not any(member.lag for member in told.members)


def bench(quick: bool) -> Iterator[Record | str]:
    count, burst, turns = (100, 300, 1) if quick else (1000, 3000, 3)
    with tempfile.TemporaryDirectory(prefix="thence-bench-") as name:
        folder = Path(name)
        layout = laid_out(folder / "zones", FEW_ZONES if quick else ZONES)
        applications = [each for each in layout.names if layout.sends(each)]
        with (
            running(open_layout(folder / "mesh", len(applications), changing=False)) as on_mesh,
            running(layout, flags=PATIENT) as in_zones,
        ):
            mesh = Loaded(on_mesh, on_mesh)
            zones = Loaded(in_zones, [control for control in in_zones if control.name in applications])
            beside, to_all, to_some, bursts, beside_bursts = [], [], [], [], []
            for turn in range(1, turns + 1):
                yield f"a mesh of {len(applications)} and as many in zones, turn {turn} of {turns}"
                beside.append(mesh.under_load(ALL, RATE, count))
                to_all.append(zones.under_load(ALL, RATE, count))
                to_some.append(zones.under_load(SOME, RATE, count))
                beside_bursts.append(mesh.under_load(ALL, 0.0, burst))
                bursts.append(zones.under_load(ALL, 0.0, burst))
        copies, each = _copy_us(to_all), _delivery_us(to_all)
        yield Record("zones.hop", copies, "us", _copy_us(beside))
        yield Record("zones.delivery", each, "us", _delivery_us(beside))
        yield Record("zones.hops", median(one.hops / one.delivered for one in to_all), "hops", 1.0)
        yield Record("zones.some.delivery", _delivery_us(to_some), "us", each)
        yield Record("zones.burst.delivery", _delivery_us(bursts), "us", _delivery_us(beside_bursts))
        suspect_ms = int(str(PROFILES["local"]["zones.suspect_us"])) / 1000
        yield "the gateway that forwards is killed"
        took = [_takeover(folder / f"takeover-{turn}") for turn in range(turns)]
        yield Record("zones.takeover", median([one for one, _ in took]), "ms", suspect_ms)
        yield Record("zones.pause", median([pause for _, pause in took]), "ms", suspect_ms)


def _copy_us(moved: list[Moved]) -> float:
    return median(one.copy_us for one in moved)


def _delivery_us(moved: list[Moved]) -> float:
    return median(one.delivery_us for one in moved)


def laid_out(folder: Path, text: str) -> ZonesLayout:
    file = folder.with_suffix(".toml")
    file.write_text(text)
    return open_zones_layout(folder, file)


def zones_of(control: Control) -> ZonesStatus:
    told = control.status().zones
    if told is None:
        raise ThenceError(f"{control.name} says nothing of its zones")
    return told


def until(reached: Callable[[], bool], told: str, every_s: float = LOOK_EVERY_S) -> None:
    end = time.monotonic() + PATIENCE_S
    while not reached():
        if time.monotonic() > end:
            raise ThenceError(f"{told} after {PATIENCE_S:g} s")
        time.sleep(every_s)


def _takeover(folder: Path) -> tuple[float, float]:
    """Milliseconds until the witness forwards, and of the longest pause at an application beyond it."""
    with running(laid_out(folder, FEW_ZONES)) as controls:
        named = {control.name: control for control in controls}
        near, far, witness = named["a"], named["b"], named["r2"]
        near.load(Load(rate=RATE, seconds=PATIENCE_S, bytes=PAYLOAD_BYTES))
        until(lambda: far.status().delivered > 0, "nothing has crossed")
        os.kill(named["r1"].file.pid, signal.SIGKILL)
        killed = last = time.monotonic()
        took = pause = 0.0
        count = far.status().delivered
        while not took or time.monotonic() < killed + took + AFTER_S:
            now = time.monotonic()
            if now > killed + PATIENCE_S:
                raise ThenceError(f"no gateway has taken over after {PATIENCE_S:g} s")
            if not took and zones_of(witness).active:
                took = now - killed
            if (delivered := far.status().delivered) > count:
                pause, last, count = max(pause, now - last), now, delivered
            time.sleep(LOOK_EVERY_S / 4)
        near.load(Load(count=0))
    return 1000 * took, 1000 * max(pause, time.monotonic() - last)
