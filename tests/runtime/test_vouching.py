"""A joiner is reached where it says only if it calls from there."""

import asyncio

import pytest

from thence.runtime.vouching import Vouching

CASES = {
    "the same number": ("10.1.2.3", "10.1.2.3:7101", True),
    "another number": ("10.1.2.3", "10.1.2.4:7101", False),
    "IPv4 over an IPv6 socket": ("::ffff:10.1.2.3", "10.1.2.3:7101", True),
    "an IPv6 zone": ("fe80::1%eth0", "[fe80::1]:7101", True),
    "loopback by another number": ("127.0.0.1", "127.0.0.9:7101", True),
    "loopback by name": ("::1", "localhost:7101", True),
    "loopback of another machine": ("10.1.2.3", "127.0.0.1:7101", False),
    "everywhere": ("10.1.2.3", "0.0.0.0:7101", False),
    "no address": ("10.1.2.3", "what is this", False),
    "no link any more": ("", "10.1.2.3:7101", False),
}


@pytest.mark.parametrize(("remote", "told", "true"), CASES.values(), ids=CASES.keys())
def test_an_address_counts_if_the_link_comes_from_there(remote: str, told: str, true: bool) -> None:
    assert Vouching().comes_from(remote, told) is true


def test_a_name_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def look_up(host: str, port: object) -> list[tuple[object, ...]]:
        asked.append(host)
        if host == "unknown.example":
            raise OSError("no such host")
        return [(0, 0, 0, "", ("10.1.2.3", 0))]

    async def run() -> None:
        loop, vouching = asyncio.get_running_loop(), Vouching()
        monkeypatch.setattr(loop, "getaddrinfo", look_up)
        for host in ("b.example", "unknown.example"):
            assert vouching.comes_from("10.1.2.3", f"{host}:1") is None
            assert vouching.comes_from("10.1.2.3", f"{host}:2") is None
        await asyncio.gather(*vouching._asking.values())
        assert vouching.comes_from("10.1.2.3", "b.example:1") is True
        assert vouching.comes_from("10.9.9.9", "b.example:1") is False
        assert vouching.comes_from("10.1.2.3", "unknown.example:1") is False
        assert asked == ["b.example", "unknown.example"]
        assert vouching.comes_from("10.1.2.3", "late.example:1") is None
        await vouching.close()

    asyncio.run(run())
