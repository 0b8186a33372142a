"""Whether a joiner is reached where it says: its link must come from there.

The address of a joiner is spread to the whole group, and every member dials it. Were a guest believed, it
could make a group knock at any door. So an address counts if its host is the one that the guest's link comes
from, by number or, looked up once, by name. Another one is not spread: that member is let in, and has to dial
the others itself.
"""

import asyncio
from ipaddress import IPv6Address, ip_address
from typing import Final

from thence.core.errors import UsageError
from thence.runtime.address import Address, is_loopback, parse_address

NAMES_MAX: Final = 256
"""Host names whose numbers are remembered; beyond, the oldest is looked up again."""


class Vouching:
    def __init__(self) -> None:
        self._numbers: dict[str, frozenset[str]] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    def comes_from(self, remote: str, address: str) -> bool | None:
        """Whether a link from the host `remote` may say that it is reached at `address`. None: its name is
        being looked up, ask again."""
        try:
            told = parse_address(address)
        except UsageError:
            return False
        here = _plain(remote)
        if told.host == here or (is_loopback(told) and is_loopback(Address(here, 0))):
            return True
        if _is_number(told.host):
            return False
        known = self._numbers.get(told.host)
        if known is not None:
            return here in known
        if told.host not in self._asking:
            task = asyncio.get_running_loop().create_task(self._look_up(told.host))
            self._asking[told.host] = task
        return None

    async def _look_up(self, host: str) -> None:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, None)
        except OSError:
            found = []
        self._numbers[host] = frozenset([_plain(str(info[4][0])) for info in found])
        while len(self._numbers) > NAMES_MAX:
            del self._numbers[next(iter(self._numbers))]
        del self._asking[host]

    async def close(self) -> None:
        for task in list(self._asking.values()):
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        self._asking.clear()


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _plain(host: str) -> str:
    """One spelling for one host: an IPv4 address that came over an IPv6 socket is an IPv4 address."""
    try:
        ip = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return str(mapped or ip)
