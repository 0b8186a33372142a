"""A node's own HTTP routes: looking at it, and telling it what to do.

All processes that reach the port learn whether the node is well, and its metrics. Everything else needs a
token, which follows from the secret and stands in `control.json` in the data folder: without a secret there
is none. The port is on the loopback unless the settings say otherwise. Faults are for trials: a node takes
them only if it was started so.

A page in a browser can send requests anywhere, and, with a name server of its own, under any name. So
requests are answered only under a name that is the node's (`Host`), and not if a page of another host sends
them (`Origin`).

| route | answers |
| --- | --- |
| `GET /health` | 200 `ok`, or 503 and the reason |
| `GET /metrics` | the text format of Prometheus |
| `GET /status` | `status.Status` as JSON |
| `POST /broadcast` | the body is the payload: `{"origin", "seq"}`; on an edge tree with `?group=NAME` |
| `POST /load` | `load.Load` as JSON: 202, and it runs; the status tells how far it is |
| `POST /fault` | `Fault` as JSON: 200; 403 unless faults are allowed |
| `POST /leave` | `Leave` as JSON: 202, and the node leaves its group, then stops; 400 if it is closed |
| `POST /evict` | `Evict` as JSON: `{"evicted"}`, the incarnation that the group goes on without |
| `POST /group` | `Regroup` as JSON: 202, and the node joins or leaves a group of its edge tree |
| `POST /stop` | 202, and the node stops cleanly |

The client's side is `remote.Control`.
"""

import hmac
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, Protocol, TypeVar
from urllib.parse import parse_qs

import msgspec

from thence.core.errors import ApplicationError, InvariantError, UsageError
from thence.runtime import control_file, metrics, process
from thence.runtime.address import Address, is_ip, is_loopback
from thence.runtime.control_file import FREE, ControlFile
from thence.runtime.http import ClientLimits, Gate, HttpServer, Refused, Request, Response, Routes, text
from thence.runtime.load import Load
from thence.runtime.logs import NodeLog
from thence.runtime.settings import NodeSettings
from thence.runtime.status import Status

Asked = TypeVar("Asked", bound=msgspec.Struct)

ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where a node that listens everywhere can be reached from its own machine."""


HEALTH: Final = frozenset({"/health"})
"""Answered however many requests there are: a supervisor stops a node that does not answer."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    what: Literal["cut", "mend", "slow", "pause"]
    """`pause` changes nothing in the node: the client sends the signals, if the node has nothing against it.
    Only so does it stop in the middle of whatever it was doing, as a machine does that stalls."""
    peer: str | None = None
    """The link with this member; for `mend`, None means all of them."""
    delay_ms: float = 0.0
    """For `slow`: how much later everything leaves on the link."""

    def checked(self) -> "Fault":
        if self.what in ("cut", "slow") and self.peer is None:
            raise UsageError(f"{self.what} which link? peer is missing")
        if not 0 <= self.delay_ms <= 3_600_000:
            raise UsageError(f"a link is slowed by up to an hour, not {self.delay_ms} ms")
        return self


class Evict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    who: str
    """A process or an incarnation."""
    force: bool = False
    """Even if it seems to be alive."""
    for_good: bool = False
    """It was evicted before, and its process will never come back with what it had: forget it."""


class Regroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """On an edge tree."""

    group: str
    join: bool
    """Or leave."""


