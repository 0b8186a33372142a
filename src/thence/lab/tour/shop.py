"""The store of the tour: Redis clients write on both sides of a cut, through a kill and a join."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from thence.core.errors import ThenceError
from thence.lab.tour.claims import Claims
from thence.lab.tour.live import FLAGS, running
from thence.lab.tour.pace import Pace
from thence.local import stores as store
from thence.local.cluster import Cluster
from thence.local.layout import open_layout
from thence.local.ports import HOST
from thence.local.redis_client import RedisClient
from thence.runtime.address import Address

NODES: Final = 4
"""The last one joins."""
CLIENT: Final = "redis"
Ask = Callable[..., Any]
"""One command, and its reply."""


class Shop:
    def __init__(self, folder: Path, pace: Pace, claims: Claims) -> None:
        layout = open_layout(folder, NODES, changing=True)
        base = store.resp_base(layout, None)
        self._cluster: Final = Cluster(
            layout, flags=FLAGS, contacts=layout.names[:-1], own=store.flags(layout, base), resp=base,
            answers_s=pace.patience_s,
        )  # fmt: skip
        self._ports: Final = {name: base + at for at, name in enumerate(layout.names)}
        self._pace: Final = pace
        self._claims: Final = claims

    def run(self) -> None:
        *names, newcomer = self._cluster.names
        self._claims.step("Redis clients write on both sides of a cut, through a kill and a join", "store")
        with running(self._cluster):
            self._start(*names)
            self._cut(names)
            self._kill(names[1], names)
            self._start(newcomer)
            self._claims.claim(
                f"{newcomer} joins and answers the same as the others", self._agree([*names, newcomer])
            )
            self._cluster.stop()

    def _start(self, *names: str) -> None:
        self._cluster.start(*names)
        self._cluster.ready(*names, patience_s=self._pace.patience_s)
        if not self._pace.until(lambda: all(self._answers(name) for name in names)):
            raise ThenceError(f"no answer to Redis clients of {', '.join(names)}")

    def _cut(self, names: list[str]) -> None:
        one, other, lonely = (self._at(name) for name in names)
        one("SADD", "basket", "tea", "milk")
        one("SET", "offer", "none")
        seen = self._pace.until(lambda: lonely("SCARD", "basket") == 2 and lonely("GET", "offer") == b"none")
        self._claims.claim(f"what {names[0]} is told, {names[2]} answers", seen)
        self._fault("cut", names)
        one("SADD", "basket", "tea")  # again
        lonely("SREM", "basket", "tea", "milk")
        other("SET", "offer", "cakes")
        lonely("SET", "offer", "bread")
        one("INCRBY", "sold", 3)
        other("INCR", "sold")
        lonely("INCRBY", "sold", 5)
        apart = lonely("SCARD", "basket") == 0 and lonely("GET", "sold") == b"5"
        self._claims.claim(f"{names[2]} is cut off, and both sides take writes", apart)
        self._fault("mend", names)
        held = self._pace.until(lambda: lonely("GET", "sold") == b"9") and self._agree(names)
        basket, offer = sorted(one("SMEMBERS", "basket")), one("GET", "offer")
        self._claims.claim(
            "the cut heals, and all answer the same: the counter has every increment (3 + 1 + 5 = 9), tea "
            f"was added anew and stays, milk is gone, of two offers there is one ({offer.decode()})",
            held and basket == [b"tea"] and offer in (b"cakes", b"bread"),
        )

    def _kill(self, victim: str, names: list[str]) -> None:
        told = self._at(victim)("INCRBY", "sold", 10)
        self._cluster.kill(victim)
        other = self._at(next(name for name in names if name != victim))
        other("INCR", "sold")
        self._start(victim)
        held = self._pace.until(lambda: other("GET", "sold") == b"20") and self._agree(names)
        self._claims.claim(
            f"{victim} is killed (kill -9) after it was told to add 10: it has them when it is back, and the "
            "counter is exact (20)",
            told == 19 and held,
        )

    def _fault(self, what: str, names: list[str]) -> None:
        *others, lonely = names
        for name in others:
            self._cluster.control(name).fault(what, lonely)
            self._cluster.control(lonely).fault(what, name)

    def _agree(self, names: list[str]) -> bool:
        """All answer the same, in the end."""

        def alike() -> bool:
            asked = [self._at(name) for name in names]
            shown = [
                (sorted(ask("SMEMBERS", "basket")), ask("GET", "offer"), ask("GET", "sold")) for ask in asked
            ]
            return all(one == shown[0] for one in shown)

        return self._pace.until(alike)

    def _at(self, name: str) -> Ask:
        return asking(self._ports[name])

    def _answers(self, name: str) -> bool:
        try:
            self._at(name)("GET", "sold")
        except Exception:  # refused, or still loading
            return False
        return True


def asking(port: int, redis_py: bool | None = None) -> Ask:
    """Through redis-py if it is there."""
    if find_spec(CLIENT) is not None if redis_py is None else redis_py:
        ask: Ask = import_module(CLIENT).Redis(host=HOST, port=port, socket_timeout=10).execute_command
        return ask
    return lambda *words: _exchange(port, words)


def _exchange(port: int, words: tuple[object, ...]) -> Any:
    """A connection for one command."""
    with RedisClient(Address(HOST, port)) as client:
        return client(*words)
