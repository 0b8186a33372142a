"""Whatever strangers and liars send to a node: they are cut off, and the honest links do not notice."""

import asyncio

import pytest
from support.live_links import ANY, BRIEF, Node, Stranger, World, run

from thence.runtime.frames import HELLO, MOST_FRAME, PING, PONG, join, link_frame
from thence.runtime.handshake import read_refusal
from thence.runtime.hello import RefusalError
from thence.runtime.listening import LINES
from thence.runtime.options import LinkSettings
from thence.runtime.pacing import LinkLimits

PACKETS = [b"\x01\x00" + bytes([n]) for n in range(100)]


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def still_well(world: World, a: Node, b: Node) -> None:
    """The link between the honest never went down, and works."""
    before = len(b.packets)
    a.links.write("b", PACKETS)
    await world.until(lambda: len(b.packets) == before + len(PACKETS))
    assert (a.heard, b.heard) == (["up b"], ["up a"])


GARBAGE = {
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "zeros": bytes(1000),
    "huge": (MOST_FRAME).to_bytes(4, "little"),
    "hugest": b"\xff\xff\xff\xff",
    "a packet": join([PACKETS[0]]),
    "a ping": join([link_frame(PING)]),
    "an empty hello": join([link_frame(HELLO)]),
    "half a hello": join([link_frame(HELLO, b"\x03\x00\x04test\x01a")]),
    "an endless number": join([link_frame(HELLO, b"\xff" * 40)]),
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_instead_of_a_hello_is_hung_up_on(loop: str, garbage: bytes) -> None:
    async def test(world: World) -> None:
        a, b = await world.pair()
        stranger = await world.stranger(b)
        stranger.send(garbage)
        assert await stranger.until_closed() == b"", "and nothing is told"
        await world.until(lambda: "connection not let in" in b.log)
        await still_well(world, a, b)

    run(test, loop)


def test_another_version_is_told_so(loop: str) -> None:
    async def test(world: World) -> None:
        b = await world.node("b")
        stranger = await world.stranger(b)
        stranger.send(join([link_frame(HELLO, b"\x07")]))
        assert "protocol version 7, where this is version 3" in str(read_refusal(await stranger.frame()))
        await world.until(lambda: "protocol version 7" in b.log)
        assert await stranger.until_closed() == b""

    run(test, loop)


def test_one_that_says_nothing_is_hung_up_on(loop: str) -> None:
    async def test(world: World) -> None:
        settings = LinkSettings(handshake_timeout_us=50_000)
        b = await world.node("b", settings=settings)
        quiet, dripping = await world.stranger(b), await world.stranger(b)
        dripping.send(b"\x40")
        await quiet.until_closed()
        await dripping.until_closed()
        await world.until(lambda: len(b.log.lines) == 2)
        assert "the handshake took too long" in b.log

    run(test, loop)


def test_dripping_does_not_buy_time(loop: str) -> None:
    """A byte now and then, for ever: the handshake as a whole has a limit, not the pause between bytes."""

    async def test(world: World) -> None:
        b = await world.node("b", settings=LinkSettings(handshake_timeout_us=50_000))
        stranger = await world.stranger(b)
        stranger.send(b"\xff\xff\x00\x00")
        while "took too long" not in b.log:
            stranger.send(b"x")
            await asyncio.sleep(0)
        await stranger.until_closed()

    run(test, loop)


def test_half_open_handshakes_are_capped_and_members_still_get_in(loop: str) -> None:
    async def test(world: World) -> None:
        b = await world.node("b", limits=LinkLimits(handshakes_most=4))
        b.links.add_peer("a", ANY)
        strangers = [await world.stranger(b) for _ in range(20)]
        await world.until(lambda: len([line for line in b.log.lines if "too many" in line]) == 16)
        for stranger in strangers[:16]:
            await stranger.until_closed()
        member = await world.stranger(b)
        await member.shake_hands()
        await world.until(lambda: b.heard == ["up a"])

    run(test, loop)


def test_a_flood_of_strangers_does_not_flood_the_log(loop: str) -> None:
    async def test(world: World) -> None:
        now = [1]
        b = await world.node("b", now=lambda: now[0])
        for _ in range(3 * LINES):
            stranger = await world.stranger(b)
            stranger.send(GARBAGE["hugest"])
            await stranger.until_closed()
        assert len(b.log.lines) == LINES
        now[0] += 60_000_000
        stranger = await world.stranger(b)
        stranger.send(GARBAGE["hugest"])
        await stranger.until_closed()
        await world.until(lambda: f"not let in count={2 * LINES}" in b.log)

    run(test, loop)


def test_another_name_is_not_had_without_the_secret(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.pair()
        liar = await world.stranger(b)
        sent = await claim(liar, "a")
        assert "not let in" in str(sent)
        await world.until(lambda: "wrong proof" in b.log)
        await still_well(world, a, b)
        assert b.links.status()["a"].cut_offs == 0, "a has done nothing"

    run(test, loop)


async def claim(liar: Stranger, name: str) -> RefusalError:
    """Says hello as `name`, and sends a proof that is none."""
    from thence.runtime.handshake import Opener
    from thence.runtime.hello import Identity, Introduction, Purpose

    me = Identity("test", name, b"log of a", 1)
    opener = Opener(Introduction(me, "b", Purpose.LINK, bytes(8), bytes(32)), b"", lambda _: None)
    liar.send(join(opener.start()))
    await liar.frame()
    liar.send(join([link_frame(130, bytes(34))]))
    return read_refusal(await liar.frame())


def test_a_replayed_handshake_gets_no_process_in(loop: str) -> None:
    async def test(world: World) -> None:
        b = await world.node("b")
        b.links.add_peer("a", ANY)
        member = await world.stranger(b)
        recorded = await member.shake_hands()
        await world.until(lambda: b.heard == ["up a"])
        await member.close()
        await world.until(lambda: b.heard == ["up a", "down a"])
        replaying = await world.stranger(b)
        replaying.send(join(recorded) + join(PACKETS))
        await replaying.until_closed()
        await world.until(lambda: "wrong proof" in b.log)
        assert b.heard == ["up a", "down a"]
        assert b.packets == []

    run(test, loop)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xff\xff\xff",
        b"\x01\x00\x00\x00\x01",
        bytes(4),
        join([link_frame(HELLO)]),
        join([link_frame(200)]),
        join([link_frame(PING, b"more")]),
        join([bytes((7, PING))]),
    ],
)
def test_garbage_on_a_link_cuts_the_peer_off(loop: str, garbage: bytes) -> None:
    async def test(world: World) -> None:
        b = await world.node("b")
        b.links.add_peer("a", ANY)
        liar = await world.stranger(b)
        await liar.shake_hands()
        liar.send(join(PACKETS) + garbage)
        await world.until(lambda: b.heard == ["up a", "down a"])
        assert b.links.status()["a"].cut_offs == 1
        assert b.packets == [], "nothing of that read took effect"
        assert "cut off: a" in str(read_refusal(await liar.frame()))

    run(test, loop)


