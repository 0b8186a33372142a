"""What depends on how far apart the members are: numbers that a profile changes of the defaults, which suit
one site, each with its reason."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from thence.runtime.options import SECOND_US

ProfileName = Literal["local", "lan", "wan"]

PROFILES: Final[Mapping[ProfileName, Mapping[str, object]]] = MappingProxyType(
    {
        "lan": {},
        "local": {
            # A connection attempt on loopback is answered at once or never.
            "links.connect_timeout_us": SECOND_US,
            # The kernel tells of a process that died; silence means one that was stopped.
            "links.silence_us": 5 * SECOND_US,
            # People restart nodes and watch.
            "links.backoff_first_us": 50_000,
            "links.backoff_most_us": SECOND_US,
            # A redial takes a tenth of that.
            "mesh.relay_after_us": SECOND_US // 2,
            # Receipts cost little here, and people watch nodes come and go.
            "group.receipt_every_us": 20_000,
            "group.receipt_busy_us": SECOND_US // 5,
            "group.receipt_idle_us": SECOND_US,
            # A process that is stopped for three beats is passed by; people watch.
            "edge.heartbeat_us": SECOND_US // 4,
            "edge.suspect_us": SECOND_US,
            "edge.drop_us": 2 * SECOND_US,
            "edge.attach_us": SECOND_US,
            "edge.alone_us": 5 * SECOND_US,
            "edge.rehome_us": 2 * SECOND_US,
            # `thence up` starts a process again within a second.
            "zones.suspect_us": 3 * SECOND_US,
            # All nodes are stopped together: none is left to wait for.
            "drain_us": 2 * SECOND_US,
        },
        "wan": {
            # Three first packets of TCP may be lost (1, 3 and 7 seconds).
            "links.connect_timeout_us": 10 * SECOND_US,
            "links.handshake_timeout_us": 10 * SECOND_US,
            # Routes change within tens of seconds; a new link costs round trips and all that was on its way.
            "links.silence_us": 30 * SECOND_US,
            # Above a round trip around the Earth.
            "links.backoff_first_us": SECOND_US // 2,
            "links.backoff_most_us": 30 * SECOND_US,
            # 100,000 messages a second over a round trip of 300 ms, and 1 Gbit/s over the same.
            "mesh.window": 65_536,
            "mesh.window_bytes": 40 << 20,
            # A dial, a handshake and its repetition.
            "mesh.relay_after_us": 3 * SECOND_US,
            # A round trip and what it takes to repeat one packet.
            "group.receipt_every_us": 100_000,
            "group.receipt_busy_us": SECOND_US,
            "group.receipt_idle_us": 4 * SECOND_US,
            "group.join_timeout_us": 15 * SECOND_US,
            # Several round trips and a repeated packet.
            "zones.suspect_us": 60 * SECOND_US,
            "zones.greet_us": 10 * SECOND_US,
            "zones.word_us": SECOND_US,
            "zones.window": 16_384,
            "edge.suspect_us": 10 * SECOND_US,
            "edge.drop_us": 15 * SECOND_US,
            "edge.attach_us": 5 * SECOND_US,
            "edge.probe_us": SECOND_US // 2,
            "edge.status_us": 20_000,
            "edge.linger_us": 60 * SECOND_US,
            "edge.keep_us": 60 * SECOND_US,
            "edge.window": 16_384,
            # Several round trips on a bad day.
            "drain_us": 10 * SECOND_US,
        },
    }
)
"""What each profile changes of the base, by key."""
