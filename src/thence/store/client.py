"""A client of the store: a connection, or a program that has the store inside."""

from collections.abc import Callable
from typing import Final

from thence.crdt.mark import Mark
from thence.store.dump import Dump


class Client:
    __slots__ = (
        "address", "authenticated", "broken", "commands", "created", "db", "dirty", "dump", "end",
        "id", "lib_name", "lib_ver", "local", "monitors", "name", "proto", "push", "queued",
        "quits", "replies", "seen", "skips", "transaction", "unblock", "watching", "wrote",
    )  # fmt: skip

    def __init__(self, number: int, address: str = "", created: int = 0, authenticated: bool = True) -> None:
        self.id: Final = number
        self.address: Final = address
        self.local = ""
        """The address that it connected to."""
        self.created: Final = created
        self.seen = created
        """When it sent its last command, in milliseconds."""
        self.authenticated = authenticated
        self.db = 0
        self.name = b""
        self.lib_name = b""
        self.lib_ver = b""
        self.proto = 2
        self.transaction: list[list[bytes]] | None = None
        """Queued commands between MULTI and EXEC."""
        self.queued = 0
        """Bytes of these."""
        self.broken = False
        """A command could not be queued: EXEC refuses."""
        self.watching: dict[tuple[int, bytes], bool] = {}
        """Watched keys, and whether they were expired already."""
        self.dirty = False
        """A watched key was touched."""
        self.replies = True
        self.skips = 0
        """CLIENT REPLY SKIP: so many replies are not written."""
        self.quits = False
        self.monitors = False
        self.wrote: Mark | None = None
        """Its last write."""
        self.commands = 0
        self.dump: Dump | None = None
        self.push: Callable[[object], None] = lambda _: None
        """Out of band."""
        self.end: Callable[[], None] = lambda: None
        """Another client ended it."""
        self.unblock: Callable[[bool], bool] = lambda _: False
        """Another client ends its waiting, with an error or as if its time was up; whether it waited."""

    def spoil(self) -> None:
        self.dirty = True
