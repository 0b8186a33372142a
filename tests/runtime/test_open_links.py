"""Links of changing groups: strangers with the secret are guests, one of two that dial each other wins."""

import asyncio

import pytest
from support.live_links import Node, World, run

from thence.runtime import open_links
from thence.runtime.address import Address
from thence.runtime.hello import Introduction, RefusalError
from thence.runtime.link import Connection
from thence.runtime.open_links import OpenLinks


def told(hello: Introduction) -> bytes:
    raise AssertionError("no peer asks for the group")


async def open_node(world: World, name: str, boot: int = 1) -> tuple[Node, OpenLinks]:
    return await world.open_node(name, told, boot)


def test_a_joiner_dials_at_once_whatever_its_name_and_is_a_guest() -> None:
    async def story(world: World) -> None:
        (a, at_a), (b, at_b) = await open_node(world, "a"), await open_node(world, "b")
        at_b.know("a", at_a.address, at_once=True)
        await world.until(lambda: a.heard and b.heard)
        assert at_a.linked("b")
        assert at_b.linked("a")
        assert at_a.status()["b"].address == Address("", 0), "no peer has said where it is"
        at_b.dismiss("a")
        at_b.cut_off("a", "it is over")
        await world.until(lambda: "down b" in a.heard)
        assert "b" not in at_a.status(), "a guest is forgotten with its link"
        assert "a" not in at_b.status(), "and so is one that no member needs any more"

    run(story)


def lost(links: OpenLinks, name: str) -> Connection:
    """A link goes down at this end, and the other one does not notice."""
    link = links._peers[name].left(0)
    assert link is not None
    return link


def test_a_guest_that_comes_again_before_its_old_link_was_missed_is_one_still() -> None:
    """It was forgotten with its old link, and the first packet over the new one stopped the node."""

    async def story(world: World) -> None:
        (a, at_a), (b, at_b) = await open_node(world, "a"), await open_node(world, "b")
        at_b.know("a", at_a.address, at_once=True)
        await world.until(lambda: a.heard and b.heard)
        old = lost(at_b, "a")
        again, at_again = await open_node(world, "b", boot=2)
        at_again.know("a", at_a.address, at_once=True)
        await world.until(lambda: len(a.heard) == 3 and again.heard)
        assert (a.heard, a.whys) == (["up b", "down b", "up b"], ["replaced by a new connection"])
        at_again.write("a", [b"\x01\x01here"])
        await world.until(lambda: a.packets)
        old.abort()

    run(story)


def test_a_link_that_was_replaced_is_not_dialled_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each end replaced the other's new link by one of its own, for ever."""
    monkeypatch.setattr(open_links, "PATIENCE_US", 0)

    async def story(world: World) -> None:
        (a, at_a), (b, at_b) = await open_node(world, "a"), await open_node(world, "b")
        at_a.know("b", at_b.address)
        await world.until(lambda: a.heard and b.heard)
        old = lost(at_b, "a")
        at_b.know("a", at_a.address)
        await world.until(lambda: len(a.heard) == 3 and len(b.heard) == 2)
        assert (a.heard[1:], b.heard) == (["down b", "up b"], ["up a", "up a"])
        for peer in (at_a._peers["b"], at_b._peers["a"]):
            assert (peer.timer, peer.pending) == (None, None), "there is a link, and another one is to come"
        old.abort()

    run(story)


def test_links_begin_anew_also_if_guests_are_among_them() -> None:
    """Joiners, leavers, strangers: each is forgotten with its link, and calls again."""

    async def story(world: World) -> None:
        (a, at_a), (b, at_b) = await open_node(world, "a"), await open_node(world, "b")
        c, at_c = await open_node(world, "c")
        at_b.know("a", at_a.address, at_once=True)
        at_a.know("c", at_c.address)
        await world.until(lambda: len(a.heard) == 2 and b.heard and c.heard)
        at_a.begin_anew()
        await world.until(lambda: len(a.heard) == 6 and at_a.linked("b") and at_a.linked("c"))
        assert sorted(a.heard[2:]) == ["down b", "down c", "up b", "up c"]

    run(story)


def test_of_two_that_know_each_other_the_smaller_name_dials() -> None:
    async def story(world: World) -> None:
        (a, at_a), (b, at_b) = await open_node(world, "a"), await open_node(world, "b")
        at_b.know("a", at_a.address)
        assert at_b._peers["a"].timer is not None
        assert at_b._peers["a"].pending is None
        left_s = at_b._peers["a"].timer.when() - asyncio.get_running_loop().time()
        assert left_s > open_links.PATIENCE_US / 2e6, "the smaller one has had its tries by then"
        at_a.know("b", at_b.address)
        await world.until(lambda: a.heard and b.heard)
        assert a.heard == ["up b"]
        assert b.heard == ["up a"]
        assert at_b._peers["a"].timer is None, "there is no need to dial any more"

    run(story)


def test_who_is_not_needed_any_more_keeps_its_link_until_it_closes_it() -> None:
    """A leaver waits for a last word."""

    async def story(world: World) -> None:
        (a, at_a), (b, at_b) = await open_node(world, "a"), await open_node(world, "b")
        at_a.know("b", at_b.address)
        await world.until(lambda: a.heard and b.heard)
        at_a.dismiss("b")
        assert at_a.linked("b")
        at_a.write("b", [b"\x01\x01farewell"])
        await world.until(lambda: b.packets)
        at_b.cut_off("a", "it is gone")
        await world.until(lambda: "down b" in a.heard)
        assert "b" not in at_a.status()

    run(story)


def test_what_is_written_without_a_link_is_dropped_and_comes_over_no_later_one() -> None:
    async def story(world: World) -> None:
        (a, at_a), (b, at_b) = await open_node(world, "a"), await open_node(world, "b")
        at_a.write("b", [b"\x01\x01to no peer"])
        at_a.know("b", at_b.address)
        at_a.write("b", [b"\x01\x01too early"])
        await world.until(lambda: a.heard and b.heard)
        at_a.write("b", [b"\x01\x01in time"])
        await world.until(lambda: b.packets)
        assert b.packets == [b"\x01\x01in time"]

    run(story)


def test_one_that_is_cut_on_request_is_not_let_in_until_it_is_mended() -> None:
    async def story(world: World) -> None:
        (a, at_a), (b, at_b) = await open_node(world, "a"), await open_node(world, "b")
        at_a.know("b", at_b.address)
        at_b.know("a", at_a.address)
        await world.until(lambda: a.heard and b.heard)
        at_b.fault("cut", "a", 0)
        await world.until(lambda: "down b" in a.heard)
        while at_a._peers["b"].failures <= 3:  # it tries, and is not told why it is not let in
            await asyncio.sleep(0.001)
        assert b.heard == ["up a", "down a"]
        at_b.fault("mend", "a", 0)
        await world.until(lambda: b.heard[2:] == ["up a"])

    run(story)


def test_another_one_of_the_own_name_is_refused() -> None:
    async def story(world: World) -> None:
        a, _ = await open_node(world, "a")
        with pytest.raises(RefusalError, match="two nodes are called a"):
            await (await world.stranger(a)).shake_hands("a", "a")
        await (await world.stranger(a)).shake_hands("b", "a")
        await world.until(lambda: a.heard == ["up b"])

    run(story)
