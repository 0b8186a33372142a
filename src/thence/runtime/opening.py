"""`thence.open`: a node from what a program gives, the environment, the configuration file, the profile."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from thence.runtime.application import OpenNode
from thence.runtime.program import SendAgain
from thence.runtime.replicated import Chunked, Replicated
from thence.runtime.settings import ANY_PORT
from thence.runtime.sources import compose

ARGUMENTS: Final = {
    **{key: key for key in (
        "name", "listen", "advertise", "join", "members", "data", "spread", "order", "trace", "secret",
        "parent", "root", "groups", "topology",
    )},
    "secret_file": "secret", "log.sync": "sync",
}  # fmt: skip
"""By key of a setting: the argument of `thence.open`."""


def argument_of(key: str) -> str:
    """What a program knows a setting as."""
    return ARGUMENTS.get(key) or f"settings[{key!r}]"


def open_node(
    name: str,
    *,
    listen: str | None = None,
    advertise: str | None = None,
    join: Sequence[str] = (),
    members: Mapping[str, str] | None = None,
    data: str | Path,
    spread: str | None = None,
    order: str | None = None,
    entries: int | None = None,
    keys: int | None = None,
    sync: str | None = None,
    trace: str | Path | None = None,
    secret: str | None = None,
    config: str | Path | None = None,
    settings: Mapping[str, object] | None = None,
    application: Replicated | Chunked | None = None,
    send_again: SendAgain | None = None,
    parent: str | None = None,
    root: bool = False,
    groups: Mapping[str, Replicated | Chunked | None] | Sequence[str] | None = None,
    topology: str | Path | None = None,
) -> OpenNode:
    """See `thence.open`. What is not given comes from the environment, the configuration file, the profile,
    the defaults."""
    given: dict[str, object | None] = {
        "name": name,
        "listen": listen or (None if members else str(ANY_PORT)),
        "advertise": advertise,
        "data": str(data),
        "join": ",".join(join) or None,
        "members": ",".join(f"{member}={address}" for member, address in (members or {}).items()) or None,
        "spread": spread,
        "order": order,
        "clock.entries": entries,
        "clock.keys": keys,
        "log.sync": sync,
        "trace": None if trace is None else str(trace),
        "parent": parent,
        "root": root or None,
        "groups": None if groups is None else list(groups),
        "topology": None if topology is None else str(topology),
        **(settings or {}),
    }
    handlers = groups if isinstance(groups, Mapping) else dict.fromkeys(groups or ())
    environment = dict(os.environ)
    if secret is not None:  # given by a program, it is not seen in a list of processes
        environment.pop("THENCE_SECRET_FILE", None)
        environment["THENCE_SECRET"] = secret
    composed = compose(given, environment, None if config is None else Path(config), called=argument_of)
    return OpenNode(composed, application, send_again, handlers if groups is not None else None)
