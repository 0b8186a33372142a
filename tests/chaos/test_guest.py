"""A guest that stays and lies: members refuse what it says, and go on."""

import asyncio
from pathlib import Path

from support.changing import Changing, agree
from support.open_nodes import run, until

import thence
from thence.lab.chaos.guest import ChaosGuest, command
from thence.runtime.address import Address, parse_address

SECRET = "only for liars of this test"


def test_members_cut_a_guest_off_that_lies_and_go_on(tmp_path: Path) -> None:
    async def play() -> None:
        group = Changing(tmp_path, "ab")
        async with group.open("a", secret=SECRET) as a, group.open("b", join="a", secret=SECRET) as b:
            await agree(a, b)
            where = {name: parse_address(group.at[name]) for name in "ab"}
            guest = ChaosGuest(7, "thence", SECRET.encode(), where)
            lies = asyncio.ensure_future(guest.run())
            await until(lambda: guest.cut_off > 0)
            await a.broadcast(b"still here")
            lies.cancel()
            await asyncio.gather(lies, return_exceptions=True)
            await guest.close()
            async for event in b.events():
                if isinstance(event, thence.Delivered):
                    assert event.payload == b"still here"
                    break
            await until(lambda: a.members == b.members == ("a", "b"))

    run(play)


def test_its_command_names_every_member() -> None:
    words = command(3, "here", Path("key"), {"a": Address("127.0.0.1", 1)})
    assert words[1:] == ["-m", "thence.lab.chaos.guest", "3", "here", "key", "a=127.0.0.1:1"]
