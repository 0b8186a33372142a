"""Commands by group; importing this enters them all into the table."""

from thence.store.commands import (
    assignments,
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
    "assignments", "bitmaps", "connection", "generic", "hashes", "own", "server", "sets", "strings",
    "transactions", "zset_ranges", "zsets",
]  # fmt: skip
