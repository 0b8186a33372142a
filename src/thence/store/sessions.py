"""Tokens of what a client may have seen, to carry it to another node.

`t1.` and base64url of: a checksum (4 bytes), the cluster (8 bytes), then names and counters, each with the
start of its process under which that was sent: a group that was made anew may have the same names, and counts
from one again. Opaque, not secret.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from hashlib import blake2b
from zlib import crc32

from msgspec import DecodeError, msgpack

from thence.core.groups import timeline, told_apart
from thence.store.reply import Fail

PREFIX = b"t1."


def cluster_id(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=8).digest()


def token(cluster: bytes, vector: Mapping[str, int]) -> bytes:
    """`vector`: by incarnation, or by timeline where its starts are known."""
    told: dict[str, int | tuple[int, int]] = {}
    for name, count in vector.items():
        member, start = told_apart(name)
        told[member] = (count, start) if start else count
    body = cluster + msgpack.encode(told)
    return PREFIX + urlsafe_b64encode(crc32(body).to_bytes(4, "big") + body).rstrip(b"=")


def foreign() -> Fail:
    return Fail("THENCETOKEN this is no token of this cluster")


def read(cluster: bytes, text: bytes) -> dict[str, int]:
    """By incarnation, or by timeline."""
    if not text.startswith(PREFIX) or len(text) > 64 << 10:
        raise foreign()
    try:
        raw = text.removeprefix(PREFIX)
        data = urlsafe_b64decode(raw + b"=" * (-len(raw) % 4))
        if crc32(data[4:]).to_bytes(4, "big") != data[:4] or data[4:12] != cluster:
            raise foreign()
        told = msgpack.decode(data[12:], type=dict[str, int | tuple[int, int]])
    except (ValueError, DecodeError):
        raise foreign() from None
    return dict(_exactly(name, each) for name, each in told.items())


def _exactly(member: str, told: int | tuple[int, int]) -> tuple[str, int]:
    if isinstance(told, int):
        return member, told
    return timeline(member, told[1]), told[0]
