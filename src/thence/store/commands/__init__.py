"""Commands by group; importing this enters them all into the table."""

from thence.store.commands import (
    bitmaps,
    connection,
    generic,
    hashes,
    own,
    server,
    sets,
    strings,
    transactions,
    zset_ranges,
    zsets,
)

__all__ = [
    "bitmaps", "connection", "generic", "hashes", "own", "server", "sets", "strings", "transactions",
    "zset_ranges", "zsets",
]  # fmt: skip