def test_packets_before_the_proof_are_no_packets(loop: str) -> None:
    async def test(world: World) -> None:
        from thence.runtime.handshake import Opener
        from thence.runtime.hello import Identity, Introduction, Purpose

        b = await world.node("b")
        b.links.add_peer("a", ANY)
        hasty = await world.stranger(b)
        me = Identity("test", "a", b"", 1)
        opener = Opener(Introduction(me, "b", Purpose.LINK, bytes(8), bytes(32)), b"", lambda _: None)
        hasty.send(join([*opener.start(), *PACKETS]))
        await hasty.until_closed()
        assert b.packets == []
        assert b.heard == []

    run(test, loop)


def test_a_read_full_of_pings_is_worth_one_pong(loop: str) -> None:
    async def test(world: World) -> None:
        b = await world.node("b")
        b.links.add_peer("a", ANY)
        member = await world.stranger(b)
        await member.shake_hands()
        member.send(join([link_frame(PING)] * 1000 + PACKETS[:1]))
        await world.until(lambda: b.packets)
        b.links.write("a", PACKETS[:1])
        pongs = 0
        while await member.frame() == link_frame(PONG):
            pongs += 1
        assert 1 <= pongs <= 3

    run(test, loop)


def test_one_that_pings_and_never_reads_piles_nothing_up(loop: str) -> None:
    async def test(world: World) -> None:
        b = await world.node("b")
        b.links.add_peer("a", ANY)
        member = await world.stranger(b)
        await member.shake_hands()
        member.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await world.until(lambda: b.heard)
        b.links.write("a", [b"\x01\x00" + bytes(10_000_000)] * 2)
        queued = b.links.status()["a"].queued_bytes
        assert queued > 1 << 20
        for count in range(1, 200):
            member.send(join([link_frame(PING), PACKETS[0]]))
            await world.until(lambda count=count: len(b.packets) == count)  # type: ignore[misc]
        assert b.links.status()["a"].queued_bytes <= queued
        await b.links.close()

    run(test, loop)


def test_something_else_at_a_peers_address_is_tried_again_later(loop: str) -> None:
    async def test(world: World) -> None:
        def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"220 mail.example ESMTP\r\n")
            writers.append(writer)

        writers: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(babble, *ANY)
        a = await world.node("a", limits=BRIEF)
        a.links.add_peer("b", server.sockets[0].getsockname()[:2])
        await world.until(lambda: "no link peer=b" in a.log)
        server.close()
        for writer in writers:
            writer.close()
        assert a.heard == []

    run(test, loop)
