"""Faults on request: links that are cut and mended, and slow ones; and peers that are cut off."""

import pytest
from support.live_links import ANY, QUICK, Node, World, clock, run

from thence.runtime.frames import join
from thence.runtime.pacing import LinkLimits

PACKETS = [b"\x01\x00" + bytes([n]) for n in range(100)]
HATED = b"\x01\x00hated"


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("who", ["a", "b"])
def test_a_cut_link_goes_down_and_stays_down_until_it_is_mended(loop: str, who: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.pair()
        cutting, other = (a, "b") if who == "a" else (b, "a")
        cutting.busy = True
        cutting.links.cut(other)
        cutting.busy = False
        assert not cutting.is_up(other)
        assert cutting.links.status()[other].cut
        await world.until(lambda: len(a.heard) == len(b.heard) == 2)
        if who == "b":  # it listens: the other's attempts must come to nothing
            await world.until(lambda: len([line for line in b.log.lines if "cut on request" in line]) >= 2)
        else:  # it dials
            assert a.links.status()["b"].cut
        assert len(a.heard) == len(b.heard) == 2
        cutting.links.mend(other)
        await world.until(lambda: len(a.heard) == len(b.heard) == 3)
        assert (a.heard[2], b.heard[2]) == ("up b", "up a")

    run(test, loop)


def test_a_cut_link_is_not_dialled(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = world.make("a"), await world.node("b")
        a.links.add_peer("b", b.links.address)
        b.links.add_peer("a", ANY)
        a.links.cut("b")
        await a.links.start()
        # A stranger gets through to b meanwhile: time enough for a, had it dialled.
        stranger = await world.stranger(b)
        await stranger.shake_hands("a")
        await world.until(lambda: b.heard)
        assert a.asked == []
        a.links.mend("b")
        await world.until(lambda: a.log.lines)

    run(test, loop)


def test_cutting_one_link_leaves_the_others_alone(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.pair()
        c = await world.node("c")
        c.links.add_peer("a", a.links.address)
        a.links.add_peer("c", c.links.address)
        await world.until(lambda: "up c" in a.heard)
        a.links.cut("b")
        a.links.write("c", PACKETS)
        await world.until(lambda: c.packets == PACKETS and "down a" in b.heard)
        assert c.heard == ["up a"]

    run(test, loop)


def test_mending_what_is_whole_changes_nothing(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.pair()
        a.links.mend("b")
        b.links.mend("a")
        a.links.write("b", PACKETS)
        await world.until(lambda: b.packets == PACKETS)
        assert a.heard == ["up b"]

    run(test, loop)


def test_a_slow_link_delays_and_keeps_the_order(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.pair()
        start = clock()
        a.links.slow("b", 30_000)
        for packet in PACKETS:
            a.links.write("b", [packet])
        assert a.links.status()["b"].queued_bytes == 700
        await world.until(lambda: len(b.packets) == 100)
        assert clock() - start >= 30_000
        assert b.packets == PACKETS
        assert a.links.status()["b"].queued_bytes == 0

    run(test, loop)


def test_nothing_overtakes_when_a_slow_link_is_made_fast_again(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.pair()
        a.links.slow("b", 30_000)
        a.links.write("b", PACKETS[:50])
        a.links.slow("b", 0)
        a.links.write("b", PACKETS[50:])
        await world.until(lambda: len(b.packets) == 100)
        a.links.write("b", PACKETS)
        await world.until(lambda: len(b.packets) == 200)
        assert b.packets == PACKETS * 2

    run(test, loop)


def test_a_link_that_comes_back_is_as_slow_as_it_was(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.pair()
        a.links.slow("b", 20_000)
        a.links.cut("b")
        a.links.mend("b")
        await world.until(lambda: a.heard == ["up b", "down b", "up b"])
        a.links.write("b", PACKETS)
        assert a.links.status()["b"].queued_bytes == 700
        await world.until(lambda: b.packets == PACKETS)

    run(test, loop)


def test_closing_a_slow_link_still_sends_what_was_written(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.pair()
        a.links.slow("b", 60_000_000)
        a.links.write("b", PACKETS)
        await a.links.close()
        await world.until(lambda: "down a" in b.heard)
        assert b.packets == PACKETS

    run(test, loop)


@pytest.mark.parametrize("who", ["a", "b"])
def test_a_packet_that_a_node_refuses_cuts_its_sender_off(loop: str, who: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.pair()
        victim, sender = (a, b) if who == "a" else (b, a)
        victim.hate = HATED
        sender.links.write(victim.name, [PACKETS[0], HATED, PACKETS[1]])
        await world.until(lambda: len(a.heard) == len(b.heard) == 2)
        assert victim.packets == [], "nothing of that read took effect"
        assert victim.links.status()[sender.name].cut_offs == 1
        assert f"peer cut off peer={sender.name} why=a packet of no kind" in victim.log
        assert "cut off: a packet of no kind" in sender.whys[0]
        assert sender.links.status()[victim.name].cut_offs == 0

    run(test, loop)


def test_one_that_was_cut_off_is_kept_out_for_a_while(loop: str) -> None:
    async def test(world: World) -> None:
        now = [clock()]
        a = await world.node("a")
        b = await world.node("b", now=lambda: now[0], limits=LinkLimits(cut_off_us=1000))
        a.links.add_peer("b", b.links.address)
        b.links.add_peer("a", ANY)
        await world.until(lambda: b.heard)
        b.busy = True
        b.links.cut_off("a", "it lies")
        b.links.cut_off("a", "it lies")
        b.busy = False
        assert b.links.status()["a"].cut_offs == 1
        await world.until(lambda: "cut off for misbehaviour" in a.log)
        assert b.heard == ["up a", "down a"]
        now[0] += 1000
        await world.until(lambda: b.heard == ["up a", "down a", "up a"])

    run(test, loop)


def test_who_cuts_off_a_peer_that_it_dials_waits_before_it_dials_again(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.pair(limits=LinkLimits(cut_off_us=60_000_000))
        a.links.cut_off("b", "it lies")
        await world.until(lambda: a.heard == ["up b", "down b"])
        peer: Node = b
        assert len(peer.asked) == 1
        # Many times the longest wait between two ordinary dials, as others can tell.
        stranger = await world.stranger(b)
        start = clock()
        while clock() - start < 3 * QUICK.backoff_most_us:
            stranger.send(join([b"\x01\x80"]))
            await stranger.until_closed()
            stranger = await world.stranger(b)
        assert len(b.asked) == 1
        a.links.mend("b")
        await world.until(lambda: a.heard == ["up b", "down b", "up b"])

    run(test, loop)
