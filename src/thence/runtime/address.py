"""Where a node listens, as people write it: `127.0.0.1:7101`, `node-1.example:7101`, `[::1]:7101`.

Addresses come from command lines and from peers. Both go through `checked`, so an `Address` that exists is
one that can be written down and read back unchanged, and two spellings of one IP address are equal: members
compare addresses to decide which node founds a group.
"""

from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from thence.core.errors import UsageError

MOST_HOST_CHARS: Final = 253
"""As long as a name in the DNS can be."""


class Address(NamedTuple):
    host: str
    """A name or an IP address, without brackets."""
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """`HOST:PORT`; an IPv6 address stands in brackets. `UsageError` says what is wrong with it."""
    host, colon, port = text.rpartition(":")
    if not colon:
        raise UsageError(f"{text!r} is no address: it needs a port, as in 127.0.0.1:7101")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if ":" not in host:
            raise UsageError(f"{text!r} is no address: only IPv6 addresses stand in brackets")
    elif ":" in host:
        raise UsageError(f"{text!r} is no address: write an IPv6 address in brackets, as in [::1]:7101")
    if not (port.isascii() and port.isdigit() and len(port) <= 5):
        raise UsageError(f"{text!r} is no address: {port!r} is no port")
    return checked(host, int(port))


def checked(host: str, port: int) -> Address:
    """An address of these two, in the one spelling that we use for it."""
    if not 0 <= port <= 65535:
        raise UsageError(f"port {port} does not exist: ports are 0 to 65535")
    if not host:
        raise UsageError("an address needs a host, as in 127.0.0.1:7101 (0.0.0.0 listens everywhere)")
    if len(host) > MOST_HOST_CHARS or not all(_fits(char) for char in host):
        raise UsageError(f"{host[:MOST_HOST_CHARS]!r} is no host name or IP address")
    if ":" in host:
        try:
            return Address(str(IPv6Address(host)), port)
        except ValueError:
            raise UsageError(f"{host!r} is no IPv6 address") from None
    if host.replace(".", "").isdigit():
        try:
            return Address(str(ip_address(host)), port)
        except ValueError:
            raise UsageError(f"{host!r} is no IPv4 address") from None
    if "%" in host:
        raise UsageError(f"{host!r} is no host name: only an IPv6 address has a zone")
    return Address(host.lower(), port)


def is_ip(host: str) -> bool:
    """And no name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(address: Address) -> bool:
    """Whether only this machine can reach it."""
    if address.host == "localhost":
        return True
    if not is_ip(address.host):
        return False
    ip = ip_address(address.host)
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return mapped.is_loopback if mapped else ip.is_loopback


def is_anywhere(address: Address) -> bool:
    """Whether it stands for all addresses of a machine: one can listen there, and not be reached."""
    return is_ip(address.host) and ip_address(address.host).is_unspecified


def _fits(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char in "-._:%")
