"""What MONITOR and SLOWLOG tell of commands: not all of long ones, and nothing of those with passwords."""

from typing import Final, NamedTuple

WORD_SHOWN: Final = 1024
WORDS_SHOWN: Final = 128
"""By MONITOR, of one command."""
SECRETS: Final = frozenset({"AUTH", "HELLO", "CONFIG"})
"""What MONITOR and SLOWLOG do not show: passwords are among the words."""


class Slow(NamedTuple):
    number: int
    at: int
    took_us: int
    arguments: list[bytes]
    address: str
    name: bytes


def monitored(at_us: int, database: int, address: str, arguments: list[bytes]) -> str:
    """A line of MONITOR."""
    words = " ".join([shown(word) for word in arguments[:WORDS_SHOWN]])
    if len(arguments) > WORDS_SHOWN:
        words += f" ... ({len(arguments) - WORDS_SHOWN} more arguments)"
    return f"{at_us // 1_000_000}.{at_us % 1_000_000:06} [{database} {address}] {words}"


def shown(word: bytes) -> str:
    if len(word) <= WORD_SHOWN:
        return quoted(word)
    return f"{quoted(word[:WORD_SHOWN])}... ({len(word) - WORD_SHOWN} more bytes)"


def quoted(word: bytes) -> str:
    """As MONITOR and redis-cli write it."""
    signs = {34: '\\"', 92: "\\\\", 10: "\\n", 13: "\\r", 9: "\\t", 7: "\\a", 8: "\\b"}
    return '"' + "".join([signs.get(b) or (chr(b) if 32 <= b < 127 else f"\\x{b:02x}") for b in word]) + '"'
