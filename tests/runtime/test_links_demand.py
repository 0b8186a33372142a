"""Links of a node that chooses its neighbours: opened when it asks, by whichever end wants one."""

import asyncio

import pytest
from support.live_links import Node, World, free_addresses, run

from thence.runtime.address import Address
from thence.runtime.tree_links import TreeLinks

PACKETS = [b"\x01\x00" + bytes([n]) for n in range(100)]


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def strangers(world: World) -> tuple[Node, Node]:
    """a and b, who have no link."""
    return await world.node("a", on_demand=True), await world.node("b", on_demand=True)


def links(node: Node) -> TreeLinks:
    assert isinstance(node.links, TreeLinks)
    return node.links


def ask(node: Node, peer: str, where: Address) -> None:
    node.busy = True
    links(node).connect_to(peer, where)
    node.busy = False


async def linked(world: World) -> tuple[Node, Node]:
    a, b = await strangers(world)
    ask(a, "b", b.links.address)
    await world.until(lambda: a.heard and b.heard)
    return a, b


@pytest.mark.parametrize("asks", ["a", "b"])
def test_either_end_gets_a_link_when_it_asks(loop: str, asks: str) -> None:
    async def test(world: World) -> None:
        a, b = await strangers(world)
        one, other = (a, b) if asks == "a" else (b, a)
        assert not a.heard, "neither asked"
        ask(one, other.name, other.links.address)
        await world.until(lambda: a.heard and b.heard)
        assert (a.heard, b.heard) == (["up b"], ["up a"])
        one.links.write(other.name, PACKETS)
        await world.until(lambda: len(other.packets) == 100)

    run(test, loop)


def test_both_ends_asking_at_once_get_one_link(loop: str) -> None:
    """The larger name may be told first that its own attempt has failed."""

    async def test(world: World) -> None:
        a, b = await strangers(world)
        ask(a, "b", b.links.address)
        ask(b, "a", a.links.address)
        await world.until(lambda: a.heard and b.heard and b.heard[-1] == "up a")
        b.links.write("a", PACKETS)
        await world.until(lambda: len(a.packets) == 100)
        assert a.heard == ["up b"]
        assert b.heard in (["up a"], ["down a", "up a"])

    run(test, loop)


@pytest.mark.parametrize("closes", ["a", "b"])
def test_what_was_written_before_a_link_is_given_up_still_arrives(loop: str, closes: str) -> None:
    async def test(world: World) -> None:
        a, b = await linked(world)
        one, other = (a, b) if closes == "a" else (b, a)
        one.links.write(other.name, PACKETS)
        links(one).disconnect(other.name)
        await world.until(lambda: len(other.heard) == 2)
        assert len(other.packets) == 100
        assert len(one.heard) == 1, "it knows: it closed it itself"
        assert not one.links.status(), "nothing is left of it"

    run(test, loop)


def test_a_link_that_breaks_is_not_made_again_by_itself(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await linked(world)
        a.links.cut("b")
        a.links.mend("b")
        await world.until(lambda: len(a.heard) == len(b.heard) == 2)
        ask(b, "a", a.links.address)  # had a dialled by itself, there would be two
        await world.until(lambda: len(a.heard) == len(b.heard) == 3)
        assert (a.heard, b.heard) == (["up b", "down b", "up b"], ["up a", "down a", "up a"])

    run(test, loop)


@pytest.mark.parametrize("asks", ["a", "b"])
def test_who_cannot_be_reached_is_told_of_once_and_forgotten(loop: str, asks: str) -> None:
    async def test(world: World) -> None:
        [nowhere] = free_addresses(1)
        node = await world.node(asks, on_demand=True)
        peer = "b" if asks == "a" else "a"
        ask(node, peer, nowhere)
        await world.until(lambda: node.heard)
        assert node.heard == [f"down {peer}"]
        assert "cannot reach" in node.whys[0]
        assert not links(node).knows(peer)

    run(test, loop)


@pytest.mark.parametrize("asks", ["a", "b"])
@pytest.mark.parametrize("cuts", ["a", "b"])
def test_a_cut_link_is_not_to_be_had(loop: str, asks: str, cuts: str) -> None:
    async def test(world: World) -> None:
        a, b = await linked(world)
        (a if cuts == "a" else b).links.cut("b" if cuts == "a" else "a")
        await world.until(lambda: len(a.heard) == len(b.heard) == 2)
        one, other = (a, b) if asks == "a" else (b, a)
        ask(one, other.name, other.links.address)
        await world.until(lambda: len(one.heard) == 3)
        assert one.heard[-1] == f"down {other.name}"
        assert len(other.heard) == 2

    run(test, loop)


def test_a_link_that_one_end_has_lost_without_the_others_notice_is_replaced(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await linked(world)
        link = b.links._peers["a"].left(0)  # as if it had never been
        ask(b, "a", a.links.address)
        await world.until(lambda: len(a.heard) == 3)
        assert a.heard == ["up b", "down b", "up b"]
        b.links.write("a", PACKETS[:1])
        await world.until(lambda: a.packets)  # what came over the new link counted for nothing once
        assert link is not None
        link.abort()

    run(test, loop)


def test_what_comes_over_a_link_that_was_given_up_counts_for_nothing(loop: str) -> None:
    """It may have come with the end of the handshake, and the link be given up as soon as it is told of."""

    async def test(world: World) -> None:
        a, _ = await linked(world)
        link = a.links._peers["b"].link
        assert link is not None
        links(a).disconnect("b")
        a.links.connection_packets(link, PACKETS, 0)
        assert not a.packets

    run(test, loop)


def test_nothing_is_told_to_a_node_that_stops(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await linked(world)
        await a.links.close()
        before = list(a.heard)
        links(a).connect_to("b", b.links.address)
        await asyncio.sleep(0)
        assert a.heard == before

    run(test, loop)
