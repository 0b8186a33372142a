"""What a simulated node can carry: so many bits per second each way, and so much work per message.

Section 5.2 of the ECO SYNC Tree document puts fifty nodes on a machine with a network of 25 Gbit/s and 18
cores. A node's share is 500 Mbit/s and 0.36 of a core. The document does not say what its code spends on a
message; that is a setting, and a multiple of it is what a duplicate costs a flood.

A state costs the work of a message for each kilobyte of it: about one for each register that it merges.

What leaves a node goes out byte after byte. What arrives waits until everything that arrived before it has
been taken in. Times only ever move on, so that links stay in order.
"""

from typing import Final

from thence.core.machine import Packet
from thence.core.overlay import StatePiece, Sync

CORES: Final = 18 / 50
"""Of a core, for each node."""


class Limits:
    __slots__ = ("_busy_until", "_free_at", "_handling_us", "_us_per_byte")

    def __init__(self, size: int, bandwidth_mbit: float, handling_us: float) -> None:
        """Of a group of `size`; 0 means that there is no such limit."""
        self._us_per_byte: Final = 8 / bandwidth_mbit if bandwidth_mbit else 0.0
        self._handling_us: Final = handling_us / CORES
        self._free_at = [0.0] * size
        self._busy_until = [0.0] * size

    def leaves(self, node: int, size: int, now: int) -> int:
        """When the last byte of a packet that is sent now is on its way."""
        at = max(float(now), self._free_at[node]) + size * self._us_per_byte
        self._free_at[node] = at
        return round(at)

    def arrives(self, node: int, packet: Packet, size: int, now: int) -> int:
        """When a packet that comes now has been taken in."""
        count = 1
        if isinstance(packet, Sync):
            count = len(packet.messages)
        elif isinstance(packet, StatePiece):
            count = 1 + (len(packet.data) >> 10)
        at = max(float(now), self._busy_until[node]) + size * self._us_per_byte + count * self._handling_us
        self._busy_until[node] = at
        return round(at)

    def busy_until(self, node: int) -> int:
        return round(self._busy_until[node])

    def restart(self, node: int) -> None:
        """What waited is gone with the process."""
        self._free_at[node] = self._busy_until[node] = 0.0
