"""thence: causal delivery for Python, a replicated store on top, and a laboratory around both.

async with thence.open("a", listen="127.0.0.1:7101", members={...}, data="a/") as node: ...
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from thence.core.errors import (
    InvariantError,
    PeerError,
    ProgramError,
    StorageError,
    ThenceError,
    UsageError,
)

if TYPE_CHECKING:
    from thence.replica.events import Delivered, Gap, Orphaned, Stable, ViewChanged
    from thence.replica.life_tag import LifeTag as Tag
    from thence.runtime.application import OpenNode as Node
    from thence.runtime.open_store import LocalStores, StoreError
    from thence.runtime.open_store import OpenStore as Store
    from thence.runtime.program import Replicated

__version__ = "0.1.0"

__all__ = [
    "Delivered", "Gap", "InvariantError", "LocalStores", "Node", "Orphaned", "PeerError", "ProgramError",
    "Replicated", "Stable", "StorageError", "Store", "StoreError", "Tag", "ThenceError", "UsageError",
    "ViewChanged", "open",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """What a node's events are, for `isinstance`. Only when asked for: the laboratory needs no event loop."""
    if name in ("Delivered", "Gap", "Orphaned", "Stable", "ViewChanged"):
        from thence.replica import events

        return getattr(events, name)
    if name == "Tag":
        from thence.replica.life_tag import LifeTag

        return LifeTag
    if name == "Node":
        from thence.runtime.application import OpenNode

        return OpenNode
    if name in ("LocalStores", "Store", "StoreError"):
        from thence.runtime import open_store

        return getattr(open_store, "OpenStore" if name == "Store" else name)
    if name == "Replicated":
        from thence.runtime import program

        return program.Replicated
    raise AttributeError(f"module 'thence' has no attribute {name!r}")


def open(
    name: str,
    *,
    data: str | Path,
    listen: str | None = None,
    join: Sequence[str] = (),
    members: Mapping[str, str] | None = None,
    spread: str | None = None,
    order: str | None = None,
    sync: str | None = None,
    trace: str | Path | None = None,
    secret: str | None = None,
    config: str | Path | None = None,
    settings: Mapping[str, object] | None = None,
    application: "Replicated | None" = None,
    send_again: "Callable[[Orphaned], bool] | None" = None,
) -> "Node":
    """A live node of a group, for `async with`. `members` names the whole group with its addresses, its own
    (where it listens unless `listen` says otherwise) among them, and it stays so. Else members come and go:
    `join` asks these addresses for a group; without it the node founds one, or goes on with what is in
    `data`. `application` is the state that joiners begin from. `send_again` is asked about each operation
    that the group never had, when it has gone on without this node; if nothing is given, all are sent again.
    `secret` is what all members know; on the loopback, that of the user unless one is given, `"none"`: none.
    `settings` takes anything else by its key (docs/SETTINGS.md)."""
    from thence.runtime.application import open_node  # only now, for the same reason

    return open_node(
        name, data=data, listen=listen, join=join, members=members, spread=spread, order=order, sync=sync,
        trace=trace, secret=secret, config=config, settings=settings, application=application,
        send_again=send_again,
    )  # fmt: skip
