"""A web application with its sessions and its cache in a store: any node will do, and one of them may go.

    thence up --nodes 2                                     # in one terminal
    python examples/web.py 127.0.0.1:7379 127.0.0.1:7380    # in another
    curl -c jar -b jar 'localhost:8080/?add=apples'
    kill -9 $(jq .pid thence-data/a/control.json)           # the first node; and then
    curl -c jar -b jar 'localhost:8080/?add=pears'          # apples are still in the basket

A session is a hash, its basket a set, both with a deadline; what a page shows beside them is cached. Plain
WSGI and redis-py: a framework's own sessions and cache work the same way, given a pool as below.

Two things are left to the application. A command whose connection breaks may have been executed, so that the
other node may count a visit twice. And what the lost node had acknowledged in its last moment, and sent to
no other, comes back when that node does: until then the rest goes on without it (`forget`).
"""

import sys
import time
from collections.abc import Callable, Iterable
from http.cookies import SimpleCookie
from secrets import token_hex
from typing import Any, TypeVar
from urllib.parse import parse_qs
from wsgiref.simple_server import make_server
from wsgiref.types import StartResponse, WSGIEnvironment

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from thence.client import SessionConnection, forget

T = TypeVar("T")
SESSION = "web"
"""All connections of this process carry what any of them has seen."""
LASTS_S = 3600
CACHED_S = 60


class Nodes:
    """One node at a time; when it is gone, the next one."""

    def __init__(self, addresses: Iterable[str]) -> None:
        self._clients = [client(address) for address in addresses]
        self.asked = 0

    def ask(self, does: Callable[[Any], T]) -> T:
        for _ in range(2 * len(self._clients)):
            try:
                return does(self._clients[self.asked])
            except (redis.ConnectionError, redis.TimeoutError):
                self.asked = (self.asked + 1) % len(self._clients)
            except redis.ResponseError as error:
                if not str(error).startswith("THENCE"):
                    raise
                forget(SESSION)
        raise redis.ConnectionError("no node answers")


def client(address: str) -> Any:
    host, _, port = address.rpartition(":")
    pool: Any = redis.ConnectionPool(
        connection_class=SessionConnection, host=host, port=int(port), session=SESSION, attach_ms=2000,
        retry=Retry(NoBackoff(), 0), decode_responses=True,
    )  # fmt: skip
    return redis.Redis(connection_pool=pool)


class Application:
    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.made = 0
        """How often the slow part of a page was made."""

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        morsel = SimpleCookie(environ.get("HTTP_COOKIE", "")).get("session")
        session = morsel.value if morsel else token_hex(16)
        added = parse_qs(environ.get("QUERY_STRING", "")).get("add", [])
        try:
            page = self.nodes.ask(lambda store: self.page(store, session, added))
        except redis.ConnectionError as error:
            start_response("503 Service Unavailable", [("Content-Type", "text/plain")])
            return [f"{error}\n".encode()]
        start_response(
            "200 OK", [("Content-Type", "text/plain"), ("Set-Cookie", f"session={session}; HttpOnly")]
        )
        return [page.encode()]

    def page(self, store: Any, session: str, added: list[str]) -> str:
        """All of a visit is one transaction, and so one operation: at each node all of it or nothing."""
        person, basket = f"session:{session}", f"basket:{session}"
        with store.pipeline(transaction=True) as all_of_it:
            all_of_it.hincrby(person, "visits", 1)
            all_of_it.expire(person, LASTS_S)
            if added:
                all_of_it.sadd(basket, *added)
                all_of_it.expire(basket, LASTS_S)
            all_of_it.smembers(basket)
            told = all_of_it.execute()
        return f"{self.offers(store)}visit {told[0]}\nbasket: {', '.join(sorted(told[-1]))}\n"

    def offers(self, store: Any) -> str:
        """What takes long to make is made once a minute, whichever node is asked."""
        found: str | None = store.get("cache:offers")
        if found is None:
            self.made += 1
            found = f"offers of {time.strftime('%H:%M')}: apples, pears\n"
            store.set("cache:offers", found, ex=CACHED_S)
        return found


def main() -> None:
    addresses = sys.argv[1:] or ["127.0.0.1:7379", "127.0.0.1:7380"]
    with make_server("127.0.0.1", 8080, Application(Nodes(addresses))) as server:
        print(f"http://127.0.0.1:{server.server_port}/ over {', '.join(addresses)}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
