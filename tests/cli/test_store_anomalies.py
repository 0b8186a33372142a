"""Clients that read and write at three nodes, through a cut and a kill: none reads an effect without its
causes."""

from functools import partial
from pathlib import Path
from random import Random

from support.processes import eventually

from thence.cli import store
from thence.cli.cluster import Cluster
from thence.cli.layout import open_layout
from thence.cli.tour.live import FLAGS, running
from thence.cli.tour.shop import Ask, asking

ROUNDS = 240
NODES = 3


class Hunt:
    """Writer k counts up `data:k`, and then tells in `seen:k`, at a node of its own, which numbers of others
    it has read. A client that reads `seen:k` must find all of these, or later ones."""

    def __init__(self, folder: Path) -> None:
        layout = open_layout(folder, NODES, changing=True)
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

    def fault(self, what: str, one: str, other: str) -> None:
        self.cluster.control(one).fault(what, other)
        self.cluster.control(other).fault(what, one)


def test_no_client_reads_an_effect_without_its_causes(tmp_path: Path) -> None:
    hunt, random = Hunt(tmp_path / "cluster"), Random(7)
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
            at = random.choice(up)
            (hunt.write if random.random() < 0.6 else hunt.read)(at)
        last = list(hunt.counts.values())
        eventually(lambda: all(hunt.numbers(name) == last for name in hunt.names))
        for name in hunt.names:
            hunt.read(name)
        assert hunt.told > 0
        hunt.cluster.stop()
