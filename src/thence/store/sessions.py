"""Tokens of what a client may have seen, to carry it to another node.

`t1.` and base64url of: a checksum (4 bytes), the cluster (8 bytes), then names and counters. Opaque, not
secret.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from hashlib import blake2b
from zlib import crc32

from msgspec import DecodeError, msgpack

from thence.store.reply import Fail

PREFIX = b"t1."


def cluster_id(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=8).digest()


def token(cluster: bytes, vector: Mapping[str, int]) -> bytes:
    body = cluster + msgpack.encode(dict(vector))
    return PREFIX + urlsafe_b64encode(crc32(body).to_bytes(4, "big") + body).rstrip(b"=")


def read(cluster: bytes, text: bytes) -> dict[str, int]:
    bad = Fail("THENCETOKEN this is no token of this cluster")
    if not text.startswith(PREFIX) or len(text) > 64 << 10:
        raise bad
    try:
        raw = text.removeprefix(PREFIX)
        data = urlsafe_b64decode(raw + b"=" * (-len(raw) % 4))
        if crc32(data[4:]).to_bytes(4, "big") != data[:4] or data[4:12] != cluster:
            raise bad
        return msgpack.decode(data[12:], type=dict[str, int])
    except (ValueError, DecodeError):
        raise bad from None
