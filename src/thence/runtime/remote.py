"""The client's side of a node's routes, for the command line and for trials.

Blocking on purpose: a command asks, waits a bounded time and tells. Every way in which a node can fail to
answer has words of its own, because what to do next depends on it.
"""

import http.client
import socket
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlencode

import msgspec

from thence.core.errors import ThenceError, UsageError
from thence.runtime import control_file
from thence.runtime.control_file import ControlFile
from thence.runtime.incarnations import read_written
from thence.runtime.load import Load
from thence.runtime.status import Status

TIMEOUT_S: Final = 3.0
"""On one machine an answer takes milliseconds; a node that syncs to a slow disk may take a second."""
MOST_BYTES: Final = 16 * 1024 * 1024

Absence = Literal["gone", "paused", "silent", "stranger"]


class NoAnswer(UsageError):  # noqa: N818 - reads as what happened
    """The node of a data folder did not answer."""

    def __init__(self, absence: Absence, words: str) -> None:
        super().__init__(words)
        self.absence: Final = absence


class Control:
    """One node, told and asked over HTTP."""

    __slots__ = ("_timeout_s", "file", "folder")

    def __init__(self, folder: Path, file: ControlFile, timeout_s: float = TIMEOUT_S) -> None:
        self.folder: Final = folder
        self.file: Final = file
        self._timeout_s: Final = timeout_s

    @classmethod
    def of(cls, folder: Path, timeout_s: float = TIMEOUT_S) -> "Control":
        """The node that runs in this data folder. `UsageError` if none does, or if its file is old."""
        control = cls(folder, control_file.read(folder), timeout_s)
        if control.file.process() is None:
            raise control._gone()
        return control

    @property
    def name(self) -> str:
        return self.file.name

    def status(self) -> Status:
        _, body = self._ask("GET", "/status")
        try:
            status = msgspec.json.decode(body, type=Status)
        except msgspec.MsgspecError as error:
            raise self._stranger(f"its status makes no sense ({error})") from None
        if (status.name, status.pid) != (self.file.name, self.file.pid):
            raise self._stranger(f"node {status.name!r} answers there, process {status.pid}")
        return status

    def health(self) -> str | None:
        """What the node says is wrong with it; None: nothing."""
        code, body = self._request("GET", "/health", b"")
        return None if code == 200 else _words(body)

    def metrics(self) -> str:
        return self._ask("GET", "/metrics")[1].decode()

    def broadcast(self, payload: bytes, group: str = "") -> tuple[str, int]:
        where = f"/broadcast?{urlencode({'group': group})}" if group else "/broadcast"
        told = msgspec.json.decode(self._ask("POST", where, payload)[1])
        return told["origin"], told["seq"]

    def load(self, load: Load) -> None:
        self.post("/load", load.checked())

    def fault(self, what: str, peer: str | None = None, delay_ms: float = 0.0) -> None:
        self.post("/fault", {"what": what, "peer": peer, "delay_ms": delay_ms})

    def leave(self, force: bool = False) -> None:
        """Begin to leave the group."""
        self.post("/leave", {"force": force})

    def evict(self, who: str, force: bool = False, for_good: bool = False) -> str:
        """Let the group go on without a member; which incarnation that is. `for_good`: forget one that was
        evicted before."""
        wanted = {"who": who, "force": force, "for_good": for_good}
        told: dict[str, str] = msgspec.json.decode(self.post("/evict", wanted))
        return told["evicted"]

    def regroup(self, group: str, join: bool) -> None:
        """On an edge tree: begin to join a group, or leave it."""
        self.post("/group", {"group": group, "join": join})

    def stop(self) -> None:
        self.post("/stop", {})

    def get(self, path: str) -> bytes:
        return self._ask("GET", path)[1]

    def post(self, path: str, value: object) -> bytes:
        return self._ask("POST", path, msgspec.json.encode(value))[1]

    def _ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Ask, and take nothing but success for an answer."""
        code, answer = self._request(method, path, body)
        if code == 401:
            raise self._stranger("it does not take the token that stands there")
        if code >= 500:
            raise ThenceError(f"node {self.name}: {_words(answer)}")
        if code >= 400:
            raise UsageError(f"node {self.name}: {_words(answer)}")
        return code, answer

    def _request(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        seen = self.file.process()
        if seen is None or seen.stopped:
            raise self._absent(TimeoutError())  # known without waiting for it
        token = "" if path in control_file.FREE else self.file.token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection = http.client.HTTPConnection(self.file.host, self.file.port, timeout=self._timeout_s)
        try:
            connection.request(method, path, body if method == "POST" else None, headers)
            response = connection.getresponse()
            return response.status, response.read(MOST_BYTES)
        except (TimeoutError, socket.gaierror, OSError, http.client.HTTPException) as error:
            raise self._absent(error) from None
        finally:
            connection.close()

    def _absent(self, error: Exception) -> NoAnswer:
        seen = self.file.process()
        if seen is None:
            return self._gone()
        who = f"node {self.name} in {self.folder} (process {self.file.pid})"
        if seen.stopped:
            return NoAnswer("paused", f"{who} is paused; thence fault resume {self.name} lets it go on")
        if isinstance(error, http.client.HTTPException):
            return self._stranger(f"what answers there speaks no HTTP ({type(error).__name__})")
        return NoAnswer("silent", f"{who} does not answer at {self.file.address}: {error}")

    def _gone(self) -> NoAnswer:
        written = read_written(self.folder)
        if written is not None and written.left:
            return NoAnswer("gone", f"no node runs in {self.folder}: {self.name} has left its group")
        return NoAnswer(
            "gone",
            f"no node runs in {self.folder}: process {self.file.pid} of node {self.name} ended without a "
            "clean stop; start it again, it goes on from its log",
        )

    def _stranger(self, why: str) -> NoAnswer:
        path = self.folder / control_file.NAME
        return NoAnswer("stranger", f"{path} does not fit to what listens at {self.file.address}: {why}")


def _words(body: bytes) -> str:
    return " ".join(body.decode(errors="replace").split())[:500] or "no reason given"
