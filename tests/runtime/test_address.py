"""Addresses as people and peers write them."""

import pytest

from thence.core.errors import UsageError
from thence.runtime.address import Address, is_loopback, parse_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:7101", "127.0.0.1", 7101),
        ("localhost:0", "localhost", 0),
        ("Node-1.Example:65535", "node-1.example", 65535),
        ("[::1]:7101", "::1", 7101),
        ("[0:0::0:1]:7101", "::1", 7101),
        ("0.0.0.0:1", "0.0.0.0", 1),
    ],
)
def test_an_address_is_read_in_one_spelling(text: str, host: str, port: int) -> None:
    assert parse_address(text) == Address(host, port)


@pytest.mark.parametrize("text", ["127.0.0.1:7101", "[::1]:7101", "some.host:1"])
def test_an_address_is_written_as_it_was_read(text: str) -> None:
    assert str(parse_address(text)) == text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "needs a port"),
        ("localhost", "needs a port"),
        (":7101", "needs a host"),
        ("localhost:", "no port"),
        ("localhost:x", "no port"),
        ("localhost:-1", "no port"),
        ("localhost:+1", "no port"),
        ("localhost:٣", "no port"),
        ("localhost:65536", "0 to 65535"),
        ("localhost:" + "9" * 5000, "no port"),
        ("::1:7101", "brackets"),
        ("[localhost]:7101", "brackets"),
        ("[::g]:7101", "no IPv6"),
        ("[:7101", "no host name"),
        ("300.0.0.1:7101", "no IPv4"),
        ("127.1:7101", "no IPv4"),
        ("[fe80::1%e\x00]:7101", "no host name"),
        ("a%b:7101", "zone"),
        ("a b:7101", "no host name"),
        ("h\x00:7101", "no host name"),
        ("a" * 254 + ":7101", "no host name"),
    ],
)
def test_what_is_no_address_is_refused_with_the_reason(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse_address(text)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "::ffff:127.0.0.1"])
def test_loopback_is_recognised(host: str) -> None:
    assert is_loopback(Address(host, 1))


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "localhost.example", "node", "::ffff:10.0.0.1"]
)
def test_what_others_may_reach_is_not_loopback(host: str) -> None:
    assert not is_loopback(Address(host, 1))
