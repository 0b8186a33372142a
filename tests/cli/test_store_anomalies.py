"""Clients that read and write at several nodes, through cuts, kills, and an eviction with a return:
none reads an effect without its causes."""

from functools import partial
from pathlib import Path
from random import Random

from support.processes import eventually

from thence.lab.tour.live import FLAGS, running
from thence.lab.tour.shop import Ask, asking
from thence.local import stores as store
from thence.local.cluster import Cluster
from thence.local.layout import open_layout

ROUNDS = 240


class Hunt:
    """Writer k counts up `data:k`, and then tells in `seen:k`, at a node of its own, which numbers of others
    it has read. A client that reads `seen:k` must find all of these, or later ones."""

    def __init__(self, folder: Path, nodes: int) -> None:
        layout = open_layout(folder, nodes, changing=True)
        base = store.resp_base(layout, None)
        self.cluster = Cluster(layout, flags=FLAGS, own=store.flags(layout, base))
        self.names = list(layout.names)
        self.asks: dict[str, Ask] = {name: asking(base + at, False) for at, name in enumerate(self.names)}
        self.counts = dict.fromkeys(self.names, 0)
        self.told = 0

    def start(self, *names: str) -> None:
        self.cluster.start(*names)
        self.cluster.ready(*names)
        for name in names:
            eventually(partial(self._answers, name))

    def _answers(self, name: str) -> bool:
        try:
            self.asks[name]("GET", "data")
        except Exception:  # refused, or still loading
            return False
        return True

    def is_back(self, name: str, other: str) -> bool:
        """A new incarnation, with what another node has."""
        try:
            found = [one[3] for one in self.asks[name]("THENCE.MEMBERS")]
            there = self.numbers(name) == self.numbers(other)
        except Exception:  # refused, or still loading
            return False
        return b"%b~2" % name.encode() in found and there

    def numbers(self, at: str) -> list[int]:
        return [int(found or 0) for found in self.asks[at]("MGET", *[f"data:{name}" for name in self.names])]

    def write(self, at: str) -> None:
        self.counts[at] += 1
        self.asks[at]("SET", f"data:{at}", self.counts[at])
        self.asks[at]("SET", f"seen:{at}", " ".join(map(str, self.numbers(at))))

    def read(self, at: str) -> None:
        for name in self.names:
            seen = (self.asks[at]("GET", f"seen:{name}") or b"").split()
            found = self.numbers(at)
            self.told += len(seen)
            anomalies = [
                (int(cause), number)
                for cause, number in zip(seen, found, strict=False)
                if int(cause) > number
            ]
            assert not anomalies, (at, name, seen, found)

    def step(self, at: str, random: Random) -> None:
        (self.write if random.random() < 0.6 else self.read)(at)

    def ends(self) -> None:
        """All have come to have everything, and nothing before its cause."""
        last = list(self.counts.values())
        eventually(lambda: all(self.numbers(name) == last for name in self.names))
        for name in self.names:
            self.read(name)
        assert self.told > 0
        self.cluster.stop()

    def fault(self, what: str, one: str, other: str) -> None:
        self.cluster.control(one).fault(what, other)
        self.cluster.control(other).fault(what, one)


def test_no_client_reads_an_effect_without_its_causes(tmp_path: Path) -> None:
    hunt, random = Hunt(tmp_path / "cluster", 3), Random(7)
    a, b, c = hunt.names
    with running(hunt.cluster):
        hunt.start(*hunt.names)
        up = list(hunt.names)
        for number in range(ROUNDS):
            if number == 40:
                hunt.fault("cut", a, c)
            elif number == 80:
                hunt.fault("cut", b, c)
            elif number == 120:
                hunt.fault("mend", a, c)
            elif number == 160:
                hunt.fault("mend", b, c)
                hunt.cluster.kill(b)
                up.remove(b)
            elif number == 200:
                hunt.start(b)
                up.append(b)
            hunt.step(random.choice(up), random)
        hunt.ends()


def test_nor_where_one_of_five_is_evicted_and_returns(tmp_path: Path) -> None:
    hunt, random = Hunt(tmp_path / "cluster", 5), Random(8)
    a, b, c, d, e = hunt.names
    with running(hunt.cluster):
        up = list(hunt.names)
        hunt.start(*up)
        for number in range(ROUNDS):
            if number == 30:
                hunt.fault("cut", a, c)
            elif number == 60:
                hunt.fault("cut", c, e)
            elif number == 90:
                hunt.fault("mend", a, c)
                hunt.fault("mend", c, e)
                hunt.cluster.kill(b)
                up.remove(b)
            elif number == 120:
                hunt.start(b)
                up.append(b)
            elif number == 140:
                for other in (a, b, c, e):
                    hunt.fault("cut", d, other)
            elif number == 170:  # what it writes from here on the others never get
                hunt.cluster.control(a).evict(d, force=True)
            elif number == 200:
                up.remove(d)
                for other in (a, b, c, e):
                    hunt.fault("mend", d, other)
                eventually(partial(hunt.is_back, d, a))
                up.append(d)
            hunt.step(random.choice(up), random)
        for name in hunt.names:
            hunt.write(name)
        hunt.ends()
