"""The web application of the examples: one of its two nodes is killed, and comes back."""

import importlib.util
from functools import partial
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
from support.processes import eventually

from thence.client import TOKENS
from thence.core.errors import UsageError
from thence.lab.tour.live import FLAGS, running
from thence.local import stores as store
from thence.local.cluster import Cluster
from thence.local.layout import open_layout
from thence.local.ports import HOST
from thence.local.redis_client import RedisClient
from thence.runtime.address import Address
from thence.store.reply import Fail

WEB = Path(__file__).parents[2] / "examples" / "web.py"


class Browser:
    def __init__(self, application: Any) -> None:
        self._application = application
        self._cookie = ""

    def get(self, query: str = "") -> list[str]:
        environ: dict[str, Any] = {"QUERY_STRING": query, "HTTP_COOKIE": self._cookie}
        setup_testing_defaults(environ)
        status = []

        def start(told: str, headers: list[tuple[str, str]]) -> None:
            status.append(told)
            self._cookie = dict(headers).get("Set-Cookie", self._cookie).partition(";")[0]

        body: bytes = b"".join(self._application(environ, start))
        return [*status, *body.decode().splitlines()]


def answers(address: Address) -> bool:
    try:
        with RedisClient(address) as ask:
            return bool(ask("DBSIZE") >= 0)
    except (Fail, UsageError):
        return False


def has_all_of(address: Address, other: Address) -> bool:
    try:
        with RedisClient(other) as ask, RedisClient(address) as here:
            return bool(here("THENCE.ATTACH", ask("THENCE.SESSION")) == "OK")
    except (Fail, UsageError):
        return False


def test_sessions_and_cache_outlive_a_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("redis")
    monkeypatch.setattr(TOKENS, "newest", {})
    spec = importlib.util.spec_from_file_location("web", WEB)
    assert spec
    assert spec.loader
    web = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(web)
    layout = open_layout(tmp_path / "cluster", 2, changing=True)
    base = store.resp_base(layout, None)
    a, b = [Address(HOST, base + at) for at in range(2)]
    cluster = Cluster(layout, flags=FLAGS, own=store.flags(layout, base))
    with running(cluster):
        cluster.start()
        cluster.ready()
        for each in (a, b):
            eventually(partial(answers, each))
        application = web.Application(web.Nodes([str(a), str(b)]))
        browser, other = Browser(application), Browser(application)
        status, offers, *rest = browser.get("add=apples")
        assert (status, rest) == ("200 OK", ["visit 1", "basket: apples"])
        assert other.get()[2:] == ["visit 1", "basket: "]
        with RedisClient(a) as ask:
            assert ask("EXISTS", "cache:offers") == 1
        eventually(partial(has_all_of, b, a))
        cluster.kill("a")
        assert browser.get("add=pears") == ["200 OK", offers, "visit 2", "basket: apples, pears"]
        assert other.get()[2:] == ["visit 2", "basket: "]
        assert application.made == 1
        assert application.nodes.asked == 1
        cluster.start("a")
        eventually(partial(has_all_of, a, b))
        cluster.kill("b")
        assert browser.get() == ["200 OK", offers, "visit 3", "basket: apples, pears"]
        assert application.nodes.asked == 0
        cluster.kill("a")
        assert browser.get()[0] == "503 Service Unavailable"
