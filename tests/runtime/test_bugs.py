"""Something that must never happen does, in the middle of a step of a live node: the node stops, tells
all readers and waiters why, and a restart lacks nothing. In fixed groups and in those that change."""

import asyncio
from typing import Any

import pytest
from support.changing import EitherPair
from support.open_nodes import run, until

from thence import Delivered, InvariantError
from thence.runtime.application import OpenNode
from thence.runtime.dialling import Dialler
from thence.runtime.link import _PING, Connection
from thence.runtime.links import Links
from thence.runtime.listening import Listener

METHODS = {"packet": "receive", "timer": "wake", "call": "broadcast", "link": "link_up", "take": "take"}


def plant(node: OpenNode, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on this fails at this node, and at no other."""
    machine, name = node._host.running.machine, METHODS[where]
    kind = next(kind for kind in type(machine).__mro__ if name in vars(kind))
    real = vars(kind)[name]

    def fails(self: Any, *words: Any, **named: Any) -> Any:
        if self is machine:
            raise ZeroDivisionError("planted")
        return real(self, *words, **named)

    monkeypatch.setattr(kind, name, fails)


async def read(node: OpenNode, seen: list[Delivered], last: bytes | None = None) -> None:
    """From where it was left, until the last one or for as long as there is something to read."""
    async for event in node.events(after=seen[-1].position if seen else None):
        if isinstance(event, Delivered):
            seen.append(event)
            if event.payload == last:
                return


@pytest.mark.parametrize("where", ["packet", "timer", "call", "link", "take"])
def test_a_bug_stops_the_node_and_is_told_to_all_who_wait_and_a_restart_lacks_nothing(
    either: EitherPair, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Delivered] = []

    async def broken(a: OpenNode) -> None:
        async with either.open("b") as b:
            host = b._host
            tag = await b.broadcast(b"of b")
            if where == "take":
                await a.broadcast(b"one")
                await until(lambda: b.status().inbox)
            plant(b, where, monkeypatch)
            reading = asyncio.ensure_future(read(b, seen))
            waiting = asyncio.ensure_future(b.until_stable(tag))
            if where == "call":
                with pytest.raises(InvariantError, match="ZeroDivisionError: planted"):
                    await b.broadcast(b"of b, and not sent")
            if where == "link":
                a._host.fault("cut", "b", 0)
                a._host.fault("mend", "b", 0)
            if where != "take":
                await a.broadcast(b"one")
            for one in (reading, waiting):
                with pytest.raises(InvariantError, match="ZeroDivisionError: planted"):
                    await one
            await host.stopping.wait()
            with pytest.raises(InvariantError, match="nothing is written at present") as told:
                await b.broadcast(b"refused")
            assert told.value.definite
            assert isinstance(told.value.__cause__, InvariantError)
            assert isinstance(told.value.__cause__.__cause__, ZeroDivisionError)
            with pytest.raises(InvariantError):
                await read(b, seen)
            assert b.status().state == "broken"
            assert host.health() == "this node must stop: ZeroDivisionError: planted"

    async def story() -> None:
        async with either.open("a") as a:
            with pytest.raises(InvariantError, match="ZeroDivisionError: planted"):
                await broken(a)
            monkeypatch.undo()
            async with either.open("b") as b:
                await a.broadcast(b"two")
                await read(b, seen, b"two")
                assert [event.payload for event in seen] == [b"one", b"two"]
                await b.broadcast(b"again")
                of_b: list[Delivered] = []
                await read(a, of_b, b"again")
                assert [event.payload for event in of_b] == [b"of b", b"again"]

    run(story)


BOOKKEEPING = {
    "dial": (Dialler, "dial"),
    "dialling": (Dialler, "_connect_to"),
    "down": (Links, "_tell_downs"),
    "lost": (Links, "_link_down"),
    "up": (Links, "connection_up"),
    "gone": (Links, "connection_gone"),
    "welcome": (Listener, "_welcome"),
    "pulse": (Connection, "_take_own"),
}


def links_of(node: OpenNode) -> Any:
    return node._host.kind.links


def plant_in_links(node: OpenNode, entry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    links = links_of(node)
    kind, name = BOOKKEEPING[entry]
    real: Any = vars(kind)[name]

    def fails(self: Any, *words: Any) -> Any:
        if links in (self, getattr(self, "_owner", None)):
            raise ZeroDivisionError("planted")
        return real(self, *words)

    monkeypatch.setattr(kind, name, fails)


@pytest.mark.parametrize("entry", BOOKKEEPING)
def test_a_bug_in_the_bookkeeping_of_links_stops_the_node_which_says_why(
    either: EitherPair, entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it goes to the event loop. The link of the two is dropped, and a makes it again."""
    to_the_loop: list[Any] = []

    async def breaks(node: OpenNode, other: OpenNode) -> None:
        await until(lambda: links_of(other).status()[node.settings.name].up)
        plant_in_links(node, entry, monkeypatch)
        if entry == "pulse":
            links_of(other)._peers[node.settings.name].link.send(_PING)
        else:
            links_of(other).cut(node.settings.name)
            links_of(other).mend(node.settings.name)
        host = node._host
        await host.stopping.wait()
        assert host.health() == "this node must stop: ZeroDivisionError: planted"

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: to_the_loop.append(context))
        broken = "b" if entry == "welcome" else "a"
        with pytest.raises(InvariantError, match="ZeroDivisionError: planted"):
            async with either.open("a") as a, either.open("b") as b:
                await breaks(*((a, b) if broken == "a" else (b, a)))
        monkeypatch.undo()

    run(story)
    assert to_the_loop == []


def test_a_wait_that_begins_after_a_bug_is_told_at_once_and_leaves_no_future_behind(
    either: EitherPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A future that no task awaits would be told the same later, and its error would reach the event loop."""

    async def breaks() -> None:
        async with either.open("a") as a:
            tag = await a.broadcast(b"no other member has it")
            plant(a, "call", monkeypatch)
            with pytest.raises(InvariantError, match="ZeroDivisionError: planted"):
                await a.broadcast(b"not sent")
            with pytest.raises(InvariantError, match="ZeroDivisionError: planted"):
                await a.until_stable(tag, None if either.changing else 2)
            assert not a._waiting.waiting

    async def story() -> None:
        with pytest.raises(InvariantError, match="ZeroDivisionError: planted"):
            await breaks()

    run(story)
