"""A node under the checks of `conformance_steps`, and what these say of it."""

from collections.abc import Callable
from typing import Any, Literal, Protocol

from thence.core.errors import ThenceError

Where = Literal["receive", "wake", "broadcast", "take", "commit"]
WHERES: tuple[Where, ...] = ("receive", "wake", "broadcast", "take", "commit")

PROBE_US = 1_100_000
"""After so long a node has looked whether there is room again."""

TIDY_US = 6_000_000
"""After so long it looks whether there is something to tidy up."""

LATER_US = 3_000_000
"""After so long everything has happened that happens by the clock."""


class Call:
    """The program asked for broadcasts."""

    def __init__(self) -> None:
        self.counters: list[int] | None = None
        """Under which the messages were sent, once that is certain."""
        self.error: BaseException | None = None

    def answered(self, counters: list[int]) -> None:
        self.counters = counters

    def refused(self, error: BaseException) -> None:
        self.error = error

    @property
    def waits(self) -> bool:
        return self.counters is None and self.error is None


class Subject(Protocol):
    """Node `a`, its disk and its peers. `make` takes `sync` (the policy, by default `no`), `at_once` (syncs
    finish by themselves, else with `finish_sync`), `reads` (the program takes whatever it can, else with
    `take`) and `segment_bytes`."""

    journal: list[str]
    """`write`, `synced`, `untried` (a sync), `trace`, `send b …` (a payload, `ack n` or `-`), `event …`,
    `not taken`, `answer`, `refused`, `anew` (links begin so), `stop`."""
    events: list[bytes]
    """What the program was given."""
    unheard: list[str]
    """Exceptions that were not caught, and what a peer had to refuse."""

    def ask(self, *payloads: bytes) -> Call:
        """Broadcasts: the first of a turn at once, further ones together in the next."""
        ...

    def demand(self, payload: bytes) -> Call:
        """The program asks the machine for a broadcast, and hears at once what became of it."""
        ...

    def take(self) -> None:
        """The program asks for the next message; it gets it when that may be."""
        ...

    def loop_once(self) -> None:
        """Everything that is ready by now happens."""
        ...

    def turn(self) -> None:
        """Everything that is ready happens; no time passes."""
        ...

    def pass_time(self, span_us: int) -> None:
        """Timers fire here and at the peers; what links that are up carry arrives."""
        ...

    def says(self, peer: str, payload: bytes) -> None:
        """A peer broadcasts; it is on the wire."""
        ...

    def arrives(self, peer: str, *garbage: bytes) -> None:
        """All that is on the wire, in one read, and this after it."""
        ...

    def talk(self) -> None:
        """Until nothing is on the wires of links that are up."""
        ...

    def link(self, peer: str) -> None: ...

    def unlink(self, peer: str) -> None: ...

    def has(self, peer: str) -> list[bytes]:
        """What a peer was given by others."""
        ...

    def is_stable(self, peer: str, payload: bytes) -> bool:
        """Whether a peer knows that all have this message of its own."""
        ...

    def rows(self, kind: str) -> int:
        """How many of this kind the trace has."""
        ...

    def fill(self, room: int = 0) -> None: ...

    def make_room(self) -> None: ...

    def fail_sync(self) -> None:
        """The next one."""
        ...

    def cannot_sync(self, times: int) -> None:
        """So many cannot be tried."""
        ...

    def is_written(self, payload: bytes) -> bool:
        """Anywhere on the disk."""
        ...

    @property
    def syncs(self) -> int:
        """Under way."""
        ...

    def finish_sync(self) -> None:
        """The oldest; and a turn."""
        ...

    def fill_trace(self, full: bool = True) -> None: ...

    def insist(self) -> None:
        """A step that must be synced before anything leaves, whatever the policy; and a turn."""
        ...

    def when_tidied(self, act: Callable[[], None]) -> None:
        """From now on there is always something to tidy up; do this before."""
        ...

    def plant(self, where: Where, error: Exception, after: int = 0) -> None:
        """From now on, or after so many more calls, this call of the machine fails."""
        ...

    @property
    def trouble(self) -> str | None: ...

    @property
    def stops(self) -> ThenceError | None:
        """Why the node must end."""
        ...

    def begin_close(self) -> None:
        """The rest follows in `close`, which begins by itself if it must."""
        ...

    def close(self) -> bool:
        """Syncs that are under way finish. Whether everything is certainly on the disk."""
        ...

    @property
    def left_over(self) -> list[str]:
        """Timers and tasks."""
        ...

    def end(self) -> None: ...


