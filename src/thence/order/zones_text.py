"""A topology as a file says it: zones, their members, and who routes between them.

    [zones]
    office = ["ada", "bob"]
    backbone = []
    plant = ["cem", "dee"]

    [routers]
    r1 = ["office", "backbone"]
    r2 = ["office", "backbone"]
    s1 = ["backbone", "plant"]

Routers of the same two zones are one separator; the first of them forwards, the others are its witnesses.
"""

import tomllib
from typing import Any

from thence.core.errors import UsageError
from thence.order.topology import Topology


def topology_of(text: bytes, where: str) -> Topology:
    """`UsageError` says what is wrong with the file `where`."""
    try:
        told = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the topology {where} is no TOML file: {error}") from error
    try:
        return topology(told)
    except UsageError as error:
        raise UsageError(f"the topology {where}: {error}") from error


def topology(told: dict[str, Any]) -> Topology:
    for key in told:
        if key not in ("zones", "routers"):
            raise UsageError(f"unknown table {key!r}; there is zones and routers")
    zones = _lists(told.get("zones"), "zones", "members")
    routers = _lists(told.get("routers", {}), "routers", "zones")
    index: dict[str, int] = {}
    members: dict[str, list[int]] = {}
    for zone, names in zones.items():
        for name in names:
            if name in index:
                raise UsageError(f"{name} is named twice; a process between two zones belongs to [routers]")
            _process(name, index)
        members[zone] = [index[name] for name in names]
    for name, joined in routers.items():
        for zone in joined:
            if zone not in zones:
                raise UsageError(f"router {name}: unknown zone {zone!r}; there is {', '.join(zones)}")
        if len(joined) != 2 or joined[0] == joined[1]:
            raise UsageError(f"router {name} must join two zones, not {', '.join(joined) or 'none'}")
        if name in index:
            raise UsageError(f"{name} is a member of a zone and a router")
        _process(name, index)
        for zone in joined:
            members[zone].append(index[name])
    if len(zones) > 1 and not routers:
        raise UsageError("no router separates the zones from each other: none can be reached from another")
    return Topology(list(index), members)


def _process(name: str, index: dict[str, int]) -> None:
    if not name or any(letter.isspace() for letter in name):
        raise UsageError(f"a process's name must hold no white space and not be empty: {name!r}")
    index[name] = len(index)


def _lists(table: object, name: str, of: str) -> dict[str, list[str]]:
    if not isinstance(table, dict) or (name == "zones" and not table):
        raise UsageError(f"a table [{name}] is missing")
    for key, value in table.items():
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise UsageError(f"{name}.{key} must be a list of names of {of}")
    return table
