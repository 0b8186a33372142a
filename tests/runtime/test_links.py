"""Links between live nodes over loopback TCP: up, down, again, replaced, refused, closed."""

import asyncio
import gc
import socket
from contextlib import suppress

import pytest
from support.live_links import ANY, World, clock, free_addresses, introduce, run

from thence.core.errors import InvariantError, UsageError
from thence.runtime.address import Address
from thence.runtime.options import LinkSettings
from thence.runtime.pacing import LinkLimits

PACKETS = [b"\x01\x00" + bytes([n]) for n in range(200)]


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_packets_travel_in_order_in_both_directions(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.pair()
        a.links.write("b", PACKETS)
        b.links.write("a", PACKETS[::-1])
        await world.until(lambda: len(a.packets) == len(b.packets) == 200)
        assert b.packets == PACKETS
        assert a.packets == PACKETS[::-1]
        assert b.reads == [200], "one write is one read is one list"
        assert (a.heard, b.heard) == (["up b"], ["up a"])
        assert [who.name for who in a.asked + b.asked] == ["b", "a"]

    run(test, loop)


def test_a_large_packet_right_after_the_handshake_comes_through(loop: str) -> None:
    """The limit of the handshake is not that of the link, even within one read."""

    async def test(world: World) -> None:
        big = b"\x01\x00" + bytes(300_000)
        a, b = await world.node("a"), await world.node("b")
        b.greeting = [big, *PACKETS]
        introduce(a, b)
        await world.until(lambda: len(a.packets) == 201)
        assert a.packets == [big, *PACKETS]

    run(test, loop)


def test_a_mesh_of_five_has_one_link_per_pair(loop: str) -> None:
    async def test(world: World) -> None:
        nodes = [await world.node(name) for name in "abcde"]
        introduce(*nodes)
        await world.until(lambda: all(len(node.heard) == 4 for node in nodes))
        for node in nodes:
            assert sorted(node.heard) == sorted(f"up {other.name}" for other in nodes if other is not node)
            assert all(status.up and status.reconnects == 0 for status in node.links.status().values())

    run(test, loop)


def test_a_peer_that_comes_later_is_found(loop: str) -> None:
    async def test(world: World) -> None:
        a = await world.node("a")
        address = free_addresses(1)[0]
        a.links.add_peer("b", address)
        await world.until(lambda: "no link peer=b" in a.log)
        assert not a.links.status()["b"].up
        assert "refused" in a.links.status()["b"].trouble
        b = await world.node("b", listen=address)
        b.links.add_peer("a", a.links.address)
        await world.until(lambda: a.heard)
        assert a.heard == ["up b"]
        assert len([line for line in a.log.lines if "no link" in line]) == 1, "told once, not at each attempt"

    run(test, loop)


def test_a_restarted_peer_is_linked_again_on_either_side(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.pair()
        address = b.links.address
        await b.links.close()
        await world.until(lambda: a.heard == ["up b", "down b"])
        assert b.heard == ["up a", "down a"]
        b = await world.node("b", listen=address, boot=2)
        b.links.add_peer("a", a.links.address)
        await world.until(lambda: b.heard == ["up a"] and len(a.heard) == 3)
        assert a.heard == ["up b", "down b", "up b"]
        assert a.links.status()["b"].reconnects == 1
        assert a.asked[-1].boot == 2

        await a.links.close()
        await world.until(lambda: b.heard == ["up a", "down a"])
        a = await world.node("a", boot=2)
        a.links.add_peer("b", address)
        await world.until(lambda: b.heard == ["up a", "down a", "up a"])

    run(test, loop)


def test_a_new_connection_of_a_member_replaces_the_old_one(loop: str) -> None:
    async def test(world: World) -> None:
        b = await world.node("b")
        b.links.add_peer("a", ANY)
        old, new = await world.stranger(b), await world.stranger(b)
        await old.shake_hands()
        await new.shake_hands()
        await world.until(lambda: len(b.heard) == 3)
        assert b.heard == ["up a", "down a", "up a"]
        assert b.whys == ["replaced by a new connection"]
        assert await old.until_closed() == b""
        b.links.write("a", PACKETS[:1])
        assert await new.frame() == PACKETS[0]

    run(test, loop)


def test_a_copy_of_a_data_folder_is_refused_and_the_first_stays(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.pair()
        copy = await world.node("a")
        copy.links.add_peer("b", b.links.address)
        await world.until(lambda: "copy of its data folder" in copy.log)
        await world.until(lambda: "copy of its data folder" in b.log)
        assert (a.heard, b.heard, copy.heard) == (["up b"], ["up a"], [])

    run(test, loop)


@pytest.mark.parametrize(
    ("options", "at_a", "at_b"),
    [
        (
            {"cluster": "other"},
            "a belongs to cluster other",
            "a belongs to cluster other, b to test",
        ),
        (
            {"secret": b"wrong"},
            "does not know this cluster's secret",
            "by the other side: not let in",
        ),
    ],
)
def test_a_refusal_is_logged_by_both(loop: str, options: dict[str, object], at_a: str, at_b: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.node("a", **options), await world.node("b")
        introduce(a, b)
        await world.until(lambda: at_a in a.log and at_b in b.log)
        assert a.links.status()["b"].refusals > 0
        assert a.heard == b.heard == []
        assert a.asked == b.asked == [], "no peer is asked about one that has proven nothing"

    run(test, loop)


def test_one_that_is_no_member_is_refused(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.node("a"), await world.node("b")
        a.links.add_peer("b", b.links.address)
        await world.until(lambda: "a is not a member" in a.log and "a is not a member" in b.log)

    run(test, loop)


def test_a_member_behind_the_wrong_address_is_refused(loop: str) -> None:
    async def test(world: World) -> None:
        a, c = await world.node("a"), await world.node("c")
        a.links.add_peer("b", c.links.address)
        c.links.add_peer("a", a.links.address)
        await world.until(lambda: "this is c, not b" in a.log and "this is c, not b" in c.log)

    run(test, loop)


def test_two_nodes_with_one_name_do_not_link(loop: str) -> None:
    async def test(world: World) -> None:
        """The second `b` stands where `a`'s peer list says that `b` is, the first dials it as `a` would."""
        b = await world.node("b")
        stranger = await world.stranger(b)
        with pytest.raises(Exception, match="two nodes are called b"):
            await stranger.shake_hands("b", "b")
        await world.until(lambda: "two nodes are called b" in b.log)

    run(test, loop)


def test_the_larger_name_does_not_dial(loop: str) -> None:
    async def test(world: World) -> None:
        a = await world.node("a")
        a.links.add_peer("b", free_addresses(1)[0])
        stranger = await world.stranger(a)
        with pytest.raises(Exception, match="opened by the smaller name"):
            await stranger.shake_hands("b", "a")

    run(test, loop)


@pytest.mark.parametrize("who", ["a", "b"])
def test_what_the_node_refuses_is_told_to_the_other(loop: str, who: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.node("a"), await world.node("b")
        refusing = a if who == "a" else b
        refusing.refuse = "it lost its data"
        introduce(a, b)
        await world.until(lambda: "it lost its data" in a.log and "it lost its data" in b.log)
        assert a.heard == b.heard == []
        refusing.refuse = None
        await world.until(lambda: a.heard and b.heard)  # it is tried again

    run(test, loop)


def test_writing_without_a_link_does_nothing(loop: str) -> None:
    async def test(world: World) -> None:
        a = await world.node("a")
        a.links.add_peer("b", free_addresses(1)[0])
        a.links.write("b", PACKETS)
        a.links.write("unknown", PACKETS)
        assert a.links.status()["b"].frames_out == 0

    run(test, loop)


def test_traffic_is_counted(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.pair()
        a.links.write("b", PACKETS)
        await world.until(lambda: len(b.packets) == 200)
        out, into = a.links.status()["b"], b.links.status()["a"]
        assert (out.frames_out, out.bytes_out) == (into.frames_in, into.bytes_in) == (200, 200 * 7)
        await a.links.close()
        await world.until(lambda: "down a" in b.heard)
        assert b.links.status()["a"].bytes_in == 1400, "what a link counted stays counted after its end"

    run(test, loop)


def test_a_packet_beyond_the_limit_is_our_own_bug(loop: str) -> None:
    async def test(world: World) -> None:
        a, _ = await world.pair(settings=LinkSettings(frame_bytes_max=1 << 16))
        with pytest.raises(InvariantError):
            a.links.write("b", [bytes((1 << 16) + 1)])

    run(test, loop)


def test_closing_sends_what_is_buffered(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.pair()
        packets = [b"\x01\x00" + bytes(100_000)] * 100
        a.links.write("b", packets)
        await a.links.close()
        await world.until(lambda: "down a" in b.heard)
        assert len(b.packets) == 100
        assert a.heard == ["up b", "down b"]

    run(test, loop)


def test_closing_does_not_wait_for_ever_for_one_that_does_not_read(loop: str) -> None:
    async def test(world: World) -> None:
        b = await world.node("b", limits=LinkLimits(drain_us=50_000))
        b.links.add_peer("a", ANY)
        stranger = await world.stranger(b)
        await stranger.shake_hands()
        stranger.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await world.until(lambda: b.heard)
        b.links.write("a", [b"\x01\x00" + bytes(10_000_000)])
        await b.links.close()
        assert b.heard == ["up a", "down a"]

    run(test, loop)


def test_closing_twice_and_before_the_start_is_harmless(loop: str) -> None:
    async def test(world: World) -> None:
        a = world.make("a")
        await a.links.close()
        b = await world.node("b")
        await b.links.close()
        await b.links.close()

    run(test, loop)


def test_closing_in_the_middle_of_a_dial_leaves_nothing_behind(loop: str) -> None:
    async def test(world: World) -> None:
        with socket.create_server(ANY) as never_accepts:
            a = await world.node("a")
            a.links.add_peer("b", Address(*never_accepts.getsockname()[:2]))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await a.links.close()
            assert a.heard == []

    run(test, loop)


def test_who_is_let_in_at_the_last_moment_is_closed_as_well(loop: str) -> None:
    """Event loops accept a socket some turns before the program hears of it. (A transport that is left behind
    is a warning, which fails the test.)"""

    async def test(world: World) -> None:
        for turns in range(12):
            b = await world.node("b")
            with socket.create_connection(b.links.address) as late:
                for _ in range(turns):
                    await asyncio.sleep(0)
                await b.links.close()
                late.settimeout(10)
                with suppress(ConnectionError):
                    assert late.recv(1) == b""
        gc.collect()

    run(test, loop)


def test_one_that_does_not_read_is_given_up_before_it_costs_too_much(loop: str) -> None:
    async def test(world: World) -> None:
        b = await world.node("b", limits=LinkLimits(queue_bytes_most=1 << 20))
        b.links.add_peer("a", ANY)
        stranger = await world.stranger(b)
        await stranger.shake_hands()
        stranger.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await world.until(lambda: b.heard)
        for _ in range(1000):
            b.links.write("a", [b"\x01\x00" + bytes(100_000)])
            assert b.links.status()["a"].queued_bytes <= 1 << 20
        await world.until(lambda: b.heard == ["up a", "down a"])
        assert "does not take" in b.whys[0]

    run(test, loop)


def test_peers_come_and_go_at_run_time(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.pair()
        c = await world.node("c")
        for old in (a, b):
            old.links.add_peer("c", c.links.address)
            c.links.add_peer(old.name, old.links.address)
        await world.until(lambda: len(c.heard) == 2)
        a.busy = True
        a.links.remove_peer("b")
        a.busy = False
        await world.until(lambda: "down b" in a.heard and "down a" in b.heard)
        assert "no longer a member" in b.whys[0]
        assert list(a.links.status()) == ["c"]
        assert a.is_up("c")
        a.links.add_peer("b", b.links.address)
        await world.until(lambda: a.heard.count("up b") == 2)

    run(test, loop)


def test_a_removed_member_does_not_get_in_again(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.pair()
        b.links.remove_peer("a")
        await world.until(lambda: "a is not a member" in a.log)
        assert b.heard == ["up a", "down a"]

    run(test, loop)


def test_nonsense_about_peers_is_the_callers_error() -> None:
    async def test(world: World) -> None:
        a = await world.node("a")
        a.links.add_peer("b", free_addresses(1)[0])
        with pytest.raises(UsageError, match="its own peer"):
            a.links.add_peer("a", ANY)
        with pytest.raises(UsageError, match="already"):
            a.links.add_peer("b", ANY)
        with pytest.raises(UsageError, match="no peer"):
            a.links.remove_peer("c")
        with pytest.raises(UsageError, match="no peer"):
            a.links.cut("c")
        with pytest.raises(UsageError, match="faster"):
            a.links.slow("b", -1)

    run(test)


def test_an_address_in_use_is_said_clearly(loop: str) -> None:
    async def test(world: World) -> None:
        a = await world.node("a")
        b = world.make("b", listen=a.links.address)
        with pytest.raises(UsageError, match=f"cannot listen on {a.links.address}: .* in use"):
            await b.links.start()

    run(test, loop)


def test_an_address_of_another_machine_is_said_clearly(loop: str) -> None:
    with socket.socket() as probe, suppress(OSError):
        probe.bind(("192.0.2.1", 0))
        pytest.skip("this machine lets addresses of others be bound (net.ipv4.ip_nonlocal_bind)")

    async def test(world: World) -> None:
        b = world.make("b", listen=Address("192.0.2.1", 7101))
        with pytest.raises(UsageError, match="no address of this machine"):
            await b.links.start()

    run(test, loop)


def test_links_over_ipv6(loop: str) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 on this machine")

    async def test(world: World) -> None:
        a, b = await world.pair(listen=Address("::1", 0))
        assert (a.heard, b.heard) == (["up b"], ["up a"])

    run(test, loop)


def test_a_silent_link_is_pinged_and_then_closed(loop: str) -> None:
    async def test(world: World) -> None:
        b = await world.node("b", settings=LinkSettings(silence_us=150_000))
        b.links.add_peer("a", ANY)
        stranger = await world.stranger(b)
        await stranger.shake_hands()
        assert await stranger.frame() == b"\x01\x85"
        await world.until(lambda: b.heard == ["up a", "down a"])
        assert "silent" in b.whys[0]

    run(test, loop)


def test_a_quiet_link_stays_up_by_pings_alone(loop: str) -> None:
    async def test(world: World) -> None:
        start = clock()
        silence = 300_000
        b = await world.node("b", settings=LinkSettings(silence_us=silence))
        b.links.add_peer("a", ANY)
        stranger = await world.stranger(b)
        await stranger.shake_hands()
        while clock() - start < 2 * silence:
            assert await stranger.frame() == b"\x01\x85"
            stranger.send(b"\x02\x00\x00\x00\x01\x86")
        assert b.heard == ["up a"]

    run(test, loop)