Make = Callable[..., Subject]
Check = Callable[[Make], None]


def into(checks: dict[str, Check], *given: dict[str, Any]) -> Callable[[Callable[[Subject], None]], None]:
    """Enter a check, for one subject or for several that are made otherwise."""

    def enter(body: Callable[[Subject], None]) -> None:
        def run(make: Make) -> None:
            for how in given or ({},):
                node = make(**how)
                try:
                    body(node)
                    assert not node.unheard, f"unheard: {node.unheard}"
                finally:
                    node.end()

        run.__doc__ = body.__doc__
        checks[body.__name__.replace("_", " ")] = run

    return enter


ALWAYS = {"sync": "always", "at_once": False}
AT_ONCE = {"sync": "always"}
WEAK = ({"sync": "no", "at_once": False}, {"sync": "everysec", "at_once": False})


def in_order(node: Subject, *what: str) -> None:
    """These happened in this order, each for the first time."""
    missing = [one for one in what if one not in node.journal]
    assert not missing, f"lost: {missing} in {node.journal}"
    places = [node.journal.index(one) for one in what]
    assert places == sorted(places), f"order: {what} in {node.journal}"


def left(node: Subject) -> list[str]:
    """What others, or the program, can have seen."""
    return [one for one in node.journal if one.split()[0] in ("send", "answer", "event", "trace")]


def sent(node: Subject, peer: str) -> list[str]:
    """Messages that went to a peer."""
    words = [one.split(" ", 2) for one in node.journal if one.startswith(f"send {peer} ")]
    return [word for _, _, word in words if word != "-" and not word.startswith("ack")]


def acknowledged(node: Subject, peer: str) -> list[int]:
    words = [one.split() for one in node.journal if one.startswith(f"send {peer} ack ")]
    return [int(word[-1]) for word in words]


def answer(call: Call) -> list[int]:
    assert call.error is None, f"refused: {call.error!r}"
    assert call.counters is not None, "silent: a call was not answered"
    return call.counters


def refusal(call: Call, definite: bool | None = None) -> ThenceError:
    assert call.counters is None, "refused: a call was answered that should have been refused"
    assert call.error is not None, "silent: a call was not refused"
    assert isinstance(call.error, ThenceError), f"refused: with {call.error!r}"
    if definite is not None:
        assert call.error.definite is definite, f"refused: definite is {call.error.definite}"
    return call.error


def asked(node: Subject, *payloads: bytes) -> Call:
    call = node.ask(*payloads)
    node.turn()
    return call


def sync_all(node: Subject) -> None:
    while node.syncs:
        node.finish_sync()


def relinked(node: Subject, *peers: str) -> None:
    """Links begin anew, as the node wants it."""
    assert "anew" in node.journal, "links: they go on"
    for peer in peers or ("b", "c"):
        node.unlink(peer)
    for peer in peers or ("b", "c"):
        node.link(peer)
    node.talk()


def room_again(node: Subject) -> None:
    node.make_room()
    node.fill_trace(False)
    node.pass_time(PROBE_US)
    sync_all(node)
    assert node.trouble is None, f"stuck: {node.trouble}"


def sent_once(node: Subject, *payloads: bytes) -> None:
    """In the end both peers have exactly these of this node's."""
    for peer in ("b", "c"):
        got = [payload for payload in node.has(peer) if not payload.startswith((b"hello", b"of "))]
        assert got == list(payloads), f"{'twice' if len(got) > len(payloads) else 'lost'}: {peer} has {got}"
