"""thence: causal delivery for Python, a replicated store on top, and a laboratory around both.

async with thence.open("a", listen="127.0.0.1:7101", members={...}, data="a/") as node: ...
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from thence.core.errors import (
    ApplicationError,
    InvariantError,
    PeerError,
    StorageError,
    ThenceError,
    UsageError,
)

if TYPE_CHECKING:
    from thence.replica.events import Delivered, Doubted, Event, Gap, Orphaned, Stable, ViewChanged
    from thence.replica.life_tag import LifeTag as Tag
    from thence.runtime.application import OpenNode as Node
    from thence.runtime.open_store import LocalStores, StoreError
    from thence.runtime.open_store import OpenStore as Store
    from thence.runtime.reader import Events
    from thence.runtime.replicated import AppliesBatches, Chunked, HearsStable, Mergeable, Replicated

__version__ = "0.1.0"

__all__ = [
    "ApplicationError", "AppliesBatches", "Chunked", "Delivered", "Doubted", "Event", "Events", "Gap",
    "HearsStable", "InvariantError", "LocalStores", "Mergeable", "Node", "Orphaned", "PeerError",
    "Replicated", "Stable", "StorageError", "Store", "StoreError", "Tag", "ThenceError", "UsageError",
    "ViewChanged", "open",
]  # fmt: skip

if not TYPE_CHECKING:  # a checker is to notice names that do not exist
    _LATE = {
        **dict.fromkeys(
            ("Delivered", "Doubted", "Event", "Gap", "Orphaned", "Stable", "ViewChanged"),
            "thence.replica.events",
        ),
        **dict.fromkeys(
            ("AppliesBatches", "Chunked", "HearsStable", "Mergeable", "Replicated"),
            "thence.runtime.replicated",
        ),
        **dict.fromkeys(("LocalStores", "Store", "StoreError"), "thence.runtime.open_store"),
        "Tag": "thence.replica.life_tag", "Node": "thence.runtime.application",
        "Events": "thence.runtime.reader",
    }  # fmt: skip
    _NAMED = {"Tag": "LifeTag", "Node": "OpenNode", "Store": "OpenStore"}

    def __getattr__(name: str) -> object:
        """Only when asked for: the laboratory needs no event loop."""
        if name not in _LATE:
            raise AttributeError(f"module 'thence' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_LATE[name]), _NAMED.get(name, name))


def open(
    name: str,
    *,
    data: str | Path,
    listen: str | None = None,
    advertise: str | None = None,
    join: Sequence[str] = (),
    members: Mapping[str, str] | None = None,
    spread: str | None = None,
    order: str | None = None,
    entries: int | None = None,
    keys: int | None = None,
    sync: str | None = None,
    trace: str | Path | None = None,
    secret: str | None = None,
    config: str | Path | None = None,
    settings: Mapping[str, object] | None = None,
    application: "Replicated | Chunked | None" = None,
    send_again: "Callable[[Orphaned], bool] | None" = None,
    parent: str | None = None,
    root: bool = False,
    groups: "Mapping[str, Replicated | Chunked | None] | Sequence[str] | None" = None,
    topology: str | Path | None = None,
) -> "Node":
    """A live node of a group, for `async with`. `advertise` is where the others reach it, if that is not
    where it listens. `members` names the whole group with its addresses, its own (where it listens unless
    `listen` says otherwise) among them, and it stays so. Else members come and go: `join` asks these
    addresses for a group; without it the node founds one, or goes on with what is in `data`. `application`
    is the state that joiners begin from. `send_again` is asked about each operation that the group never
    had, when it has gone on without this node; if nothing is given, all are sent again. `secret` is what
    all members know; on the loopback, that of the user unless one is given, `"none"`: none. With
    `spread="edge"` the node is one of an edge tree: below the node at `parent`, or its `root`, and a member
    of these `groups`, each with a state or None. `entries` and `keys` are of order probabilistic, where
    nothing is agreed on and errors are `Doubted`. With `order="separator"` the node is one of the zones
    in the file `topology`; `members` says where each of them is. `settings` takes anything else by its key
    (docs/SETTINGS.md)."""
    from thence.runtime.opening import open_node  # only now, for the same reason

    return open_node(
        name, data=data, listen=listen, advertise=advertise, join=join, members=members, spread=spread,
        order=order, entries=entries, keys=keys, sync=sync, trace=trace, secret=secret, config=config,
        settings=settings, application=application, send_again=send_again, parent=parent, root=root,
        groups=groups, topology=topology,
    )  # fmt: skip