class Leave(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    force: bool = False
    """Even if what this node has may be lost with it."""


class Controlled(Protocol):
    """The node, as its routes see it. `UsageError` is answered with 400, `StorageError` with 503."""

    def status(self) -> Status | Mapping[str, object]: ...

    def metrics(self) -> str: ...

    def health(self) -> str | None:
        """What is wrong, in words; None: nothing."""
        ...

    async def broadcast(self, payload: bytes, group: str = "") -> tuple[str, int]:
        """The message's origin, by name, and its number there. `group`: of an edge tree; else empty."""
        ...

    async def load(self, load: Load) -> None:
        """Begin with it (`load.Loader` does the work)."""
        ...

    def fault(self, what: str, peer: str | None, delay_us: int) -> None:
        """`cut`, `mend` or `slow` the link with a peer; `mend` without a peer: all links."""
        ...

    def leave(self, force: bool) -> None:
        """Begin to leave; returns at once."""
        ...

    def evict(self, who: str, force: bool) -> str: ...

    def bury(self, who: str) -> None: ...

    def regroup(self, group: str, join: bool) -> None:
        """Begin to join a group of an edge tree, or leave it."""
        ...

    def stop(self) -> None:
        """Begin to stop; returns at once."""
        ...


class ControlServer:
    """Listens for a node, and says in its data folder where."""

    __slots__ = ("_address", "_cluster", "_folder", "_http", "_log", "_name", "_token")

    def __init__(
        self,
        node: Controlled,
        folder: Path,
        name: str,
        cluster: str,
        secret: bytes,
        allow_faults: bool,
        address: Address,
        log: NodeLog,
        limits: ClientLimits | None = None,
    ) -> None:
        self._folder: Final = folder
        self._name: Final = name
        self._cluster: Final = cluster
        self._address: Final = address
        self._log: Final = log
        self._token: Final = token_of(secret, cluster, name)
        self._http: Final = HttpServer(
            routes(node, allow_faults, log), self._failed, limits,
            gate=gate(address.host, self._token), reserved=HEALTH,
            paused=lambda why: log.warn("answers no request at present", why=why),
        )  # fmt: skip

    @classmethod
    def of(cls, node: Controlled, settings: NodeSettings, address: Address, log: NodeLog) -> "ControlServer":
        return cls(
            node, settings.data, settings.name, settings.cluster, settings.secret, settings.allow_faults,
            address, log,
        )  # fmt: skip

    async def start(self) -> Address:
        """Returns where it listens; the system chooses a port if none (0) is given."""
        listens = await self._http.start(self._address)
        seen = process.look(os.getpid())
        try:
            file = ControlFile(
                name=self._name, cluster=self._cluster, host=ANYWHERE.get(listens.host, listens.host),
                port=listens.port, pid=os.getpid(), started=seen.start if seen else "", token=self._token,
            )  # fmt: skip
            control_file.write(self._folder, file)
        except BaseException:
            await self._http.close(grace_s=0)
            raise
        return listens

    async def close(self) -> None:
        control_file.remove(self._folder)
        await self._http.close()

    def _failed(self, request: Request, error: Exception) -> None:
        self._log.warn("control_failed", method=request.method, path=request.path, error=repr(error))


def token_of(secret: bytes, cluster: str, name: str) -> str:
    """What commands of people prove to know the secret with; empty: there is none."""
    if not secret:
        return ""
    return hmac.digest(secret, f"thence control {cluster} {name}".encode(), "sha256").hex()


def gate(listens: str, token: str) -> Gate:
    """`listens`: the host that the settings name."""
    expected = f"Bearer {token}".encode()

    def own(host: str) -> bool:
        """Only this machine, or its owner, can have given a page such a name."""
        return host == listens or is_loopback(Address(host, 0)) or (listens in ANYWHERE and is_ip(host))

    def check(request: Request) -> None:
        host = request.headers.get("host")
        if host is not None and not own(_host_of(host)):
            raise Refused(421, "this node has no such name: take localhost, or the host that it listens at")
        origin = request.headers.get("origin")
        if origin is not None and not own(_host_of(origin.partition("://")[2])):
            raise Refused(403, "pages of other hosts may not ask a node")
        given = request.headers.get("authorization", "").encode("latin-1")
        if token and request.path not in FREE and not hmac.compare_digest(given, expected):
            why = "this needs the token that stands in control.json in the node's data folder"
            raise Refused(401, why, ("WWW-Authenticate", "Bearer"))

    return check


def _host_of(where: str) -> str:
    """Without its port."""
    if where.startswith("["):
        return where[1:].partition("]")[0]
    return where.partition(":")[0].lower()


def routes(node: Controlled, allow_faults: bool, log: NodeLog) -> Routes:
    async def health(_: Request) -> Response:
        why = node.health()
        return text(200, "ok") if why is None else text(503, why)

    async def show_metrics(_: Request) -> Response:
        return Response(200, node.metrics().encode(), metrics.CONTENT_TYPE)

    async def status(_: Request) -> Response:
        return answer(200, node.status())

    async def broadcast(request: Request) -> Response:
        try:
            origin, seq = await node.broadcast(request.body, _group_of(request.query))
        except (InvariantError, ApplicationError) as error:  # the node must stop, and has said why
            return text(503, str(error))
        return answer(200, {"origin": origin, "seq": seq})

    async def load(request: Request) -> Response:
        wanted = asked(request, Load).checked()
        await node.load(wanted)
        return answer(202, {"load": wanted})

    async def fault(request: Request) -> Response:
        if not allow_faults:
            return text(403, "this node takes no faults: start it with --allow-faults")
        wanted = asked(request, Fault).checked()
        log.warn("fault", what=wanted.what, peer=wanted.peer, delay_ms=wanted.delay_ms)
        if wanted.what != "pause":
            node.fault(wanted.what, wanted.peer, round(wanted.delay_ms * 1000))
        return answer(200, {"fault": wanted})

    async def leave(request: Request) -> Response:
        wanted = asked(request, Leave)
        log.info("asked_to_leave", force=wanted.force)
        node.leave(wanted.force)
        return answer(202, {"leaving": True})

    async def evict(request: Request) -> Response:
        wanted = asked(request, Evict)
        if wanted.for_good:
            node.bury(wanted.who)
            log.warn("buried", who=wanted.who)
            return answer(200, {"evicted": wanted.who})
        evicted = node.evict(wanted.who, wanted.force)
        log.warn("evicted", who=evicted, force=wanted.force)
        return answer(200, {"evicted": evicted})

    async def regroup(request: Request) -> Response:
        wanted = asked(request, Regroup)
        log.info("asked_to_regroup", group=wanted.group, join=wanted.join)
        node.regroup(wanted.group, wanted.join)
        return answer(202, {"regroup": wanted})

    async def stop(_: Request) -> Response:
        log.info("asked_to_stop")
        node.stop()
        return answer(202, {"stopping": True})

    return {
        ("GET", "/health"): health,
        ("GET", "/metrics"): show_metrics,
        ("GET", "/status"): status,
        ("POST", "/broadcast"): broadcast,
        ("POST", "/load"): load,
        ("POST", "/fault"): fault,
        ("POST", "/leave"): leave,
        ("POST", "/evict"): evict,
        ("POST", "/group"): regroup,
        ("POST", "/stop"): stop,
    }


def _group_of(query: str) -> str:
    """`UsageError`: there is something else in it."""
    asked_for = parse_qs(query, keep_blank_values=True)
    if asked_for.keys() - {"group"} or len(asked_for.get("group", [])) > 1:
        raise UsageError(f"a message goes to one group, ?group=NAME: not {query!r}")
    return asked_for.get("group", [""])[0]


def asked(request: Request, form: type[Asked]) -> Asked:
    try:
        return msgspec.json.decode(request.body, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read this as a {form.__name__.lower()}: {error}") from None


def answer(status: int, value: object) -> Response:
    return Response(status, msgspec.json.encode(value) + b"\n", "application/json")
