"""What a step wants to send, as bytes by receiver: one write each, in the order in which it was wanted.

A packet that goes to several is encoded once.
"""

from collections.abc import Callable, Iterable

from thence.core.group_codec import encode
from thence.core.groups import Post
from thence.core.machine import Effect, Packet, Transmit


def by_peer(
    effects: Iterable[Effect], encode_packet: Callable[[Packet], bytes], wake_at: Callable[[int], None]
) -> dict[int, list[bytes]]:
    """Of a fixed group, by index. What else is wanted is to be woken."""
    packets: dict[int, list[bytes]] = {}
    for effect in effects:
        if isinstance(effect, Transmit):
            data = encode_packet(effect.packet)
            for peer in effect.peers:
                if peer in packets:
                    packets[peer].append(data)
                else:
                    packets[peer] = [data]
        else:
            wake_at(effect.at)
    return packets


def by_process(posts: list[Post]) -> dict[str, list[bytes]]:
    """Of a changing group, by name. They are taken from the list."""
    packets: dict[str, list[bytes]] = {}
    known: dict[int, bytes] = {}
    for post in posts:
        data = known.get(id(post.packet))
        if data is None:
            data = known[id(post.packet)] = encode(post.packet)
        packets.setdefault(post.to, []).append(data)
    posts.clear()
    return packets
